"""The ladder's numbers as a table, as JSON and as a plot."""

from __future__ import annotations

import json
import math
import platform
import subprocess
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

T_95 = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 7: 2.447, 8: 2.365, 9: 2.306, 10: 2.262}
"""97.5 % quantile of Student's t for so many values."""


def interval(values: Sequence[float]) -> tuple[float, float | None]:
    """The mean, and half the width of its 95 % interval; None where one value says nothing of the spread."""
    if len(values) < 2:
        return values[0], None
    return fmean(values), T_95.get(len(values), 1.96) * stdev(values) / math.sqrt(len(values))


def write_results(folder: Path, name: str, rungs: Sequence[Mapping[str, Any]], about: Mapping[str, Any]) -> str:
    """Write NAME.md, NAME.json and, where matplotlib is installed, NAME.png; the table."""
    folder.mkdir(parents=True, exist_ok=True)
    about = {**about, "cpu_minutes": round(sum(rung["cpu_seconds"] for rung in rungs) / 60, 1)}
    (folder / f"{name}.json").write_text(json.dumps({"about": about, "rungs": list(rungs)}, indent=1) + "\n", "utf-8")
    drawn = plot(folder / f"{name}.png", rungs)
    told = [f"{key.replace('_', ' ')}: {value}" for key, value in about.items()]
    picture = [f"![Accuracy by sampled tokens]({name}.png)"] if drawn else []
    page = "\n\n".join([table(rungs), *picture, "\n".join(f"- {line}" for line in told)])
    (folder / f"{name}.md").write_text(f"# The ladder: {name}\n\n{page}\n", "utf-8")
    return page if drawn else f"{page}\n\nno plot: matplotlib is not installed (pip install matplotlib)"


def table(rungs: Sequence[Mapping[str, Any]]) -> str:
    """One line per rung: accuracy on the test sums, with its gain over the start of the same seed."""
    start = {rung["seed"]: rung["accuracy"] for rung in rungs if rung["label"] == "Start"}
    lines = [
        "| | accuracy | gain over the start | tokens sampled | optimiser steps | CPU s |",
        "|---|---|---|---|---|---|",
    ]
    for label in dict.fromkeys(rung["label"] for rung in rungs):
        own = [rung for rung in rungs if rung["label"] == label]
        gains = [rung["accuracy"] - start[rung["seed"]] for rung in own]
        numbers = [f"{fmean(rung[key] for rung in own):,.0f}" for key in ("tokens_sampled", "steps", "cpu_seconds")]
        gain = "" if label == "Start" else shown(gains, "+")
        lines.append(f"| {label} | {shown([rung['accuracy'] for rung in own])} | {gain} | {' | '.join(numbers)} |")
    return "\n".join(lines)


def shown(values: Sequence[float], sign: str = "") -> str:
    """`0.52 ± 0.03`."""
    mean, half = interval(values)
    return f"{mean:{sign}.2f}" + ("" if half is None else f" ± {half:.2f}")


def origin() -> dict[str, str | int]:
    """When, by which commit and on what."""
    git = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip() or "unknown"
    processor = platform.processor() or platform.machine()
    if (info := Path("/proc/cpuinfo")).is_file():
        models = [line.partition(":")[2].strip() for line in info.read_text().splitlines() if "model name" in line]
        processor = f"{models[0]}, {len(models)} cores" if models else processor
    return {"date": f"{datetime.now():%Y-%m-%d}", "commit": commit, "hardware": processor}


def plot(file: Path, rungs: Sequence[Mapping[str, Any]]) -> bool:
    """Accuracy by sampled tokens for those that sample as they learn, and by rung at the end; False: not drawn."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return False
    figure = Figure(figsize=(11, 4.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    labels = [label for label in dict.fromkeys(rung["label"] for rung in rungs)]
    live = [label for label in labels if label not in ("Start", "SFT", "RFT", "DPO")]
    for number, label in enumerate(labels):
        own = [rung for rung in rungs if rung["label"] == label]
        mean, half = interval([rung["accuracy"] for rung in own])
        color = f"C{live.index(label)}" if label in live else "0.6"
        right.barh(number, mean, xerr=half, color=color, error_kw={"capsize": 3, "lw": 1})
        if label in live:
            points = list(zip(*(rung["curve"] for rung in own), strict=False))
            tokens = [fmean(point[0] for point in group) for group in points]
            left.plot(tokens, [fmean(point[1] for point in group) for group in points], color=color, label=label)
    left.set(xlabel="tokens sampled", ylabel="accuracy on test sums")
    left.legend(fontsize=8, frameon=False)
    right.set(yticks=range(len(labels)), xlabel="accuracy on test sums at the end", xlim=(0, 1))
    right.set_yticklabels(labels)
    right.invert_yaxis()
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(file, dpi=130)
    return True
