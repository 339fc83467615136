"""Where a reward function lives, in a file or in a module that can be imported, and how it is loaded."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from groupwise.errors import UserError
from groupwise.rewards.workers.normalise import describe


@dataclass(frozen=True, slots=True)
class Target:
    """The address of a function."""

    place: str
    """A path that ends in .py, or a dotted module name."""
    function: str
    settings: str | None = None
    """JSON of keyword arguments: `function` is then a factory, called once with them, that returns the reward
    function."""
    label: str = ""
    """What messages call it instead of its address, which says nothing of a factory of ours."""

    @property
    def is_file(self) -> bool:
        """Whether `place` is a path."""
        return self.place.endswith(".py")

    @property
    def words(self) -> list[str]:
        """The arguments that make it again."""
        return [self.place, self.function, *([] if self.settings is None else [self.settings, self.label])]

    @property
    def shown(self) -> str:
        """What messages call it."""
        return self.label or f"{os.path.basename(self.place)}:{self.function}"


@dataclass(frozen=True, slots=True)
class Loaded:
    """A function that is ready to be called, and what it says of itself."""

    function: Callable[..., Any]
    file: str | None
    group: bool
    """It takes all records of one group (`@group_reward`)."""
    columns: tuple[str, ...]
    """The row's columns that it needs: its attribute `columns`, where it has one."""


class LoadError(Exception):
    """The function can't be loaded: what is wrong, and the fix."""

    def __init__(self, what: str, fix: str) -> None:
        self.what, self.fix = what, fix
        super().__init__(f"{what}; {fix}")


def load(target: Target) -> Loaded:
    """Import the target. Raises `LoadError` with the line and the exception where that fails."""
    module = _import(target)
    function: Any = module
    for name in target.function.split("."):
        function = getattr(function, name, None)
    if not callable(function):
        functions = inspect.getmembers(module, inspect.isfunction)
        own = [name for name, value in functions if value.__module__ == module.__name__]
        there = f"functions there: {', '.join(own)}" if own else "it defines no function"
        raise LoadError(f"{target.place} has no function {target.function!r}", f"name one that it has ({there})")
    if target.settings is not None:
        try:
            function = function(**json.loads(target.settings))
        except UserError as error:  # it says in its own words which library or program is missing
            raise LoadError(error.what, error.fix) from error
        except Exception as error:  # what else a factory of a user's raises
            raise LoadError(f"{target.shown} can't be made ready: {describe(error)}", "mend that") from error
    _check_call(function, target)
    return Loaded(
        function=function,
        file=getattr(module, "__file__", None),
        group=getattr(function, "groupwise_group_reward", False),
        columns=columns_of(function),
    )


def columns_of(function: Callable[..., Any]) -> tuple[str, ...]:
    """The columns that a function declares: `reward.columns = ["gold"]`, or one name."""
    columns = getattr(function, "columns", ())
    return (columns,) if isinstance(columns, str) else tuple(columns)


def label_of(function: Callable[..., Any]) -> str:
    """The name of a function, or of the class of a callable object."""
    return str(getattr(function, "__name__", type(function).__name__))


def target_of(function: Callable[..., Any]) -> Target | None:
    """The address under which a worker process can load this very function, or None where it has none.

    Closures, lambdas, bound methods, callable objects and everything defined in a notebook or in the script
    that was started have none: loading a script a second time would run it again.
    """
    name = getattr(function, "__qualname__", "<none>")
    module = sys.modules.get(getattr(function, "__module__", None) or "")
    if module is None or module.__name__ == "__main__" or "<" in name:
        return None
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    if found is not function:
        return None
    if _can_be_imported(module.__name__):
        return Target(module.__name__, name)
    file = getattr(module, "__file__", None)
    return Target(file, name) if file and file.endswith(".py") else None


def _import(target: Target) -> ModuleType:
    try:
        if not target.is_file:
            return importlib.import_module(target.place)
        # Like a script, the file may import what lies beside it.
        sys.path.insert(0, os.path.dirname(target.place))
        name = "groupwise_reward_" + os.path.basename(target.place).removesuffix(".py")
        spec = importlib.util.spec_from_file_location(name, target.place)
        assert spec is not None and spec.loader is not None, "a path that ends in .py has a loader"
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    except BaseException as error:  # a user's module may raise anything at import, sys.exit included
        file = target.place if target.is_file else None
        raise LoadError(f"{target.place} can't be imported: {describe(error, file)}", "mend that line") from error


def _check_call(function: Callable[..., Any], target: Target) -> None:
    if inspect.iscoroutinefunction(function):
        raise LoadError(f"{target.shown} is async", "make it a plain function; workers run it in parallel")
    try:
        inspect.signature(function).bind("records")
    except TypeError as error:
        fix = "define it with one parameter, the record (or, with @group_reward, the list of records)"
        raise LoadError(f"{target.shown} can't be called with one argument: {error}", fix) from error
    except ValueError:
        pass  # a builtin without a signature says what is wrong when it is called


def _can_be_imported(module: str) -> bool:
    """Whether its name leads another process to the same file: one loaded from a path may have any name."""
    top = sys.modules[module.partition(".")[0]]
    specs = (finder.find_spec(top.__name__, None) for finder in sys.meta_path)
    spec = next((spec for spec in specs if spec is not None), None)
    return spec is not None and spec.origin == getattr(top, "__file__", None)
