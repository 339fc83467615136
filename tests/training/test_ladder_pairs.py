"""DPO from rows of pairs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from test_resume import killed_after, resume
from tiny_runs import ROWS, Lines, metric_rows, outcome, same, tiny, weights

import groupwise
from groupwise.errors import DataError
from groupwise.training import split_groups
from groupwise.training.reference_cache import ReferenceCache
from groupwise.types import Batch

PAIRS = [{**row, "chosen": row["answer"], "rejected": str(2 * n + 1)} for n, row in enumerate(ROWS)]


def train(out: Path, rows: Sequence[dict[str, Any]] = PAIRS, **changes: Any) -> Path:
    run = tiny(steps=3, prompts={"per_step": 4}, **changes) | {"algorithm": "dpo"}
    return groupwise.train(run, prompts=rows, out=out, display=Lines()).folder


def test_the_first_step_is_at_the_reference_and_margins_grow(tmp_path: Path) -> None:
    rows = metric_rows(train(tmp_path / "run"))
    assert rows[0]["loss"] == pytest.approx(math.log(2), abs=1e-6)
    assert rows[2]["loss"] < rows[0]["loss"]
    for row in rows:
        assert row["status"] == "updated"
        assert row["reward_mean"] is None and row["tokens_sampled"] == 0


def test_no_second_model_is_kept_and_a_killed_run_goes_on_bit_for_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("groupwise.training.stage.Reference", None)  # whoever would copy the policy fails
    run = tiny(steps=4, prompts={"per_step": 4}, checkpoint={"every": 1}) | {"algorithm": "dpo"}
    groupwise.train(run, prompts=PAIRS, out=tmp_path / "unbroken", display=Lines())
    killed_after(2, monkeypatch, run, tmp_path / "broken", PAIRS)
    resume(tmp_path / "broken", PAIRS)
    same(outcome(tmp_path / "unbroken", 4), outcome(tmp_path / "broken", 4))


def test_cached_log_probs_are_those_of_the_reference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[torch.Tensor, torch.Tensor]] = []
    plain = ReferenceCache.log_probs

    def log_probs(self: ReferenceCache, batch: Batch) -> torch.Tensor:
        cached = plain(self, batch)
        if not seen:  # before the first update the policy is the reference
            with torch.no_grad():
                seen.append((cached, policies[0].forward.log_probs(batch)[0]))
        return cached

    policies: list[Any] = []
    make = ReferenceCache.__init__
    monkeypatch.setattr(
        ReferenceCache, "__init__", lambda self, policy, *rest: (policies.append(policy), make(self, policy, *rest))[1]
    )
    monkeypatch.setattr(ReferenceCache, "log_probs", log_probs)
    train(tmp_path / "run")
    cached, fresh = seen[0]
    assert cached.count_nonzero() > 0
    assert (cached - fresh).abs().max() <= 1e-5


def test_completions_may_be_text_or_chats(tmp_path: Path) -> None:
    chats = [
        {**row, **{name: [{"role": "assistant", "content": row[name]}] for name in ("chosen", "rejected")}}
        for row in PAIRS
    ]
    assert weights(train(tmp_path / "text"), 3) == weights(train(tmp_path / "chats", chats), 3)
    turned = [{**row, "chosen": row["rejected"], "rejected": row["chosen"]} for row in PAIRS]
    assert weights(train(tmp_path / "turned", turned), 3) != weights(tmp_path / "text", 3)


def test_a_pair_is_never_split_however_small_micro_batches_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cuts: list[tuple[int, int]] = []
    plain = split_groups.take

    def take(batch: Batch, completions: Sequence[int]) -> Batch:
        part = plain(batch, completions)
        if batch.token_weights is not None:  # an update, not the reference's log-probs
            cuts.append((len(part.group_ids), len(part.completion_spans)))
        return part

    whole = train(tmp_path / "whole")
    monkeypatch.setattr(split_groups, "take", take)
    cut = train(tmp_path / "cut", optimizer={"learning_rate": 1e-3, "micro_batch_tokens": 1})
    assert cuts == [(1, 2)] * 12
    for one, other in zip(metric_rows(whole), metric_rows(cut), strict=True):
        assert one["loss"] == pytest.approx(other["loss"], rel=1e-4)
        assert one["grad_norm"] == pytest.approx(other["grad_norm"], rel=1e-4)


def test_pairs_of_equal_completions_are_dropped(tmp_path: Path) -> None:
    equal = [{**row, "rejected": row["chosen"]} for row in PAIRS[:2]]
    folder = train(tmp_path / "run", [*equal, *PAIRS[2:4]])
    assert [row["frac_dropped_groups"] for row in metric_rows(folder)] == [0.5] * 3


def test_a_row_without_a_rejected_completion_is_an_error(tmp_path: Path) -> None:
    rows = [{key: value for key, value in row.items() if key != "rejected"} for row in PAIRS]
    with pytest.raises(DataError, match="row 'row-0' has no `rejected`"):
        train(tmp_path / "run", rows)
