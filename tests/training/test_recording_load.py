"""A long run of long completions: memory stays as it is, and the folder under its cap."""

from __future__ import annotations

import os
import random
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as parquet
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from groupwise.packing import pack
from groupwise.telemetry import ledger
from groupwise.telemetry.run_folder import RunFolder
from groupwise.training.ledger_writing import LedgerWriter, RolloutRecord
from groupwise.training.minibatches import Minibatch
from groupwise.types import Completion, Group, Prompt, Score, Segment

WORDS = [f"{number:019d}" for number in range(1000)]
"""Twenty bytes each, with the space behind it."""


def tokenizer() -> PreTrainedTokenizerFast:
    made = Tokenizer(models.WordLevel({word: place for place, word in enumerate(WORDS)}, unk_token=WORDS[0]))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=made)


def groups_of(step: int) -> list[Group]:
    """Eight groups of eight completions of 20 kB."""
    draw = random.Random(step)
    ids = [draw.choices(range(len(WORDS)), k=1000) for _ in range(64)]
    completions = [Completion((Segment(tuple(one), (-0.5,) * 1000, version=step),), "stop") for one in ids]
    return [
        Group(f"p{n}#{step}", Prompt(f"p{n}", (1,), "x"), tuple(completions[8 * n : 8 * n + 8]), (Score(1.0),) * 8)
        for n in range(8)
    ]


def resident_mb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


@pytest.mark.slow
def test_R080_memory_is_flat_and_files_stay_under_the_cap_over_300_steps_of_64_completions(tmp_path: Path) -> None:
    folder, cap = RunFolder(tmp_path), 20
    folder.rollouts.mkdir()
    writer = LedgerWriter(folder, tokenizer(), cap, [])
    memory = {}
    for step in range(1, 301):
        groups = groups_of(step)
        batch = pack(groups, temperature=1.0)
        batch = replace(batch, advantages=torch.randn(batch.token_ids.numel()))
        with RolloutRecord(writer, step, "0-grpo", groups, groups, batch, {}) as record:
            record.updated(Minibatch(list(range(64)), batch), batch.advantages)
        writer.background.flush()
        memory[step] = resident_mb()
        assert sum(path.stat().st_size for path in folder.rollouts.iterdir()) <= cap * 1_000_000
    writer.background.close()
    assert memory[300] <= 1.05 * memory[50]
    kept = ledger.files(folder.rollouts)
    assert list(kept) == list(range(301 - len(kept), 301)) and writer.cap.dropped == 300 - len(kept) > 200
    rows = parquet.read_table(kept[300], columns=["completion", "token_texts"]).to_pylist()
    assert len(rows) == 64
    assert all(len(row["completion"]) == 19_999 and "".join(row["token_texts"]) == row["completion"] for row in rows)
