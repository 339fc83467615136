"""What counts as the same answer where mathematics leaves a choice. Each choice is a setting, and verdicts name it.

A choice has decided where another one in its place would have given the other verdict. What is accepted under `STRICT`
too, or refused under each of `LENIENT` too, was decided by mathematics alone.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from groupwise.settings import Settings


class Policy(Settings):
    """The defaults are those that a reader of answers to school and competition problems would take."""

    percent: Literal["either", "value", "bare", "strict"] = "either"
    """28% equals 0.28 (`value`), 28 (`bare`), each of them (`either`), or only a percentage (`strict`)."""
    digits: int = Field(default=15, ge=2)
    """From so many significant digits on, a rounded decimal equals an exact number such as 1/3 or pi."""
    units: Literal["convert", "same", "ignore"] = "convert"
    """A unit may be missing on one side. Of two units, 5 m equals 500 cm (`convert`), both must be the same (`same`),
    or neither is looked at (`ignore`)."""
    base: Literal["optional", "required"] = "optional"
    """A gold 204_5 is met by 204 (`optional`), or only by a number written in base 5 (`required`)."""
    ordered_lists: bool = False
    """Whether a list without brackets has an order. Tuples always do, sets never."""
    subset: bool = False
    """Whether some members of the gold's list or set, and nothing else, are right as well."""
    forms: bool = True
    """Whether what says the same in another form is equal: x > 1 and (1, oo), 7:32 and 7/32, 2:3 and 4:6, 90 degrees
    and pi/2, (1, 2) and 1, 2, a column vector and a tuple, the identity matrix and I."""
    decimal_comma: bool = True
    """Whether an answer 1000,99 equals a gold 1000.99."""
    case: bool = False
    """Whether texts and the letters of choices must agree in upper and lower case. Variables always must."""


STRICT = (
    Policy(
        percent="strict",
        digits=1_000_000,
        units="same",
        base="required",
        ordered_lists=True,
        forms=False,
        decimal_comma=False,
        case=True,
    ),
)
"""Refuses all that a policy can refuse."""
LENIENT = (Policy(digits=2, subset=True), Policy(digits=2, subset=True, units="ignore"))
"""Together they accept all that a policy can accept."""
