"""`code.run`: tests, pairs of input and output, limits, and the faults that other systems have had."""

from __future__ import annotations

import os
import resource
import shutil
import socket
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from groupwise.errors import RewardError
from groupwise.rewards import code
from groupwise.rewards.code import setup, watch

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")

ADD = "def add(a, b):\n    return a + b\n"
SUBTRACT = "def add(a, b):\n    return a - b\n"
TESTS = "assert add(1, 2) == 3\nassert add(-1, 1) == 0\n"


def verdict(program: str, tests: str = TESTS, **limits: float) -> str:
    given = code.Limits(**limits)  # type: ignore[arg-type]
    return code.run(textwrap.dedent(program), textwrap.dedent(tests), limits=given).verdict


def printed(program: str, stdin: str, stdout: str) -> code.Result:
    return code.run(textwrap.dedent(program), io_tests=[code.IOTest(stdin, stdout)])


def test_a_result_says_what_held_and_what_did_not() -> None:
    right, wrong = code.run(ADD, TESTS), code.run("def add(a, b): return 3", TESTS)
    assert (right.verdict, right.passed, right.total, right.reason) == ("pass", 2, 2, "")
    assert (wrong.verdict, wrong.passed, wrong.total) == ("fail", 1, 2)
    assert wrong.reason == "line 2 of the tests, 'assert add(-1, 1) == 0'"
    assert 0 < right.cpu_seconds < 2


def test_both_kinds_of_tests_must_pass() -> None:
    program = ADD + "if __name__ == '__main__': print('hello')\n"
    assert code.run(program, TESTS, [code.IOTest("", "hello")]).passed == 3
    assert code.run(program, TESTS, [code.IOTest("", "bye")]).verdict == "fail"
    assert code.run(SUBTRACT, TESTS, [code.IOTest("", "")]).verdict == "fail"


def test_many_slow_pairs_meet_a_limit_together() -> None:
    program, pairs = "import time\ntime.sleep(0.5)\nprint(4)", [code.IOTest("", "4")] * 50
    result = code.run(program, io_tests=pairs, limits=code.Limits(total_seconds=1.0))
    assert (result.verdict, result.total) == ("timeout", 50) and 2 <= result.passed <= 5
    assert 1.0 < result.asleep_seconds + result.cpu_seconds < 3.0


