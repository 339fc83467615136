"""Run folders with invented rollouts, for the tests of what reads them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from groupwise.run_file import load_run, to_toml
from groupwise.telemetry import ledger
from groupwise.telemetry.run_folder import RunFolder
from groupwise.types import Completion, DrawKey, FinishReason, Group, Prompt, Score, Segment

RUN = {"steps": 1, "model": "builtin:tiny-char", "task": "sums", "algorithm": "grpo"}


@dataclass(frozen=True)
class Said:
    """One completion as a test writes it."""

    text: str
    score: Score
    finish: FinishReason = "stop"
    log_prob: float = -1.0
    tokens: int | None = None
    """By default one for each character."""
    columns: dict[str, Any] = field(default_factory=dict)


def write_run(
    folder: Path, steps: Sequence[Sequence[Sequence[Said]]], ids: Callable[[str], Sequence[int]]
) -> RunFolder:
    """A run folder whose rollout of step n + 1 has these groups; group k asks prompt `p{k}`, the k-th data row."""
    run = RunFolder(folder)
    run.make(to_toml(load_run(RUN).run), {})
    for number, groups in enumerate(steps, start=1):
        made = [_group(f"p{place}", number, said, ids) for place, said in enumerate(groups)]
        texts = [[one.text for one in said] for said in groups]
        ledger.write(ledger.file_of(run.rollouts, number), number, "0-grpo", made, texts, {}, {})
    return run


def by_character(text: str) -> list[int]:
    """Token ids that mean nothing."""
    return [3] * len(text)


def _group(prompt_id: str, step: int, said: Sequence[Said], ids: Callable[[str], Sequence[int]]) -> Group:
    columns = said[0].columns or {"answer": prompt_id}
    completions = []
    for sample, one in enumerate(said):
        tokens = tuple(ids(one.text)) if one.tokens is None else (3,) * one.tokens
        segment = Segment(tokens, (one.log_prob,) * len(tokens))
        completions.append(Completion((segment,), one.finish, DrawKey(0, "train", 0, prompt_id, step, sample)))
    prompt = Prompt(prompt_id, (1, 2), f"question {prompt_id}", columns=columns)
    return Group(f"{prompt_id}#{step}", prompt, tuple(completions), tuple(one.score for one in said))
