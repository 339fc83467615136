"""Units and other nouns behind a number: which are known, what they measure, and how they convert."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

_MULTIPLIERS: dict[str, Fraction | int] = {
    **{"dozen": 12, "hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9, "trillion": 10**12},
    **{"lakh": 10**5, "crore": 10**7},
    **{f"{word}th": Fraction(1, size) for word, size in (("ten", 10), ("hundred", 100), ("thousand", 1000))},
}

_TABLE = """
length  1        m meter metre
length  1/100    cm centimeter centimetre
length  1/1000   mm millimeter millimetre
length  1000     km kilometer kilometre
length  254/10000 in inch inche
length  3048/10000 ft foot feet
length  9144/10000 yd yard
length  1609344/1000 mi mile
time    1        s sec second
time    60       min minute
time    3600     h hr hour
time    86400    day
time    604800   week
mass    1        g gram
mass    1000     kg kilogram
mass    1/1000   mg milligram
mass    45359237/100000 lb pound
mass    45359237/1600000 oz ounce
volume  1        L l liter litre
volume  1/1000   mL ml milliliter millilitre
volume  3785411784/1000000000 gal gallon
volume  946352946/1000000000 qt quart
volume  473176473/1000000000 pt pint
volume  2365882365/10000000000 cup
money   1        $ dollar usd buck
money   1/100    ¢ cent penny pennie
euro    1        € eur euro
sterling 1       £ gbp
yen     1        ¥ yen
yuan    1        yuan rmb
rupee   1        ₹ rupee rs
angle   1        degree deg
angle   1/60     arcmin
angle   1/3600   arcsec
radian  1        radian rad
share   1        % percent pct
celsius 1        degC celsius
fahrenheit 1     degF fahrenheit
kelvin  1        degK kelvin K
years   1        year yr
years   1/12     month
joule   1        J joule
watt    1        W watt
newton  1        N newton
hertz   1        Hz hertz
volt    1        V volt
any     1        unit
"""


@dataclass(frozen=True, slots=True)
class Unit:
    """What a unit measures, and its size in the table's unit for that."""

    kind: str
    size: Fraction


_UNITS = {
    name: Unit(kind, Fraction(size))
    for kind, size, *names in (line.split() for line in _TABLE.strip().splitlines())
    for name in names
}
KINDS = {unit.kind for unit in _UNITS.values()}
"""What is measured, unlike what is counted."""
COMPOUND = {"mph": ("mile", "hour"), "kph": ("km", "hour"), "kmh": ("km", "hour"), "kmph": ("km", "hour")}
"""Names of one unit by another."""
CURRENCIES = {"money", "euro", "sterling", "yen", "yuan", "rupee"}
"""The kinds that may stand before the number too."""


def known(name: str) -> Unit | None:
    """The unit of that name: as it stands, in lower case, or without the plural's s."""
    for form in (name, name.lower(), name.removesuffix("s"), name.lower().removesuffix("s")):
        if form in _UNITS:
            return _UNITS[form]
    return None


def multiplier(word: str) -> Fraction | None:
    """What a word multiplies the number before it by: 3 dozen, 17 hundredths."""
    size = _MULTIPLIERS.get(singular(word.lower()))
    return None if size is None else Fraction(size)


def is_unit(name: str) -> bool:
    """Whether letters that stand bare in mathematics are a unit rather than a product of variables."""
    return len(name) > 1 and (known(name) is not None or name in COMPOUND or multiplier(name) is not None)


def unit_of(name: str) -> Unit:
    """Any noun measures itself: apples are no pears."""
    found = known(name)
    if found is not None:
        return found
    words = [word for word in re.findall(r"\w+", name.lower()) if word not in ("the", "a", "an", "of")]
    return Unit(" ".join(singular(word) for word in words), Fraction(1))


def singular(word: str) -> str:
    """A word without its plural ending, roughly: both sides are cut alike."""
    for ending, instead in (
        ("people", "person"),
        ("ies", "y"),
        ("ches", "ch"),
        ("shes", "sh"),
        ("xes", "x"),
        ("ss", "ss"),
        ("s", ""),
    ):
        if word.endswith(ending) and len(word) > len(ending) + 1 or word == ending == "people":
            return word[: len(word) - len(ending)] + instead
    return word
