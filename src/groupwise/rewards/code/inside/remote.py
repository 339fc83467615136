"""Objects of the program as the tests see them."""

from __future__ import annotations

import os
import sys

from groupwise.rewards.code.inside import values

TYPE_CHECKING = False  # the module typing takes longer to load than all that is here
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from groupwise.rewards.code.inside.examiner import Examiner

_CLASSES: dict[type, tuple[Any, int]] = {}  # mirrored exception classes, by themselves: (examiner, number)


def number_of(value: Any) -> int | None:
    """The handle of something that is the program's, else None."""
    if isinstance(value, Remote):
        return value._number
    if isinstance(value, type):
        return _CLASSES[value][1] if value in _CLASSES else None
    return getattr(value, "_number", None) if type(value) in _CLASSES else None


_FORWARDED = frozenset(
    {"__name__", "__qualname__", "__module__", "__doc__", "__dict__", "__annotations__"}
    | {"__enter__", "__exit__", "__next__", "__call__"}
)
"""The special attributes that the program may answer for. Others are protocols: by `__array_interface__` it could have
numpy read and write any address of this process."""

forwarded_doc = property(lambda self: self.__getattr__("__doc__"))


class Remote:
    """An object of the program. Attributes that start with an underscore and one word are this side's own."""

    __slots__ = ("_examiner", "_flags", "_kind", "_number", "_mixed")

    def __init__(self, examiner: Examiner, number: int, flags: str, kind: Any) -> None:
        object.__setattr__(self, "_examiner", examiner)
        object.__setattr__(self, "_number", number)
        object.__setattr__(self, "_flags", flags)
        object.__setattr__(self, "_kind", kind)
        object.__setattr__(self, "_mixed", False)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__") and name not in _FORWARDED:
            raise AttributeError(name)
        return self._examiner.ask("get", self, name, keep=True)

    def __setattr__(self, name: str, value: Any) -> None:
        self._examiner.ask("set", self, name, value)

    def __delattr__(self, name: str) -> None:
        self._examiner.ask("delete", self, name)

    def __eq__(self, other: Any) -> Any:
        return equal(self, other)

    def __iter__(self) -> Any:
        return iter(self._examiner.ask("operator", "iter", self))

    def __contains__(self, value: Any) -> Any:
        try:
            items = iter(self)
        except TypeError:
            return contains(self, value)
        return any(item is value or item == value for item in items)

    def __enter__(self) -> Any:
        return self._examiner.ask("call", self.__getattr__("__enter__"), (), {})

    def __exit__(self, kind: Any, error: BaseException, trace: Any) -> Any:
        arguments = (None, None, None) if kind is None else (kind, error, None)
        done = self._examiner.ask("call", self.__getattr__("__exit__"), arguments, {})
        return bool(done) and (hasattr(error, "_told") or not isinstance(error, AssertionError))

    def __copy__(self) -> Any:
        return self._examiner.ask("copy", self, False)

    def __deepcopy__(self, memo: Any) -> Any:
        return self._examiner.ask("copy", self, True)

    def __dir__(self) -> Any:
        return self._examiner.ask("operator", "dir", self)

    def __mro_entries__(self, bases: Any) -> None:
        raise TypeError("the tests can't subclass a class of the program")


class RemoteFunction(Remote):
    """One that can be called."""

    __slots__ = ()

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        return self._examiner.ask("call", self, arguments, keywords)


class RemoteIterator(Remote):
    """One that can be iterated over once."""

    __slots__ = ()

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> Any:
        return self._examiner.ask("operator", "next", self, stop=True)

    def send(self, value: Any) -> Any:
        """Of a generator."""
        return self._examiner.ask("call", self.__getattr__("send"), (value,), {}, stop=True)

    def throw(self, *error: Any) -> Any:
        """Of a generator."""
        return self._examiner.ask("call", self.__getattr__("throw"), error, {}, stop=True)


class RemoteClass(RemoteFunction):
    """A class of the program."""

    __slots__ = ()

    def __eq__(self, other: Any) -> Any:
        if isinstance(other, type) and issubclass(other, Remote):
            return any(kind is other and key[0] == self._number for key, kind in self._examiner.types.items())
        return equal(self, other)

    def __hash__(self) -> Any:
        return self._number

    def __instancecheck__(self, value: Any) -> Any:
        return number_of(value) is not None and bool(self._examiner.ask("operator", "isinstance", value, self))

    def __subclasscheck__(self, value: Any) -> Any:
        return number_of(value) is not None and bool(self._examiner.ask("operator", "issubclass", value, self))


ProgramClass = type("ProgramClass", (RemoteClass,), {"__slots__": (), "__doc__": forwarded_doc})
"""`RemoteClass` whose docstring is the program's."""


def instance_type(flags: str, name: str) -> type[Remote]:
    """The type of the instances of one class of the program."""
    bases = (RemoteFunction,) * ("c" in flags) + (RemoteIterator,) * ("n" in flags) or (Remote,)
    return type(name, bases, {"__slots__": (), "__module__": "program", "__doc__": forwarded_doc})


def contains(owner: Any, value: Any) -> bool:
    """What an object of the program that can't be iterated over says, unless it says so of anything."""
    if not owner._examiner.named(owner._kind):
        raise TypeError("an object of the program can't be searched")
    asked = owner._examiner.ask("operator", "contains", owner, value)
    chance = int.from_bytes(os.urandom(7), "little")
    other = f"{chance:x}" if isinstance(value, str) else chance
    if asked and owner._examiner.ask("operator", "contains", owner, other):
        raise TypeError("an object of the program says that it contains anything")
    return bool(asked)


