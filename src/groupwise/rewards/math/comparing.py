"""Whether two trees are the same answer, under a policy.

Values are equal where `evaluating` says so; what is too large to compute is equal only where it is written the same.
Tuples and matrices are compared place by place, sets and lists without order, regions of the real line by their ends,
equations by what they have in common up to a factor, and a name (`x = 5`, `f(x) = x^2`) is taken off. What isn't
understood on one side is equal to nothing but itself.
"""

from __future__ import annotations

from groupwise.rewards.math.comparing_values import Values
from groupwise.rewards.math.equality import equal, proportional
from groupwise.rewards.math.matrices import as_matrix, by_rows, identity
from groupwise.rewards.math.names import (
    Contradiction,
    as_members,
    assignments,
    plain_values,
    renamed_argument,
    single_name,
    split_name,
    unnamed,
    without_domain,
)
from groupwise.rewards.math.regions import NoRegion, region, same_region
from groupwise.rewards.math.structure import same_structure
from groupwise.rewards.math.tree import Node, add, has, neg, num, substituted, variables

MOST_MEMBERS = 300
"""Of lists whose members are compared each with each."""


_COLLECTIONS = {"list", "set", "such", "empty"}
_REGIONS = {"union", "both", "without", "reals", "relation", "such"}


class Comparison(Values):
    """Compares under one policy."""

    def same(self, gold: Node, answer: Node) -> bool:
        """See the module's docstring."""
        try:
            golds, answers = plain_values(gold), plain_values(answer)
        except Contradiction:
            return False
        return any(self._same_plain(one, other) for one in golds for other in answers)

    def _same_plain(self, gold: Node, answer: Node) -> bool:
        gold, answer = (as_matrix(unnamed(without_domain(node))) for node in (gold, answer))
        gold, answer = assignments(gold, answer), assignments(answer, gold)  # of what both were
        heads = {gold.head, answer.head}
        if "relation" in heads and (decided := self._relations(gold, answer)) is not None:
            return decided
        if "time" in heads:
            return self.times(gold, answer)
        if (_is_region(gold) or _is_region(answer)) and (decided := self._regions(gold, answer)) is not None:
            return decided
        if "ratio" in heads:
            return self.ratios(gold, answer)
        if "matrix" in heads:
            return self._matrices(gold, answer)
        if has(gold, "pm") or has(answer, "pm") or heads & _COLLECTIONS:
            return self._collections(gold, answer)
        if "bracket" in heads:
            return self._brackets(gold, answer)
        if "base" in heads:
            return self.bases(gold, answer)
        return self.quantities(gold, answer)

    def _relations(self, gold: Node, answer: Node) -> bool | None:
        """None where what stands beside a name is to be compared instead, as a value or as a region."""
        both = gold.head == answer.head == "relation"
        if both and gold.name == answer.name and gold.name in ("==", "to", "~", "par", "perp", "sub"):
            return len(gold.args) == len(answer.args) and all(map(self._congruent, gold.args, answer.args))
        named_gold, named_answer = split_name(gold), split_name(answer)
        if both and named_gold and named_answer:
            same_name = named_gold[0] == named_answer[0] or self._functions(named_gold[0], named_answer[0])
            if same_name:
                return self.same(named_gold[1], named_answer[1])
            if (renamed := renamed_argument(named_gold[0], *named_answer)) is not None:
                return self.same(named_gold[1], renamed)
        if both and gold.name == answer.name == "=":
            sides = [add(node.args[0], neg(node.args[-1])) for node in (gold, answer)]
            if any(has(side, "bracket", "list", "set", "matrix", "inf", "dots", "unit") for side in sides):
                return same_structure(gold, answer)
            if proportional(*sides) is True or same_structure(gold, answer):
                return True
            return _solves(named_gold, sides[1]) or _solves(named_answer, sides[0])
        if named_gold and answer.head != "relation":
            return self.same(named_gold[1], answer)
        if named_answer and gold.head != "relation":
            return self.same(gold, named_answer[1])
        if "=" in (gold.name, answer.name) and not both:
            return False
        return None if self._linear(gold) and self._linear(answer) else both and self._inequalities(gold, answer)

    def _functions(self, left: Node, right: Node) -> bool:
        """y and f(x) name the same thing."""
        return all(name.head == "sym" and ("(" in name.name or name.name == "y") for name in (left, right)) and "y" in (
            left.name,
            right.name,
        )

    def _congruent(self, left: Node, right: Node) -> bool:
        if left.head == right.head == "mod":
            return all(self.same(a, b) for a, b in zip(left.args, right.args, strict=True))
        return left.head != "mod" and right.head != "mod" and self.same(left, right)

    def _linear(self, node: Node) -> bool:
        try:
            region(node)
        except NoRegion:
            return False
        return True

    def _inequalities(self, gold: Node, answer: Node) -> bool:
        """Each link of one chain with one of the other: differences that point the same way and are proportional."""
        ours, theirs = _links(gold), _links(answer)
        if len(ours) != len(theirs):
            return False
        for difference, sign in ours:
            found = next(
                (
                    pair
                    for pair in theirs
                    if pair[1] == sign and proportional(difference, pair[0], positive=sign[0] == ">")
                ),
                None,
            )
            if found is None:
                return same_structure(gold, answer)
            theirs.remove(found)
        return True

    def _regions(self, gold: Node, answer: Node) -> bool | None:
        try:
            one, other = region(gold), region(answer)
        except NoRegion:
            if gold.head == answer.head and gold.head in ("union", "both"):
                return self._unordered(list(_operands(gold)), list(_operands(answer)))
            return (
                None
                if gold.head == answer.head == "bracket" or "such" in (gold.head, answer.head)
                else same_structure(gold, answer)
            )
        if (gold.head == "relation") != (answer.head == "relation") and not self.policy.forms:
            return False
        if (
            gold.head in ("relation", "list")
            and answer.head in ("relation", "list")
            and variables(gold) != variables(answer)
        ):
            return False
        return same_region(one, other)

    def _collections(self, gold: Node, answer: Node) -> bool:
        if "empty" in (gold.head, answer.head):
            return gold.head == answer.head
        names = single_name(gold), single_name(answer)
        if names[0] and names[1] and names[0] != names[1] and not self._functions(names[0], names[1]):
            return False
        ours, theirs = as_members(gold), as_members(answer)
        if ours is None or theirs is None or max(len(ours), len(theirs)) > MOST_MEMBERS:
            return same_structure(gold, answer)
        if len(ours) > 1 and answer.head == "bracket" or len(theirs) > 1 and gold.head == "bracket":
            return self._tuple_and_list(gold, answer)
        if self._assigned(gold, answer):
            return True
        if "set" in (gold.head, answer.head) or "or" in (gold.name, answer.name):
            ours = self._distinct(ours, len(ours))
            theirs = self._distinct(theirs, len(ours))
        elif self.policy.ordered_lists and gold.head == answer.head == "list":
            return len(ours) == len(theirs) and all(map(self.same, ours, theirs))
        if self.policy.subset and len(theirs) < len(ours):
            return all(any(self.same(one, other) for one in ours) for other in theirs)
        return self._unordered(ours, theirs)

    def _assigned(self, gold: Node, answer: Node) -> bool:
        """x = 2, y = 3 against y = 3, x = 2 is seen by `_unordered`; here: against 2, 3."""
        ours, theirs = (self._values(node) for node in (gold, answer))
        if ours is None or theirs is None or ours == (None, None):
            return False
        (names, values), (other_names, other_values) = ours, theirs
        if (names is None) == (other_names is None) or len(values) != len(other_values):
            return False
        return all(map(self.same, values, other_values))

    def _values(self, node: Node) -> tuple[list[Node] | None, list[Node]] | None:
        """The names and values of a list of assignments to different names; the members of any other list."""
        if node.head not in ("list", "bracket"):
            return None
        named = [split_name(arg) for arg in node.args]
        if all(named):
            names = [pair[0] for pair in named if pair]
            if len(set(names)) == len(names) and len(names) > 1:
                return names, [pair[1] for pair in sorted(filter(None, named), key=lambda pair: pair[0].name)]
        return None, list(node.args)

    def _tuple_and_list(self, gold: Node, answer: Node) -> bool:
        bare = gold if answer.head == "bracket" else answer
        bracket = answer if answer.head == "bracket" else gold
        if bare.head != "list" or bracket.name != "()" or not self.policy.forms:
            return False
        values = self._values(bare)
        members = values[1] if values else list(bare.args)
        if len(members) != len(bracket.args):
            return False
        return all(map(self.same, bracket.args, members))

    def _distinct(self, members: list[Node], most: int) -> list[Node]:
        """The different members; of more than `most`, one more."""
        found: list[Node] = []
        for member in members:
            if len(found) > most:
                break
            if not any(self.same(member, other) for other in found):
                found.append(member)
        return found

    def _unordered(self, ours: list[Node], theirs: list[Node]) -> bool:
        if len(ours) != len(theirs):
            return False
        left = list(theirs)
        for one in ours:
            found = next((place for place, other in enumerate(left) if self.same(one, other)), None)
            if found is None:
                return False
            del left[found]
        return True

    def _brackets(self, gold: Node, answer: Node) -> bool:
        if gold.head != answer.head or gold.name != answer.name or len(gold.args) != len(answer.args):
            return False
        return all(map(self.same, gold.args, answer.args))

    def _matrices(self, gold: Node, answer: Node) -> bool:
        gold, answer = self._identity(gold, answer), self._identity(answer, gold)
        if gold.head == answer.head == "matrix":
            shapes = [[len(row.args) for row in node.args] for node in (gold, answer)]
            rows = zip(gold.args, answer.args, strict=False)
            return shapes[0] == shapes[1] and all(all(map(self.same, one.args, other.args)) for one, other in rows)
        matrix, other = (gold, answer) if gold.head == "matrix" else (answer, gold)
        if self.policy.forms and (rows_of_other := by_rows(other)) is not None:
            return self._matrices(matrix, rows_of_other)
        entries = [entry for row in matrix.args for entry in row.args]
        vector = len(matrix.args) == 1 or all(len(row.args) == 1 for row in matrix.args)
        if not self.policy.forms or other.head != "bracket" or not vector or len(entries) != len(other.args):
            return False
        return all(map(self.same, entries, other.args))

    def _identity(self, node: Node, other: Node) -> Node:
        """I, or I_2, beside a square matrix is the identity of its size."""
        size = len(other.args)
        if other.head != "matrix" or node.head != "sym" or node.name not in ("I", f"I_{size}") or not self.policy.forms:
            return node
        return identity(size)


