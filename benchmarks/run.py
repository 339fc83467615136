"""groupwise beside TRL 1.16 on one machine: `python benchmarks/run.py [--scenario A] [--quick] [--json PATH]`.

The two sides take turns, step by step, in processes of their own; what is compared is medians of CPU seconds. See
README.md beside this file for what is measured and how to read it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from contextlib import closing
from datetime import date
from pathlib import Path
from statistics import median
from typing import Any

from channel import ENVIRONMENT, Side
from scenarios import SCENARIOS, Scenario

HERE = Path(__file__).parent
PEER = Path(os.environ.get("GROUPWISE_PEER", Path.home() / ".cache" / "groupwise" / "trl-1.16")) / "bin" / "python"
FULL = ("S", "A", "B", "D", "A-degenerate")
HEADS = {"peer": "as-is", "patched": "patched"}
"""TRL as it is, and with its output layer at completions alone."""
SIZES = ("G4", "G8", "G16", "G32")

Steps = list[dict[str, Any]]


def main() -> None:
    arguments = parse()
    if not PEER.is_file():
        sys.exit(f"the peer's environment is missing ({PEER}); make it with benchmarks/install_peer.sh")
    names = ["quick"] if arguments.quick else arguments.scenario or [*FULL, *SIZES]
    folder = model_folder()
    roofline = json.loads(output("roofline.py", *names))
    results: dict[str, Any] = {}
    for name in names:
        results[name] = measure(SCENARIOS[name], folder, arguments.quick, roofline["seconds"][name])
        print(json.dumps({name: results[name]}, indent=2), flush=True)
    report = {"machine": machine(), "gigaflops": roofline["gigaflops"], "scenarios": results}
    if arguments.quick:
        report |= results["quick"]
    merge(arguments.json, report, keep=bool(arguments.scenario))
    print(f"wrote {arguments.json}")


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenario", action="append", choices=list(SCENARIOS), help="only this one; may be repeated")
    parser.add_argument("--quick", action="store_true", help="scenario S with one prompt: within ten minutes")
    parser.add_argument("--json", type=Path, default=HERE / "results" / f"{date.today()}.json", help="where to write")
    return parser.parse_args()


def measure(scenario: Scenario, folder: str, quick: bool, floor: dict[str, float]) -> dict[str, Any]:
    """Everything about one scenario."""
    rounds = 5 if scenario.name == "S" else 3
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        live = run_live(scenario, folder, place, rounds, quick or scenario.name in SIZES)
        if scenario.name in SIZES:
            return {"ours": summary(live["ours"]), "completion_tokens": scenario.completion_tokens}
        replay, differences = run_replay(scenario, folder, place, rounds)
    return compared(scenario, live, replay, differences, floor)


def run_live(scenario: Scenario, folder: str, place: Path, rounds: int, only_generate: bool) -> dict[str, Steps]:
    """Whole steps, ours and TRL's in turn; the first of each, uncounted, warms up. Also records a rollout for replay.

    TRL as it is and patched follow each other: the two together would not fit into memory.
    """
    ours = Side(sys.executable, "ours.py", scenario.name, "live")
    with closing(ours):
        ours.ask(do="record", path=str(place / "rollouts.json"))
        if scenario.name in SIZES:
            return turns({"ours": ours}, rounds)
        engine = "generate" if only_generate else faster_engine(scenario, folder)
        steps: dict[str, Steps] = {"ours": []}
        for name, head in HEADS.items():
            with closing(Side(PEER, "peer.py", scenario.name, "live", engine, head, folder)) as peer:
                both = turns({"ours": ours, name: peer}, rounds)
            steps["ours"] += both["ours"]
            steps[name] = both[name]
        return steps


def faster_engine(scenario: Scenario, folder: str) -> str:
    """The faster of TRL's two ways to sample, by one step of each."""
    took = {}
    for engine in ("generate", "continuous"):
        with closing(Side(PEER, "peer.py", scenario.name, "live", engine, "as-is", folder)) as side:
            took[engine] = side.ask(do="step")["cpu"]["rollout"]
    faster = min(took, key=lambda engine: took[engine])
    told = ", ".join(f"{value:.1f} s with {engine}" for engine, value in took.items())
    print(f"{scenario.name}: TRL's rollout takes {told}; {faster} goes on", flush=True)
    return faster


