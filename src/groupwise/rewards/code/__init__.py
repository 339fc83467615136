"""The reward `code`: untrusted programs, run in a sandbox against tests.

    from groupwise.rewards import code
    code.run("def add(a, b): return a + b", "assert add(1, 2) == 3")                    # Result(verdict="pass", ...)
    code.run("print(int(input()) * 2)", io_tests=[code.IOTest("21", "42")])             # Result(verdict="pass", ...)

`runner` runs and judges; `inside` holds what runs in the sandboxes; `setup` and `box` make them; `reward` is the reward
of a run. The page docs/rewards/code.md says what is isolated from what, and what counts as right.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from groupwise.rewards.code.result import IOTest, Limits, Result, Verdict

if TYPE_CHECKING:
    from groupwise.rewards.code.reward import Code

__all__ = ["Code", "IOTest", "Limits", "Result", "Verdict", "run"]


def run(
    program: str,
    tests: str = "",
    io_tests: Sequence[IOTest] = (),
    limits: Limits | None = None,
    *,
    entry_point: str = "",
    libraries: Sequence[str] = ("numpy",),
    isolation: str = "sandbox",
) -> Result:
    """Run a program against tests, pairs of input and output, or both; from any thread.

    `tests` is Python source with asserts; `entry_point` names the function to give to its `check(candidate)`, where it
    defines one and doesn't call it. `libraries` are those that programs may import besides the standard library.
    `isolation="process"` does without bubblewrap and hides neither files nor network: for programs that you trust.
    Raises `RewardError` where the sandbox can't be made on this machine.
    """
    from groupwise.rewards.code.runner import run_once

    return run_once(program, tests, io_tests, limits, entry_point, libraries, isolation)


def __getattr__(name: str) -> Any:
    if name == "Code":
        from groupwise.rewards.code.reward import Code

        return Code
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
