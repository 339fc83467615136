"""The tests' side of the wire: runs the tests, and tells what came of them on a channel of its own.

The program is elsewhere. A name that the tests use and the program defines is, here, a `Remote`: calls, attributes,
iteration and conversions go over the wire and come back as plain data, which this side compares. What the program
could use to be judged leniently is not forwarded: equality is decided here, and operators between an object of the
program and another value are forwarded only for classes that the tests name.
"""

from __future__ import annotations

import builtins
import operator
import os
import sys
import threading

from groupwise.rewards.code.inside import remote, values, wire
from groupwise.rewards.code.inside.remote import Remote, mirror

TYPE_CHECKING = False  # the module typing takes longer to load than all that is here
if TYPE_CHECKING:
    from typing import Any

    from groupwise.rewards.code.inside.values import Reader, Writer

OPERATORS = {
    name: getattr(operator, name)
    for name in ["getitem", "setitem", "contains", "eq", "lt", "le", "gt", "ge", "add", "sub", "mul"]
}
OPERATORS |= {"len": len, "str": str, "repr": repr, "bool": bool, "hash": hash, "list": list, "next": next}


def main(task: dict[str, Any], report: int, reading: int, writing: int) -> None:
    """Run the tests; write verdict, line, number of checks executed and reason, each on its line, to the report."""
    examiner = Examiner(reading, writing, task)
    try:
        verdict, line, reason = examiner.run()
    except BaseException as error:  # the tests may raise anything
        verdict, line, reason = examiner.judge(error)
    executed = len(examiner.executed & task["checks"])
    data = f"{verdict}\n{line}\n{executed}\n{reason:.2000}".encode("utf-8", "replace")
    os.write(report, data)
    os._exit(0)


