"""What can stand as a factor: brackets, and the commands of LaTeX with what they are applied to."""

from __future__ import annotations

from collections.abc import Callable

from groupwise.rewards.math.cursor import BETWEEN, DECORATIONS, FUNCTIONS, GREEK, SHAPES
from groupwise.rewards.math.parsing_words import SPELT, Words
from groupwise.rewards.math.tokens import Token
from groupwise.rewards.math.tree import Node, Unreadable, call, mul, names, neg, num, over, power, sym
from groupwise.rewards.math.units import known

_MATRICES = names("pmatrix bmatrix matrix array vmatrix Vmatrix Bmatrix smallmatrix psmallmatrix tabular")
_WITH_INVERSE = frozenset(("sin", "cos", "tan", "cot", "sec", "csc"))


class Atoms(Words):
    """See the module's docstring."""

    def starts_atom(self) -> bool:
        """Whether a factor may begin here."""
        kind, text, _ = self.next
        if kind in ("word", "letters"):
            return text.lower() not in BETWEEN
        if kind == "mark":
            return text in "([{$€£¥₹¢" and not self.at_turned_bracket() or text == "|" and not self.in_bars
        if kind == "command":
            return text in FUNCTIONS | GREEK | SHAPES | DECORATIONS or text in _COMMANDS
        return kind == "number" or kind == "environment" and text.startswith("\\begin")

    def atom(self) -> Node:
        """One factor without what is raised behind it. Raises `Unreadable`."""
        token = self.advance()
        kind, text, _ = token
        if kind == "number":
            return self.number(text)
        if kind in ("word", "letters"):
            is_unit_here = known(text) is not None and (kind == "word" or self.at_close())  # min, sec
            return self._function(text) if text in FUNCTIONS and not is_unit_here else self.letters(token)
        if kind == "environment" and text.startswith("\\begin"):
            return self._environment(text)
        if kind == "mark":
            return self._mark(text)
        if kind == "command":
            return self._command(text)
        raise Unreadable("an answer that breaks off" if kind == "end" else repr(text))

    def _mark(self, text: str) -> Node:
        if text in ("(", "[", "]"):  # ]0, 1[ is an open interval
            return self._bracket("(" if text == "]" else text)
        if text == "{":
            return self._group()
        if text == "|":
            return self._bars("|")
        if text in "$€£¥₹¢":
            return self.currency(text)
        raise Unreadable(repr(text))

    def _group(self) -> Node:
        if self.next.text == "}":
            self.advance()
            return num(1)
        members, joiner = self.members()
        self.expect("}")
        return members[0] if len(members) == 1 else Node("set", tuple(members), joiner)

    def _bracket(self, opening: str) -> Node:
        was, self.in_bars = self.in_bars, 0
        members, _ = self.members()
        self.in_bars = was
        closing = {")": ")", "]": "]", "[": ")"}.get(self.next.text)
        if closing is None:
            raise Unreadable(f"no closing bracket for {opening!r}")
        self.advance()
        if len(members) == 1 and opening + closing in ("()", "[]"):
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
        if text in SPELT:
            return SPELT[text]
        if text in GREEK:
            return sym(text)
        if text in SHAPES:
            names = []
            while self.next.kind in ("letters", "word"):
                names.append(self.advance().text)
            return sym(text + " " + "".join(names))
        if text in DECORATIONS:
            inside = self.argument_tokens()
            if all(token.kind == "number" for token in inside):
                raise Unreadable(f"\\{text} over a number")
            return sym(f"{text} " + "".join(token.text for token in inside))
        if text not in _COMMANDS:
            raise Unreadable(f"\\{text}")
        return _COMMANDS[text](self)

    def argument(self) -> Node:
        """A group, or one symbol or digit."""
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

    def fraction(self) -> Node:
        r"""\frac: its two arguments; of whole numbers, it may belong to a mixed number."""
        start = self.place
        top, bottom = self.argument(), self.argument()
        whole = all(token.kind == "number" or token.text in "{}" for token in self.tokens[start : self.place])
        node = over(top, bottom)
        if top.number is not None and bottom.number and top.head == bottom.head == "num" and whole:
            self.plain_fraction = top.number / bottom.number
        return node

    def root(self) -> Node:
        r"""\sqrt: with a degree, or of a number that stands bare."""
        degree = None
        if self.next.text == "[":
            self.advance()
            degree = self.ratio()
            self.expect("]")
        token = self.next
        inside = self.atom() if token.kind == "number" else self.argument()
        return call("sqrt", inside) if degree is None else call("root", inside, degree)

    def set(self) -> Node:
        """A set: its members, or a variable and its condition."""
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
        r"""\binom."""
        return call("binom", self.argument(), self.argument())

    def blackboard(self) -> Node:
        """The real numbers, those above or below zero, or another set by its name."""
        name = "".join(token.text for token in self.argument_tokens())
        if name != "R" or self.next.text != "^":
            return Node("reals") if name == "R" else sym(f"mathbb {name}")
        self.advance()
        part = "".join(token.text for token in self.argument_tokens())
        if part not in ("+", "-"):
            return sym(f"mathbb {name}^{part}")
        inf, zero = Node("inf"), num(0, "0")
        return Node("bracket", (zero, inf) if part == "+" else (neg(inf), zero), "()")

    def big(self, name: str) -> Node:
        """A sum or a product: its limits, and what it runs over."""
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
        """A floor or a ceiling."""
        node = self.ratio()
        self.expect("r" + name)
        return call(name, node)

    def angles(self) -> Node:
        """A tuple in angle brackets."""
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
        if name == "array" and len(rows) == len(rows[0]) == 1:
            return rows[0][0]
        if name not in _MATRICES:
            return Node("list", tuple(entry for row in rows for entry in row), "and")
        return Node("det" if name == "vmatrix" else "matrix", tuple(Node("row", tuple(row)) for row in rows))


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
    "$": lambda self: self.currency("$"),
    "£": lambda self: self.currency("£"),
    "pounds": lambda self: self.currency("£"),
    "euro": lambda self: self.currency("€"),
    **dict.fromkeys(("emptyset", "varnothing"), lambda _: Node("empty")),
    "imath": lambda _: sym("i"),
}  # fmt: skip
