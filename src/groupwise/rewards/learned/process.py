"""The reward `process`: a reward for each step of a completion, from a process reward model.

    [[rewards]]
    name = "process"
    model = "my-org/process-reward-model"

Two kinds of model. A token-classification model says at the last token of a step how good the step is: with one output
its sigmoid, with two the probability of the second. A causal model says it with its next token, `good_token` or
`bad_token`: the probability of the first of the two. Models that were trained with a mark after each step need that
`mark`, and are read there. The model reads the whole completion once, in its own tokens; the module `steps` beside this
one says what a step is, and how its reward finds the sampled token.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import Field, model_validator

from groupwise.errors import ModelError
from groupwise.rewards.contract import Record
from groupwise.rewards.learned.frozen import Frozen, FrozenSettings
from groupwise.rewards.learned.model_reward import ModelReward, Row
from groupwise.rewards.learned.reading import Unreadable, prompt, refuse_control_tokens, with_places
from groupwise.rewards.learned.steps import Aggregate, failed, scored, split
from groupwise.types import Score, Span

if TYPE_CHECKING:
    from torch import Tensor


class Process(FrozenSettings):
    """Rewards of steps from a process reward model, and their aggregate as the completion's."""

    name: Literal["process"] = "process"
    aggregate: Aggregate = "min"
    """How the steps' rewards become the completion's value."""
    separator: str = Field(default="\n", min_length=1)
    """What stands between two steps."""
    mark: str | None = Field(default=None, min_length=1)
    """What the model is shown in place of the separator after each step, the last one included. Its rewards are read at
    the mark's last token, white space at the mark's end left out unless the mark is nothing else."""
    good_token: str | None = None
    """The token by which a causal model calls a step good: an entry of its vocabulary, or text of one token."""
    bad_token: str | None = None
    """The token by which it calls a step bad."""

    @model_validator(mode="after")
    def _both_tokens(self) -> Process:
        if (self.good_token is None) != (self.bad_token is None):
            raise ValueError("give both `good_token` and `bad_token` (a causal model), or neither")
        if self.good_token is not None and self.mark is None:
            raise ValueError("a causal model with `good_token` is read at a `mark`; give the one it was trained with")
        return self

    def build(self, base: Path) -> Steps:
        """The reward, with no model loaded yet."""
        return Steps(self, base)


class Steps(ModelReward):
    """The reward around a process reward model."""

    def __init__(self, settings: Process, base: Path) -> None:
        super().__init__(settings, base)
        self.settings = settings
        self.auto_class = "AutoModelForTokenClassification" if settings.good_token is None else "AutoModelForCausalLM"
        self._tokens: tuple[int, int] | None = None

    def _check_model(self, frozen: Frozen) -> None:
        told = f"reward {self.name!r}: model {self.settings.model}"
        if not frozen.tokenizer.is_fast:
            raise ModelError(f"{told} has a tokenizer that can't tell where tokens stand", fix="give it a fast one")
        if self.settings.good_token is not None:
            good, bad = (self._token(text, frozen) for text in (self.settings.good_token, self.settings.bad_token))
            self._tokens = good, bad
        elif frozen.model.config.num_labels not in (1, 2):
            told = f"{told} has {frozen.model.config.num_labels} outputs for each token"
            raise ModelError(told, fix="give a model with one (good) or two (bad, good)")

    def _token(self, text: str | None, frozen: Frozen) -> int:
        vocabulary = frozen.tokenizer.get_vocab()
        ids = (
            [vocabulary[text]] if text in vocabulary else frozen.tokenizer(text, add_special_tokens=False)["input_ids"]
        )
        if len(ids) != 1:
            told = f"reward {self.name!r}: {text!r} is {len(ids)} tokens of model {self.settings.model}"
            raise ModelError(told, fix="name one entry of its vocabulary")
        return int(ids[0])

    def _read(self, record: Record, frozen: Frozen) -> Row:
        steps, mark = self._steps(record), self.settings.mark
        if not steps:
            raise Unreadable("the completion has no step")
        refuse_control_tokens(record.text, frozen)
        before = prompt(record, frozen, self.settings.input)
        if mark is None:
            return Row(record, *with_places(before, record.text, [end for _, end in steps], frozen))
        text, ends = "", []
        for start, end in steps:
            text += record.text[start:end]
            ends.append(len(text) + len(mark.rstrip() or mark))
            text += mark
        return Row(record, *with_places(before, text, ends, frozen))

    def _failed(self, record: Record, reason: str) -> Score:
        return failed(record, self._steps(record), f"not scored: {reason}")

    def _scores(self, rows: Sequence[Row], frozen: Frozen) -> list[Score]:
        import torch

        ids, mask = frozen.batch([row.ids for row in rows])
        kept = sorted({place for row in rows for place in row.places})
        with torch.no_grad():
            chances = self._chances(frozen, ids, mask, torch.tensor(kept, device=frozen.device)).tolist()
        column = {place: number for number, place in enumerate(kept)}
        return [
            self._score(row, [own[column[place]] for place in row.places])
            for own, row in zip(chances, rows, strict=True)
        ]

    def _score(self, row: Row, rewards: Sequence[float]) -> Score:
        if not all(map(math.isfinite, rewards)):
            return self._failed(row.record, "the model gave a reward that is no number")
        return scored(row.record, self._steps(row.record), rewards, self.settings.aggregate)

    def _steps(self, record: Record) -> list[Span]:
        return split(record.text, self.settings.separator)

    def _chances(self, frozen: Frozen, ids: Tensor, mask: Tensor, kept: Tensor) -> Tensor:
        """[rows, kept] how likely a step that ends there is good."""
        if self._tokens is not None:
            output = frozen.model(ids, attention_mask=mask, logits_to_keep=kept)
            return output.logits[..., list(self._tokens)].float().softmax(-1)[..., 0]
        logits = frozen.model(ids, attention_mask=mask).logits[:, kept].float()
        return logits[..., 0].sigmoid() if logits.shape[-1] == 1 else logits.softmax(-1)[..., 1]
