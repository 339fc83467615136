"""A reward model and a process reward model, trained and put to use, by one command.

    python examples/reward_models/run.py            # one seed; --seeds 3 for more
    python examples/reward_models/run.py --quick    # fewer steps and samples

A tiny model answers worked sums after a little SFT. Its own samples, as pairs of a right and a wrong one, train a
reward model; the steps of the same samples, labelled by arithmetic, train a process reward model. Both are exported as
Hugging Face classifiers. Then the model is trained further: PPO on verified answers with a critic that begins as the
policy, or as the reward model; GRPO on verified answers, on the reward model's scores, on the step rewards of the
process reward model, and on these with the verified answer as one step more. README.md says what to make of the table.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # the model is tiny: threads would only wait for each other

import argparse
import json
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "ladder")]

from samples import pair_rows, step_rows  # noqa: E402

import groupwise  # noqa: E402
from groupwise.models.loading import load_tokenizer  # noqa: E402
from groupwise.models.settings import ModelSettings  # noqa: E402
from groupwise.tasks import WorkedSums  # noqa: E402
from groupwise.telemetry import ledger, metrics  # noqa: E402
from groupwise.telemetry.display import Silent  # noqa: E402
from groupwise.training.exporting import export_run  # noqa: E402
from report import origin, shown  # noqa: E402

TASK = WorkedSums(largest=5)
DEMONSTRATIONS, START_STEPS = 150, 50
"""Training rows whose written answer the start is shown, and for how many steps."""
MAX_TOKENS = 10
JUDGES = {"reward_model": (pair_rows, "pair_accuracy"), "process_reward_model": (step_rows, "step_accuracy")}
"""What each learns from, and the metric that says how well."""


@dataclass(frozen=True)
class Size:
    """How much of it."""

    samples: int
    """Samples of each sum, for the judges to learn from."""
    judge_steps: int
    policy_steps: int


FULL, QUICK = Size(samples=12, judge_steps=80, policy_steps=30), Size(4, 20, 4)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer steps and samples")
    parser.add_argument("--seeds", type=int, default=1, help="how many seeds")
    parser.add_argument("--work", type=Path, default=Path("runs/reward_models"), help="for run folders; emptied first")
    parser.add_argument("--out", type=Path, help="where the table goes; by default results/ beside this file")
    given = parser.parse_args()
    size = QUICK if given.quick else FULL
    shutil.rmtree(given.work, ignore_errors=True)
    began, about = time.process_time(), origin()
    rows = [row for seed in range(given.seeds) for row in one_seed(seed, size, given.work.resolve())]
    about["cpu_minutes"] = f"{(time.process_time() - began) / 60:.1f}"
    print(write_results(given.out or HERE / "results", "quick" if given.quick else "full", rows, about))


def one_seed(seed: int, size: Size, work: Path) -> list[dict[str, Any]]:
    """The lines of the table for one seed."""
    folder, found = work / f"seed-{seed}", []

    def add(what: str, metric: str, values: Sequence[float]) -> None:
        found.append({"seed": seed, "what": what, "metric": metric, "before": values[0], "after": values[-1]})
        print(f"seed {seed}  {what}: {metric} {values[0]:.3f} -> {values[-1]:.3f}", flush=True)

    demonstrations = list(TASK.rows("train", 0))[:DEMONSTRATIONS]
    train(sft_run(seed), folder / "start", demonstrations)
    export_run(folder / "start", start := folder / "start-model")
    train(sampling_run(seed, size, start), folder / "samples", [*TASK.rows("train", 0), *TASK.rows("test", 0)])
    samples = ledger.read_groups(folder / "samples" / "samples" / "stage-0.parquet")
    tokenizer = load_tokenizer(ModelSettings(name=str(start)), lambda line: None)
    held_out = {row["id"] for row in TASK.rows("test", 0)}
    for name, (make, metric) in JUDGES.items():
        rows = make([group for group in samples if group.prompt.id not in held_out], tokenizer)
        test = make([group for group in samples if group.prompt.id in held_out], tokenizer)
        run = train(judge_run(name, seed, size, start), folder / name, rows, test)
        add(name, metric, evaluations(run, lambda row, metric=metric: row["held_out"][metric]))
        export_run(run, folder / f"{name}-model")
    for what, changes in policies(folder).items():
        run = train(policy_run(seed, size, start, changes), folder / what.replace(" ", "-"))
        add(what, "accuracy", evaluations(run, lambda row: row["correct"]))
        if changes["algorithm"]["name"] == "ppo":
            explained = [row["explained_variance"] for row in metrics.read(run / "metrics.jsonl") if "eval" not in row]
            add(what, "explained variance", [explained[0], fmean(explained[-max(1, len(explained) // 4) :])])
    return found


def base_run(seed: int, model: Path | str, algorithm: Mapping[str, Any], steps: int) -> dict[str, Any]:
    """What all runs have in common."""
    return {
        "seed": seed,
        "model": {"name": str(model), "dtype": "float32"},
        "algorithm": dict(algorithm),
        "steps": steps,
        "prompts": {"per_step": 32},
        "sampling": {"group_size": 8, "max_tokens": MAX_TOKENS},
        "rewards": [TASK.reward()],
        "evaluation": {"prompts": 0},
    }


def sft_run(seed: int) -> dict[str, Any]:
    """The start: a few written answers."""
    return base_run(seed, "builtin:tiny-char", {"name": "sft"}, START_STEPS) | {"optimizer": {"learning_rate": 1e-3}}


def sampling_run(seed: int, size: Size, start: Path) -> dict[str, Any]:
    """RFT samples every sum once from the start, and records that; what its single step makes of it isn't used."""
    everything = len(TASK.rows("train", 0)) + len(TASK.rows("test", 0))
    run = base_run(seed, start, {"name": "rft"}, 1)
    return run | {
        "prompts": {"per_step": everything},
        "sampling": {"group_size": size.samples, "max_tokens": MAX_TOKENS},
    }


