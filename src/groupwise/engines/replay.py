"""The engine that gives back recorded completions, to train on the same rollouts again: another algorithm, another
learning rate, a comparison with other code."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import pyarrow.parquet as parquet

from groupwise.engines.contract import Request
from groupwise.errors import DataError
from groupwise.settings import Settings
from groupwise.types import Completion, FinishReason, Segment


class ReplayEngineSettings(Settings):
    """Completions from the `rollouts/` of an earlier run instead of sampling."""

    name: Literal["replay"] = "replay"
    path: str
    """A run folder, or its `rollouts/` folder."""

    def check(self) -> None:
        """Raise `DataError` where nothing is recorded; reads no file."""
        recorded_files(Path(self.path))

    def build(self) -> ReplayEngine:
        """The engine; raises `DataError` where nothing is recorded."""
        return ReplayEngine(Path(self.path))


Key = tuple[int, tuple[int, ...], int, int]
"""Index of the stage, prompt token ids, visit number, sample index."""


class ReplayEngine:
    """Answers each request with the completion recorded for the same prompt tokens, visit and sample index.

    Of a recorded run with several stages that sampled, a stage is answered by the one of its own index.
    """

    def __init__(self, path: Path) -> None:
        files = recorded_files(path)
        self.folder = files[0].parent
        self.recorded: dict[Key, Completion] = {}
        columns = [
            "stage",
            "prompt_token_ids",
            "visit",
            "sample",
            "token_ids",
            "sampler_log_probs",
            "finish_reason",
            "policy_version",
        ]
        for file in files:
            for row in parquet.read_table(file, columns=columns).to_pylist():
                if row["sampler_log_probs"] is not None:  # demonstrations were not sampled
                    key = (_index(row), tuple(row["prompt_token_ids"]), row["visit"], row["sample"])
                    self.recorded[key] = _completion(row)
        self.stages = {key[0] for key in self.recorded}
        self.answers: list[tuple[int, Completion]] = []

    def load(self, policy: Any, version: int) -> None:
        """Recorded completions keep the version they were drawn under."""

    def submit(self, requests: Sequence[Request]) -> None:
        for request in requests:
            if request.key.purpose != "train":
                raise DataError(
                    "the replay engine only has the completions of training, so it can't evaluate or preview",
                    fix="set evaluation.prompts = 0",
                )
            stage = request.key.stage if len(self.stages) > 1 else next(iter(self.stages), 0)
            key = (stage, request.prefix, request.key.visit, request.key.sample)
            if key not in self.recorded:
                raise DataError(
                    f"no completion recorded in {self.folder} for prompt {request.key.prompt_id!r}, visit {key[2]}, "
                    f"sample {key[3]}",
                    fix="replay with the prompts, order, seed and group size of the recorded run, and no more steps",
                )
            self.answers.append((request.id, self.recorded[key]))

    def collect(self) -> list[tuple[int, Completion]]:
        answers, self.answers = self.answers, []
        return answers


def recorded_files(path: Path) -> list[Path]:
    """The files of rollouts in a run folder, or in its `rollouts/`, by step. Raises `DataError` if there are none."""
    folder = path / "rollouts" if (path / "rollouts").is_dir() else path
    files = sorted(folder.glob("step-*.parquet"))
    if not files:
        raise DataError(f"no recorded rollouts in {path}", fix="give a run folder whose rollouts/ holds step-*.parquet")
    return files


def _index(row: dict[str, Any]) -> int:
    return int(row["stage"].partition("-")[0])


def _completion(row: dict[str, Any]) -> Completion:
    reason: FinishReason = row["finish_reason"]
    segment = Segment(tuple(row["token_ids"]), tuple(row["sampler_log_probs"]), version=row["policy_version"])
    return Completion((segment,), reason)