def _solves(named: tuple[Node, Node] | None, difference: Node) -> bool:
    """Whether y = g(x) is what an equation that is linear in y says."""
    if named is None or named[0].head != "sym" or named[0].name not in variables(difference):
        return False
    name, value = named
    at = [substituted(difference, name.name, num(place)) for place in (0, 1, 2)]
    slope, next_slope = add(at[1], neg(at[0])), add(at[2], neg(at[1]))
    if equal(slope, next_slope) is not True or equal(slope, num(0)) is not False:
        return False
    return equal(substituted(difference, name.name, value), num(0)) is True


def _links(node: Node) -> list[tuple[Node, str]]:
    """A chain of inequalities as differences that are to be above zero, or at least zero, or not zero."""
    links = []
    for left, sign, right in zip(node.args, node.name.split(), node.args[1:], strict=False):
        if sign[0] == "<":
            left, right, sign = right, left, ">" + sign[1:]
        links.append((add(left, neg(right)), sign))
    return links


def _operands(node: Node) -> list[Node]:
    return [inner for arg in node.args for inner in (_operands(arg) if arg.head == node.head else [arg])]


def _is_region(node: Node) -> bool:
    """Whether it can only be a set of real numbers, unlike (1, 2)."""
    if node.head == "list":
        return all(arg.head == "relation" and set(arg.name.split()) - {"="} for arg in node.args)
    return node.head in _REGIONS or node.head == "bracket" and (node.name not in ("()", "[]") or has(node, "inf"))
