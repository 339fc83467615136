"""Groups of completions that stand in the rows already: demonstrations, pairs, demonstrations with labelled steps."""

from __future__ import annotations

from collections.abc import Sequence

from transformers import PreTrainedTokenizerBase

from groupwise.algorithms.contract import Needs
from groupwise.tasks.chat import ChatSettings
from groupwise.tasks.contract import Row
from groupwise.tasks.rendering import demonstration_tokens
from groupwise.tasks.step_labels import labelled_steps
from groupwise.types import Completion, Group, Prompt, Score, Segment

COLUMNS = {"prompts": (), "demonstrations": ("completion",), "pairs": ("chosen", "rejected"), "steps": ("labels",)}
"""The columns that hold what is written, by the source that an algorithm needs."""


def written_groups(
    rows: Sequence[Row],
    prompts: Sequence[Prompt],
    tokenizer: PreTrainedTokenizerBase,
    chat: ChatSettings,
    needs: Needs,
) -> list[Group]:
    """One group per prompt, named as the prompt is; none where the algorithm samples. Raises `DataError`."""
    if needs.source == "prompts":
        return []
    row_of = {row["id"]: row for row in rows}
    return [_group(prompt, row_of[prompt.id], tokenizer, chat, needs) for prompt in prompts]


def _group(prompt: Prompt, row: Row, tokenizer: PreTrainedTokenizerBase, chat: ChatSettings, needs: Needs) -> Group:
    scores: tuple[Score | None, ...]
    if needs.source == "steps":
        ids, labels, ends = labelled_steps(row, tokenizer, chat)
        sound = all(label is None or label > 0.5 for label in labels)
        scores = (Score(float(sound), sound, "labels of its steps", step_rewards=labels, step_ends=ends),)
        written = [ids]
    else:
        written = [demonstration_tokens(row, tokenizer, chat, column=name) for name in COLUMNS[needs.source]]
        scores = (None,) * len(written)
    return Group(prompt.id, prompt, tuple(Completion((Segment(ids, None),), "stop") for ids in written), scores)
