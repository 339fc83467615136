"""Reading arithmetic without running it."""

from fractions import Fraction

import pytest

from groupwise.tasks.arithmetic import evaluate, integers, is_polynomial_like


@pytest.mark.parametrize(
    "text, value",
    [("3 + 4 * 2", 11), ("(3+4)*2", 14), ("-3 - -4", 1), ("1/3 + 1/6", Fraction(1, 2)), (" 7 ", 7)],
)
def test_values(text, value):
    assert evaluate(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "", "x", "2 ** 3", "9**9**9", "1 / 0", "1 = 1", "3.5 + 1", "True + 1", "(1", "1 +" * 90, "9" * 150,
        '__import__("os").system("true")', "[1][0]", "abs(1)", "1_000_000_000_000_000", "lambda: 1", "1 // 2",
    ],
)  # fmt: skip
def test_everything_else_has_no_value(text):
    assert evaluate(text) is None


def test_integers():
    assert integers("(10 - 3) * 10 / x") == [3, 10, 10]


@pytest.mark.parametrize("text", ["x**2/2 + C", "3*x**(-1)", "sin(x)*exp(x)", "x**(1/2)", "2*x**10 - 4.5*x + 3"])
def test_symbolic_answers_are_read(text):
    assert is_polynomial_like(text)


@pytest.mark.parametrize(
    "text",
    [
        "", "9**9**9", "x**(2)**9", "x**999", "x**(9**9)", "x.y", "__import__('os')",
        "open(x)", "x[0]", "x**2;x", "lambda x: x", "x**(1e9)", "factorial(99)", "x" * 201, "'a'", "x\n=y",
    ],
)  # fmt: skip
def test_code_and_towers_of_powers_are_not(text):
    assert not is_polynomial_like(text)
