"""The atoms of the grammar in `parsing`, which this is the lower half of."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from groupwise.rewards.math.numerals import read_numeral, repeating
from groupwise.rewards.math.tokens import Token
from groupwise.rewards.math.tree import Node, Unreadable, call, mul, num, over, power, sym, walk
from groupwise.rewards.math.units import MULTIPLIERS, is_unit, known

DEEPEST = 60
"""Levels of nesting: more than any answer needs, and few enough for Python's stack."""
END = Token("end", "")

FUNCTIONS = {
    "sin", "cos", "tan", "cot", "sec", "csc", "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh", "coth", "ln", "log", "lg", "exp", "asin", "acos", "atan", "gcd", "lcm",
    "max", "min", "arccot", "arcsec", "arccsc", "sqrt", "cbrt", "abs", "floor", "ceil", "binom", "factorial", "det", "Re", "Im", "arg",
}  # fmt: skip
_GREEK = {
    "alpha", "beta", "gamma", "delta", "epsilon", "varepsilon", "zeta", "eta", "theta", "vartheta", "iota", "kappa", "lambda", "mu", "nu", "xi", "rho", "sigma", "tau",
    "upsilon", "phi", "varphi", "chi", "psi", "omega", "Gamma", "Delta", "Theta", "Lambda", "Xi", "Sigma", "Phi", "Psi", "Omega", "ell", "hbar", "pi", "Pi",
}  # fmt: skip
_SPELT = {"pi": sym("pi"), "inf": Node("inf"), "infinity": Node("inf"), "infty": Node("inf"), "oo": Node("inf")}
_CLOSED = {"(": ")", "[": "]", "\\{": "\\}", "lbrace": "rbrace", "langle": "rangle"}
_MATRICES = {
    "pmatrix",
    "bmatrix",
    "matrix",
    "array",
    "vmatrix",
    "Vmatrix",
    "smallmatrix",
    "Bmatrix",
    "tabular",
    "psmallmatrix",
}
_FUNCTION_NAMES = {"f", "g", "h", "F", "G", "H"}
_BETWEEN = {"and", "or", "per", "to"}
"""Words that part two things."""
_NO_NOUNS = {
    "is",
    "are",
    "was",
    "were",
    "not",
    "no",
    "wrong",
    "incorrect",
    "if",
    "when",
    "but",
    "isn",
    "false",
    "maybe",
    "either",
    "than",
    "least",
    "most",
}
"""Words that make of a noun behind a number something else."""
_DECORATIONS = {"overline", "bar", "vec", "hat", "widehat", "tilde", "overrightarrow", "dot"}
_NAMES_AFTER = {"angle", "triangle", "measuredangle", "square"}


