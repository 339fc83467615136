"""The parts of the code sandbox that run no program: output, completions, tests' source, values on the wire."""

from __future__ import annotations

import math
import struct
import subprocess
import sys
import tempfile
from collections import Counter, OrderedDict, defaultdict, deque
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from groupwise.rewards.code.compare import difference
from groupwise.rewards.code.extract import as_block, last_block
from groupwise.rewards.code.inside.values import Reader, WireError, Writer
from groupwise.rewards.code.inside.wire import Wire
from groupwise.rewards.code.prepare import prepare
from groupwise.rewards.code.seccomp import filter_program


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        ("1 2\n", "1  2"),
        ("0.3333333", "0.33333333333"),
        ("1e-12", "0.0"),
        ("2.0", "2"),
        ("-0.0", "0"),
        ("x\r\ny", "x\ny\n"),
        ("9" * 5000, "9" * 5000),
    ],
)
def test_outputs_that_agree(printed: str, expected: str) -> None:
    assert difference(printed, expected) == difference(expected, printed) == ""


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        ("1", "2"),
        ("1 2", "1"),
        ("", "1"),
        ("0.3334", "0.3333"),
        ("nan", "1.0"),
        ("inf", "1e400"),
        ("10000000000000000000001", "10000000000000000000000"),
        ("1_0", "10"),
        ("１", "1"),
        ("9" * 5000, "9" * 4999 + "8"),
        ("1e999", "2e999"),
    ],
)
def test_outputs_that_differ(printed: str, expected: str) -> None:
    assert difference(printed, expected) and difference(expected, printed)


@pytest.mark.parametrize(
    ("text", "program"),
    [
        ("```python\na\n```", "a\n"),
        ("So:\n  ```py\na\n  ```\nthen\n```Python3\nb\n```\nDone.", "b\n"),
        ("```python\na\n```\n```\noutput\n```\n```bash\nls\n```", "a\n"),
        ("```\na\n```", "a\n"),
        ("````python\n```\na\n````", "```\na\n"),
        ("```python title\na\n```", "a\n"),
    ],
)
def test_the_program_is_the_last_complete_block(text: str, program: str) -> None:
    assert last_block(text)[0] == program


@pytest.mark.parametrize("text", ["", "a = 1", "```python\na", "```python\na\n```\n```python\nb", "```bash\nls\n```"])
def test_no_program(text: str) -> None:
    assert last_block(text)[0] is None


@given(st.text(st.characters(codec="utf-8", exclude_characters="\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029")))
def test_as_block_is_read_back(program: str) -> None:
    assert last_block(as_block(program))[0] == program + "\n"


@pytest.mark.parametrize(
    ("source", "checks"),
    [
        ("assert f(1)", 1),
        ("assert f(1)\nassert f(2)", 2),
        ("def check(c):\n    assert c(1)\n    if c(2): raise ValueError\ncheck(f)", 2),
        ("try:\n    f()\n    assert False\nexcept ValueError: pass", 2),
        ("for i in range(3): assert f(i)", 1),
        ("self.assertEqual(f(1), 2)", 1),
        ("x = f(1)\nprint(x)", 0),
        ("def g(): return 1", 0),
        ("def check(c): assert c(1)", 0),
        ("def test_it(): assert f(1)", 1),
        ("class TestIt:\n    def test(self): assert f(1)", 1),
    ],
)
def test_checks_are_counted(source: str, checks: int) -> None:
    assert prepare(source).checks == checks


def test_names_that_can_come_from_the_program() -> None:
    assert prepare("assert len(evens([1])) == 1").task["names"] == ["evens"]
    assert prepare("assert sum(1, 2) == 3").task["names"] == ["sum"]
    assert prepare("assert math.isclose(f(1), 1)").task["names"] == ["f"]
    assert prepare("def check(c):\n    assert c(1) == max(1, 2)", "max").task["names"] == ["c", "check", "max"]


class Plain(Wire):
    """A wire of which only values are used."""

    def __init__(self) -> None:
        """Without pipes, and with nothing of its own that the other side knows."""
        self.mine = []

    def write_object(self, writer: Writer, value: Any) -> None:
        raise TypeError(type(value).__name__)