HONEST = {
    "recursive data": (
        "class Node:\n    def __init__(self, v): self.v, self.next = v, None\n"
        "def last(n):\n    while n.next: n = n.next\n    return n.v",
        "a = Node(1)\na.next = Node(2)\nassert last(a) == 2 and a.next.v == 2",
    ),
    "changed argument": (
        "def sort(x): x.sort()\ndef same(x): return x",
        "x = [3, 1, 2]\nsort(x)\nassert x == [1, 2, 3]\nassert same(x) is x",
    ),
    "nested argument": (
        "def put(x): x['a'][0].append({1})",
        "x = {'a': [[]]}\nput(x)\nassert x == {'a': [[{1}]]}",
    ),
    "list in an attribute": (
        "class A:\n    def __init__(self): self.x = []\n    def n(self): return len(self.x)",
        "a = A()\na.x.append(1)\nassert a.n() == 1 and a.x == [1]",
    ),
    "function as argument": ("def twice(f, x): return f(f(x))", "assert twice(lambda x: x * 3, 2) == 18"),
    "generator": ("def up(n):\n    for i in range(n): yield i", "assert list(up(3)) == [0, 1, 2]"),
    "decorator": (
        "def double(f): return lambda *a: 2 * f(*a)",
        "@double\ndef g(x): return x + 1\nassert g(2) == 6",
    ),
    "builtin exception": (
        "def f(x):\n    raise ValueError('no')",
        "try:\n    f(1)\nexcept ValueError as e:\n    assert str(e) == 'no'\nelse:\n    assert False",
    ),
    "own exception": (
        "class Bad(ValueError):\n    def __init__(self, n): self.n = n\ndef f(): raise Bad(7)",
        "try:\n    f()\nexcept Bad as e:\n    assert e.n == 7\nelse:\n    assert False",
    ),
    "unittest": (
        ADD,
        "import unittest\nclass T(unittest.TestCase):\n    def test_it(self): self.assertEqual(add(1, 2), 3)",
    ),
    "pytest": (ADD, "def test_it():\n    assert add(1, 2) == 3"),
    "named like a builtin": ("def sum(a, b): return a + b", "assert sum(10, 15) == 25"),
    "without an import": ("def half(x): return x / 2", "assert math.isclose(half(1), 0.5)"),
    "equal objects": (
        "class V:\n    def __init__(self, x): self.x = x\n    def __eq__(self, o): return self.x == o.x\n"
        "    def __add__(self, o): return V(self.x + o.x)",
        "assert V(1) + V(2) == V(3)\nassert V(1) != V(2)",
    ),
    "operator with a number": (
        "class V:\n    def __init__(self, x): self.x = x\n    def __mul__(self, n): return V(self.x * n)",
        "assert (V(2) * 3).x == 6",
    ),
    "named tuple": (
        "from collections import namedtuple\nP = namedtuple('P', 'x y')\ndef f(): return P(1, 2)",
        "assert f() == (1, 2) and f().y == 2 and f() == P(1, 2)",
    ),
    "context manager": (
        "class C:\n    def __enter__(self): return 5\n    def __exit__(self, *a): return False",
        "with C() as five:\n    assert five == 5",
    ),
    "coroutine": ("async def f(x): return x + 1", "import asyncio\nassert asyncio.run(f(1)) == 2"),
    "changing global": ("n = 0\ndef up():\n    global n\n    n += 1", "assert n == 0\nup()\nassert n == 1"),
    "big and odd values": (
        "def f(): return [2**100, -0.0, float('inf'), 1j, b'x', '\\ud800', None, (), frozenset({1}), ...]",
        "assert f() == [2**100, 0.0, float('inf'), 1j, b'x', '\\ud800', None, (), frozenset({1}), ...]",
    ),
}


@pytest.mark.parametrize("kind", HONEST)
def test_honest_programs_pass(kind: str) -> None:
    program, tests = HONEST[kind]
    result = code.run(program, tests)
    assert result.verdict == "pass", result.reason


def test_check_functions_are_called_with_the_entry_point() -> None:
    tests = "def check(candidate):\n    assert candidate(1, 2) == 3\n"
    assert code.run(ADD, tests, entry_point="add").verdict == "pass"
    assert code.run(SUBTRACT, tests, entry_point="add").verdict == "fail"
    assert code.run(ADD, tests).reason == "no tests: nothing in them checks anything"


def test_a_program_that_leaves_the_tests_nothing_to_check_fails() -> None:
    result = code.run("def f(): return []", "for x in f():\n    assert x == 1")
    assert (result.verdict, result.passed, result.total) == ("error", 0, 1)


def test_R004_endless_programs_end_and_others_are_judged_meanwhile() -> None:
    endless = [
        "while True: pass",
        "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
        "import os\nr, w = os.pipe()\nos.read(r, 1)",
        "import time\ntime.sleep(10**6)",
    ]
    good = [ADD] * len(endless)
    start = time.monotonic()
    with ThreadPoolExecutor(2) as threads:
        found = list(threads.map(lambda p: verdict(p, timeout_s=1), [*endless, *good]))
    assert found == ["timeout"] * 4 + ["pass"] * 4
    assert time.monotonic() - start < 60


def test_R018_nothing_outside_can_be_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GW_TOKEN", "secret")
    outside = Path("/tmp") / f"groupwise-outside-{os.getpid()}"
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setblocking(False)
    port = listener.getsockname()[1]
    probes = f"""
        import ctypes, os, socket
        def token(): return os.environ.get("GW_TOKEN") or ctypes.CDLL(None).getenv(b"GW_TOKEN") or None
        def write():
            try: open({str(outside)!r}, "w").close()
            except OSError: pass
            os.system("touch {outside}")
            return sorted(os.listdir("/"))
        def connect():
            for attempt in (lambda: socket.create_connection(("127.0.0.1", {port}), 1),
                            lambda: os.open("/etc/passwd", os.O_RDONLY), lambda: os.kill(os.getppid(), 0)
                            if os.getppid() > 1 else os.open("/root", os.O_RDONLY)):
                try: attempt()
                except OSError: continue
                return "reached"
            return "refused"
    """
    tests = "assert token() is None\nassert 'home' not in write() and 'root' not in write()\n"
    assert code.run(textwrap.dedent(probes), tests + "assert connect() == 'refused'").reason == ""
    assert not outside.exists()
    with pytest.raises(BlockingIOError):
        listener.accept()
    listener.close()


