"""The ladder: one model, one task and one budget of sampled tokens through every algorithm, in one table and one plot.

    python examples/ladder/run.py            # three seeds
    python examples/ladder/run.py --quick    # one seed and half the budget

Every rung of a seed begins with the same weights: a short SFT on a few written demonstrations. The budget is what it
takes to sample each training prompt a few times from that start, in tokens; RFT and DPO train on exactly those
samples, and the others draw as many of their own. README.md says what is equal and what is not.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # the model is tiny: threads would only wait for each other

import argparse
import json
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from rungs import RUNGS, Rung  # noqa: E402

import groupwise  # noqa: E402
from groupwise.core.selection import answer_ids, preference_pairs  # noqa: E402
from groupwise.models.loading import load_tokenizer  # noqa: E402
from groupwise.models.settings import ModelSettings  # noqa: E402
from groupwise.tasks import WorkedSums  # noqa: E402
from groupwise.telemetry import ledger  # noqa: E402
from groupwise.telemetry.display import Silent  # noqa: E402
from report import origin, write_results  # noqa: E402

TASK = WorkedSums(largest=7)
TASK_TABLE = TASK.model_dump(mode="json")
MODEL = "builtin:tiny-char"
DEMONSTRATIONS = 150
"""Training rows whose written answer is shown, in the start and in SFT."""
START_STEPS = 60
PROMPTS_PER_STEP, GROUP_SIZE, MAX_TOKENS = 32, 8, 10
PAIRS_PER_PROMPT = 4


@dataclass(frozen=True)
class Size:
    """How much of it."""

    seeds: int
    samples: int
    """Samples of each training prompt that make the budget."""
    evaluate_every: int


FULL, QUICK = Size(seeds=3, samples=20, evaluate_every=10), Size(seeds=1, samples=10, evaluate_every=5)


@dataclass(frozen=True)
class Climb:
    """One rung, for one seed."""

    label: str
    algorithm: str
    seed: int
    accuracy: float
    tokens_sampled: int
    steps: int
    cpu_seconds: float
    curve: list[tuple[int, float]]
    """Tokens sampled so far, and accuracy on the test sums."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one seed and half the budget")
    parser.add_argument("--seeds", type=int, help="how many seeds")
    parser.add_argument("--jobs", type=int, default=1, help="seeds that run at the same time")
    parser.add_argument("--work", type=Path, default=Path("runs/ladder"), help="where run folders go; emptied first")
    parser.add_argument("--out", type=Path, help="where the table goes; by default results/ beside this file")
    given = parser.parse_args()
    size = QUICK if given.quick else FULL
    seeds = range(given.seeds or size.seeds)
    shutil.rmtree(given.work, ignore_errors=True)
    began, from_where = time.perf_counter(), origin()
    work = given.work.resolve()
    if given.jobs == 1:
        climbed = [climb(seed, size, work / f"seed-{seed}") for seed in seeds]
    else:
        with ProcessPoolExecutor(given.jobs, mp_context=get_context("spawn")) as pool:
            futures = [pool.submit(climb, seed, size, work / f"seed-{seed}") for seed in seeds]
            climbed = [future.result() for future in futures]
    about = {
        **from_where,
        "model": MODEL,
        "task": TASK_TABLE,
        "demonstrations": DEMONSTRATIONS,
        "budget_samples_per_prompt": size.samples,
        "wall_seconds": round(time.perf_counter() - began),
    }
    rungs = [asdict(rung) for one_seed in climbed for rung in one_seed]
    print(write_results(given.out or HERE / "results", "quick" if given.quick else "ladder", rungs, about))


def climb(seed: int, size: Size, folder: Path) -> list[Climb]:
    """The start and every rung of one seed, in order: the rungs after RFT have its samples' tokens as their budget."""
    start = train(run_of(seed, {"name": "sft"}, START_STEPS, size, demonstrations(), rate=1e-3), folder / "start")
    climbed = [read("Start", "sft", seed, start)]
    weights = start / "checkpoints" / f"step-{START_STEPS}"
    budget = 0
    for rung in RUNGS:
        out = folder / rung.label.replace(" ", "-")
        train(stages_of(rung, seed, size, weights, budget, folder), out)
        climbed.append(read(rung.label, rung.algorithm["name"], seed, out))
        if rung.samples == "once":
            budget = climbed[-1].tokens_sampled
        if rung.samples == "pairs":
            climbed[-1] = Climb(**{**asdict(climbed[-1]), "tokens_sampled": budget})
        last = climbed[-1]
        print(f"seed {seed}  {last.label:<12} {last.accuracy:.3f}  {last.tokens_sampled:>7} tokens sampled  "
              f"{last.steps:>4} steps  {last.cpu_seconds:.0f} CPU s", flush=True)  # fmt: skip
    return climbed


