"""The task `instructions`: short instructions whose answers a few lines of code can check.

`Describe the sea in at most 12 words.` Each family of instructions (`groupwise.tasks.families`) has one rule
on the form of the answer. Training and test topics are different ones, so the test measures following the
instruction and not memory. The default families are those that a 135M-parameter instruct model meets now and
then, which is what learning from its own samples needs.

A completion that was cut at the token limit is wrong, whatever it says: the model had not finished, and a
rule that held so far (no commas, the word used) may not have held to the end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice, product
from typing import Any, Literal, Protocol

from pydantic import Field, field_validator

from groupwise.errors import DataError
from groupwise.settings import Settings
from groupwise.tasks.contract import Row, Split
from groupwise.tasks.families import FAMILIES, TEST_TOPICS, TRAIN_TOPICS, Family
from groupwise.tasks.keyed import keyed_order
from groupwise.tasks.rows import suggestion
from groupwise.types import Score

DEFAULT_FAMILIES = ("at_most_words", "one_word", "no_commas", "last_word", "contains_word", "forbidden_words")


class Instructions(Settings):
    """Verifiable instructions, made from the seed. Any run of `len(families)` rows from the start of a split
    has each family once, in the order of `families`, about varied topics."""

    name: Literal["instructions"] = "instructions"
    families: tuple[str, ...] = Field(default=DEFAULT_FAMILIES, min_length=1)
    """Which kinds of instruction: at_most_words, one_word, no_commas, last_word, contains_word,
    contains_two_words, forbidden_words, lower_case, upper_case, exact_words, exact_sentences, list_items,
    brackets, json_keys, numbered_list."""
    variants: int = Field(default=1, ge=1)
    """How many of a family's parameters to draw from: with 1, `last_word` always asks for "today"; with 2,
    for "today" or "again". A family that has fewer uses all of its own."""
    train_rows: int = Field(default=576, ge=1)
    """How many instructions there are to train on."""
    test_rows: int = Field(default=48, ge=0)
    """How many instructions there are to test on."""

    @field_validator("families")
    @classmethod
    def _known(cls, families: tuple[str, ...]) -> tuple[str, ...]:
        for family in families:
            if family not in FAMILIES:
                raise DataError(
                    f"there is no family {family!r}{suggestion(family, FAMILIES)}",
                    fix=f"choose from {', '.join(FAMILIES)}",
                )
        if len(set(families)) < len(families):
            raise DataError(f"a family is named twice in {list(families)}", fix="name each once")
        return families

    def rows(self, split: Split, seed: int) -> Sequence[Row]:
        """The instructions of a split. A larger number of rows begins with the same ones."""
        wanted = self.train_rows if split == "train" else self.test_rows
        each = -(-wanted // len(self.families))
        columns = [self._family_rows(FAMILIES[family], split, seed, each) for family in self.families]
        return [row for round_of_families in zip(*columns, strict=True) for row in round_of_families][:wanted]

    def reward(self) -> Mapping[str, Any]:
        return {"name": "function", "target": "groupwise.tasks.instructions:verify", "label": "instructions"}

    def _family_rows(self, family: Family, split: Split, seed: int, count: int) -> list[dict[str, Any]]:
        """`count` different instructions of one family: all topics once, then all again asked differently,
        and so on."""
        topics = TRAIN_TOPICS if split == "train" else TEST_TOPICS
        ways = list(product(range(len(family.wordings)), range(min(self.variants, len(family.variants)))))
        most = len(topics) * len(ways)
        if count > most:
            raise DataError(
                f"{count} {split} rows of the family {family.name!r} are asked for and {most} exist",
                fix=f"lower `{split}_rows`, raise `variants`, or name more families",
            )
        order = (
            (topic, turn) for turn in range(len(ways)) for topic in keyed_order(topics, seed, split, family.name, turn)
        )
        rows = []
        for topic, turn in islice(order, count):
            wording, variant = keyed_order(ways, seed, split, family.name, topic.phrase)[turn]
            parameters = dict(family.variants[variant])
            rows.append({
                "id": f"{family.name}.{topic.phrase.replace(' ', '-')}.{wording}.{variant}",
                "messages": [{"role": "user", "content": family.instruction(topic, wording, parameters)}],
                "family": family.name,
                "parameters": parameters,
                "completion": family.reference(topic, parameters),
            })  # fmt: skip
        return rows


class Answered(Protocol):
    """The fields of a reward's record that `verify` reads."""

    @property
    def columns(self) -> Mapping[str, Any]: ...
    @property
    def clean_text(self) -> str: ...
    @property
    def finish_reason(self) -> str: ...


def verify(record: Answered) -> Score:
    """1.0 for an answer that meets its instruction, else 0.0; the part named after the family shows how each
    does."""
    name = record.columns["family"]
    if name not in FAMILIES:
        raise DataError(f"there is no family {name!r}{suggestion(name, FAMILIES)}", fix="correct the column `family`")
    if record.finish_reason == "aborted":
        return Score(value=None, reason="sampling was aborted")
    if record.finish_reason == "length":
        return Score(0.0, correct=False, reason="cut at the token limit", parts={name: 0.0})
    verdict = FAMILIES[name].verify(record.clean_text, record.columns["parameters"])
    value = float(verdict.correct)
    return Score(value, correct=verdict.correct, reason=verdict.reason, parts={name: value})


verify.columns = ["family", "parameters"]  # type: ignore[attr-defined]