def test_R018_without_bubblewrap_it_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    setup.Setup._made.cache_clear()
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(RewardError, match="bubblewrap.*apt-get install bubblewrap"):
        code.run(ADD, TESTS)
    monkeypatch.undo()
    setup.Setup._made.cache_clear()


def test_R018_the_weaker_mode_is_asked_for_by_name() -> None:
    assert code.run(ADD, TESTS, isolation="process").verdict == "pass"
    assert code.run(SUBTRACT, TESTS, isolation="process").verdict == "fail"
    stray = (
        "import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0: time.sleep(60)\n    os._exit(0)\n"
    )
    before = set(watch.tree(os.getpid()))
    assert code.run(stray + ADD, TESTS, isolation="process").verdict == "pass"
    assert set(watch.tree(os.getpid())) <= before
    with pytest.raises(RewardError, match="isn't known"):
        code.run(ADD, TESTS, isolation="none")


R030 = {
    "does not import": "import no_such_module\n" + SUBTRACT,
    "conftest": "open('conftest.py', 'w').write('raise SystemExit(0)')\n" + SUBTRACT,
    "shadowed module": "open('math.py', 'w').write('x = 1')\nopen('unittest.py', 'w').write('x = 1')\n" + SUBTRACT,
    "patched module": "import unittest\nunittest.TestCase.assertEqual = lambda *a: None\n" + SUBTRACT,
    "leaves early": "import os\nos._exit(0)",
}


@pytest.mark.parametrize("kind", R030)
def test_R030_tests_that_did_not_run_are_no_pass(kind: str) -> None:
    tests = "import unittest, math\nclass T(unittest.TestCase):\n    def test(self): self.assertEqual(add(1, 2), 3)\n"
    assert verdict(ADD, tests) == "pass"
    assert verdict(R030[kind], tests) in ("fail", "error")


def test_R030_every_check_must_be_reached() -> None:
    assert code.run(ADD, "assert add(1, 2) == 3\nimport sys\nsys.exit(0)\nassert add(1, 1) == 2").verdict == "error"


EXITS = {
    "the check itself": "import sys\ndef leave(x): sys.exit(0)\nassert leave(add(1, 2)) == 3",
    "a check of several lines": "import sys\ndef leave(x): sys.exit()\nassert (\n    leave(add(1, 2))\n) == 3",
    "a check in a function": "import sys\ndef check(f):\n    assert sys.exit(f(1, 2)) or leave(f)\n"
    "def leave(f): sys.exit(0)\ncheck(lambda a, b: add(a, b) and None)",
    "a callback in a check": "import sys\nassert call(lambda: sys.exit(0)) == 3",
    "a callback in a condition": "import sys\nif call(lambda: sys.exit(0)) != 3:\n    raise ValueError('no')",
}


@pytest.mark.parametrize("where", EXITS)
def test_R030_an_exit_while_a_check_is_evaluated_is_no_pass(where: str) -> None:
    program = ADD + "def call(f): return f()\n"
    result = code.run(program, EXITS[where])
    assert result.verdict == "error" and "SystemExit" in result.reason, result


def test_R030_an_exit_after_the_last_check_is_how_tests_may_end() -> None:
    for end in ("import sys\nsys.exit(0)", "def main():\n    assert add(1, 2) == 3\n    raise SystemExit\nmain()"):
        assert code.run(ADD, TESTS + end).verdict == "pass"


