"""The atoms that are letters or digits: numbers, symbols, and the nouns behind a number."""

from __future__ import annotations

from fractions import Fraction

from groupwise.rewards.math.cursor import BETWEEN, END, GREEK, Cursor
from groupwise.rewards.math.numerals import DIGIT_WORDS, read_numeral, repeating
from groupwise.rewards.math.tokens import Token
from groupwise.rewards.math.tree import Node, Unreadable, mul, names, num, power, sym, walk
from groupwise.rewards.math.units import is_unit, known, multiplier

SPELT = {"pi": sym("pi"), **dict.fromkeys(("inf", "infinity", "infty", "oo"), Node("inf"))}
"""Names of constants."""
LONGEST_PRODUCT = 3
"""Letters that stand bare together and are variables; more are a word."""
_APPLIED = "fghFGH"
"""Names of functions: what stands in brackets behind them is no factor."""
_RAISED = {"square": 2, "sq": 2, "cubic": 3, "cu": 3}
_NO_NOUNS = names(
    "is are was were not no wrong incorrect if when but isn false maybe either than least most times over plus"
)
"""Words that make of a noun behind a number something else."""


class Words(Cursor):
    """See the module's docstring."""

    def number(self, text: str) -> Node:
        """Digits were read; a bar may say that more of them repeat."""
        if self.next.text in ("overline", "dot", "bar") and self.next.kind == "command" and "." in text:
            self.advance()
            inside = self.argument_tokens()
            if not inside or any(token.kind != "number" or not token.text.isdigit() for token in inside):
                raise Unreadable("what repeats isn't digits")
            return repeating(text, "".join(token.text for token in inside))
        return read_numeral(text)

    def letters(self, token: Token) -> Node:
        """A run of letters that is no function: a constant, a variable or several, or a word."""
        text = token.text
        if text.lower() in SPELT:
            return SPELT[text.lower()]
        if text in GREEK:
            return sym(text)
        if len(text) == 1 and text.isascii():
            return self._noun(text) if self._is_unit_here(token) else self._symbol(text)
        if token.kind == "letters" and text.isascii() and not is_unit(text) and len(text) <= LONGEST_PRODUCT:
            self.place -= 1
            self.tokens[self.place] = Token("letters", text[1:])
            return self._symbol(text[0])
        return self._noun(text)

    def _is_unit_here(self, token: Token) -> bool:
        """A letter in a text macro, behind a number or within a unit, is no variable."""
        before = self.tokens[self.place - 2] if self.place > 1 else END
        return token.kind == "word" and known(token.text) is not None and before.kind in ("number", "word", "mark")

    def _symbol(self, name: str) -> Node:
        if name not in _APPLIED:
            return sym(name)
        if [self.peek(ahead).text for ahead in range(6)] == ["^", "{", "-", "1", "}", "("]:
            self.place += 5
            name += "^-1"
        while self.next.text == "'" and self.next.kind == "mark":
            name += self.advance().text
        if self.next.text != "(":
            return sym(name)
        self.advance()
        members, _ = self.members()
        self.expect(")")
        return sym(f"{name}({','.join(map(written, members))})")

    def _noun(self, text: str) -> Node:
        """A unit or another noun, of one or more words; `square` and `cubic` raise it."""
        if (size := multiplier(text)) is not None:
            return num(size, text)
        raised = _RAISED.get(text.lower())
        dotted = self.next.text == "."
        if raised and self.peek(int(dotted)).kind in ("word", "letters"):
            self.place += dotted
            return power(self._noun(self.advance().text), num(raised))
        words = [text]
        while (
            self.next.kind in ("word", "letters")
            and self.next.spaced
            and self.next.text.lower() not in BETWEEN | {"squared", "cubed"}
            and not (known(words[-1]) and known(self.next.text))
        ):
            words.append(self.advance().text)
        if _NO_NOUNS & {word.lower() for word in words}:
            raise Unreadable(f"the words {' '.join(words)[:40]!r}")
        while self.next.text == "." and (self.peek(1).kind == "end" or self.peek(1).text in ("^", "/", ",")):
            self.advance()
        return Node("unit", name=" ".join(words))

    def degrees(self) -> Node:
        """A degree sign was read: of angle, or of temperature."""
        if self.next.kind in ("letters", "word") and self.next.text in ("C", "F", "K"):
            return Node("unit", name="deg" + self.advance().text)
        return Node("unit", name="degree")

    def currency(self, name: str) -> Node:
        """A currency's sign was read."""
        if self.next.text == "-":
            self.advance()
            return mul(num(-1), Node("unit", name=name), self.power())
        return Node("unit", name=name)

    def subscript(self, node: Node) -> Node:
        """A variable's name, or the base that a number is written in."""
        name = "".join(token.text for token in self.argument_tokens())
        if node.head == "sym":
            return sym(f"{node.name}_{name}")
        digits = node.name.replace(".", "")
        base = int(name) if name.isdigit() and len(name) < 3 else DIGIT_WORDS.get(name, 0)
        if node.head != "num" or not digits.isdigit() or not 2 <= base <= 36:
            raise Unreadable(f"the subscript {name!r}")
        if any(int(digit, 36) >= base for digit in digits):
            raise Unreadable(f"digits that base {base} doesn't have")
        return Node("base", name=node.name, number=Fraction(base))

    def primed(self, node: Node, mark: str) -> Node:
        """A prime was read: a derivative's name, or minutes and seconds of a degree."""
        if node.head == "sym":
            return Node("sym", name=node.name + "'")
        if node.head == "num":
            return mul(node, Node("unit", name="arcsec" if mark == '"' else "arcmin"))
        raise Unreadable(repr(mark))


def written(node: Node) -> str:
    """A text that two nodes share only where they are the same."""
    return " ".join(
        f"{part.head}:{part.name if part.number is None else part.number}:{len(part.args)}" for part in walk(node)
    )
