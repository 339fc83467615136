"""Tokens to a tree, by recursive descent, in the notation of LaTeX and of plain text.

    answer   = member { ("," | ";" | "and" | "or") member }
    member   = ratio { ("=" | "<" | "\\le" | "\\in" | ...) ratio }        a chain of relations
    ratio    = sets { ":" sets }
    sets     = sum { ("\\cup" | "\\cap" | "\\setminus") sum }
    sum      = ["+" | "-" | "\\pm"] product { ("+" | "-" | "\\pm") product }
    product  = power { ["*" | "/" | "\\cdot" | "\\bmod" | "per" | ...] power }    nothing between: times
    power    = atom { "^" argument | "!" | "%" | "_" subscript | "^\\circ" }

An atom is a number, a symbol, a bracket, a root, a fraction, a function with its argument, a sum, a matrix or a
unit (`parsing_atoms`, `parsing_words`). A number before a fraction of whole numbers is a mixed number:
2\\frac{1}{3} is 7/3.
"""

from __future__ import annotations

from fractions import Fraction
from functools import partial

from groupwise.rewards.math.parsing_atoms import Atoms
from groupwise.rewards.math.tokens import Token, tokenize
from groupwise.rewards.math.tree import Node, Unreadable, add, call, depth, has, mul, neg, num, over, power

RELATIONS = {
    **dict.fromkeys(("=", "==", "coloneqq"), "="),
    **dict.fromkeys(("<", "lt"), "<"),
    **dict.fromkeys((">", "gt"), ">"),
    **dict.fromkeys(("<=", "le", "leq", "leqq", "leqslant"), "<="),
    **dict.fromkeys((">=", "ge", "geq", "geqq", "geqslant"), ">="),
    **dict.fromkeys(("!=", "ne", "neq"), "!="),
    **dict.fromkeys(("approx", "simeq", "sim"), "~"),
    **dict.fromkeys(("to", "rightarrow", "mapsto"), "to"),
    **dict.fromkeys(("subset", "subseteq"), "sub"),
    **{"in": "in", "notin": "notin", "equiv": "==", "parallel": "par", "perp": "perp", "iff": "iff"},
}
"""Each sign by the ways to write it."""
_SETS = {"cup": "union", "cap": "both", "setminus": "without", "backslash": "without"}
_SIGNS = {
    **{(False, "+"): "+", (False, "-"): "-", (False, "pm"): "+-", (False, "mp"): "-+"},
    **{(True, "plus"): "+", (True, "minus"): "-", (True, "negative"): "-"},
}
"""Each sign by whether it is a word, and how it is written."""
_TIMES = {"*", "times", "cdot", "cdotp", "bullet", "ast"}
DEEPEST_TREE = 150
"""Levels of a tree: what walks it may call itself so often."""
MOST_MARKS = 20
"""Powers, factorials and other marks behind one symbol."""
_SEPARATORS = {",", ";"}
_JOINERS = {"and", "or"}


def parse(text: str, *, thousands: bool = True) -> Node:
    """The tree of a tidied text. Raises `Unreadable` where it isn't understood to its end."""
    parser = Parser(tokenize(text, thousands=thousands))
    node = parser.answer()
    if parser.next.kind != "end":
        raise Unreadable(f"{parser.next.text!r}")
    if depth(node) > DEEPEST_TREE:
        raise Unreadable("an answer nested too deeply")
    return node


