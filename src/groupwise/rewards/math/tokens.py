"""Text to tokens: LaTeX, plain notation such as `2*sqrt(3)`, and the characters of Unicode that mean the same.

Markup that changes nothing (`\\left`, `\\displaystyle`, spaces, dollars around mathematics) is dropped. What a text
macro holds becomes words. Nothing else is ever dropped: an unknown character or command is `Unreadable`.
"""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple

from groupwise.rewards.math.tree import Unreadable

LONGEST = 50_000
"""Characters of an answer that is read at all."""
MOST_TOKENS = 20_000
"""Of an answer, after brackets that stand doubled were taken away."""


class Token(NamedTuple):
    """`kind` is number, command, letters (in mathematics), word (in a text macro), mark or end."""

    kind: str
    text: str
    spaced: bool = False
    """Whether a space stands before it."""


_CHARACTERS = {
    "−": "-", "–": "-", "—": "-", "‐": "-", "‑": "-", "﹣": "-", "－": "-", "×": r"\times ", "÷": r"\div ", "·": r"\cdot ", "⋅": r"\cdot ",
    "∙": r"\cdot ", "∗": "*", "∕": "/", "⁄": "/", "√": r"\sqrt ", "∛": r"\sqrt[3] ", "π": r"\pi ", "∞": r"\infty ", "≤": r"\le ", "⩽": r"\le ", "≥": r"\ge ",
    "⩾": r"\ge ", "≠": r"\ne ", "≈": r"\approx ", "±": r"\pm ", "∓": r"\mp ", "°": r"^\circ ", "º": r"^\circ ", "∪": r"\cup ", "∩": r"\cap ", "∈": r"\in ",
    "∅": r"\emptyset ", "ø": r"\emptyset ", "ℝ": r"\mathbb{R}", "ℤ": r"\mathbb{Z}", "…": r"\ldots ", "⋯": r"\ldots ", "′": "'", "’": "'", "‘": "'", "“": '"', "”": '"',
    "″": "''", "⟨": r"\langle ", "⟩": r"\rangle ", "，": ", ", "。": ".", "：": ":", "（": "(", "）": ")", "；": ";", "％": "%", "＝": "=", "＋": "+", "θ": r"\theta ",
    "α": r"\alpha ", "β": r"\beta ", "γ": r"\gamma ", "λ": r"\lambda ", "μ": r"\mu ", "φ": r"\phi ", "ω": r"\omega ", "Δ": r"\Delta ", "∠": r"\angle ",
    "△": r"\triangle ", "℃": r"^\circ C", "℉": r"^\circ F", "≡": r"\equiv ", "⊥": r"\perp ", "∥": r"\parallel ", "⌊": r"\lfloor ", "⌋": r"\rfloor ", "⌈": r"\lceil ",
    "⌉": r"\rceil ", "、": ", ", "→": r"\to ", "∶": ":", "ː": ":", "∖": r"\setminus ",
}  # fmt: skip
_RAISED, _LOWERED = "⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺ⁿ", "₀₁₂₃₄₅₆₇₈₉"
_RUN_RAISED = re.compile(f"[{_RAISED}]+")
_RUN_LOWERED = re.compile(f"[{_LOWERED}]+")
_SAME_FOR_ALL = re.compile(
    r"\\!\s*|\\(?:left|right)\s*\.|\\(?:left|right|middle|[bB]igg?[lrm]?|displaystyle|textstyle|scriptstyle|limits|nolimits|"
    r"mathstrut|strut|normalsize|large|Large|bf|rm|it|mathsurround|noindent|centering|hfill|smallskip)(?![A-Za-z])|"
    r"\\(?:[hvm]space|mskip|hskip|kern)\*?\s*\{[^{}]*\}|\\[hv]?phantom\s*(?:\{[^{}]*\}|[^{}\\])|\\(?:label|tag|color)\s*\{[^{}]*\}|\\(?:ensuremath|boxed|fbox|underline|mathop|mathord|mathbin|mathrel)(?=\s*\{)"
)
_NUMBER = (
    r"(?:(?:\d{1,3}(?:(?:,|\\,)\d{3})+|\d{1,2}(?:,\d{2})+,\d{3})(?![\d]|,\d)"  # thousands, or hundreds of thousands of lakhs
    r"|\d{1,3}(?:[ ]\d{3})+(?![\d/,]|\.\d)|\d+)(?:\.(?:\d+|(?!\d)(?=\\overline|\\dot|\\bar)))?|\.\d+|\.(?=\\overline|\\bar|\\dot)"
)
_PLAIN_NUMBER = r"\d+(?:\.(?:\d+|(?=\\overline|\\dot|\\bar)))?|\.\d+"
_REST = r"""
    (?P<space>(?:\s|~|\\[,;:>/\s]|\\(?:qquad|quad|thinspace|enspace|space|newline)(?![A-Za-z]))+)
  | (?P<number>(?:{number})(?:[eE][-+]?\d{{1,5}}(?![\dA-Za-z]))?)
  | (?P<text>\\(?:text|mbox|hbox|textbf|textit|textrm|textnormal|textsf|texttt|textup|emph|mathrm|mathbf|mathit|mathsf|mathtt|mathcal|bold|boldsymbol|bm|operatorname\*?)(?![A-Za-z])\s*(?=\{{|[A-Za-z0-9]))
  | (?P<environment>\\(?:begin|end)\s*\{{\s*[a-zA-Z]+\*?\s*\}})
  | (?P<command>\\[A-Za-z]+|\\\\|\\.)
  | (?P<letters>[^\W\d_]+)
  | (?P<mark>\*\*|<=|>=|!=|==|[-+*/^_=<>(){{}}\[\]|,;:.!'"%$&€£¥₹?])
"""
_WITH = re.compile(_REST.format(number=_NUMBER), re.VERBOSE | re.ASCII)
_WITHOUT = re.compile(_REST.format(number=_PLAIN_NUMBER), re.VERBOSE | re.ASCII)
AMBIGUOUS = re.compile(r"\d,\d{3}(?!\d)")
"""A comma that may part thousands or members."""