ALWAYS = "class A{base}:\n    def __eq__(self, o): return True\n    def __ne__(self, o): return False\n"
R031 = {
    "object": ALWAYS.format(base="") + "def add(a, b): return A()",
    "str": ALWAYS.format(base="(str)") + "    __hash__ = str.__hash__\ndef add(a, b): return A('x')",
    "float": ALWAYS.format(base="(float)") + "    def __sub__(self, o): return 0.0\ndef add(a, b): return A('nan')",
    "builtins": "import builtins\nbuiltins.all = lambda x: True\nbuiltins.abs = lambda x: 0\n" + SUBTRACT,
    "any of mock": "from unittest.mock import ANY\ndef add(a, b): return ANY",
}


@pytest.mark.parametrize("kind", R031)
def test_R031_what_equals_everything_equals_nothing(kind: str) -> None:
    for tests in (TESTS, "assert 3 == add(1, 2)", "assert abs(add(1, 2) - 3) < 1e-6", "assert [add(1, 2)] == [3]"):
        assert verdict(R031[kind], tests) in ("fail", "error")


def test_R033_memory_is_bounded_and_numpy_loads() -> None:
    bomb = "x = []\nwhile True: x.append(bytearray(b'1') * 50_000_000)"
    assert verdict(bomb) == "oom"
    assert printed("import numpy; print(numpy.ones(3).sum())", "", "3.0").verdict == "pass"
    assert verdict("import numpy\ndef f(): return numpy.arange(3)", "assert list(f()) == [0, 1, 2]") == "pass"


def test_R033_files_in_memory_count() -> None:
    fill = "for i in range(3):\n    open(f'/tmp/{i}', 'wb').write(b'1' * (20 << 20))\nimport time\ntime.sleep(1)\n"
    assert verdict(fill + ADD, memory_mb=64) == "oom"


@pytest.mark.parametrize("how", ["print('z' * 10000)", "sys.stderr.write('z' * 10000)", "os.write(1, b'z' * 10000)"])
def test_R034_endless_output_is_cut_while_it_runs(how: str) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert verdict(f"import os, sys\nwhile True: {how}") == "output_limit"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20 << 10  # kB


def test_R055_the_verdict_does_not_depend_on_load() -> None:
    burn = "import time\nend = time.process_time() + 0.25\nwhile time.process_time() < end: pass\n" + ADD
    with ThreadPoolExecutor(8) as threads:
        assert set(threads.map(lambda _: verdict(burn, timeout_s=1), range(16))) == {"pass"}


@pytest.mark.slow
def test_R055_sixty_four_at_once_twice() -> None:
    burn = "import time\nend = time.process_time() + 0.5\nwhile time.process_time() < end: pass\n" + ADD
    for _ in range(2):
        with ThreadPoolExecutor(64) as threads:
            assert set(threads.map(lambda _: verdict(burn, timeout_s=2), range(64))) == {"pass"}


R076 = {
    "buffer": ("import sys\nsys.stdout.buffer.write(sys.stdin.buffer.read())", "a b\n", "a b\n"),
    "rounded": ("print('0.142857')", "", "0.14285714285714285"),
    "blanks": ("print('1  2 ', end='')", "", "1 2\n"),
    "long integer": ("print(10**4999)", "", str("1" + "0" * 4999)),
    "deep": (
        "import sys\nsys.setrecursionlimit(30000)\ndef f(n): return 0 if n == 0 else 1 + f(n - 1)\nprint(f(20000))",
        "",
        "20000",
    ),
    "exit": ("print(1)\nexit()", "", "1"),
    "device": ("print(open('/dev/stdin').read())", "x", "x"),
}


@pytest.mark.parametrize("kind", R076)
def test_R076_right_programs_with_habits_pass(kind: str) -> None:
    result = printed(*R076[kind])
    assert result.verdict == "pass", result.reason


def test_R076_endless_recursion_is_an_error() -> None:
    assert printed("def f(): return f()\nf()", "", "").verdict == "error"


@pytest.mark.parametrize("tests", ["", "\n", "# none", "pass", "print(add(1, 2))", "def check(f):\n    assert f(1)"])
def test_R085_no_tests_is_an_error_and_says_nothing_of_the_program(tests: str) -> None:
    result = code.run(ADD, tests)
    assert (result.verdict, result.total) == ("error", 0)
    assert result.reason.startswith("no tests")


