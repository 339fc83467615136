"""The program's side of the wire: runs the program, and then does what the examiner asks.

Nothing here is to be trusted once the program runs, since it shares the process; nor does anybody trust it. It knows
what the examiner asks for and never what the examiner expects.
"""

from __future__ import annotations

import builtins
import operator
import os
import sys
import threading

from groupwise.rewards.code.inside import values, wire
from groupwise.rewards.code.inside.foreign import Foreign, foreign

TYPE_CHECKING = False  # the module typing takes longer to load than all that is here
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from groupwise.rewards.code.inside.values import Reader, Writer

OPERATORS = {
    name: getattr(operator, name)
    for name in [
        "add",
        "sub",
        "mul",
        "truediv",
        "floordiv",
        "mod",
        "pow",
        "lshift",
        "rshift",
        "matmul",
        "and_",
        "or_",
        "xor",
        "lt",
        "le",
        "gt",
        "ge",
        "neg",
        "pos",
        "abs",
        "invert",
        "index",
        "iadd",
        "isub",
        "imul",
        "itruediv",
        "ifloordiv",
        "imod",
        "ipow",
        "imatmul",
        "iand",
        "ior",
        "ixor",
        "getitem",
        "setitem",
        "delitem",
        "contains",
    ]
}
OPERATORS |= {kind.__name__: kind for kind in (int, float, complex, str, repr, bool, bytes)}
OPERATORS |= {"len": len, "hash": hash, "iter": iter, "next": next, "reversed": reversed, "round": round, "dir": dir}
OPERATORS |= {"divmod": divmod, "format": format, "isinstance": isinstance, "issubclass": issubclass}
PLAIN_BASES = (list, dict, tuple, set, frozenset, bytearray)


def main(task: dict[str, Any], report: int, reading: int, writing: int) -> None:
    """Run the program as `__main__`; with tests, serve the examiner afterwards."""
    builtins.__dict__.update(exit=sys.exit, quit=sys.exit)  # which the module site would define
    main_module = type(sys)("__main__")
    main_module.__dict__["__builtins__"] = builtins
    sys.modules["__main__"] = main_module
    own = os.getpid()
    if reading < 0:
        run_alone(task["program"], main_module, report)
        return
    failure = None
    try:
        execute(task["program"], main_module)
    except BaseException as error:  # whatever ends the program is told
        failure = error
    if os.getpid() != own:
        os._exit(0)  # a child that the program forked came here too
    Program(reading, writing, main_module.__dict__, failure).run()


def execute(source: str, module: ModuleType) -> None:
    """Run source text as a module."""
    exec(compile(source.removeprefix("\ufeff"), "program.py", "exec", dont_inherit=True), module.__dict__)


def run_alone(source: str, module: ModuleType, report: int) -> None:
    """As a script; what ends it goes to the report as well as to standard error."""
    try:
        execute(source, module)
        sys.stdout.flush()
    except SystemExit:
        raise
    except BaseException as error:  # whatever ends the program is told
        name, number, place = type(error).__name__, getattr(error, "errno", None), where(error)
        os.write(report, f"{name}\n{number}\n{place}{error!s:.500}".encode("utf-8", "replace"))
        sys.stderr.write(f"{name}: {error!s:.500}\n")
        sys.exit(1)


def where(error: BaseException) -> str:
    """The last line of the program that an exception went through."""
    line, trace = None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "program.py":
            line = trace.tb_lineno
        trace = trace.tb_next
    if isinstance(error, SyntaxError):
        line = error.lineno
    return "" if line is None else f"line {line}: "