class Atoms:
    """A place in the tokens, and what can stand as a factor there."""

    def __init__(self, tokens: list[Token]) -> None:
        self.tokens, self.place, self.depth = tokens, 0, 0
        self.in_builder = False
        self.in_bars = 0
        self.plain_fraction: Fraction | None = None
        """The value of the atom just read where it was a fraction of whole numbers."""

    @property
    def next(self) -> Token:
        return self.peek(0)

    def peek(self, ahead: int) -> Token:
        place = self.place + ahead
        return self.tokens[place] if place < len(self.tokens) else END

    def advance(self) -> Token:
        token = self.next
        self.place += 1
        return token

    def expect(self, text: str) -> None:
        """Step over this token. Raises `Unreadable` where another one stands."""
        if self.next.kind == "end" or self.advance().text != text:
            raise Unreadable(f"no {text!r} where it should stand")

    def deeper(self) -> None:
        self.depth += 1
        if self.depth > DEEPEST:
            raise Unreadable("an answer nested too deeply")

    def members(self) -> tuple[list[Node], str]:
        raise NotImplementedError

    def member(self) -> Node:
        raise NotImplementedError

    def power(self) -> Node:
        raise NotImplementedError

    def product(self) -> Node:
        raise NotImplementedError

    def ratio(self) -> Node:
        raise NotImplementedError

    def at_close(self) -> bool:
        """Whether nothing more can follow at this level."""
        return self.next.kind == "end" or self.next.text in (")", "]", "}", "rbrace", "rangle", "|", "\\")

    def starts_atom(self) -> bool:
        token = self.next
        if token.kind in ("number", "word", "environment"):
            return not (
                token.kind == "word" and token.text.lower() in _BETWEEN
            ) and not token.text.startswith("\\end")
        if token.kind == "letters":
            return token.text.lower() not in _BETWEEN
        if token.kind == "mark":
            return token.text in "([{$€£¥₹" or token.text == "|" and not self.in_bars
        return token.kind == "command" and (
            token.text in FUNCTIONS | _GREEK | _NAMES_AFTER | _DECORATIONS | set(_COMMANDS)
            or token.text in ("{", "$", "£")
        )

    def atom(self) -> Node:
        token = self.advance()
        if token.kind == "number":
            return self._number(token.text)
        if token.kind in ("word", "letters"):
            return self._letters(token)
        if token.kind == "environment":
            return self._environment(token.text)
        if token.kind == "mark":
            return self._mark(token.text)
        if token.kind == "command":
            return self._command(token.text)
        raise Unreadable("an answer that breaks off" if token.kind == "end" else repr(token.text))

    def _number(self, text: str) -> Node:
        if self.next.text in ("overline", "dot", "bar") and self.next.kind == "command" and "." in text:
            self.advance()
            inside = self.argument_tokens()
            if not inside or any(token.kind != "number" or not token.text.isdigit() for token in inside):
                raise Unreadable("what repeats isn't digits")
            return repeating(text, "".join(token.text for token in inside))
        return read_numeral(text)

    def _letters(self, token: Token) -> Node:
        text = token.text
        if text in FUNCTIONS and not (known(text) and (token.kind == "word" or self.at_close())):  # min, sec
            return self._function(text)
        if text.lower() in _SPELT:
            return _SPELT[text.lower()]
        if text in _GREEK:
            return sym(text)
        if len(text) == 1 and text.isascii():
            return self._unit(text) if self._is_unit_here(token) else self._symbol(text)
        if token.kind == "letters" and text.isascii() and not is_unit(text) and len(text) < 4:
            first, rest = text[0], text[1:]
            self.place -= 1
            self.tokens[self.place] = Token("letters", rest)
            return self._symbol(first)
        return self._unit(text)

    def _is_unit_here(self, token: Token) -> bool:
        """A letter in a text macro, behind a number or within a unit, is no variable."""
        before = self.tokens[self.place - 2] if self.place > 1 else END
        return token.kind == "word" and known(token.text) is not None and before.kind in ("number", "word", "mark")

    def _symbol(self, name: str) -> Node:
        if name in _FUNCTION_NAMES:
            inverse = [self.peek(ahead).text for ahead in range(5)] == ["^", "{", "-", "1", "}"] and self.peek(
                5
            ).text == "("
            self.place += 5 * inverse
            name += "^-1" * inverse
            while self.next.text == "'" and self.next.kind == "mark":
                name += self.advance().text
        if name[0] in _FUNCTION_NAMES and self.next.text == "(":
            self.advance()
            members, _ = self.members()
            self.expect(")")
            return sym(f"{name}({','.join(map(written, members))})")
        return sym(name)

    def _unit(self, text: str) -> Node:
        """A unit or another noun, of one or more words; `square` and `cubic` raise it."""
        if text.lower() in MULTIPLIERS:
            return num(MULTIPLIERS[text.lower()], text)
        raised = {"square": 2, "sq": 2, "cubic": 3, "cu": 3}.get(text.lower())
        dotted = self.next.text == "."
        if raised and self.peek(int(dotted)).kind in ("word", "letters"):
            self.place += dotted
            return power(self._unit(self.advance().text), num(raised))
        words = [text]
        while (
            self.next.kind in ("word", "letters")
            and self.next.spaced
            and self.next.text.lower() not in _BETWEEN | {"squared", "cubed"}
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

    def _mark(self, text: str) -> Node:
        if text in ("(", "["):
            return self._bracket(text, (")", "]"))
        if text == "]":  # ]0, 1[ is an open interval
            node = self._bracket("(", ("[", "]"))
            return node
        if text == "{":
            if self.next.text == "}":
                self.advance()
                return num(1)
            members, joiner = self.members()
            self.expect("}")
            return members[0] if len(members) == 1 else Node("set", tuple(members), joiner)
        if text == "|":
            return self._bars("|")
        if text in "$€£¥₹":
            return self._currency(text)
        raise Unreadable(repr(text))

    def _currency(self, text: str) -> Node:
        if self.next.text == "-":
            self.advance()
            return mul(num(-1), Node("unit", name=text), self.power())
        return Node("unit", name=text)

    def _bracket(self, opening: str, closings: tuple[str, ...]) -> Node:
        was, self.in_bars = self.in_bars, 0
        if self.next.text in closings:
            raise Unreadable("empty brackets")
        members, _ = self.members()
        self.in_bars = was
        closing = self.next.text
        if self.next.kind != "mark" or closing not in closings:
            raise Unreadable(f"no closing bracket for {opening!r}")
        self.advance()
        closing = ")" if closing == "[" else closing
        if len(members) == 1 and (opening, closing) in (("(", ")"), ("[", "]")):
            return members[0]
        return Node("bracket", tuple(members), opening + closing)

    def _bars(self, closing: str) -> Node:
        self.in_bars += closing == "|"
        node = self.ratio()
        self.in_bars -= closing == "|"
        self.expect(closing)
        return Node("det", node.args) if node.head == "matrix" else call("abs", node)

    def _command(self, text: str) -> Node:
        if text in FUNCTIONS:
            return self._function(text)
        if text in ("varnothing", "emptyset"):
            return Node("empty")
        if text in _SPELT:
            return _SPELT[text]
        if text in _GREEK:
            return sym(text)
        if text in _NAMES_AFTER:
            names = []
            while self.next.kind in ("letters", "word"):
                names.append(self.advance().text)
            return sym(text + " " + "".join(names))
        if text in _DECORATIONS:
            inside = self.argument_tokens()
            if text in ("overline", "bar") and inside and all(token.kind == "number" for token in inside):
                raise Unreadable("a bar over a number")
            return sym(f"{text} " + "".join(token.text for token in inside))
        handler = _COMMANDS.get(text)
        if handler is None:
            raise Unreadable(f"\\{text}")
        return handler(self)

    def argument(self) -> Node:
        """What a command is applied to: a group, or one symbol or digit."""
        token = self.next
        if token.text == "{" and token.kind == "mark":
            self.advance()
            node = self.member()
            self.expect("}")
            return node
        if token.kind == "number" and len(token.text) > 1 and token.text.isdigit():
            self.tokens[self.place] = Token("number", token.text[1:])
            return num(int(token.text[0]), token.text[0])
        if token.kind == "letters" and len(token.text) > 1:
            self.tokens[self.place] = Token("letters", token.text[1:])
            return sym(token.text[0])
        return self.atom()

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

    def fraction(self) -> Node:
        start = self.place
        top, bottom = self.argument(), self.argument()
        whole = all(token.kind == "number" or token.text in "{}" for token in self.tokens[start : self.place])
        node = over(top, bottom)
        if top.number is not None and bottom.number and top.head == bottom.head == "num" and whole:
            self.plain_fraction = top.number / bottom.number
        return node

    def root(self) -> Node:
        degree = None
        if self.next.text == "[":
            self.advance()
            degree = self.ratio()
            self.expect("]")
        token = self.next
        inside = self.atom() if token.kind == "number" else self.argument()
        return call("sqrt", inside) if degree is None else power(inside, power(degree, num(-1)))

    def set(self) -> Node:
        if self.next.text in ("}", "rbrace"):
            self.advance()
            return Node("empty")
        was, self.in_builder, bars = self.in_builder, True, self.in_bars
        self.in_bars = 1
        members, joiner = self.members()
        self.in_builder, self.in_bars = was, bars
        if self.next.text in (":", "|", "mid", "colon"):
            self.advance()
            conditions, joiner = self.members()
            condition = conditions[0] if len(conditions) == 1 else Node("list", tuple(conditions), joiner)
            node = Node("such", (members[0], condition))
        else:
            node = Node("set", tuple(members), joiner)
        if self.advance().text not in ("}", "rbrace"):
            raise Unreadable("a set that isn't closed")
        return node

    def binomial(self) -> Node:
        return call("binom", self.argument(), self.argument())

    def blackboard(self) -> Node:
        name = "".join(token.text for token in self.argument_tokens())
        return Node("reals") if name == "R" else sym(f"mathbb {name}")

    def big(self, name: str) -> Node:
        low = high = None
        while self.next.text in ("_", "^"):
            if self.advance().text == "_":
                low = self.argument()
            else:
                high = self.argument()
        if low is None or high is None or low.head != "relation" or low.name != "=" or low.args[0].head != "sym":
            raise Unreadable(f"\\{name} without limits")
        return call(name, self.product(), low.args[0], low.args[1], high)

    def rounding(self, name: str) -> Node:
        node = self.ratio()
        self.expect("r" + name)
        return call(name, node)

    def angles(self) -> Node:
        members, _ = self.members()
        self.expect("rangle")
        return Node("bracket", tuple(members), "()")

    def _function(self, name: str) -> Node:
        if name == "sqrt":
            return self.root()
        if name == "binom" and self.next.text == "{":
            return self.binomial()
        base = exponent = None
        while self.next.text in ("_", "^") and self.next.kind == "mark":
            if self.advance().text == "_":
                base = self.argument()
            elif self.next.text == "-":
                self.advance()
                exponent = num(-1) if self.argument() == num(1, "1") else None
                if exponent is None:
                    raise Unreadable("a function to a negative power")
            else:
                exponent = self.argument()
        args = self._function_arguments()
        if name == "log" and base is not None:
            args = (*args, base)
        elif base is not None:
            raise Unreadable(f"a subscript of {name}")
        if exponent is not None and exponent.number == -1 and name in ("sin", "cos", "tan", "cot", "sec", "csc"):
            return call("arc" + name, *args)
        node = call(name, *args)
        return node if exponent is None else power(node, exponent)

    def _function_arguments(self) -> tuple[Node, ...]:
        if self.next.text == "(":
            self.advance()
            members, _ = self.members()
            self.expect(")")
            return tuple(members)
        if self.next.text == "{":
            return (self.argument(),)
        factors = [self.power()]
        while (
            self.starts_atom()
            and self.next.kind != "word"
            and self.next.text not in ("(", "[", "|")
            and self.next.text not in FUNCTIONS - {"sqrt"}
        ):
            factors.append(self.power())
        return (mul(*factors),)

    def subscript(self, node: Node) -> Node:
        """A variable's name, or the base that a number is written in."""
        inside = self.argument_tokens()
        name = "".join(token.text for token in inside)
        if node.head == "num" and node.name.replace(".", "").isdigit():
            base = {
                "two": 2,
                "three": 3,
                "four": 4,
                "five": 5,
                "six": 6,
                "seven": 7,
                "eight": 8,
                "nine": 9,
                "ten": 10,
            }.get(name)
            base = int(name) if name.isdigit() and len(name) < 3 else base
            if (
                base is None
                or not 2 <= base <= 36
                or any(int(digit, 36) >= base for digit in node.name.replace(".", ""))
            ):
                raise Unreadable(f"a number with the subscript {name!r}")
            return Node("base", name=node.name, number=Fraction(base))
        if node.head == "sym":
            return sym(f"{node.name}_{name}")
        raise Unreadable("a subscript")

    def _environment(self, text: str) -> Node:
        name = text[text.index("{") + 1 : -1].strip()
        ending = text.replace("begin", "end", 1)
        if name in ("array", "tabular"):
            self.argument_tokens()
        rows: list[list[Node]] = [[]]
        while self.next.text != ending:
            if self.next.text in ("\\", "cr") and self.next.kind == "command":
                self.advance()
                rows.append([])
            elif self.next.text in ("&", "hline") or not name.endswith("matrix") and self.next.text in (",", ";", "."):
                self.advance()
            else:
                rows[-1].append(self.member())
        self.advance()
        rows = [row for row in rows if row]
        if not rows:
            raise Unreadable("an empty matrix")
        if name not in _MATRICES:
            return Node("list", tuple(entry for row in rows for entry in row), "and")
        return Node("det" if name == "vmatrix" else "matrix", tuple(Node("row", tuple(row)) for row in rows))


def written(node: Node) -> str:
    """A text that two nodes share only where they are the same."""
    return " ".join(
        f"{part.head}:{part.name if part.number is None else part.number}:{len(part.args)}" for part in walk(node)
    )


_COMMANDS: dict[str, Callable[[Atoms], Node]] = {
    **dict.fromkeys(("frac", "dfrac", "tfrac", "cfrac"), Atoms.fraction),
    **dict.fromkeys(("binom", "dbinom", "tbinom"), Atoms.binomial),
    **dict.fromkeys(("{", "lbrace"), Atoms.set),
    "mathbb": Atoms.blackboard,
    "langle": Atoms.angles,
    "lfloor": lambda self: self.rounding("floor"),
    "lceil": lambda self: self.rounding("ceil"),
    "lvert": lambda self: self._bars("rvert"),
    "sum": lambda self: self.big("sum"),
    "prod": lambda self: self.big("prod"),
    **dict.fromkeys(("ldots", "cdots", "dots", "dotsc", "dotsb"), lambda _: Node("dots")),
    "$": lambda self: self._currency("$"),
    "£": lambda self: self._currency("£"),
    "pounds": lambda self: self._currency("£"),
    "euro": lambda self: self._currency("€"),
    "infty": lambda _: Node("inf"),
    "emptyset": lambda _: Node("empty"),
    "varnothing": lambda _: Node("empty"),
    "imath": lambda _: sym("i"),
}  # fmt: skip