def run_replay(scenario: Scenario, folder: str, place: Path, rounds: int) -> tuple[dict[str, Steps], dict[str, float]]:
    """Updates on the recorded rollout, and how far each side's gradient is from the plain one."""
    rollouts = str(place / "rollouts.json")
    output("plain.py", scenario.name, folder, rollouts, str(place / "plain"))
    steps: dict[str, Steps] = {"ours": []}
    differences: dict[str, float] = {}

    def differ(name: str, side: Side) -> None:
        side.ask(do="gradient", path=str(place / name))
        differences[name] = float(output("difference.py", str(place / name), str(place / "plain")))

    with closing(Side(sys.executable, "ours.py", scenario.name, "replay", rollouts)) as ours:
        differ("ours", ours)
        for name, head in HEADS.items():
            with closing(Side(PEER, "peer.py", scenario.name, "replay", "generate", head, folder, rollouts)) as peer:
                differ(name, peer)
                both = turns({"ours": ours, name: peer}, rounds, warm=True)
            steps["ours"] += both["ours"]
            steps[name] = both[name]
    return steps, differences


def turns(sides: dict[str, Side], rounds: int, *, warm: bool = False) -> dict[str, Steps]:
    """A B C A B C ...: each side's counted steps."""
    steps: dict[str, Steps] = {name: [] for name in sides}
    for number in range(rounds + (not warm)):
        for name, side in sides.items():
            step = side.ask(do="step")
            if warm or number > 0:
                steps[name].append(step)
    return steps


def seconds(steps: Steps, phase: str, clock: str = "cpu") -> float:
    """The median of a phase."""
    return median(step[clock].get(phase, 0.0) for step in steps)


def summary(steps: Steps) -> dict[str, Any]:
    """Medians by phase, the spread of whole steps, and the peak of memory."""
    whole = [step["cpu"]["step"] for step in steps]
    return {
        **{phase: seconds(steps, phase) for phase in ("step", "rollout", "reward", "update")},
        "step_range": [min(whole), max(whole)],
        "step_wall": seconds(steps, "step", "wall"),
        "peak_mb": steps[-1]["peak_mb"],
    }


def compared(
    scenario: Scenario,
    live: dict[str, Steps],
    replay: dict[str, Steps],
    differences: dict[str, float],
    floor: dict[str, float],
) -> dict[str, Any]:
    """Ratios, TRL's over ours (memory: ours over TRL's), and all that they come from."""
    ours, peer, patched = (live[name] for name in ("ours", "peer", "patched"))
    tokens, prompts = scenario.completion_tokens, scenario.groups * scenario.prompt_tokens
    step, rollout, update = (seconds(ours, phase) for phase in ("step", "rollout", "update"))
    lengths = scenario.lengths()
    return {
        "ratios": {
            "step": seconds(peer, "step") / step,
            "step_patched": seconds(patched, "step") / step,
            "rollout": seconds(peer, "rollout") / rollout,
            "update_replay": seconds(replay["peer"], "update") / seconds(replay["ours"], "update"),
            "update_replay_patched": seconds(replay["patched"], "update") / seconds(replay["ours"], "update"),
            "peak_memory": ours[-1]["peak_mb"] / peer[-1]["peak_mb"],
        },
        "gradient_relative_difference": differences["ours"],
        "peer_gradient_relative_difference": differences["peer"],
        "roofline": {
            "rollout": floor["rollout"] / rollout,
            "update": floor["update"] / update,
            "step": (floor["rollout"] + floor["update"]) / step,
            "seconds": floor,
        },
        "completion_tokens_per_cpu_second": {"ours": tokens / step, "peer": tokens / seconds(peer, "step")},
        "work_ratio": {
            "ours": 1.0,
            "peer": scenario.groups
            * scenario.group_size
            * (scenario.prompt_tokens + max(lengths))
            / (prompts + tokens),
        },
        "live": {name: summary(steps) for name, steps in live.items()},
        "replay": {name: summary(steps) for name, steps in replay.items()},
    }


def output(program: str, *arguments: str) -> str:
    """What one of the programs beside this one prints."""
    command = [sys.executable, str(HERE / program), *arguments]
    return subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True, env={**os.environ, **ENVIRONMENT}
    ).stdout


def model_folder() -> str:
    """Where the default model lies, made if it isn't there yet."""
    return output("model_folder.py").strip().splitlines()[-1]


def machine() -> dict[str, Any]:
    """What the numbers were measured on."""
    names = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=HERE, stdout=subprocess.PIPE, text=True).stdout
    return {
        "date": str(date.today()),
        "commit": commit.strip(),
        "cpu": names[0].partition(":")[2].strip() if names else platform.processor(),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
    }


def merge(path: Path, report: dict[str, Any], *, keep: bool) -> None:
    """Write the report; with `keep` the scenarios that were not run now stay as they were."""
    if keep and path.is_file():
        report["scenarios"] = json.loads(path.read_text())["scenarios"] | report["scenarios"]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