class Parser(Atoms):
    """See the module's docstring."""

    def answer(self) -> Node:
        """The grammar's first level."""
        members, joiner = self.members()
        return members[0] if len(members) == 1 else Node("list", tuple(members), joiner)

    def members(self) -> tuple[list[Node], str]:
        """What separators part, and `or` or `and` where these words do."""
        members, joiner = [self.member()], ""
        while True:
            separated = False
            while self.next.text in _SEPARATORS and self.next.kind == "mark" or self._at_joiner():
                if self._at_joiner():
                    joiner = self.next.text.lower()
                separated = True
                self.advance()
            if not separated or self.at_close():
                return members, joiner
            members.append(self.member())

    def _at_joiner(self) -> bool:
        return (
            self.next.kind in ("word", "letters")
            and self.next.text.lower() in _JOINERS
            or self.next.text in ("lor", "land")
        )

    def member(self) -> Node:
        """A chain of relations, or a value."""
        self.deeper()
        if self.next.kind != "end" and RELATIONS.get(self.next.text) in ("=", "~"):
            self.advance()  # "= 5" and "about 5"
        sides, signs = [self.ratio()], []
        while (sign := self._relation()) is not None:
            signs.append(sign)
            sides.append(self.ratio())
        self.depth -= 1
        return sides[0] if not signs else Node("relation", tuple(sides), " ".join(signs))

    def _relation(self) -> str | None:
        if self.next.kind not in ("mark", "command"):
            return None
        sign = RELATIONS.get(self.next.text)
        if self.next.text == "not" and self.peek(1).text == "=":
            self.advance()
            sign = "!="
        if sign is not None:
            self.advance()
            if sign in "<>" and self.next.text == "=":
                self.advance()
                sign += "="
        return sign

    def ratio(self) -> Node:
        """Values with colons between."""
        parts = [self.sets()]
        while (
            self.next.text in (":", "colon")
            and not self.in_builder
            or self.next == Token("word", "to", self.next.spaced)
        ):
            self.advance()
            parts.append(self.sets())
        return parts[0] if len(parts) == 1 else Node("ratio", tuple(parts))

    def sets(self) -> Node:
        """Unions, intersections and differences."""
        left = self.sum()
        while self.next.kind == "command" and self.next.text in _SETS:
            head = _SETS[self.advance().text]
            before = left.args if left.head == head == "union" else (left,)
            left = Node(head, (*before, self.sum()))
        return left

    def sum(self) -> Node:
        """Terms with their signs."""
        terms = []
        sign = self._sign() or "+"
        while True:
            term = self.product()
            terms.append(term if sign == "+" else neg(term) if sign == "-" else Node("pm", (term,), sign))
            following = self._sign()
            if following is None:
                if self.next.text in ("over", "choose") and self.next.kind == "command":
                    divide = over if self.advance().text == "over" else partial(call, "binom")
                    return divide(add(*terms), self.sum())
                return add(*terms)
            sign = following

    def _sign(self) -> str | None:
        """One sign, several in a row multiplied together."""
        sign = None
        while True:
            text = self.next.text
            found = _SIGNS.get((self.next.kind in ("word", "letters"), text))
            if found is None:
                return sign
            self.advance()
            if found == "+" and self.next.text == "/" and self.peek(1).text == "-":  # +/-
                self.advance(), self.advance()
                found = "+-"
            sign = found if sign in (None, "+") else {"-": "+", "+": "-"}.get(found, found)

    def product(self) -> Node:
        """Factors, units and divisors."""
        self.deeper()
        factors = [self._signed_power()]
        while True:
            token = self.next
            if token.kind in ("mark", "command") and token.text in _TIMES:
                self.advance()
                factors.append(self._signed_power())
            elif token.text == "per" and self.peek(1).text == "cent":
                self.advance(), self.advance()
                factors.append(Node("unit", name="%"))
            elif (
                token.text in ("/", "div")
                and token.kind != "word"
                or token.kind in ("word", "letters")
                and token.text == "per"
            ):
                self.advance()
                factors.append(power(self._signed_power(), num(-1)))
            elif token.text in ("bmod", "mod", "pmod"):
                self.advance()
                factors = [Node("mod", (mul(*factors), self._signed_power()), token.text)]
            elif self.starts_atom():
                before = self.tokens[self.place - 1]
                factor = self.power()
                if not self._mixed(factors, factor, before):
                    if factor.head == "num" and factors[-1].head == "num" and before.kind == token.kind == "number":
                        raise Unreadable("two numbers side by side")
                    factors.append(factor)
            else:
                break
        self.depth -= 1
        return mul(*factors)

    def _signed_power(self) -> Node:
        if self.next.text == "-" and self.next.kind == "mark":
            self.advance()
            return neg(self.power())
        if self.next.text == "+" and self.next.kind == "mark":
            self.advance()
        return self.power()

    def _mixed(self, factors: list[Node], factor: Node, before: Token) -> bool:
        """Whether a whole number stands before a fraction; then both become one number."""
        whole = factors[-1]
        if (
            whole.head != "num"
            or before.kind != "number"
            or whole.number is None
            or whole.number.denominator != 1
            or "." in whole.name
        ):
            return False
        fraction, rest = self.plain_fraction, factor.args[1:] if has(factor, "unit") else ()
        if factor.head == "num" and self.next.text == "/" and self.peek(1).kind == "number":
            bottom = self.peek(1).text
            if not factor.name.isdigit() or not bottom.isdigit() or int(bottom) == 0:
                return False
            self.advance(), self.advance()
            fraction = Fraction(int(factor.name), int(bottom))
        elif fraction is None:
            return False
        factors[-1:] = [num(whole.number + fraction), *rest]
        return True

    def power(self) -> Node:
        """An atom and what is raised behind it."""
        self.deeper()
        self.plain_fraction = None
        is_fraction, marks = self.next.text.endswith("frac"), 0
        node = self.atom()
        if not is_fraction:
            self.plain_fraction = None
        while True:
            token, marks = self.next, marks + 1
            if marks > MOST_MARKS:
                raise Unreadable("an answer with too many marks behind one symbol")
            if token.kind == "mark" and token.text in ("^", "**"):
                fraction, self.plain_fraction = self.plain_fraction, None
                self.advance()
                node = self._raised(node)
                self.plain_fraction = fraction if has(node, "unit") else None
            elif token.text == "!" and token.kind == "mark":
                self.advance()
                node, self.plain_fraction = call("factorial", node), None
            elif token.text == "%" and token.kind in ("mark", "command"):
                self.advance()
                node = mul(node, Node("unit", name="%"))
            elif token.text == "_" and token.kind == "mark":
                self.advance()
                node = self.subscript(node)
            elif token.text in ("'", '"', "prime") and token.kind in ("mark", "command"):
                self.advance()
                node = self.primed(node, token.text)
            elif token.text in ("circ", "degree") and token.kind == "command":
                self.advance()
                node = mul(node, self.degrees())
            elif token.kind in ("word", "letters") and token.text in ("squared", "cubed"):
                self.advance()
                node = power(node, num(2 if token.text == "squared" else 3))
            else:
                self.depth -= 1
                return node

    def _raised(self, node: Node) -> Node:
        inside = self.peek(1) if self.next.text == "{" else self.next
        if (
            inside.text in ("circ", "degree")
            or inside.text in ("o", "O")
            and node.head == "num"
            and self.next.text in ("{", inside.text)
        ):
            if self.next.text == "{":
                self.advance()
            self.advance()
            if self.next.text == "}":
                self.advance()
            return mul(node, self.degrees())
        if inside.text == "prime":
            self.argument_tokens()
            return self.primed(node, "'")
        if inside.text == "T" and self.peek(2 if self.next.text == "{" else 1).kind == "end" and node.head == "bracket":
            self.argument_tokens()
            return node
        if self.next.text in ("-", "+") and self.next.kind == "mark":
            sign = self.advance().text
            exponent = self.power()
            return power(node, neg(exponent) if sign == "-" else exponent)
        if self.next.text == "{":
            return power(node, self.argument())
        return power(node, self.power())
