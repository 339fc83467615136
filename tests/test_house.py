"""The rules of the house: which way imports go, what is light to import, how large things are, what is documented."""

from __future__ import annotations

import ast
import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

from groupwise.algorithms import ALGORITHMS
from groupwise.algorithms.presets import PRESETS
from groupwise.run_file import load_run, packaged_runs, to_toml

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "groupwise"
MODULES = sorted(PACKAGE.rglob("*.py"))

BASE = {"types", "errors", "settings"}
"""What every room may import."""

MAY_IMPORT: dict[str, set[str]] = {
    "core": set(),
    "algorithms": {"core"},
    "evaluation": {"algorithms", "core"},
    "packing": set(),
    "planning": set(),
    "models": {"packing", "planning"},
    "engines": {"models", "packing"},
    "tasks": set(),
    "rewards": {"models"},
    "sources": {"engines", "rewards", "tasks"},
    "statistics": set(),
    "telemetry": {"statistics"},
    "alarms": set(),
    "report": {"alarms", "statistics", "telemetry"},
    "run": {"alarms", "algorithms", "engines", "models", "rewards", "tasks", "telemetry"},
    "run_errors": {"run"},
    "run_file": {"run", "run_errors"},
    "training": {
        "alarms", "algorithms", "core", "engines", "models", "packing", "planning", "report", "rewards", "run",
        "run_file", "sources", "statistics", "tasks", "telemetry",
    },
    "checking": {
        "alarms", "engines", "models", "rewards", "run", "run_file", "sources", "tasks", "telemetry", "training",
    },
    "evaluating": {
        "engines", "models", "rewards", "run", "run_file", "sources", "statistics", "tasks", "telemetry", "training",
    },
    "cli": {"alarms", "checking", "evaluating", "planning", "report", "run_file", "telemetry", "training"},
}  # fmt: skip
"""The rooms in order, and the other rooms that each may import: only ones that stand before it."""

OPTIONAL = {"peft", "vllm", "ray", "wandb", "trackio", "tensorboard", "reasoning_gym"}
"""Libraries that need not be installed, or are slow to import."""

LONGEST_FILE, LONGEST_FUNCTION = 350, 70