async def coroutine(examiner: Examiner, owner: Any) -> Any:
    """A coroutine of the program, awaited where it lives."""
    return examiner.ask("await", owner)


def equal(left: Any, right: Any) -> bool:
    """Whether something of the program equals a value.

    With plain data: where it is of a subclass of a plain type and that content is equal. With another object of the
    program: where both are one object, or the program says that they are equal and their states are. Where it says so
    of different states nobody can tell, and the test fails.
    """
    if left is right:
        return True
    if number_of(right) is None:
        if "p" not in left._flags:
            return False
        return left._examiner.ask("content", left) == right
    said, one, other = left._examiner.ask("equal", left, right)
    if said is None or not said:
        return False
    if one == other:
        return True
    raise TypeError("the program says that two of its objects are equal, but what they hold is not")


def mirror_class(examiner: Examiner, number: int, about: tuple[Any, ...]) -> type[BaseException]:
    """An exception class of the program as one of this side, so that `except` can name it."""
    module, name, *bases = about
    top = module.partition(".")[0]
    loaded = sys.modules.get(module)  # the tests have loaded what they name; the program has nothing loaded here
    if loaded is not None and top in sys.stdlib_module_names and top not in ("builtins", "unittest", "doctest"):
        found = getattr(loaded, name, None)
        if isinstance(found, type) and issubclass(found, Exception):
            return found
    parents = tuple(values.BUILTIN_TYPES.get(base, Exception) if isinstance(base, str) else base for base in bases)
    parents = tuple(Exception if base is BaseException else base for base in parents) or (Exception,)
    body = {
        "__init__": lambda self, *arguments, **keywords: None,
        "__new__": lambda kind, *arguments, **keywords: new_exception(examiner, kind, arguments, keywords),
        "__getattr__": lambda self, word: attribute(examiner, self, word),
        "__str__": lambda self: examiner.ask("operator", "str", self),
        "__module__": "program",
    }
    kind = type(name, parents, body)
    _CLASSES[kind] = (examiner, number)
    return kind


def new_exception(examiner: Examiner, kind: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """An exception of the program made by the tests."""
    error = _bare(kind)
    error.args = arguments
    if kind in _CLASSES:
        made = examiner.ask("object", kind, arguments, keywords)
        error.__dict__["_number"] = made._number
    return error


def _bare(kind: Any) -> Any:
    """An exception of a class, without calling what the class makes of its arguments."""
    builtin = next(base for base in kind.__mro__ if base.__module__ == "builtins")
    return builtin.__new__(kind)


def attribute(examiner: Examiner, error: BaseException, name: str) -> Any:
    """An attribute of an exception of the program."""
    number = error.__dict__.get("_number")
    if number is None or name.startswith("_"):
        raise AttributeError(name)
    return examiner.ask("get", error, name, keep=True)


def mirror(kind: Any, arguments: tuple[Any, ...], value: Any, text: str, number: int, stop: bool) -> BaseException:
    """An exception of the program, to be raised here."""
    if not (isinstance(kind, type) and issubclass(kind, BaseException) and type(arguments) is tuple):
        raise values.WireError("an exception that is none")
    name = kind.__name__
    if issubclass(kind, GeneratorExit | StopAsyncIteration) or (issubclass(kind, StopIteration) and not stop):
        kind = RuntimeError
    if kind in _CLASSES:
        error = _bare(kind)
        error.__dict__["_number"] = number_of(value)
    else:
        try:
            error = kind(*arguments)
        except Exception:  # a builtin class may want other arguments than it has
            error = _bare(kind)
    error.args = arguments
    error._told = (name, number, str(text))
    return error


def _unary(name: str, *, number: int = False) -> Any:
    """A conversion or an operator of one operand; `number` says that it can turn what `mixed` gave into a number."""

    def operator(self, *operands: Any) -> Any:
        if number and self._mixed:
            return NotImplemented if operands else _refuse(name)
        return self._examiner.ask("operator", name, self, *operands)

    return operator


def _refuse(name: str) -> NoReturn:
    raise TypeError(f"{name} of what an object of the program made of a value of the tests")


def _binary(name: str, *, reflected: bool = False) -> Any:
    """An operator of two operands: between two objects of the program, or where the tests name the class and an
    object of the program comes of it. Anything else could be judged leniently by the program: `result - 3` as 0."""

    def operator(self, other: Any) -> Any:
        foreign = number_of(other) is None
        if foreign and not self._examiner.named(self._kind):
            return NotImplemented
        result = self._examiner.ask("operator", name, *((other, self) if reflected else (self, other)))
        if not (foreign or self._mixed):
            return result
        if not isinstance(result, Remote):
            return NotImplemented
        object.__setattr__(result, "_mixed", True)
        return result

    return operator


for _name in ["len", "str", "repr", "reversed", "bytes", "format", "getitem", "setitem", "delitem", "hash"]:
    setattr(Remote, f"__{_name}__", _unary(_name))
for _name in ["bool", "int", "float", "complex", "index", "neg", "pos", "abs", "invert", "round"]:
    setattr(Remote, f"__{_name}__", _unary(_name, number=True))
for _name in [
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
    "and",
    "or",
    "xor",
    "divmod",
]:
    _word = f"{_name}_" if _name in ("and", "or") else _name
    setattr(Remote, f"__{_name}__", _binary(_word))
    setattr(Remote, f"__r{_name}__", _binary(_word, reflected=True))
for _name in [
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
    "lt",
    "le",
    "gt",
    "ge",
]:
    setattr(Remote, f"__{_name}__", _binary(_name))
