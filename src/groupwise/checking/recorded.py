"""The completions that a run recorded, step by step, with no more in memory than one step."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet

from groupwise.errors import RunFolderError
from groupwise.telemetry.run_folder import RunFolder

COLUMNS = (
    "step", "stage", "group_id", "prompt_id", "sample", "prompt", "prompt_token_ids", "columns", "completion",
    "token_ids", "sampler_log_probs", "finish_reason", "reward", "correct", "reason", "parts",
)  # fmt: skip
NGRAM = 4
"""Words that count as one piece in the measure of repetition."""


@dataclass(frozen=True)
class Recorded:
    """One completion of the ledger, as it was written there."""

    row: Mapping[str, Any]

    @property
    def step(self) -> int:
        """The optimiser step that it fed first."""
        return int(self.row["step"])

    @property
    def text(self) -> str:
        """With special tokens shown."""
        return str(self.row["completion"])

    @property
    def tokens(self) -> int:
        """Its length."""
        return len(self.row["token_ids"])

    @property
    def reward(self) -> float | None:
        """None: not scored."""
        return self.row["reward"]

    @property
    def correct(self) -> bool | None:
        """None: no verdict."""
        return self.row["correct"]

    @property
    def reason(self) -> str:
        """What the reward said."""
        return self.row["reason"] or ""

    @property
    def columns(self) -> dict[str, Any]:
        """The data row's other columns, as JSON has them."""
        return json.loads(self.row["columns"])

    @cached_property
    def parts(self) -> dict[str, float | None]:
        """The rewards of the run by label, without the parts that these have themselves."""
        named: dict[str, float | None] = json.loads(self.row["parts"])
        return {name: value for name, value in named.items() if name.partition(".")[0] not in named or "." not in name}

    @property
    def log_prob(self) -> float | None:
        """Mean log-prob per token under the policy that drew it, in nats."""
        drawn = self.row["sampler_log_probs"]
        return sum(drawn) / len(drawn) if drawn else None

    @cached_property
    def repetition(self) -> float:
        """The share of its four-word pieces that stood there before; 0 where it has no five words."""
        words = self.text.split()
        pieces = Counter(tuple(words[place : place + NGRAM]) for place in range(len(words) - NGRAM + 1))
        return 1 - len(pieces) / pieces.total() if pieces.total() > 1 else 0.0


def steps_of(folder: RunFolder) -> Iterator[list[Recorded]]:
    """The scored completions of each rollout, in order of steps; steps without any are left out.

    Raises `RunFolderError` where nothing is recorded.
    """
    files = sorted(folder.rollouts.glob("step-*.parquet"))
    if not files:
        raise RunFolderError(
            f"{folder.path} holds no recorded completions", fix="give the folder of a run that trained"
        )
    for file in files:
        rows = [Recorded(row) for row in _read(file)]
        scored = [row for row in rows if row.reward is not None or row.reason or row.row["sampler_log_probs"]]
        if scored:
            yield scored


def groups_of(rows: Sequence[Recorded]) -> Iterator[list[Recorded]]:
    """The completions of each prompt, together."""
    groups: dict[str, list[Recorded]] = {}
    for row in rows:
        groups.setdefault(row.row["group_id"], []).append(row)
    return iter(groups.values())


def kind_of(reason: str) -> str:
    """A reason without what differs from one completion to the next: quoted text and numbers."""
    bare = re.sub(r"""(?<!\w)(['"])(?:(?!\1)[^\\]|\\.)*\1(?!\w)""", "'...'", reason, flags=re.DOTALL)
    return re.sub(r"(?<!\w)[-+]?\d+(?:[.,/]\d+)*", "N", bare)[:120]


def _read(file: Path) -> list[dict[str, Any]]:
    return parquet.read_table(file, columns=list(COLUMNS)).to_pylist()
