"""The bounds of what is computed, and what is raised past them."""

EXACT_BITS = 200_000
"""The largest fraction that is computed exactly."""
LARGEST_LOG = 2**50
"""Of a number that is computed at all: the absolute value of its binary logarithm."""
LARGEST_ANGLE = 4000
"""The binary logarithm of an argument of a trigonometric function."""
MOST_BITS = 12_000
"""Of precision."""
MOST_TERMS = 2_000
"""Of a sum or product that is written out."""
MOST_WORK = 50_000
"""Nodes that one evaluation may visit, terms of sums included."""


class TooLarge(Exception):
    """It would take too long, or too much memory."""


class Undefined(Exception):
    """It has no value: a division by zero, a logarithm of zero, an unknown function."""
