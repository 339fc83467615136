"""What recording costs a run: steps of 64 completions of 20 kB text, handed over to the ledger as the trainer does it.

    python benchmarks/recording.py [STEPS MAX_MB]

Of the first and the last fifty steps: milliseconds that the loop waits (handing over, and asking for the row's
numbers), and that the thread beside it takes to decode and write a file. Then memory after step 50 and at the end, and
the size of the folder. The loop goes on when a file is written, as a step of this size takes minutes to sample.
Results: results/recording.md.
"""

from __future__ import annotations

import gc
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import torch

from groupwise.models.loading import load_tokenizer
from groupwise.models.settings import ModelSettings
from groupwise.packing import pack
from groupwise.run_file import load_run
from groupwise.telemetry.display import Silent
from groupwise.telemetry.run_folder import RunFolder
from groupwise.training.minibatches import Minibatch
from groupwise.training.progress import Progress
from groupwise.training.recording import Recorder, Watch
from groupwise.training.update import UPDATED, Outcome
from groupwise.types import Batch, Completion, Group, Prompt, Score, Segment

GROUPS, SIZE, BYTES = 8, 8, 20_000
TEXT = (
    "therefore because the answer must remain between positive numbers another solution follows when both equations "
    "hold and so we multiply every coefficient by seven, which gives 119; naïve attempts fail. Consider however: \n\n"
)
WORDS = TEXT.split(" ")


def rollout(tokenizer, step: int) -> tuple[list[Group], Batch]:
    """The groups of a step and what is trained on, different at every step."""
    draw = random.Random(step)
    groups = []
    for number in range(GROUPS):
        completions = []
        for _ in range(SIZE):
            text = " ".join(draw.choices(WORDS, k=BYTES // 4))[:BYTES]
            ids = tuple(tokenizer.encode(text, add_special_tokens=False))
            drawn = tuple(-draw.random() for _ in ids)
            completions.append(Completion((Segment(ids, drawn, version=step),), "stop"))
        scores = tuple(Score(draw.random(), None, "a reason") for _ in completions)
        groups.append(Group(f"p{number}#{step}", Prompt(f"p{number}", (1, 2), "ab"), tuple(completions), scores))
    batch = pack(groups, temperature=1.0)
    return groups, replace(batch, advantages=torch.randn(batch.token_ids.numel()))


def resident() -> float:
    """MB of memory that the process holds now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def record(folder: Path, steps: int, max_mb: int) -> Iterator[tuple[float, float, float]]:
    """Per step: seconds that the loop waited, that the thread worked, and MB of memory afterwards."""
    model = "builtin:smollm2-135m-instruct"
    run = load_run({"model": model, "algorithm": "grpo", "steps": steps, "task": "sums", "ledger": {"max_mb": max_mb}})
    tokenizer = load_tokenizer(ModelSettings(name=model))
    place = RunFolder(folder)
    place.make("", {})
    progress = Progress()
    samples = [rollout(tokenizer, step) for step in range(4)]
    policy = SimpleNamespace(tokenizer=tokenizer)
    with Recorder(place, policy, Silent(), run.run) as recorder:  # type: ignore[arg-type]
        for step in range(1, steps + 1):
            groups, batch = samples[step % len(samples)]
            everything = list(range(len(batch.completion_spans)))
            coefficients = torch.randn(batch.token_ids.numel())
            numbers = {"completion_length_mean": 5000.0, "tokens_sampled": 1}
            worked = recorder.ledger.background.seconds
            progress.step = step
            start = time.perf_counter()
            with recorder.rollout(step, "0-grpo", groups, groups, batch, {}) as opened:
                opened.updated(Minibatch(everything, batch), coefficients)
                recorder.step(progress, "0-grpo", Outcome(UPDATED, 0.0, 1.0, 1e-6, 1), numbers, Watch())
            waited = time.perf_counter() - start
            recorder.flush()
            gc.collect()
            yield waited, recorder.ledger.background.seconds - worked, resident()


def main(steps: int, max_mb: int) -> None:
    """Run, and print the figures."""
    with tempfile.TemporaryDirectory() as folder:
        found = list(record(Path(folder), steps, max_mb))
        size = sum(path.stat().st_size for path in Path(folder).glob("rollouts/*")) / 1e6
        files = len(list(Path(folder).glob("rollouts/*")))
    for name, part in (("first 50 steps", found[:50]), ("last 50 steps", found[-50:])):
        waited, worked = (1000 * statistics.median(column) for column in list(zip(*part, strict=True))[:2])
        print(f"{name}: the loop waits {waited:.1f} ms, the thread works {worked:.0f} ms (medians)")
    print(f"last step: the loop waits {1000 * found[-1][0]:.1f} ms")
    early = min(50, steps)
    print(f"memory: {found[early - 1][2]:.0f} MB after step {early}, {found[-1][2]:.0f} MB after step {steps}")
    print(f"rollouts/: {files} files, {size:.0f} MB, cap {max_mb} MB")


if __name__ == "__main__":
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs")
    steps, max_mb = (int(argument) for argument in (sys.argv[1:] or ["300", "500"]))
    main(steps, max_mb)
