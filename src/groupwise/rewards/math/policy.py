"""What counts as the same answer where mathematics leaves a choice. Each choice is a setting, and verdicts name it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Percent = Literal["either", "value", "bare", "strict"]
Units = Literal["convert", "same", "ignore"]
Base = Literal["optional", "required"]


@dataclass(frozen=True, slots=True)
class Policy:
    """The defaults are those that a reader of answers to school and competition problems would take."""

    percent: Percent = "either"
    """28% equals 0.28 (`value`), 28 (`bare`), each of them (`either`), or only a percentage (`strict`)."""
    digits: int = 15
    """A rounded decimal equals an exact number, such as 1/3 or pi, from so many significant digits on."""
    units: Units = "convert"
    """A unit may be missing on one side. Two units: 5 m equals 500 cm (`convert`), units must be the same (`same`), or
    aren't looked at (`ignore`)."""
    base: Base = "optional"
    """204_5 equals 204 (`optional`), or only a number written in the same base (`required`)."""
    ordered_lists: bool = False
    """Whether a list without brackets has an order. Tuples always do, sets never."""
    subset: bool = False
    """Whether some members of the gold's list or set, and nothing else, are right as well."""
    forms: bool = True
    """Whether what says the same in another form is equal: x > 1 and (1, oo), 7:32 and 7/32, 2:3 and 4:6, 90 degrees
    and pi/2, (1, 2) and 1, 2, a determinant and its value, a column vector and a tuple."""
    decimal_comma: bool = True
    """Whether 1000,99 equals 1000.99."""
    case: bool = False
    """Whether texts and the letters of choices must agree in upper and lower case. Variables always must."""
