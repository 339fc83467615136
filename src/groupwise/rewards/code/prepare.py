"""The source of tests, made ready for the examiner: compiled, with a mark before each check.

A check is an `assert` statement, a call of something named `assert...`, or an `if`, `try` or `with` whose body raises,
exits or contains one of these. The marks show which checks were executed: a task that checks nothing is no task, and a
check at the top level of the tests that was passed over is a fault.

Names: what the tests read and nobody in the tests defines can come from the program. A builtin keeps its meaning
unless the tests read no other such name (a function that is itself called `sum`). A module of the standard library
that the tests use without importing it (`math.isclose`) is the examiner's own.
"""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

MARK = "__check__"
"""The function that the examiner defines for the marks."""
_COMPOUND = ast.If | ast.Try | ast.With | ast.AsyncWith | ast.Match
_LOOPS = ast.For | ast.AsyncFor | ast.While
_DEFINITIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda


@dataclass(frozen=True, slots=True)
class Prepared:
    """What the examiner needs."""

    task: dict[str, Any]
    checks: int
    """How many places in the tests check something; those in functions that are never called don't count."""
    lines: list[str]
    """Of the source."""


def prepare(source: str, entry_point: str = "") -> Prepared:
    """Raises SyntaxError, ValueError, RecursionError or MemoryError for what Python can't compile."""
    tree = ast.parse(source.removeprefix("\ufeff"), "<tests>")
    marker = _Marker()
    marker.visit_body(tree.body, top=True)
    if entry_point and _is_check_function(tree, entry_point):
        call = ast.parse(f"check({entry_point})").body
        tree.body += [ast.fix_missing_locations(statement) for statement in call]
    names, modules, bound = _names(tree, entry_point)
    read = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    checks = marker.checks.difference(*(marks for name, marks in marker.idle.items() if name not in read))
    code = compile(ast.fix_missing_locations(tree), "<tests>", "exec", dont_inherit=True)
    task = {
        "code": code,
        "names": sorted(names),
        "modules": sorted(modules),
        "bound": bound,
        "checks": checks,
        "asserts": marker.asserts,
        "required": marker.required,
        "functions": marker.functions,
        "classes": marker.classes,
    }
    return Prepared(task, len(checks), source.splitlines())


