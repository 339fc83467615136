"""Whether two values are the same: numbers with units and percent signs, ratios, times of the day, numerals."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from groupwise.rewards.math.bounds import TooLarge, Undefined
from groupwise.rewards.math.equality import equal
from groupwise.rewards.math.evaluating import Evaluator, exact, number_of
from groupwise.rewards.math.policy import Policy
from groupwise.rewards.math.quantities import Quantity, agree, letters_that_are_units, quantity
from groupwise.rewards.math.structure import same_structure
from groupwise.rewards.math.tree import Node, add, has, mul, neg, num, over, sym, variables, walk


class Values:
    """The half of `comparing.Comparison` that compares single values."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy

    def same(self, gold: Node, answer: Node) -> bool:
        """Whether two trees of any kind are the same answer."""
        raise NotImplementedError

    def times(self, gold: Node, answer: Node) -> bool:
        """Two times of the day, or one and 4:30."""
        if gold.head == answer.head:
            if gold.name != answer.name and "" not in (gold.name, answer.name):
                return False
            return gold.number == answer.number
        time, other = (gold, answer) if gold.head == "time" else (answer, gold)
        if other.head != "ratio" or len(other.args) != 2 or time.number is None:
            return False
        parts = [exact(arg) for arg in other.args]
        return parts == [Fraction(time.number // 60), Fraction(time.number % 60)]

    def ratios(self, gold: Node, answer: Node) -> bool:
        """Two ratios, or one and its value."""
        if gold.head == answer.head:
            ours, theirs = gold.args, answer.args
            if len(ours) != len(theirs):
                return False
            if all(map(self.same, ours, theirs)):
                return True
            if _is_clock(gold) and _is_clock(answer) or any(exact(part) == 0 for part in (*ours, *theirs)):
                return False
            crossed = [(mul(a, theirs[0]), mul(ours[0], b)) for a, b in zip(ours, theirs, strict=True)]
            return self.policy.forms and all(equal(a, b) is True for a, b in crossed[1:])
        ratio, other = (gold, answer) if gold.head == "ratio" else (answer, gold)
        if len(ratio.args) != 2 or has(other, "unit", "list", "set", "bracket"):
            return False
        return self.policy.forms and equal(over(*ratio.args), other) is True

    def bases(self, gold: Node, answer: Node) -> bool:
        """Two numerals, of which one at least says its base."""
        if gold.head == answer.head:
            return gold.number == answer.number and gold.name.lstrip("0") == answer.name.lstrip("0")
        numeral, other = (gold, answer) if gold.head == "base" else (answer, gold)
        if numeral.number == 10:
            return self.quantities(gold, answer)
        if self.policy.base == "required" or other.head != "num" or gold.head != "base":
            return False
        return other.name.lstrip("0") == numeral.name.lstrip("0")

    def quantities(self, gold: Node, answer: Node) -> bool:
        """Two expressions with or without units."""
        ours = quantity(gold, letters_that_are_units(gold, answer))
        theirs = quantity(answer, letters_that_are_units(answer, gold))
        if self.policy.units != "ignore" and not agree(ours.kinds, theirs.kinds):
            return self._turned(ours, theirs)
        shares = ["share" in one.kinds for one in (ours, theirs)]
        if shares[0] != shares[1]:
            return self._percent(*((ours, theirs) if shares[0] else (theirs, ours)))
        sizes = ours.kinds and theirs.kinds and "any" not in ours.kinds | theirs.kinds
        if sizes and ours.size != theirs.size and self.policy.units != "ignore":
            if self.policy.units == "same" or not set(ours.kinds) & set(theirs.kinds):
                return False
            return self._equal(mul(ours.value, num(ours.size)), mul(theirs.value, num(theirs.size)))
        if bool(ours.kinds) != bool(theirs.kinds) and self._turned(ours, theirs):
            return True
        return self._equal(ours.value, theirs.value)

    def _turned(self, ours: Quantity, theirs: Quantity) -> bool:
        """90 degrees against pi/2."""
        if "angle" not in ours.kinds:
            ours, theirs = theirs, ours
        in_radians = "radian" in theirs.kinds or not theirs.kinds and _has_pi(theirs.value)
        if set(ours.kinds) != {"angle"} or set(theirs.kinds) - {"radian"} or not in_radians:
            return False
        radians = mul(ours.value, num(ours.size / 180), sym("pi"))
        return self.policy.forms and equal(radians, theirs.value) is True

    def _percent(self, share: Quantity, other: Quantity) -> bool:
        policy = self.policy.percent
        if other.kinds and self.policy.units != "ignore" or policy == "strict":
            return False
        if policy in ("either", "bare") and self._equal(share.value, other.value):
            return True
        value = mul(share.value, num(Fraction(1, 100)))
        return policy in ("either", "value") and self._equal(value, other.value)

    def _equal(self, left: Node, right: Node) -> bool:
        if has(left, "inf") or has(right, "inf"):
            return _infinity(left) is not None and _infinity(left) == _infinity(right)
        if self._same_values(left, right):
            return True
        in_tens = [_with_base_ten(side) for side in (left, right)]  # "log" may mean either
        return in_tens != [left, right] and self._same_values(*in_tens)

    def _same_values(self, left: Node, right: Node) -> bool:
        decided = equal(left, right)
        if decided is None:
            return not _undefined(left) and same_structure(left, right)
        return decided or self._rounded(left, right) or self._rounded(right, left)

    def _rounded(self, decimal: Node, other: Node) -> bool:
        """Whether `decimal` is written with enough digits, and is `other` in all of them."""
        negative = decimal.name.startswith("-")
        whole, point, decimals = decimal.name.lstrip("-").partition(".")
        if decimal.head != "num" or not point or not decimals.isdigit() or variables(other):
            return False
        if len((whole + decimals).lstrip("0")) < self.policy.digits:
            return False
        value = exact(other)
        if value is not None and (value * 10 ** len(decimals)).denominator == 1:
            return False  # it could have been written exactly
        apart = number_of(mul(add(decimal, neg(other)), num(10 ** len(decimals)), num(-1 if negative else 1)))
        return apart is not None and -1 < apart <= 0.5  # cut off, or rounded


def _is_clock(ratio: Node) -> bool:
    """Whether it could be a time of the day: 9:30."""
    if len(ratio.args) != 2:
        return False
    hour, minute = (arg.number for arg in ratio.args)
    if hour is None or minute is None:
        return False
    return bool(hour < 25 and minute < 60 and len(ratio.args[1].name) == 2)


def _with_base_ten(node: Node) -> Node:
    """Logarithms without a base to base ten."""
    args = tuple(_with_base_ten(arg) for arg in node.args)
    if node.head == "call" and node.name == "log" and len(args) == 1:
        args = (*args, num(10, "10"))
    return replace(node, args=args) if args != node.args else node


def _has_pi(node: Node) -> bool:
    return any(part.head == "sym" and part.name == "pi" for part in walk(node))


def _undefined(node: Node) -> bool:
    """Whether a constant has no value, rather than one too large: 0/0 isn't even itself."""
    try:
        Evaluator(200, {name: Fraction(7, 5) for name in variables(node)}).value(node)
    except Undefined:
        return not has(node, "dots", "unit")
    except TooLarge:
        return False
    return False


def _infinity(node: Node) -> int | None:
    """1 or -1 for plus or minus infinity."""
    if node.head == "inf":
        return 1
    if node.head == "mul" and node.args[-1].head == "inf":
        factor = number_of(mul(*node.args[:-1]))
        return None if not factor else 1 if factor > 0 else -1
    return None