def stages_of(rung: Rung, seed: int, size: Size, weights: Path, budget: int, folder: Path) -> dict[str, Any]:
    """The run of one rung in a run file's form."""
    prompts = len(TASK.rows("train", seed))
    steps = prompts * size.samples // (PROMPTS_PER_STEP * GROUP_SIZE)
    data: Mapping[str, Any] = {"task": TASK_TABLE}
    stage: dict[str, Any] = {}
    if rung.samples == "none":
        data = demonstrations()
    if rung.samples == "once":
        assert steps * PROMPTS_PER_STEP >= prompts, "every training sum is sampled"
        stage = {"sampling": {"group_size": size.samples, "max_tokens": MAX_TOKENS}}
    if rung.samples == "pairs":
        data = {"task": write_pairs(folder / "RFT", folder / "pairs.jsonl", seed)}
    if rung.samples == "live":
        steps *= 4  # the budget ends the stage, whatever an algorithm's samples are worth to it
        stage = {"max_tokens_sampled": budget - round(rung.pretraining * budget)}
    run = run_of(seed, rung.algorithm, steps, size, data, rate=rung.learning_rate, model=weights)
    run |= {**stage, **rung.more}
    if rung.pretraining:
        first = {
            "algorithm": {"name": "value_pretraining", "explained_variance": 1.0},
            "max_tokens_sampled": round(rung.pretraining * budget),
        }
        run["stages"] = [first, {}]
    return run


def run_of(
    seed: int,
    algorithm: Mapping[str, Any],
    steps: int,
    size: Size,
    data: Mapping[str, Any],
    *,
    rate: float,
    model: Path | str = MODEL,
) -> dict[str, Any]:
    """What all runs have in common."""
    return {
        "seed": seed,
        "model": {"name": str(model), "dtype": "float32"},
        "algorithm": dict(algorithm),
        "steps": steps,
        "rewards": [TASK.reward()],
        "prompts": {"per_step": PROMPTS_PER_STEP},
        "sampling": {"group_size": GROUP_SIZE, "max_tokens": MAX_TOKENS},
        "optimizer": {"learning_rate": rate, "warmup_steps": 3},
        "evaluation": {"prompts": 1000, "samples": 4, "every": size.evaluate_every},
        **data,
    }


def demonstrations() -> dict[str, Any]:
    """The rows whose answers are written, the same for every seed."""
    return {"rows": list(TASK.rows("train", 0))[:DEMONSTRATIONS]}


def write_pairs(rft: Path, file: Path, seed: int) -> dict[str, Any]:
    """Pairs of a right and a wrong sample of the start, as a data file; the task that reads it.

    Samples that were cut off are left out: a pair's completions end where they were ended.
    """
    tokenizer = load_tokenizer(ModelSettings(name=MODEL), lambda line: None)
    rows = []
    for group in ledger.read_groups(rft / "samples" / "stage-0.parquet"):
        for pair in preference_pairs(group, PAIRS_PER_PROMPT):
            if all(completion.finish_reason == "stop" for completion in pair.completions):
                chosen, rejected = (tokenizer.decode(list(answer_ids(one))) for one in pair.completions)
                row = {"id": pair.id, "prompt": pair.prompt.text, "chosen": chosen, "rejected": rejected}
                rows.append({**row, "numbers": pair.prompt.columns["numbers"]})
    write_rows(file, rows)
    write_rows(test := file.with_name("test.jsonl"), TASK.rows("test", seed))
    return {"name": "data", "path": str(file), "test_path": str(test)}


def write_rows(file: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")


def train(run: dict[str, Any], out: Path) -> Path:
    """Train; the run folder."""
    rows = run.pop("rows", None)
    test = None if rows is None else TASK.rows("test", run["seed"])
    return groupwise.train(run, prompts=rows, test_prompts=test, out=out, display=Silent()).folder


def read(label: str, algorithm: str, seed: int, folder: Path) -> Climb:
    """What a run folder says."""
    tokens, steps, seconds = 0, 0, 0.0
    curve: list[tuple[int, float]] = []
    for line in (folder / "metrics.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        if "eval" in row:
            curve.append((tokens, row["eval"]["correct"]))
        else:
            tokens, steps, seconds = tokens + row["tokens_sampled"], row["step"], seconds + row["cpu_seconds"]
    return Climb(label, algorithm, seed, curve[-1][1], tokens, steps, seconds, curve)


if __name__ == "__main__":
    main()