def tidy(text: str) -> str:
    """The text with one spelling for each thing that has several."""
    out = []
    for char in text:
        if char in _CHARACTERS:
            out.append(_CHARACTERS[char])
        elif char.isascii() or char in _RAISED or char in _LOWERED:
            out.append(char)
        elif unicodedata.category(char) == "Nd":
            out.append(str(unicodedata.decimal(char)))
        elif unicodedata.category(char) == "No" and unicodedata.decomposition(char).startswith("<fraction>"):
            top, _, bottom = unicodedata.normalize("NFKC", char).partition("⁄")
            out.append(f"\\frac{{{top}}}{{{bottom}}}")
        elif unicodedata.category(char) in ("No", "So"):  # circled digits and the like are labels
            out.append(char)
        elif unicodedata.category(char) == "Zs":
            out.append(" ")
        elif unicodedata.category(char) != "Cf":  # marks of direction and the like have no width
            out.append(unicodedata.normalize("NFKC", char))
    plain = _RUN_RAISED.sub(
        lambda run: "^{" + unicodedata.normalize("NFKC", run.group()).replace("−", "-") + "}", "".join(out)
    )
    plain = _RUN_LOWERED.sub(lambda run: "_{" + unicodedata.normalize("NFKC", run.group()) + "}", plain)
    if "\\begin" not in plain or "\\\\begin" in plain:
        plain = re.sub(r"(?<!\\)\\\\(?=[A-Za-z]{3})", lambda _: "\\", plain)  # a doubled backslash before a command
    plain = re.sub(r"(?<=\d)\s*[xX]\s*(?=10\s*\^)", r"\\times ", plain)
    plain = plain.replace("{,}", ",").replace("\\!", "\\! ")
    return _SAME_FOR_ALL.sub("", plain).strip()


def tokenize(text: str, *, thousands: bool = True) -> list[Token]:
    """The tokens of a tidied text; without `thousands` a comma always parts members. Raises `Unreadable`."""
    if len(text) > LONGEST:
        raise Unreadable(f"an answer of {len(text)} characters")
    tokens = _single_brackets(_scan(text, _WITH if thousands else _WITHOUT))
    if not thousands and any(token.kind == "number" and re.match(r"0\d", token.text) for token in tokens):
        raise Unreadable("a member that starts with 0")
    if len(tokens) > MOST_TOKENS:
        raise Unreadable(f"an answer of {len(tokens)} symbols")
    return tokens


def _scan(text: str, pattern: re.Pattern[str]) -> list[Token]:
    tokens: list[Token] = []
    braces: list[bool] = []  # for each open one: whether it belongs to a text macro
    at, spaced, in_text, end = 0, False, 0, len(text)
    while at < end:
        match = pattern.match(text, at)
        if match is None:
            raise Unreadable(f"the character {text[at]!r}")
        kind, found, at = str(match.lastgroup), match.group(), match.end()
        if kind == "space":
            spaced = True
            continue
        if kind == "text" and text[at] == "{":
            braces.append(True)
            in_text, at = in_text + 1, at + 1
            continue
        if kind == "text":
            found, at, kind = text[at], at + 1, "number" if text[at].isdigit() else "word"
        elif found in ("{", "}") and kind == "mark":
            opens = found == "{"
            if opens:
                braces.append(False)
            elif braces and braces.pop():
                in_text -= 1
                continue
        elif kind == "mark" and found == "$" and not in_text and (tokens or text.count("$") % 2 == 0):
            continue  # one alone is a currency, a pair is markup
        elif kind == "letters" and in_text:
            kind = "word"
        elif kind == "command":
            found = found[1:]
        tokens.append(Token(kind, found, spaced))
        spaced = False
    return tokens


_PAIRS = {"(": ")", "[": "]", "{": "}"}


def _single_brackets(tokens: list[Token]) -> list[Token]:
    """Without the brackets that do no more than stand right around other ones of their kind: ((x)) is (x)."""
    partner: dict[int, int] = {}
    open_ones: list[int] = []
    for place, token in enumerate(tokens):
        if token.kind != "mark":
            continue
        if token.text in _PAIRS:
            open_ones.append(place)
        elif open_ones and token.text == _PAIRS[tokens[open_ones[-1]].text]:
            partner[open_ones.pop()] = place
    spare: set[int] = set()
    for start, end in partner.items():
        inside = tokens[start + 1]
        if inside.kind == "mark" and inside.text == tokens[start].text != "[" and partner.get(start + 1) == end - 1:
            spare |= {start + 1, end - 1}
    return [token for place, token in enumerate(tokens) if place not in spare]
