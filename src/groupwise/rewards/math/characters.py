"""One spelling for what has several: characters of Unicode, and the markup of LaTeX that changes nothing."""

from __future__ import annotations

import re
import unicodedata

TEXT_MACROS = (
    r"text|mbox|hbox|textbf|textit|textrm|textnormal|textsf|texttt|textup|emph|mathrm|mathbf|mathit|mathsf|mathtt|mathcal"
    r"|bold|boldsymbol|bm|operatorname\*?"
)
"""A pattern for the commands whose argument is text."""
_SAME = {
    "-": "−–—‐‑﹣－", "*": "∗", "/": "∕⁄", "'": "′’‘", "''": "″", '"': "“”", ".": "。", ":": "：∶ː", ", ": "，、",
    ";": "；", "(": "（", ")": "）", "%": "％", "=": "＝", "+": "＋",
    r"\times ": "×", r"\div ": "÷", r"\cdot ": "·⋅∙", r"\sqrt ": "√", r"\sqrt[3] ": "∛", r"\pi ": "π", r"\infty ": "∞",
    r"\le ": "≤⩽", r"\ge ": "≥⩾", r"\ne ": "≠", r"\approx ": "≈", r"\equiv ": "≡", r"\pm ": "±", r"\mp ": "∓",
    r"^\circ ": "°º", r"^\circ C": "℃", r"^\circ F": "℉", r"\cup ": "∪", r"\cap ": "∩", r"\in ": "∈",
    r"\setminus ": "∖", r"\emptyset ": "∅ø", r"\mathbb{R}": "ℝ", r"\mathbb{Z}": "ℤ", r"\ldots ": "…⋯",
    r"\langle ": "⟨", r"\rangle ": "⟩", r"\lfloor ": "⌊", r"\rfloor ": "⌋", r"\lceil ": "⌈", r"\rceil ": "⌉",
    r"\to ": "→", r"\perp ": "⊥", r"\parallel ": "∥", r"\angle ": "∠", r"\triangle ": "△", r"\alpha ": "α",
    r"\beta ": "β", r"\gamma ": "γ", r"\theta ": "θ", r"\lambda ": "λ", r"\mu ": "μ", r"\phi ": "φ", r"\omega ": "ω",
    r"\Delta ": "Δ",
}  # fmt: skip
"""Each spelling, and the characters that mean it."""
_CHARACTERS = {char: spelling for spelling, chars in _SAME.items() for char in chars}
_RAISED, _LOWERED = "⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺ⁿ", "₀₁₂₃₄₅₆₇₈₉"
_RUN_RAISED, _RUN_LOWERED = re.compile(f"[{_RAISED}]+"), re.compile(f"[{_LOWERED}]+")
_NOTHING = re.compile(
    r"""\\!\s* | \\(?:left|right)\s*\.
      | \\(?:left|right|middle|[bB]igg?[lrm]?|displaystyle|textstyle|scriptstyle|limits|nolimits|mathstrut|strut
            |normalsize|large|Large|bf|rm|it|noindent|centering|hfill|smallskip)(?![A-Za-z])
      | \\(?:[hvm]space|mskip|hskip|kern)\*?\s*(?:\{[^{}]*\}|-?[\d.]+\s*(?:em|ex|pt|mu|cm|mm|in))
      | \\[hv]?phantom\s*(?:\{[^{}]*\}|[^{}\\])
      | \\(?:label|tag|color|textcolor|colorbox)\s*\{[^{}]*\}
      | (?<![A-Za-z])(?:US|AU|CA|NZ|HK)(?=\s*\\?\$)
      | \\(?:ensuremath|boxed|fbox|underline|mathop|mathord|mathbin|mathrel)(?=\s*\{)""",
    re.VERBOSE,
)
_JOINED = re.compile(r"\{,\}|,\s*\\!\s*")
"""A comma with the space behind it taken away."""
_DOUBLED = re.compile(r"(?<!\\)\\\\(?=[A-Za-z]{3})")
_LETTER_TIMES = re.compile(r"(?<=\d)\s*[xX]\s*(?=10\s*\^)")


def tidy(text: str) -> str:
    """The text with one spelling for each thing that has several."""
    plain = "".join(map(_spelt, text))
    plain = _RUN_RAISED.sub(lambda run: "^{" + _normal(run.group()) + "}", plain)
    plain = _RUN_LOWERED.sub(lambda run: "_{" + _normal(run.group()) + "}", plain)
    if "\\begin" not in plain or "\\\\begin" in plain:
        plain = _DOUBLED.sub(lambda _: "\\", plain)  # a backslash that was escaped
    plain = _LETTER_TIMES.sub(lambda _: "\\times ", _JOINED.sub(",", plain))
    return _NOTHING.sub("", plain).strip()


def _spelt(char: str) -> str:
    if char.isascii() or char in _RAISED or char in _LOWERED:
        return char
    if char in _CHARACTERS:
        return _CHARACTERS[char]
    category = unicodedata.category(char)
    if category == "Nd":
        return str(unicodedata.decimal(char))
    if category == "No" and unicodedata.decomposition(char).startswith("<fraction>"):
        top, _, bottom = unicodedata.normalize("NFKC", char).partition("⁄")
        return f"\\frac{{{top}}}{{{bottom}}}"
    if category in ("No", "So"):  # circled digits and the like are labels
        return char
    if category == "Zs":
        return " "
    return "" if category == "Cf" else unicodedata.normalize("NFKC", char)  # marks of direction have no width


def _normal(run: str) -> str:
    return unicodedata.normalize("NFKC", run).replace("−", "-")
