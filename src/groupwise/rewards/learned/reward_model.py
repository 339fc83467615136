"""The reward `reward_model`: the score that a reward model gives to a conversation.

    [[rewards]]
    name = "reward_model"
    model = "my-org/reward-model"

The model is a decoder of transformers' sequence-classification kind. It reads the messages and the answer through its
own chat template (or prompt and completion as text), and its score is read at the last token that is no padding, which
the mask tells: an end-of-text token is often the padding token too, so no token's value can. The value is the logit
itself. A model can be fooled: watch a metric that it doesn't give.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from groupwise.errors import ModelError
from groupwise.rewards.contract import Record
from groupwise.rewards.learned.frozen import Frozen, FrozenSettings
from groupwise.rewards.learned.model_reward import ModelReward, Row
from groupwise.rewards.learned.reading import ScoreAt, whole
from groupwise.types import Score

if TYPE_CHECKING:
    from torch import Tensor


class RewardModel(FrozenSettings):
    """The score of a sequence-classification model."""

    name: Literal["reward_model"] = "reward_model"
    logit: str | int | None = None
    """Which output is the score, by its name in the model's config or its number; needed where there are several."""
    score_at: ScoreAt | None = None
    """Where a chat's score is read: at the last token that the chat template writes, or at the token that ends the
    assistant's turn, which differ where the template writes a line break after it. By default what the model's
    config.json says under `groupwise_score_at`, else `conversation`."""
    correct_above: float | None = None
    """A completion whose score is higher is correct, any other is not; by default the model gives no verdict."""

    def build(self, base: Path) -> Conversations:
        """The reward, with no model loaded yet."""
        return Conversations(self, base)


class Conversations(ModelReward):
    """The reward around a reward model."""

    auto_class = "AutoModelForSequenceClassification"

    def __init__(self, settings: RewardModel, base: Path) -> None:
        super().__init__(settings, base)
        self.settings = settings

    def _check_model(self, frozen: Frozen) -> None:
        """A decoder's scoring layer is called `score`; other models read theirs at a place that they choose."""
        from torch import nn

        if not isinstance(dict(frozen.model.named_children()).get("score"), nn.Linear):
            kind = type(frozen.model).__name__
            told = f"reward {self.name!r}: a {kind} has no score at its last token"
            raise ModelError(told, fix="give a decoder that was trained as a reward model")
        self._column(frozen)
        if self._score_at(frozen) not in get_args(ScoreAt):
            told = f"reward {self.name!r}: the model's config.json says that its score is at {self._score_at(frozen)!r}"
            raise ModelError(told, fix=f"set `score_at` to one of {', '.join(get_args(ScoreAt))}")

    def _score_at(self, frozen: Frozen) -> ScoreAt:
        from groupwise.models.classifiers import SCORE_AT

        if self.settings.score_at is not None:
            return self.settings.score_at
        return frozen.model.config.to_dict().get(SCORE_AT, "conversation")

    def _read(self, record: Record, frozen: Frozen) -> Row:
        return Row(record, whole(record, frozen, self.settings.input, self._score_at(frozen)))

    def _failed(self, record: Record, reason: str) -> Score:
        return Score(value=None, reason=f"not scored: {reason}")

    def _scores(self, rows: Sequence[Row], frozen: Frozen) -> list[Score]:
        ids, mask = frozen.batch([row.ids for row in rows])
        values = last_scores(frozen.model, ids, mask)[:, self._column(frozen)].tolist()
        return [self._score(row, value) for row, value in zip(rows, values, strict=True)]

    def _column(self, frozen: Frozen) -> int:
        """Which logit is the score."""
        config, asked = frozen.model.config, self.settings.logit
        names = [str(config.id2label[number]) for number in range(config.num_labels)]
        if asked is None and config.num_labels == 1:
            return 0
        if isinstance(asked, str) and asked in names:
            return names.index(asked)
        if isinstance(asked, int) and 0 <= asked < config.num_labels:
            return asked
        told = (
            f"reward {self.name!r}: model {self.settings.model} has {config.num_labels} outputs and logit = {asked!r}"
        )
        raise ModelError(told, fix=f"set `logit` to one of {', '.join(names)}, or its number from 0")

    def _score(self, row: Row, value: float) -> Score:
        if not math.isfinite(value):
            return self._failed(row.record, f"the model gave {value}")
        limit = self.settings.correct_above
        told = f"{value:.4g}, read at the last of {len(row.ids)} tokens"
        if limit is None:
            return Score(value, reason=told)
        return Score(value, value > limit, f"{told}; {'above' if value > limit else 'not above'} {limit:g}")


def last_scores(model: Any, ids: Tensor, mask: Tensor) -> Tensor:
    """ids, mask [rows, width], padded at either side -> [rows, labels] float32 at each row's last real token."""
    import torch
    from torch.nn.functional import linear

    with torch.no_grad():
        positions = (mask.cumsum(1) - 1).clamp(min=0)
        hidden = model.base_model(ids, attention_mask=mask, position_ids=positions).last_hidden_state
        last = (mask * torch.arange(1, mask.shape[1] + 1, device=mask.device)).argmax(1)
        rows = hidden[torch.arange(len(ids), device=ids.device), last].float()
        bias = None if model.score.bias is None else model.score.bias.float()
        return linear(rows, model.score.weight.float(), bias)