R099 = {
    "function": ("def check(candidate):\n    assert candidate(1, 2) == 3\ncheck(add)", ADD),
    "class": (
        "c = Counter()\nc.add(2)\nc.add(1)\nassert c.total == 3",
        "class Counter:\n    def __init__(self): self.total = 0\n    def add(self, n): self.total += n",
    ),
}


@pytest.mark.parametrize("kind", R099)
def test_R099_each_kind_of_task_tells_right_from_wrong(kind: str) -> None:
    tests, right = R099[kind]
    nothing, off_by_one = right.replace("a + b", "None").replace("+= n", "= n"), right.replace("b\n", "b + 1\n")
    spoilt = [nothing, off_by_one.replace("+= n", "+= n + 1"), right + "\n)", "pass"]
    assert verdict(right, tests) == "pass"
    for program in spoilt:
        assert verdict(program, tests) in ("fail", "error")


def test_R099_input_and_output() -> None:
    right = "print(int(input()) + 1)"
    assert printed(right, "1", "2").verdict == "pass"
    for program in ("print(None)", "print(int(input()) + 2)", right + ")", "", "print(2, 2)"):
        assert printed(program, "1", "2").verdict in ("fail", "error")


@pytest.mark.parametrize(
    "bomb",
    [
        "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
        "import threading, time\nwhile True:\n    try: threading.Thread(target=time.sleep, args=(9,)).start()\n"
        "    except RuntimeError: pass",
    ],
)
def test_R100_a_fork_bomb_stays_small_and_leaves_nothing(bomb: str) -> None:
    before = set(watch.tree(os.getpid()))
    found: list[str] = []
    thread = threading.Thread(target=lambda: found.append(verdict(bomb, timeout_s=1)))
    thread.start()
    assert subprocess.run([sys.executable, "-c", "print(1)"], capture_output=True, check=True).stdout == b"1\n"
    thread.join(60)
    assert found[0] in ("timeout", "oom", "error")
    assert set(watch.tree(os.getpid())) <= before


def test_R100_threads_of_numpy_work() -> None:
    program = """
        import threading, numpy
        def run():
            out = []
            ts = [threading.Thread(target=lambda: out.append(float(numpy.ones((50, 50)).sum()))) for _ in range(4)]
            for t in ts: t.start()
            for t in ts: t.join()
            return out
    """
    assert verdict(program, "assert run() == [2500.0] * 4") == "pass"


def test_R100_the_limit_counts_a_run_alone() -> None:
    program = """
        import os, time
        def forks():
            n = 0
            try:
                while n < 100:
                    if os.fork() == 0: time.sleep(20); os._exit(0)
                    n += 1
            except OSError: pass
            return n
    """
    with ThreadPoolExecutor(3) as threads:
        found = threads.map(lambda _: verdict(program, "assert 20 <= forks() <= 64"), range(3))
        assert set(found) == {"pass"}


def test_processes_that_wait_for_nobody_are_charged() -> None:
    program = """
        import os, signal, time
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        def add(a, b):
            for _ in range(8):
                if os.fork() == 0:
                    while time.process_time() < 0.5: pass
                    os._exit(0)
                try: os.wait()
                except ChildProcessError: pass
            return a + b
    """
    assert verdict(program, timeout_s=1) == "timeout"


def test_a_sandbox_ends_with_the_process_that_made_it() -> None:
    source = """
        import os, sys, time
        from groupwise.rewards.code.runner import Runner
        runner = Runner(spare=True)
        runner.run("x = 1", "assert x == 1")
        print(*[box._root if box._root > 0 else box._told_root() for box in runner._spare], flush=True)
        time.sleep(60)
    """
    path = {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p), "PATH": os.environ["PATH"]}
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(source)], stdout=subprocess.PIPE, env=path)
    assert process.stdout is not None
    roots = [int(word) for word in process.stdout.readline().split()]
    assert len(roots) == 2 and all(Path(f"/proc/{root}").exists() for root in roots)
    process.kill()
    process.wait()
    process.stdout.close()
    end = time.monotonic() + 20
    while any(Path(f"/proc/{root}").exists() for root in roots) and time.monotonic() < end:
        time.sleep(0.05)
    assert not any(Path(f"/proc/{root}").exists() for root in roots)
