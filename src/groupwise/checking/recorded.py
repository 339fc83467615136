"""The completions that a run recorded, step by step, with no more in memory than one step."""

from __future__ import annotations

import json
import re
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow.compute as compute
import pyarrow.parquet as parquet

from groupwise.errors import RunFolderError
from groupwise.telemetry.run_folder import RunFolder

COLUMNS = (
    "step", "stage", "group_id", "prompt_id", "sample", "prompt", "columns", "completion", "finish_reason", "reward",
    "correct", "reason", "parts",
)  # fmt: skip
"""What is read as it stands in the ledger."""
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
        return int(self.row["tokens"])

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
        return self.row["log_prob"]

    @cached_property
    def repetition(self) -> float:
        """The share of its four-word pieces that stood there before; 0 where it has no five words."""
        words = self.text.split()
        pieces = Counter(tuple(words[place : place + NGRAM]) for place in range(len(words) - NGRAM + 1))
        return 1 - len(pieces) / pieces.total() if pieces.total() > 1 else 0.0


def steps_of(folder: RunFolder, *, token_ids: bool = False) -> Iterator[list[Recorded]]:
    """The sampled completions of each rollout, in order of steps; steps without any are left out.

    `token_ids` adds those of prompt and completion to the rows, which takes long to read. Raises `RunFolderError`
    where nothing is recorded.
    """
    files = sorted(folder.rollouts.glob("step-*.parquet"))
    if not files:
        raise RunFolderError(
            f"{folder.path} holds no recorded completions", fix="give the folder of a run that trained"
        )
    for file in files:
        rows = [Recorded(row) for row in _read(file, token_ids)]
        sampled = [row for row in rows if row.reward is not None or row.reason or row.log_prob is not None]
        if sampled:
            yield sampled


def groups_of(rows: Sequence[Recorded]) -> Iterator[list[Recorded]]:
    """The completions of each prompt, together."""
    groups: dict[str, list[Recorded]] = {}
    for row in rows:
        groups.setdefault(row.row["group_id"], []).append(row)
    return iter(groups.values())


def kind_of(reason: str) -> str:
    """A reason without what differs from one completion to the next: quoted text and numbers."""
    bare = re.sub(r"""(?<!\w)(['"])(?:(?!\1)[^\\]|\\.)*\1(?!\w)""", "'...'", reason, flags=re.DOTALL)
    return textwrap.shorten(re.sub(r"(?<!\w)[-+]?\d+(?:[.,/]\d+)*", "N", bare), 120, placeholder=" ...")


def _read(file: Path, token_ids: bool) -> list[dict[str, Any]]:
    """The rows, with the number of tokens and their mean log-prob instead of the lists."""
    table = parquet.read_table(file)
    wanted = [*COLUMNS, *(("prompt_token_ids", "token_ids") if token_ids else ())]
    rows = table.select(wanted).to_pylist()
    lengths = compute.list_value_length(table["token_ids"]).to_pylist()
    log_probs = [_mean(drawn) for drawn in table["sampler_log_probs"]]
    return [
        row | {"tokens": tokens, "log_prob": log_prob}
        for row, tokens, log_prob in zip(rows, lengths, log_probs, strict=True)
    ]


def _mean(drawn: Any) -> float | None:
    """The mean of an Arrow list; None for a list that is null or empty."""
    return compute.mean(drawn.values).as_py() if drawn.is_valid and len(drawn) else None
