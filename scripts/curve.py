"""Draws the curve of a run, for the README: .venv/bin/python scripts/curve.py metrics.jsonl OUT.png

matplotlib comes with the environment that `make install` makes.
"""

import json
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot


def main(metrics: Path, out: Path) -> None:
    """Training reward per step and its kinds, with the evaluations on top."""
    rows = [json.loads(line) for line in metrics.read_text().splitlines()]
    steps, evaluations = [row for row in rows if "eval" not in row], [row for row in rows if "eval" in row]
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 3.6), sharey=True, layout="constrained")
    x = [row["step"] for row in steps]
    left.plot(x, [row["reward_mean"] for row in steps], color="#1f77b4", label="training, mean of the step")
    values = [row["eval"]["reward"] for row in evaluations]
    low = [value - row["eval"]["reward_interval"][0] for value, row in zip(values, evaluations, strict=True)]
    at = [row["step"] for row in evaluations]
    left.errorbar(at, values, yerr=low, fmt="o", color="#d62728", capsize=3, label="test topics, 95 % interval")
    left.set(xlabel="step", ylabel="reward (share of instructions followed)", ylim=(0, 1))
    left.legend(loc="upper left", frameon=False)
    for name in steps[0]["reward_parts"]:
        curve = [row["reward_parts"].get(name) for row in steps]
        smooth = [_mean(curve[max(0, i - 2) : i + 3]) for i in range(len(curve))]
        right.plot(x, smooth, label=name.replace("_", " "))
    right.set(xlabel="step", title="by kind, mean of five steps")
    right.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False, fontsize=9)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.xaxis.get_major_locator().set_params(integer=True)
    figure.savefig(out, dpi=110)


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
