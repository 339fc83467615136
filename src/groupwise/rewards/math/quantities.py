"""A number with its unit: taking the unit off an expression, and comparing two of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction

from groupwise.rewards.math.evaluating import exact
from groupwise.rewards.math.tree import Node, add, has, mul, num, power, variables, walk
from groupwise.rewards.math.units import COMPOUND, CURRENCIES, KINDS, known, unit_of


@dataclass(slots=True)
class Quantity:
    """`value` in the unit written; times `size` it is in the table's unit for these kinds."""

    value: Node
    kinds: dict[str, Fraction] = field(default_factory=dict)
    size: Fraction = Fraction(1)
    written: dict[str, Fraction] = field(default_factory=dict)
    """The units' sizes by kind, for the policy that wants the same ones."""


def quantity(node: Node, letters: frozenset[str] = frozenset()) -> Quantity:
    """The expression without its units; `letters` are symbols that are to be read as units."""
    if node.head == "add" and has(node, "unit"):
        return _sum([quantity(term, letters) for term in node.args], node)
    factors = list(_factors(node, Fraction(1)))
    with_unit = any(factor.head == "unit" for factor, _ in factors)
    parts: list[Quantity] = [Quantity(num(1))]
    values: list[list[Node]] = [[]]
    for factor, exponent in factors:
        name = _unit_name(factor, letters, with_unit)
        if name == "":
            if (
                parts[-1].kinds
                and not set(parts[-1].kinds) & CURRENCIES
                and values[-1]
                and factor.head == "num"
                and exponent == 1
            ):  # 5 ft 6 in
                parts.append(Quantity(num(1)))
                values.append([])
            values[-1].append(factor if exponent == 1 else power(factor, num(exponent)))
        else:
            _note_unit(parts[-1], name, exponent, values[-1])
    for part, own in zip(parts, values, strict=True):
        part.value = mul(*own) if own else num(1)
    return parts[0] if len(parts) == 1 else _sum(parts, node)


def _unit_name(factor: Node, letters: frozenset[str], with_unit: bool) -> str:
    if factor.head == "unit":
        return factor.name
    if factor.head == "sym" and (
        factor.name in letters or with_unit and factor.name in ("h", "s", "k", "K") and known(factor.name)
    ):
        return factor.name
    if factor.head == "sym" and factor.name in ("k", "K") and (with_unit or "k" in letters):
        return "k"
    return ""


def _note_unit(part: Quantity, name: str, exponent: Fraction, values: list[Node]) -> None:
    if name == "k":
        values.append(num(1000))
        return
    if name in COMPOUND:
        for one, power_of_it in zip(COMPOUND[name], (exponent, -exponent), strict=True):
            _note_unit(part, one, power_of_it, values)
        return
    unit = unit_of(name)
    part.kinds[unit.kind] = part.kinds.get(unit.kind, Fraction(0)) + exponent
    part.size *= unit.size**exponent.numerator
    part.written[unit.kind] = unit.size


def _factors(node: Node, exponent: Fraction) -> Iterator[tuple[Node, Fraction]]:
    if node.head == "mul":
        for arg in node.args:
            yield from _factors(arg, exponent)
    elif (
        node.head == "pow"
        and has(node.args[0], "unit")
        and (value := exact(node.args[1])) is not None
        and value.denominator == 1
        and abs(value) < 10
    ):
        yield from _factors(node.args[0], exponent * value)
    elif node.head == "pow" and exponent == 1 and node.args[1].number == -1:
        yield from _factors(node.args[0], -exponent)
    else:
        yield node, exponent


def _sum(parts: list[Quantity], node: Node) -> Quantity:
    """5 ft + 6 in, in the first one's unit; where they measure different things, it is no quantity."""
    first = parts[0]
    if any(part.kinds != first.kinds for part in parts):
        return Quantity(node)
    terms = [mul(part.value, num(part.size / first.size)) for part in parts]
    return Quantity(add(*terms), first.kinds, first.size, first.written)


def agree(left: dict[str, Fraction], right: dict[str, Fraction]) -> bool:
    """Whether two units aren't in conflict: they measure the same, or one only says less of what is counted."""
    left, right = (
        {kind: power for kind, power in kinds.items() if power and kind != "share"} for kinds in (left, right)
    )
    if left == right or not left or not right:
        return True
    if "any" in left or "any" in right:
        return sum(left.values()) == sum(right.values())
    if all(kind in right and right[kind] == power for kind, power in left.items()):
        left, right = right, left
    if all(kind in left and left[kind] == power for kind, power in right.items()):
        return "money" in right or not (set(left) - set(right)) & KINDS
    return _nouns(left) is not None and _nouns(right) is not None and _nested(_nouns(left), _nouns(right))


def _nouns(kinds: dict[str, Fraction]) -> Counter[str] | None:
    if len(kinds) != 1 or next(iter(kinds)) in KINDS:
        return None
    return Counter(next(iter(kinds)).split())


def _nested(left: Counter[str] | None, right: Counter[str] | None) -> bool:
    assert left is not None and right is not None, "both are nouns"
    return left <= right or right <= left


def letters_that_are_units(node: Node, other: Node) -> frozenset[str]:
    """Single letters of `node` that can only be units, since the other side has a unit of that kind or no variables."""
    theirs = {unit_of(part.name).kind for part in _units(other)}
    own = set(variables(node)) - set(variables(other))
    found = {name for name in own if (unit := known(name)) is not None and unit.kind in theirs}
    if not variables(other) and not found and own <= {"k", "K"}:
        found |= {name.lower() for name in own} | own
    return frozenset(found)


def _units(node: Node) -> Iterator[Node]:
    return (part for part in walk(node) if part.head == "unit")