class Examiner(wire.Wire):
    """Runs the tests of one task."""

    def __init__(self, reading: int, writing: int, task: dict[str, Any]) -> None:
        super().__init__(reading, writing)
        self.task = task
        self.executed: set[int] = set()
        self.proxies: dict[int, Any] = {}
        self.used = set(task["names"])
        self.module = type(sys)("__main__")
        self.loading = True
        self.lock = threading.RLock()  # the tests may have threads
        self.broken: BaseException | None = None
        self.swallowed: BaseException | None = None
        self.types: dict[Any, type] = {}

    # -- the run --------------------------------------------------------------------------------------------------

    def run(self) -> Any:
        """Execute the tests. What they raise is judged by the caller."""
        names = self.module.__dict__
        names["__builtins__"] = builtins
        sys.modules["__main__"] = self.module
        builtins.__dict__["__check__"] = self.executed.add
        for name in self.task["modules"]:
            names[name] = __import__(name)
        self.ask("start", self.task["names"], keep=True)
        self.loading = False
        ended = False
        try:
            exec(self.task["code"], names)
        except SystemExit as error:
            if hasattr(error, "_told") or error.code not in (None, 0, False) or self._cut_short(error):
                raise
            ended = True
        except values.WireError as error:
            self.broken = self.broken or error
        if self.broken is None:
            self._call_tests(names)
        if self.broken is not None:
            return self.judge(self.broken)
        if self.swallowed is not None:
            return "fail", self.line(self.swallowed), "the program swallowed this check"
        if missing := [line for number, line in self.task["required"] if number not in self.executed]:
            why = "the tests end" if ended else "the tests go on"
            return "error", missing[0], f"{why} without this check"
        if not self.executed.intersection(self.task["checks"]):
            return "error", 0, "the tests end without a check"
        return "pass", 0, ""

    def _call_tests(self, names: dict[str, Any]) -> None:
        """Call the test functions and classes that the tests define and don't call themselves."""
        for name, number in self.task["functions"]:
            if number not in self.executed and callable(names.get(name)):
                self._call_one(names[name])
        for name, methods in self.task["classes"]:
            if any(number not in self.executed for _, number in methods) and isinstance(names.get(name), type):
                self._call_class(names[name], methods)

    def _call_one(self, function: Any) -> None:
        result = function()
        if type(result).__name__ == "coroutine":
            import asyncio

            asyncio.run(result)

    def _call_class(self, kind: Any, methods: Any) -> None:
        unittest = sys.modules.get("unittest")
        if unittest is not None and issubclass(kind, unittest.TestCase):
            result = unittest.TestResult()
            unittest.defaultTestLoader.loadTestsFromTestCase(kind).run(result)
            if not result.wasSuccessful():
                text = (result.failures + result.errors)[0][1] if result.failures + result.errors else "unexpected"
                raise AssertionError(text.strip().splitlines()[-1])
            return
        for name, _ in methods:
            owner = kind()
            if hasattr(owner, "setup_method"):
                owner.setup_method()
            self._call_one(getattr(owner, name))

    def _cut_short(self, error: BaseException) -> bool:
        """Whether an exception came out of a check that was still being evaluated."""
        return any(first <= line <= last for line in self.lines(error) for first, last in self.task["asserts"])

    def line(self, error: BaseException) -> int:
        """The last line of the tests that an exception went through, 0 for none."""
        return [0, *self.lines(error)][-1]

    def lines(self, error: BaseException) -> list[int]:
        """All lines of the tests that an exception went through, outermost first."""
        lines, trace = [], error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == "<tests>":
                lines.append(trace.tb_lineno)
            trace = trace.tb_next
        return lines

    def judge(self, error: BaseException) -> tuple[str, int, str]:
        """Verdict, line of the tests and reason for what the tests raised."""
        line = self.line(error)
        told = getattr(error, "_told", None)
        if told is not None:
            name, number, text = told
            if self.loading:
                line = 0
            if name == "MemoryError":
                return "oom", line, "the program was refused memory"
            if name == "PermissionError" or number in (1, 13, 30, 38):
                return "blocked", line, f"the program was refused: {name}: {text}"
            doing = "ends with" if self.loading else "raises"
            return "error", line, f"the program {doing} {name}: {text}"
        text = f"{error!s:.500}"
        if isinstance(error, wire.Ended):
            return "error", line, "the program ended before the tests did"
        if isinstance(error, values.WireError):
            return "error", line, f"the program wrote into the grader's channel: {text}"
        if isinstance(error, AssertionError):
            return "fail", line, text
        if isinstance(error, NameError) and error.name in self.used:
            return "error", line, f"the program doesn't define {error.name!r}"
        return "error", line, f"{type(error).__name__}: {text}"

    # -- asking the program ---------------------------------------------------------------------------------------

    def ask(self, *words: Any, keep: bool = False, stop: bool = False) -> Any:
        """The program's answer. Raises what the program raised; StopIteration only with `stop`, since the tests' own
        loops would end on it."""
        try:
            with self.lock:
                answer = self.request(*words, keep=keep)
            return self.take(answer, stop)
        except values.WireError as error:
            self.broken = self.broken or error  # the tests may swallow it
            raise

    def take(self, answer: tuple[Any, ...], stop: bool) -> memoryview:
        """The value of an answer, its news noted."""
        if answer[0] not in ("value", "raise") or len(answer) != {"value": 3, "raise": 7}[answer[0]]:
            raise values.WireError("an answer of another shape")
        news = answer[-1]
        if type(news) is not dict:
            raise values.WireError("news of another shape")
        for name, value in news.items():
            if name in self.used and (self.loading or name not in self.task["bound"]):
                self.module.__dict__[name] = value
        if answer[0] == "value":
            return answer[1]
        _, kind, arguments, text, number, value, _ = answer
        raise mirror(kind, arguments, value, text, number, stop)

    # -- objects that cross ---------------------------------------------------------------------------------------

    def write_object(self, writer: Writer, value: Any) -> None:
        """Append a value that does not cross as plain data."""
        number = remote.number_of(value)
        if number is not None:
            writer.body += b"H"
            writer.number(number)
            return
        flags, about = self.kind(value)
        writer.body += b"h"
        writer.number(self.handle(value))
        writer.text(b"", flags)
        writer.value(about)
        writer.number(-1)

    def kind(self, value: Any) -> tuple[str, tuple[Any, ...]]:
        """What the program may do with a value of this side."""
        module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
        if isinstance(module, str) and isinstance(name, str) and module in sys.modules and module != "__main__":
            found: Any = sys.modules[module]
            for part in name.split("."):
                found = getattr(found, part, None)
            if found is value and module.partition(".")[0] in sys.stdlib_module_names:
                return "n", (module, "", name)  # it has one of its own
        if type(value).__module__ in ("__main__", "_io"):
            return "o", ()
        if callable(value):
            return "c", ()
        return ("i", ()) if hasattr(type(value), "__next__") else ("", ())

    def read_object(self, reader: Reader) -> Any:
        """What a handle of the other side becomes here."""
        number, flags, about, kind = reader.number(), reader.text(), reader.value(), reader.number()
        if number not in self.proxies:
            self.proxies[number] = self._proxy(number, flags, about, kind)
        return self.proxies[number]

    def _proxy(self, number: int, flags: str, about: tuple[Any, ...], kind: Any) -> Any:
        if "x" in flags:
            return remote.mirror_class(self, number, about)
        if "t" in flags:
            return remote.ProgramClass(self, number, flags, kind)
        if "m" in flags:
            return remote.coroutine(self, Remote(self, number, flags, kind))
        key = (kind, flags, about)
        if key not in self.types:
            self.types[key] = remote.instance_type(flags, str(about[0]))
        return self.types[key](self, number, flags, kind)

    def named(self, kind: Any) -> bool:
        """Whether the tests name the class with this handle."""
        return any(
            type(value) is remote.ProgramClass and remote.number_of(value) == kind
            for name, value in self.module.__dict__.items()
            if name in self.used
        )

    # -- what the program asks for, while a call is under way -----------------------------------------------------

    def serve(self, words: tuple[Any, ...]) -> tuple[Any, ...]:
        """The answer to a request, in words."""
        try:
            return ("value", self.allowed(*words))
        except (Exception, SystemExit) as error:  # the program's call gets it
            if isinstance(error, AssertionError) and not hasattr(error, "_told"):
                self.swallowed = error
            return self.raised(error)

    def raised(self, error: BaseException) -> tuple[Any, ...]:
        """An exception in words."""
        kind = next((k.__name__ for k in type(error).__mro__ if k.__module__ == "builtins"), "Exception")
        return ("raise", kind, tuple(a for a in error.args if type(a) in (str, int, float, bool)))

    def allowed(self, operation: str, *words: Any) -> Any:
        """Calls of functions, and the public side of instances of the tests' classes."""
        name, value, *rest = words if operation == "operator" else ("", *words)
        kind = self.kind(value)[0]
        if operation == "call" and kind in ("c", "o"):
            arguments, keywords = rest
            return value(*arguments, **keywords)
        if operation == "operator" and (kind == "o" or (kind == "i" and name == "next")) and name in OPERATORS:
            return OPERATORS[name](value, *rest)
        if operation in ("get", "set") and kind == "o" and type(rest[0]) is str and not rest[0].startswith("_"):
            return (getattr if operation == "get" else setattr)(value, *rest)
        raise TypeError("the program may not do that to an object of the tests")
