"""A place in the tokens of an answer, and the words that the grammar knows."""

from __future__ import annotations

from fractions import Fraction

from groupwise.rewards.math.tokens import Token
from groupwise.rewards.math.tree import Node, Unreadable, names

DEEPEST = 60
"""Levels of nesting: more than any answer needs, and few enough for Python's stack."""
END = Token("end", "")

FUNCTIONS = names(
    """sin cos tan cot sec csc arcsin arccos arctan arccot arcsec arccsc asin acos atan sinh cosh tanh coth ln log lg
    exp sqrt cbrt abs floor ceil gcd lcm max min binom factorial Re Im arg"""
)
GREEK = names(
    """alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta iota kappa lambda mu nu xi pi rho sigma tau
    upsilon phi varphi chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Phi Psi Omega ell hbar"""
)
BETWEEN = names("and or per to")
"""Words that part two things."""
DECORATIONS = names("overline bar vec hat widehat tilde overrightarrow dot")
"""Commands that make a name of what they stand over."""
SHAPES = names("angle triangle measuredangle square")
"""Commands that make a name of the letters behind them."""
_CLOSING = frozenset((")", "]", "}", "rbrace", "rangle", "|", "\\"))


class Cursor:
    """What stands at this place, and steps over it. The grammar's levels that call each other are named here."""

    def __init__(self, tokens: list[Token]) -> None:
        self.tokens, self.place, self.depth = tokens, 0, 0
        self.in_builder = False
        """A colon parts a variable from its condition, and is no ratio."""
        self.in_bars = 0
        """A bar closes, and doesn't open."""
        self.plain_fraction: Fraction | None = None
        """The value of the atom just read where it was a fraction of whole numbers."""

    @property
    def next(self) -> Token:
        """The token that stands here."""
        return self.peek(0)

    def peek(self, ahead: int) -> Token:
        """The token so many places further."""
        place = self.place + ahead
        return self.tokens[place] if place < len(self.tokens) else END

    def advance(self) -> Token:
        """Step over the token that stands here, and return it."""
        token = self.next
        self.place += 1
        return token

    def expect(self, text: str) -> None:
        """Step over this token. Raises `Unreadable` where another one stands."""
        if self.next.kind == "end" or self.advance().text != text:
            raise Unreadable(f"no {text!r} where it should stand")

    def deeper(self) -> None:
        """One level of nesting more. Raises `Unreadable` where there are too many."""
        self.depth += 1
        if self.depth > DEEPEST:
            raise Unreadable("an answer nested too deeply")

    def at_close(self) -> bool:
        """Whether nothing more can follow at this level."""
        return self.next.kind == "end" or self.next.text in _CLOSING or self.at_turned_bracket()

    def at_turned_bracket(self) -> bool:
        """Whether a `[` stands here that closes an interval: [0, 1[."""
        after = self.peek(1)
        return self.next.text == "[" and (after.kind == "end" or after.text in _CLOSING | {",", "cup", "cap"})

    def argument_tokens(self) -> list[Token]:
        """The tokens of a group, or the one token there."""
        if self.next.text != "{":
            return [self.advance()]
        self.advance()
        inside: list[Token] = []
        depth = 1
        while self.next.kind != "end":
            token = self.advance()
            depth += {"{": 1, "}": -1}.get(token.text, 0) if token.kind == "mark" else 0
            if depth == 0:
                return inside
            inside.append(token)
        raise Unreadable("a group that isn't closed")

    def members(self) -> tuple[list[Node], str]:
        """What separators part, and the word that does."""
        raise NotImplementedError

    def member(self) -> Node:
        """A relation, or what may stand beside its sign."""
        raise NotImplementedError

    def ratio(self) -> Node:
        """What may stand beside a relation's sign."""
        raise NotImplementedError

    def product(self) -> Node:
        """What may stand beside a plus."""
        raise NotImplementedError

    def power(self) -> Node:
        """What may stand beside a times."""
        raise NotImplementedError

    def argument(self) -> Node:
        """What a command is applied to: a group, or one symbol or digit."""
        raise NotImplementedError