def name_of(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def room_of(path: Path) -> str:
    first = path.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


def imported(node: ast.AST) -> list[str]:
    """The modules that one import statement names; none for anything else. `from groupwise import x` names both."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        assert node.level == 0 and node.module is not None, "imports are absolute"
        if node.module == "groupwise":
            return [f"groupwise.{alias.name}" for alias in node.names]
        return [node.module]
    return []


def outside_functions(node: ast.AST) -> Iterator[ast.AST]:
    """Every node that runs when the module is imported; `if TYPE_CHECKING` does not."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(child, ast.If) and isinstance(child.test, ast.Name) and child.test.id == "TYPE_CHECKING":
            continue
        yield child
        yield from outside_functions(child)


def wrong_arrows(room: str, tree: ast.Module) -> list[str]:
    """Imports of rooms that this one may not know, wherever they stand: in functions and for types too."""
    allowed = BASE | {room} | MAY_IMPORT.get(room, set())
    wrong = []
    for node in ast.walk(tree):
        for module in imported(node):
            parts = module.split(".")
            if parts[0] == "groupwise" and len(parts) > 1 and parts[1] not in allowed:
                wrong.append(f"line {getattr(node, 'lineno', 0)}: {room} imports {parts[1]}")
    return wrong


def test_the_table_is_of_the_rooms_that_are_there_and_has_no_circle() -> None:
    rooms = {room_of(path) for path in MODULES} - BASE - {"__init__", "runs"}
    assert rooms == set(MAY_IMPORT)
    before: set[str] = set()
    for room, others in MAY_IMPORT.items():
        assert others <= before, f"{room} may import rooms that come after it"
        before.add(room)
    maths = MAY_IMPORT["core"] | MAY_IMPORT["algorithms"]
    assert not maths & {"models", "engines", "rewards", "telemetry"}


@pytest.mark.parametrize("path", [path for path in MODULES if path != PACKAGE / "__init__.py"], ids=name_of)
def test_imports_go_one_way(path: Path) -> None:
    assert not wrong_arrows(room_of(path), tree_of(path))


@pytest.mark.parametrize(
    "line",
    [
        "from groupwise.models.policy import Policy",
        "def f():\n    import groupwise.engines.torch",
        "if TYPE_CHECKING:\n    from groupwise import telemetry",
    ],
)
def test_a_wrong_arrow_is_seen_wherever_it_stands(line: str) -> None:
    assert wrong_arrows("core", ast.parse(line))
    assert not wrong_arrows("core", ast.parse("from groupwise.types import Batch\nimport torch"))


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_optional_libraries_are_imported_where_they_are_used(path: Path) -> None:
    at_import = {module.split(".")[0] for node in outside_functions(tree_of(path)) for module in imported(node)}
    assert not at_import & OPTIONAL


def test_the_package_itself_imports_nothing_of_its_own() -> None:
    nodes = outside_functions(tree_of(PACKAGE / "__init__.py"))
    assert not [module for node in nodes for module in imported(node) if module.startswith("groupwise")]


@pytest.mark.parametrize(
    "module",
    [
        "groupwise",
        "groupwise.types",
        "groupwise.rewards",
        "groupwise.rewards.workers.worker",
        "groupwise.planning.checkpointing",
        "groupwise.planning.machine",
    ],
)
def test_light_modules_do_not_import_torch(module: str) -> None:
    program = f"import sys, {module}; print(sorted({{'torch', 'transformers', 'datasets'}} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_files_and_functions_are_small(path: Path) -> None:
    lines = len(path.read_text("utf-8").splitlines())
    assert lines <= LONGEST_FILE, f"{lines} lines"
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            length = node.end_lineno - node.lineno + 1
            assert length <= LONGEST_FUNCTION, f"{node.name} has {length} lines"


@cache
def documented_methods() -> set[str]:
    """Methods that a contract, a protocol or an abstract base says all about; their implementations need not again."""
    names = set()
    for path in MODULES:
        for node in ast.walk(tree_of(path)):
            bases = [ast.unparse(base) for base in node.bases] if isinstance(node, ast.ClassDef) else []
            if isinstance(node, ast.ClassDef) and {"Protocol", "ABC"} & set(bases):
                names |= {f.name for f in node.body if isinstance(f, ast.FunctionDef) and ast.get_docstring(f)}
    return names


def undocumented(body: list[ast.stmt], exempt: set[str]) -> Iterator[str]:
    for node in body:
        if not isinstance(node, ast.FunctionDef | ast.ClassDef) or node.name.startswith("_") or node.name in exempt:
            continue
        if not ast.get_docstring(node):
            yield node.name
        if isinstance(node, ast.ClassDef):
            protocol = "Protocol" in [ast.unparse(base) for base in node.bases]
            yield from (f"{node.name}.{name}" for name in ([] if protocol else undocumented(node.body, exempt)))


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_every_public_name_is_documented(path: Path) -> None:
    tree = tree_of(path)
    assert ast.get_docstring(tree), "the module has no docstring"
    functions_and_classes = undocumented(tree.body, set())
    missing = [name for name in functions_and_classes if name.rpartition(".")[2] not in documented_methods()]
    assert not missing


@pytest.fixture(scope="module")
def make_settings() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_settings", ROOT / "docs" / "make_settings.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["make_settings"] = module
    spec.loader.exec_module(module)
    return module


def test_the_list_of_settings_is_the_committed_one(make_settings: ModuleType) -> None:
    """A new setting is a decision: it shows in the diff of tests/settings.txt."""
    names = [name for section in make_settings.sections() for name in section.names()]
    committed = (ROOT / "tests" / "settings.txt").read_text("utf-8").splitlines()
    assert [line for line in committed if not line.startswith("#")] == names
    common = [name for name in names if "[" not in name]
    assert committed[0] == f"# {len(names)} settings, {len(common)} of them outside algorithms, tasks, rewards, engines"


def test_every_setting_is_documented(make_settings: ModuleType) -> None:
    blank = [
        f"{section.place}.{setting.name}"
        for section in make_settings.sections()
        for setting in section.settings
        if not setting.about
    ]
    assert not blank


def test_the_reference_of_settings_is_current(make_settings: ModuleType) -> None:
    assert make_settings.PAGE.read_text("utf-8") == make_settings.page(), "run python docs/make_settings.py"


@pytest.mark.parametrize("name", packaged_runs())
def test_packaged_runs_load_and_round_trip(name: str, tmp_path: Path) -> None:
    run = load_run(name).run
    file = tmp_path / "run.toml"
    file.write_text(to_toml(run), "utf-8")
    assert load_run(file).run == run


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_has_a_page_with_the_fixed_headings(name: str) -> None:
    text = (ROOT / "docs" / "algorithms" / f"{name}.md").read_text("utf-8")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == [
        "Equation",
        "Data and models in memory",
        "Settings",
        "What to watch",
        "Differences from the paper and from other trainers",
        "A run file",
    ]


def run_files(page: Path) -> list[str]:
    """The TOML blocks of a page that say how many steps: whole run files."""
    blocks = re.findall(r"^```toml\n(.*?)^```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    return [block for block in blocks if re.search(r"^steps = ", block, re.MULTILINE)]


def test_run_files_in_the_docs_load(tmp_path: Path) -> None:
    for page in sorted((ROOT / "docs").rglob("*.md")):
        for block in run_files(page):
            file = tmp_path / "run.toml"
            file.write_text(block, "utf-8")
            run = load_run(file).run
            if page.parent.name == "algorithms":
                assert page.stem in [stage.algorithm.name for stage in run.stages], "a page's run file is about it"
    assert all(run_files(ROOT / "docs" / "algorithms" / f"{name}.md") for name in ALGORITHMS)


def test_examples_of_evaluate_print_what_the_docs_say(capsys: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / "docs" / "evaluate.md").read_text("utf-8")
    examples = re.findall(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert len(examples) == text.count("```python") >= 3
    for program, printed in examples:
        exec(program, {})
        assert capsys.readouterr().out == printed


def test_every_preset_is_in_the_docs() -> None:
    text = (ROOT / "docs" / "presets.md").read_text("utf-8")
    for preset, algorithms in PRESETS.items():
        for algorithm in algorithms:
            assert re.search(rf"^\|.*`{algorithm}`.*`{preset}`", text, re.MULTILINE) or (
                algorithm == "grpo" and f"| `{preset}` |" in text
            )


def test_links_in_the_docs_lead_somewhere() -> None:
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text("utf-8")):
            if not link.startswith(("http:", "https:")):
                assert (page.parent / link).exists(), f"{page.name}: {link}"


def tree_in_the_readme() -> list[str]:
    """The paths of README's annotated tree, relative to the package; a folder ends in a slash."""
    blocks = re.findall(r"^```\w*\n(src/groupwise/.*?)^```", (ROOT / "README.md").read_text("utf-8"), re.M | re.S)
    assert len(blocks) == 1, "README has one annotated tree, in a block that starts with src/groupwise/"
    paths: list[str] = []
    folders: list[tuple[int, str]] = []
    for line in blocks[0].splitlines()[1:]:
        if not line.strip():
            continue
        indent, token = len(line) - len(line.lstrip()), line.split()[0]
        folders = [(depth, folder) for depth, folder in folders if depth < indent]
        path = (folders[-1][1] if folders else "") + token
        if token.endswith("/"):
            folders.append((indent, path))
        paths.append(path)
    return paths


def test_the_tree_in_the_readme_is_the_real_one() -> None:
    """Every module but `__init__.py` stands in it; a folder without lines of its own stands for all it holds."""
    shown = tree_in_the_readme()
    assert len(set(shown)) == len(shown)
    whole = [
        path
        for path in shown
        if path.endswith("/") and not any(other != path and other.startswith(path) for other in shown)
    ]
    real = {path.relative_to(PACKAGE).as_posix() for path in MODULES if path.name != "__init__.py"}
    assert all((PACKAGE / path).is_dir() for path in shown if path.endswith("/"))
    uncovered = {path for path in real if not path.startswith(tuple(whole))}
    assert {path for path in shown if not path.endswith("/")} == uncovered