def there_and_back(value: Any) -> Any:
    writer = Writer(Plain(), ())
    writer.value(value)
    return Reader(Plain(), memoryview(bytes(writer.body)), ()).value()


SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary()
HASHABLE = st.recursive(SCALARS, lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3), max_leaves=5)
VALUES = st.recursive(
    SCALARS
    | st.decimals(allow_nan=False)
    | st.fractions()
    | st.dates()
    | st.timedeltas()
    | st.complex_numbers(allow_nan=False),
    lambda inner: st.lists(inner) | st.dictionaries(HASHABLE, inner) | st.sets(HASHABLE) | st.tuples(inner),
    max_leaves=20,
)


def types(value: Any) -> Any:
    """The shape of a value in types."""
    if isinstance(value, dict):
        return type(value), [(types(k), types(v)) for k, v in value.items()]
    if isinstance(value, list | tuple):
        return type(value), [types(item) for item in value]
    return type(value)


@given(VALUES)
def test_values_cross_exactly(value: Any) -> None:
    back = there_and_back(value)
    assert back == value and types(back) == types(value)


@pytest.mark.parametrize(
    "value",
    [
        Counter("aab"),
        OrderedDict(b=1, a=2),
        defaultdict(list, {1: [2]}),
        deque([1, 2], maxlen=3),
        Decimal("1.10"),
        Fraction(1, 3),
        range(1, 9, 2),
        slice(1, None),
        bytearray(b"x"),
        [2**63 - 1] * 9,
        [2**63] * 9,
        [0.5] * 9,
        {1: 2}.keys(),
        int,
        "\ud800",
    ],
)
def test_standard_types_cross_exactly(value: Any) -> None:
    back = there_and_back(value)
    assert back == value and type(back) is type(value)
    if isinstance(value, OrderedDict):
        assert list(back.items()) == list(value.items())
    if isinstance(value, defaultdict):
        assert back.default_factory is value.default_factory


def test_shared_and_cyclic_containers_stay_so() -> None:
    inner: list[Any] = [1]
    cyclic: list[Any] = [inner, inner]
    cyclic.append(cyclic)
    back = there_and_back(cyclic)
    assert back[0] is back[1] and back[2] is back


def test_subclasses_of_numbers_and_texts_cross_as_what_they_hold() -> None:
    class N(int):
        def __eq__(self, other: object) -> bool:
            return True

        __hash__ = int.__hash__

    class S(str):
        __slots__ = ()

        def __str__(self) -> str:
            return "other"

    assert type(there_and_back(N(3))) is int and there_and_back([N(3)]) != [4]
    assert type(there_and_back(S("x"))) is str and there_and_back(S("x")) == "x"
    assert math.isnan(there_and_back(float("nan")))


@example(b"H" + bytes(8))
@given(st.binary(max_size=200))
def test_nonsense_on_the_wire_is_refused_or_plain(data: bytes) -> None:
    try:
        Reader(Plain(), memoryview(data), ()).value()
    except (WireError, ValueError, KeyError, TypeError, OverflowError, struct.error, NotImplementedError):
        pass
    except ArithmeticError:  # a Decimal or a Fraction of nonsense
        pass


@pytest.mark.parametrize(
    ("call", "works"),
    [("os.getpid()", True), ("socket.socketpair()", True), ("socket.socket()", False), ("os.mkfifo('x')", False)],
)
def test_the_filter_alone(call: str, works: bool) -> None:
    """Loaded by a process of its own, without a sandbox around it."""
    program = f"""
import ctypes, os, socket, sys
data = ctypes.create_string_buffer(bytes.fromhex("{filter_program().hex()}"))
class Filter(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("steps", ctypes.c_void_p)]
libc = ctypes.CDLL(None, use_errno=True)
given = Filter({len(filter_program()) // 8}, ctypes.addressof(data))
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, ctypes.byref(given)) == 0
try:
    {call}
except PermissionError:
    sys.exit(3)
"""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, check=False)
    assert done.returncode == (0 if works else 3), done.stderr
