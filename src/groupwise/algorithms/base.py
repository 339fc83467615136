"""What algorithms share.

`AlgorithmSettings` is the base of all: nothing is dropped, nothing is diagnosed, and
settings stay what they are. `GroupRelative`, `ActorCritic` and `PolicyGradient` are in files of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import torch
from pydantic import model_validator
from torch import Tensor

from groupwise.algorithms.contract import Loss
from groupwise.algorithms.parts import Reads
from groupwise.algorithms.presets import PresetName, with_preset
from groupwise.core.layout import Reduce, identity
from groupwise.errors import DataError
from groupwise.settings import Settings
from groupwise.types import Batch, Group, Metric


class AlgorithmSettings(Settings):
    """The base of every algorithm; see `groupwise.algorithms.contract`."""

    differences: ClassVar[tuple[str, ...]] = ()
    """How this differs from the published form, a sentence or two each; the docs quote it."""
    preset: PresetName | None = None
    """Take the values that another system or a paper gives these settings; keys beside it win."""

    @model_validator(mode="before")
    @classmethod
    def _lay_preset(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        optional = {key for key, field in cls.model_fields.items() if field.default is None}
        return with_preset(data, cls.model_fields["name"].default, optional)

    @property
    def reads(self) -> Reads:
        """Log-probs and the mask alone."""
        return Reads()

    def keep(self, group: Group) -> str | None:
        """All. One without any score is masked by `credit`, and still counts in N as its completions would."""
        return None

    def select(self, group: Group) -> Sequence[Group]:
        """All of it."""
        return [group]

    def mask(self, batch: Batch) -> Batch:
        """Nothing more than is masked already."""
        return batch

    def diagnose(self, batch: Batch, reduce: Reduce = identity) -> Mapping[str, Metric]:
        """Nothing."""
        return {}

    def with_budget(self, max_tokens: int) -> Self:
        """The same."""
        return self

    def advance(self, metrics: Mapping[str, float | None], completions: int) -> Self:
        """The same."""
        return self


def need_verdicts(batch: Batch, name: str) -> None:
    """Raise `DataError` where no scored completion of a batch has a verdict."""
    scored = [verdict for verdict, value in zip(batch.correct, batch.rewards.tolist(), strict=True) if value == value]
    if scored and all(verdict is None for verdict in scored):
        raise DataError(
            f"{name} needs to know which completions are right, and the reward doesn't say",
            fix="return a Score with `correct`",
        )


def critic_alone(batch: Batch, log_probs: Tensor) -> Loss:
    """The loss of an algorithm that trains the critic alone, that of the critic left out: 0 for the policy."""
    nothing = torch.where(batch.loss_mask, log_probs, 0.0).sum() * 0
    return Loss(nothing, torch.zeros_like(log_probs).detach())