class _Marker:
    """Puts marks into the statements, and remembers their numbers."""

    def __init__(self) -> None:
        self.checks: set[int] = set()
        self.asserts: list[tuple[int, int]] = []
        """First and last line of each check that is a single statement, but for those that exit."""
        self.required: list[tuple[int, int]] = []
        self.functions: list[tuple[str, int]] = []
        self.classes: list[tuple[str, list[tuple[str, int]]]] = []
        self.idle: dict[str, set[int]] = {}
        """The checks in definitions at the top level that nobody calls, unless their names are read."""
        self._next = 0

    def visit_body(self, body: list[ast.stmt], *, top: bool = False) -> None:
        """Mark the statements of one block, and of the blocks in it."""
        for statement in list(body):
            before = set(self.checks)
            if _is_check(statement):
                mark = self._mark(statement)
                self.checks.add(mark)
                if not isinstance(statement, _COMPOUND) and not _is_exit(statement):
                    self.asserts.append((statement.lineno, statement.end_lineno or statement.lineno))
                if top:
                    self.required.append((mark, statement.lineno))
                body.insert(body.index(statement), _call(mark, statement))
            for block in _blocks(statement):
                self.visit_body(block)
            if top and not self._is_called(statement):
                self.idle[statement.name] = self.checks - before  # type: ignore[attr-defined]

    def _is_called(self, statement: ast.stmt) -> bool:
        """Whether a statement at the top level is executed, or is a test function or class, which the examiner runs."""
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            if not statement.name.startswith("test") or _required_arguments(statement):
                return bool(statement.decorator_list)
            self.functions.append((statement.name, self._entry(statement)))
        elif isinstance(statement, ast.ClassDef):
            kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
            methods = [m for m in statement.body if isinstance(m, kinds) and m.name.startswith("test")]
            if not methods or not (statement.name.startswith("Test") or statement.bases):
                return bool(statement.decorator_list)
            self.classes.append((statement.name, [(m.name, self._entry(m)) for m in methods]))
        return True

    def _entry(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
        mark = self._mark(function)
        function.body.insert(0, _call(mark, function))
        return mark

    def _mark(self, statement: ast.stmt) -> int:
        self._next += 1
        return self._next


def _is_check(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Assert):
        return True
    if isinstance(statement, _COMPOUND):
        return any(isinstance(node, ast.Assert | ast.Raise) or _is_call_of_check(node) for node in _inside(statement))
    if isinstance(statement, _LOOPS | _DEFINITIONS):
        return False
    return any(_is_call_of_check(node) for node in _inside(statement))


def _is_call_of_check(node: ast.AST) -> bool:
    return _exits(node) or _called(node).lower().startswith("assert") or _called(node) == "fail"


def _is_exit(statement: ast.stmt) -> bool:
    return not isinstance(statement, ast.Assert) and any(map(_exits, _inside(statement)))


def _exits(node: ast.AST) -> bool:
    return _called(node) in ("exit", "_exit", "quit")


def _called(node: ast.AST) -> str:
    """The last name of what is called; empty for what is no call."""
    if not isinstance(node, ast.Call):
        return ""
    function = node.func
    return function.attr if isinstance(function, ast.Attribute) else str(getattr(function, "id", ""))


def _inside(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes below, without the bodies of functions and classes."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, _DEFINITIONS):
            yield child
            yield from _inside(child)


def _blocks(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    for field in ("body", "orelse", "finalbody"):
        block = getattr(statement, field, None)
        if isinstance(block, list):
            yield block
    for part in [*getattr(statement, "handlers", []), *getattr(statement, "cases", [])]:
        yield part.body


def _call(mark: int, place: ast.stmt) -> ast.stmt:
    call = ast.Expr(ast.Call(ast.Name(MARK, ast.Load()), [ast.Constant(mark)], []))
    return ast.fix_missing_locations(ast.copy_location(call, place))


def _required_arguments(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    given = function.args
    return len(given.posonlyargs) + len(given.args) - len(given.defaults) + sum(d is None for d in given.kw_defaults)


def _is_check_function(tree: ast.Module, entry_point: str) -> bool:
    """Whether the tests define `check(candidate)` and leave calling it to others."""
    defined = any(
        isinstance(node, ast.FunctionDef) and node.name == "check" and _required_arguments(node) == 1
        for node in tree.body
    )
    called = any(
        isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id == "check" for n in ast.walk(tree)
    )
    return defined and not called and entry_point.isidentifier()


def _names(tree: ast.Module, entry_point: str) -> tuple[set[str], set[str], set[str]]:
    """Names that may come from the program, modules to import, and names that the tests bind somewhere."""
    loads: set[str] = set()
    attribute_bases: set[str] = set()
    everywhere: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            (loads if isinstance(node.ctx, ast.Load) else everywhere).add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            attribute_bases.add(node.value.id)
        elif isinstance(node, ast.arg):
            everywhere.add(node.arg)
        elif isinstance(node, ast.alias):
            everywhere.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            everywhere.add(node.name)
    loads.discard(MARK)
    modules = {n for n in attribute_bases if n in sys.stdlib_module_names and n not in everywhere and n != "builtins"}
    open_names = {n for n in loads if not n.startswith("__")} - modules
    own = {name for name in open_names if hasattr(builtins, name)}
    open_names -= {name for name in own if isinstance(vars(builtins)[name], type) and name[0].isupper()}  # exceptions
    if (open_names - own - everywhere) or (entry_point and entry_point not in own):
        open_names -= own
    if entry_point:
        open_names.add(entry_point)
    return open_names, modules, everywhere
