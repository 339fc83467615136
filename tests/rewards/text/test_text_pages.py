"""What docs/rewards/text.md and docs/rewards/combining.md show is what happens."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from groupwise.rewards import Number
from groupwise.rewards.text.constraints import Constraint, Constraints
from groupwise.rewards.text.format import Format
from groupwise.rewards.text.language import Language
from groupwise.rewards.text.length import Length
from groupwise.rewards.text.overlong import Overlong
from groupwise.rewards.text.repetition import Repetition
from groupwise.rewards.text.template import parse

DOCS = Path(__file__).parents[3] / "docs" / "rewards"
TEXT, COMBINING = ((DOCS / f"{name}.md").read_text("utf-8") for name in ("text", "combining"))
CLASSES = {
    cls.model_fields["name"].default: cls
    for cls in (Number, Format, Constraints, Length, Repetition, Overlong, Language)
}


def test_examples_print_what_the_page_says(capsys: pytest.CaptureFixture[str]) -> None:
    examples = re.findall(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
    assert len(examples) == TEXT.count("```python") == 2
    for program, printed in examples:
        exec(program, {})
        assert capsys.readouterr().out == printed


def test_tables_of_the_run_file_are_such() -> None:
    seen = set()
    for block in re.findall(r"^```toml\n(.*?)^```", TEXT + COMBINING, re.MULTILINE | re.DOTALL):
        for table in tomllib.loads(block)["rewards"]:
            settings = CLASSES[table["name"]].model_validate(table)
            assert type(settings).model_validate(settings.model_dump(mode="json", exclude_none=True)) == settings
            seen.add(table["name"])
    assert seen == set(CLASSES)


def test_templates_of_the_page_can_be_read_and_kinds_are_all_there() -> None:
    templates = re.search(r"^\| for \| template \|\n(.*?)\n\n", TEXT, re.MULTILINE | re.DOTALL)
    assert templates is not None
    for template in re.findall(r"`([^`]+)` \|$", templates[1], re.MULTILINE):
        assert parse(template).holes
    table = re.search(r"^\| kind \| takes.*?\n\n", TEXT, re.MULTILINE | re.DOTALL)
    assert table is not None
    for word in re.findall(r"'(\w+)'", str(Constraint.model_fields["kind"].annotation)):
        assert f"`{word}`" in table[0], word