def judge_run(name: str, seed: int, size: Size, start: Path) -> dict[str, Any]:
    """A judge begins as the start with a head of zeros."""
    run = base_run(seed, start, {"name": name}, size.judge_steps)
    return run | {"critic": {"learning_rate": 3e-4}, "evaluation": {"prompts": 2000}}


def policies(folder: Path) -> dict[str, dict[str, Any]]:
    """What each further run of the start changes. A verifier with weight 0 tells its accuracy and nothing else."""
    told = {**TASK.reward(), "weight": 0.0}
    critic = {"learning_rate": 3e-4}
    scores = {"name": "reward_model", "model": str(folder / "reward_model-model"), "device": "cpu"}
    steps = {"name": "process", "model": str(folder / "process_reward_model-model"), "device": "cpu", "separator": "="}
    return {
        "PPO": {"algorithm": {"name": "ppo"}, "critic": critic},
        "PPO, critic from the reward model": {
            "algorithm": {"name": "ppo"},
            "critic": {**critic, "start": str(folder / "reward_model-model")},
        },
        "GRPO on verified answers": {"algorithm": {"name": "grpo"}},
        "GRPO on the reward model": {"algorithm": {"name": "grpo"}, "rewards": [scores, told]},
        "GRPO on the process reward model": {
            "algorithm": {"name": "grpo", "supervision": "process"},
            "rewards": [steps, told],
        },
        "GRPO on the process reward model and verified answers": {
            "algorithm": {"name": "grpo", "supervision": "process", "outcome_as_step": True},
            "rewards": [{**steps, "weight": 0.0}, TASK.reward()],
        },
    }


def policy_run(seed: int, size: Size, start: Path, changes: Mapping[str, Any]) -> dict[str, Any]:
    """A further run of the start on the task."""
    run = base_run(seed, start, changes["algorithm"], size.policy_steps)
    return run | {
        "task": TASK.model_dump(mode="json"),
        "optimizer": {"learning_rate": 3e-4, "warmup_steps": 3},
        "evaluation": {"prompts": 1000, "samples": 4},
        **changes,
    }


def train(run: Mapping[str, Any], out: Path, rows: Any = None, test: Any = None) -> Path:
    """Train; the run folder."""
    return groupwise.train(run, prompts=rows, test_prompts=test, out=out, display=Silent()).folder


def evaluations(run: Path, number: Callable[[Mapping[str, Any]], float]) -> list[float]:
    """One number of every evaluation of a run, before training first."""
    return [number(row["eval"]) for row in metrics.read(run / "metrics.jsonl") if "eval" in row]


def write_results(folder: Path, name: str, rows: Sequence[Mapping[str, Any]], about: Mapping[str, Any]) -> str:
    """Write NAME.md and NAME.json; the table."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(
        json.dumps({"about": dict(about), "rows": list(rows)}, indent=1) + "\n", "utf-8"
    )
    told = "\n".join(f"- {key.replace('_', ' ')}: {value}" for key, value in about.items())
    page = f"{table(rows)}\n\n{told}"
    (folder / f"{name}.md").write_text(f"# Reward models: {name}\n\n{page}\n", "utf-8")
    return page


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """One line per model and metric: the mean over seeds, with half of its 95 % interval."""
    lines = ["| | metric | before | after |", "|---|---|---|---|"]
    for what, metric in dict.fromkeys((row["what"], row["metric"]) for row in rows):
        own = [row for row in rows if (row["what"], row["metric"]) == (what, metric)]
        before, after = (shown([row[side] for row in own]) for side in ("before", "after"))
        lines.append(f"| {what} | {metric.replace('_', ' ')} | {before} | {after} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