class Program(wire.Wire):
    """Serves the examiner."""

    def __init__(self, reading: int, writing: int, names: dict[str, Any], failure: BaseException | None) -> None:
        super().__init__(reading, writing)
        self.names, self.failure = names, failure
        self.watched: list[str] = []
        self.told: dict[str, Any] = {}
        self.lock = threading.RLock()  # a thread of the program may call back

    def run(self) -> None:
        """Until the examiner is gone, which ends the program."""
        try:
            while True:
                _, keep, words, reader = self.receive(())
                self.answer(words, keep, reader)
        except wire.Ended:
            os._exit(0)

    def serve(self, words: tuple[Any, ...]) -> tuple[Any, ...]:
        """The answer to a request, in words."""
        operation, *rest = words
        try:
            return ("value", getattr(self, "_do_" + operation)(*rest), self.changed())
        except BaseException as error:  # whatever a call raises is its outcome
            return self.raised(error)

    def raised(self, error: BaseException) -> tuple[Any, ...]:
        """An exception in words: its class, arguments, text, number and itself."""
        arguments = error.args if type(error.args) is tuple else ()
        try:
            text = f"{where(error)}{error!s:.500}"
        except BaseException:  # __str__ is the program's
            text = where(error)
        return ("raise", type(error), arguments, text, getattr(error, "errno", None), Object(error), self.changed())

    def changed(self) -> dict[str, Any]:
        """Watched names of the program whose values are others than before."""
        values = {name: self.names[name] for name in self.watched if name in self.names}
        news = {name: value for name, value in values.items() if self.told.get(name, self) is not value}
        self.told = values
        return news

    # -- what the examiner can ask for ----------------------------------------------------------------------------

    def _do_start(self, names: dict[str, Any]) -> None:
        if self.failure is not None:
            raise self.failure
        self.watched = [name for name in names if name in self.names]

    def _do_call(self, function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        return function(*arguments, **keywords)

    def _do_get(self, owner: Any, name: str) -> Any:
        return getattr(owner, name)

    def _do_set(self, owner: Any, name: str, value: Any) -> None:
        setattr(owner, name, value)

    def _do_delete(self, owner: Any, name: str) -> None:
        delattr(owner, name)

    def _do_operator(self, name: str, *operands: Any) -> Any:
        return OPERATORS[name](*operands)

    def _do_object(self, kind: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        return Object(kind(*arguments, **keywords))

    def _do_await(self, coroutine: Any) -> Any:
        import asyncio

        return asyncio.run(coroutine)

    def _do_content(self, owner: Any) -> Any:
        """The plain value that an instance of a subclass of a plain type holds."""
        if isinstance(owner, dict):
            return dict(dict.items(owner))
        for base in PLAIN_BASES:
            if isinstance(owner, base):
                plain: Any = base
                return plain(plain.__iter__(owner))
        raise TypeError("no plain content")

    def _do_equal(self, left: Any, right: Any) -> Any:
        """What the program says of two of its objects, None where it says nothing, and the state of both."""
        if type(left).__eq__ is object.__eq__:
            return None, None, None
        return bool(left == right), state(left), state(right)

    def _do_copy(self, owner: Any, deep: bool) -> Any:
        import copy

        return copy.deepcopy(owner) if deep else copy.copy(owner)

    # -- objects that cross ---------------------------------------------------------------------------------------

    def write_object(self, writer: Writer, value: Any) -> None:
        """Append a value that does not cross as plain data."""
        if isinstance(value, Foreign):
            writer.body += b"H"
            writer.number(value._number)
            return
        if type(value) is Object:
            value = value.value
        kind, flags = type(value), ""
        about: tuple[Any, ...] = ()
        if isinstance(value, type):
            flags += "t"
            if issubclass(value, BaseException):
                flags += "x"
                bases = [b for b in value.__bases__ if issubclass(b, BaseException)]
                about = (
                    value.__module__,
                    value.__name__,
                    *(b.__name__ if b.__module__ == "builtins" else b for b in bases),
                )
        elif kind.__name__ == "coroutine" and kind.__module__ == "builtins":
            flags += "m"
        elif isinstance(value, PLAIN_BASES):
            flags += "p"
        flags += ("c" if callable(value) else "") + ("n" if hasattr(kind, "__next__") else "")
        about = about or (str(kind.__name__),)
        writer.body += b"h"
        writer.number(self.handle(value))
        writer.text(b"", flags)
        writer.value(about)
        writer.number(-1 if isinstance(value, type) or kind.__module__ == "builtins" else self.handle(kind))

    def read_object(self, reader: Reader) -> Any:
        """What a handle of the other side becomes here."""
        number, flags, about = reader.number(), reader.text(), reader.value()
        reader.number()
        if flags == "n":
            module, _, name = about
            found = __import__(module, fromlist=["_"])
            for part in name.split("."):
                found = getattr(found, part)
            return found
        return foreign(flags)(self, number)

    def ask(self, *words: Any) -> Any:
        """The examiner's answer, while a call of its is under way."""
        with self.lock:
            answer = self.request(*words)
        if answer[0] == "value":
            return answer[1]
        kind = values.BUILTIN_TYPES.get(answer[1], Exception)
        raise kind(*answer[2])


def state(value: Any) -> Any:
    """What an object holds: the text of its class and its attributes, plain content included."""
    attributes = dict(getattr(value, "__dict__", {}))
    for kind in type(value).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if hasattr(value, name):
                attributes[name] = getattr(value, name)
    content = list(value) if isinstance(value, PLAIN_BASES) and not isinstance(value, bytearray) else None
    return type(value), attributes, content


class Object:
    """Wraps a value that must cross as a handle."""

    def __init__(self, value: Any) -> None:
        self.value = value
