"""Objects of the tests as the program sees them: what the examiner allows, and no way past them."""

from __future__ import annotations

TYPE_CHECKING = False  # the module typing takes longer to load than all that is here
if TYPE_CHECKING:
    from typing import Any

    from groupwise.rewards.code.inside.program import Program


class Foreign:
    """Something of the tests that the program can only pass on."""

    _wire: Program
    _number: int

    def __init__(self, wire_: Program, number: int) -> None:
        object.__setattr__(self, "_wire", wire_)
        object.__setattr__(self, "_number", number)

    def __eq__(self, other: Any) -> Any:
        return isinstance(other, Foreign) and other._number == self._number

    def __hash__(self) -> Any:
        return self._number


class ForeignFunction(Foreign):
    """A function of the tests, which the program can call."""

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        return self._wire.ask("call", self, arguments, keywords)


class ForeignIterator(Foreign):
    """An iterator of the tests."""

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> Any:
        return self._wire.ask("operator", "next", self)


class ForeignObject(Foreign):
    """An instance of a class of the tests: its public attributes and operators."""

    def __getattr__(self, name: str) -> Any:
        return self._wire.ask("get", self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        self._wire.ask("set", self, name, value)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        return self._wire.ask("call", self, arguments, keywords)

    def __eq__(self, other: Any) -> Any:
        return self is other or self._wire.ask("operator", "eq", self, other)

    def __hash__(self) -> Any:
        return self._wire.ask("operator", "hash", self)

    def __iter__(self) -> Any:
        return iter(self._wire.ask("operator", "list", self))


def _forwarded(name: str) -> Any:
    return lambda self, *operands: self._wire.ask("operator", name, self, *operands)


for _name in [
    "len",
    "str",
    "repr",
    "bool",
    "getitem",
    "setitem",
    "contains",
    "lt",
    "le",
    "gt",
    "ge",
    "add",
    "sub",
    "mul",
]:
    setattr(ForeignObject, f"__{_name}__", _forwarded(_name))


def foreign(flags: str) -> type[Foreign]:
    """The type for an object of the tests with these flags."""
    return {"c": ForeignFunction, "i": ForeignIterator, "o": ForeignObject}.get(flags, Foreign)
