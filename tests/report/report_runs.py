"""Run folders for the tests of the page: invented ones, some of whose texts mean harm."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from groupwise.run_file import load_run, to_toml
from groupwise.telemetry import ledger
from groupwise.telemetry.run_folder import RunFolder
from groupwise.types import Completion, DrawKey, FinishReason, Group, Prompt, Score, Segment

RUN = {"steps": 8, "model": "builtin:tiny-char", "task": "sums", "algorithm": "grpo"}

HOSTILE = {
    "tags": "<script>document.title = 'owned'</script><img src=x onerror=\"document.title = 'owned'\">",
    "end": "</script><script>document.title = 'owned'</script><!-- <script>",
    "long": "x" * 20_000,
    "right to left": "\u202eevil\u202c שלום \u2066abc",
    "control": "a\x00b\x07c\x1b[31md\x7f\u2028e\tf\ng",
}
"""Texts by the kind of harm."""


@dataclass(frozen=True)
class Wrote:
    """One completion as a test invents it: a token for each character, or for each of `tokens`."""

    text: str
    reward: float | None
    correct: bool | None = None
    log_prob: float = -1.0
    finish: FinishReason = "stop"
    reason: str = "because"
    tokens: tuple[str, ...] | None = None

    @property
    def pieces(self) -> tuple[str, ...]:
        return tuple(self.text) if self.tokens is None else self.tokens


def make_run(folder: Path, toml: dict[str, Any] = RUN, environment: dict[str, Any] | None = None) -> RunFolder:
    """A run folder before its first step."""
    run = RunFolder(folder)
    run.make(to_toml(load_run(toml).run), environment or {})
    return run


def add_step(
    run: RunFolder,
    step: int,
    groups: dict[str, Sequence[Wrote]],
    *,
    dropped: dict[str, str] | None = None,
    columns: dict[str, Any] | None = None,
    prompt: str = "question {}",
    folder: str = "rollouts",
    texts: bool = True,
) -> None:
    """Record groups by the ids of their prompts; coefficients are what z-scores of the rewards give."""
    made = [_group(name, step, wrote, columns or {}, prompt) for name, wrote in groups.items()]
    coefficients = {
        f"{name}#{step}": [[z] * len(one.pieces) for z, one in zip(_z(wrote), wrote, strict=True)]
        for name, wrote in groups.items()
    }
    ledger.write(
        ledger.file_of(run.path / folder, step),
        step,
        "0-grpo",
        made,
        [[one.text for one in wrote] for wrote in groups.values()],
        coefficients,
        {f"{name}#{step}": why for name, why in (dropped or {}).items()},
        coefficients if texts else None,
        [[one.pieces for one in wrote] for wrote in groups.values()] if texts else None,
    )


def metric_row(step: int, **changes: Any) -> dict[str, Any]:
    """A row of metrics of a step."""
    row: dict[str, Any] = {
        "step": step, "stage": "0-grpo", "status": "updated", "reward_mean": 0.1 * step, "reward_std": 0.5,
        "reward_parts": {"form": 0.1 * step, "accuracy": 0.2}, "correct_mean": 0.2, "frac_not_scored": 0.0,
        "frac_degenerate_groups": 0.25, "frac_dropped_groups": 0.0, "frac_truncated": 0.0,
        "completion_length_mean": 5.0, "entropy": 2.0 - 0.1 * step, "kl_k1": None, "kl_k3": None,
        "clip_fraction_low": 0.0, "clip_fraction_high": 0.01, "ratio_max": 1.0, "sampler_gap_max": 1e-6,
        "loss": 0.0, "grad_norm": 1.0, "learning_rate": 1e-4, "tokens_sampled": 40, "tokens_trained": 20,
        "seconds": {"rollout": 2.0, "reward": 0.5, "update": 4.0, "other": 0.0}, "cpu_seconds": 6.0,
        "peak_rss_mb": 500.0, "steps_no_signal": 0, "steps_skipped": 0,
    }  # fmt: skip
    return row | changes


def write_metrics(run: RunFolder, rows: Sequence[dict[str, Any]]) -> None:
    """Append rows of metrics."""
    with run.metrics.open("a") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


def hostile_run(folder: Path) -> RunFolder:
    """Every harmful text as a prompt, as completions, as a reason, as a column, and in the names of parts."""
    run = make_run(folder)
    for number, (kind, text) in enumerate(HOSTILE.items(), start=1):
        group = [
            Wrote(text, 1.0, True, reason=text),
            Wrote(f"plain {kind}", 0.0, False),
            Wrote(text, None, reason=text),
        ]
        add_step(run, number, {kind: group}, prompt=text.replace("{", "{{"), columns={"gold": text, "odd": "\ud800"})
    parts = {HOSTILE["tags"]: 0.5, HOSTILE["end"]: 0.25, HOSTILE["right to left"]: 0.1}
    write_metrics(run, [metric_row(step, reward_parts=parts) for step in range(1, len(HOSTILE) + 1)])
    return run


def _group(name: str, step: int, wrote: Sequence[Wrote], columns: dict[str, Any], prompt: str) -> Group:
    completions = [
        Completion(
            (Segment((3,) * len(one.pieces), (one.log_prob,) * len(one.pieces), version=step),),
            one.finish,
            DrawKey(0, "train", 0, name, step, sample),
        )
        for sample, one in enumerate(wrote)
    ]
    scores = [Score(one.reward, one.correct, one.reason, {"exact": one.reward}) for one in wrote]
    shown = Prompt(name, (1, 2), prompt.format(name), columns=columns)
    return Group(f"{name}#{step}", shown, tuple(completions), tuple(scores))


def _z(wrote: Sequence[Wrote]) -> list[float]:
    known = [one.reward for one in wrote if one.reward is not None]
    mean = sum(known) / len(known) if known else 0.0
    spread = math.sqrt(sum((value - mean) ** 2 for value in known) / len(known)) if known else 0.0
    return [0.0 if one.reward is None or not spread else (one.reward - mean) / spread for one in wrote]
