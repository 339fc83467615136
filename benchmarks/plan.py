"""What is planned beside what happens: `python benchmarks/plan.py [--only WORD] [--steps 2]`.

Runs of the trainer on this machine, one thread each, every one in a process of its own: the most memory that it holds
above what it held after imports, and CPU seconds per step (median, after one step that isn't counted), beside what
`groupwise.planning` predicts. Rates come from a calibration of each model just before. `--only` takes the runs whose
name has that word in it, `grpo` or `30m ppo-kl` for instance; their rows replace those of the same name in
`results/plan.json`, from which `results/plan.md` is written anew.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from datetime import date
from pathlib import Path
from statistics import median
from typing import Any

from channel import ENVIRONMENT, THREADS
from plan_runs import GROUPS, MEAN, PROMPT, SAMPLES, Combination, combinations, run_table

RESULTS = Path(__file__).parent / "results"
SIZES_30M = {
    "vocab_size": 8192,
    "hidden_size": 384,
    "intermediate_size": 1024,
    "num_hidden_layers": 16,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "tie_word_embeddings": True,
}
NAMES = {"tiny": "builtin:tiny-char", "135m": "builtin:smollm2-135m-instruct"}


def measure(combination: Combination, source: str, steps: int) -> dict[str, float]:
    """In a process of its own: train, and report bytes above the level after imports and CPU seconds per step."""
    import torch

    import groupwise  # noqa: F401 (sets how threads wait, before torch is imported)

    torch.set_num_threads(THREADS)
    from ours import FixedLengths, Scored

    from groupwise.models.loading import load_model
    from groupwise.models.policy import Policy
    from groupwise.rewards.combine import Combined, Part
    from groupwise.run_file import load_run, to_toml
    from groupwise.telemetry.display import Silent
    from groupwise.telemetry.run_folder import RunFolder
    from groupwise.training import environment
    from groupwise.training.preparation import Prepared
    from groupwise.training.trainer import Trainer
    from groupwise.types import Prompt

    scenario = combination.scenario
    run = load_run(run_table(combination, source)).run
    warm_imports(run.model.lora is not None)
    before = reset_peak()
    with tempfile.TemporaryDirectory() as temporary:
        policy = Policy.of(load_model(run.model, seed=0, say=lambda line: None))
        ids = len(policy.tokenizer)
        prompts = [
            Prompt(str(n), tuple(3 + token % (ids - 3) for token in tokens), "")
            for n, tokens in enumerate(scenario.prompts())
        ]
        folder = RunFolder.check_free(Path(temporary) / "run")
        folder.make(to_toml(run), environment.describe(policy))
        reward = Combined([Part("scenario", 1.0, Scored(scenario))])
        trainer = Trainer(run, [Prepared(run.stages[0], prompts, [], [], [], reward, [])], policy, folder, Silent())
        trainer.engine = FixedLengths(scenario)
        stage = trainer.enter()
        seconds = []
        for _ in range(steps + 1):
            start = time.process_time()
            trainer.step(stage)
            seconds.append(time.process_time() - start)
    return {"bytes": status("VmHWM") - before, "seconds": median(seconds[1:])}


def warm_imports(lora: bool) -> None:
    """Import what loading a model would import, so that it counts as imports."""
    import transformers.models.llama.modeling_llama  # noqa: F401
    from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig  # noqa: F401

    if lora:
        from peft import get_peft_model  # noqa: F401


def status(name: str) -> int:
    """Bytes that /proc/self/status says: VmRSS now, VmHWM at the most."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name + ":"))


def reset_peak() -> int:
    """Let VmHWM begin anew; what is held now, in bytes."""
    Path("/proc/self/clear_refs").write_text("5")
    return status("VmRSS")


def calibrated(source: str, lora: bool) -> dict[str, Any]:
    """In a process of its own: the rates of this machine for a model."""
    import torch
    from transformers import AutoConfig

    import groupwise  # noqa: F401
    from groupwise.models.settings import LoraSettings
    from groupwise.training.calibration import calibrate

    torch.set_num_threads(THREADS)
    return asdict(calibrate(AutoConfig.from_pretrained(source), LoraSettings(rank=16) if lora else None))


def predicted(combination: Combination, source: str, rates: dict[str, Any]) -> dict[str, float]:
    """What planning says of the same run."""
    from transformers import AutoConfig

    from groupwise.planning.activations import FLOAT32, Packing
    from groupwise.planning.checkpointing import Demand
    from groupwise.planning.memory import CPU_ALLOWANCE, Rollout, predict
    from groupwise.planning.rates import Measured
    from groupwise.planning.shape import Shape
    from groupwise.planning.time import Fleet, Step
    from groupwise.planning.time import predict as time_of

    shape, groups, most = Shape.of(AutoConfig.from_pretrained(source)), GROUPS[combination.model], combination.most
    networks = {"reference": combination.reference, "critic": combination.critic}
    demand = Demand(combination.micro_batch_tokens, PROMPT, most, SAMPLES, groups, **networks)
    adapters = shape.lora_parameters(16) if combination.lora else 0
    parameters = shape.parameters + adapters
    work = demand.workload(shape, parameters, adapters or parameters, FLOAT32)
    if most > MEAN:  # what this step really holds: a demand takes every completion for as long as can be
        work = replace(work, packing=Packing.padded(PROMPT, most, SAMPLES, groups, groups * SAMPLES * MEAN))
    rollout = Rollout(PROMPT, most, SAMPLES, groups * SAMPLES)
    work = replace(work, rollout=rollout, allowance=CPU_ALLOWANCE)
    tables = {
        name: {int(rows): seconds for rows, seconds in value.items()} if isinstance(value, dict) else value
        for name, value in rates.items()
    }
    measured = Measured(**tables)
    step = Step(
        prompts=groups,
        samples=SAMPLES,
        prompt=PROMPT,
        lengths=combination.lengths,
        micro_batch_tokens=combination.micro_batch_tokens,
        **networks,
        checkpointing=combination.checkpointing,
    )
    times = time_of(step, Fleet(), measured, measured)
    memory = predict(work, checkpointing=combination.checkpointing)
    return {"bytes": memory.peak, "binding": memory.binding.name, "seconds": times.step, "phases": dict(times.phases)}


def make_30m(folder: Path) -> str:
    """A Llama of 30 million random weights, over the words of the smallest built-in model."""
    import torch
    from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM

    from groupwise.models.saving import save_tokenizer
    from groupwise.models.tiny_char import EOS, PAD, tokenizer, vocabulary

    tokens = vocabulary()
    ids = {"pad_token_id": tokens[PAD], "eos_token_id": tokens[EOS]}
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(**SIZES_30M, **ids, bos_token_id=None))
    model.generation_config = GenerationConfig(**ids)
    model.save_pretrained(folder)
    save_tokenizer(tokenizer(tokens), folder)
    return str(folder)


def folder_of(model: str, scratch: str) -> str:
    """Where a model's files are, made first if they aren't there."""
    from groupwise.models.sources import resolve

    return make_30m(Path(scratch)) if model == "30m" else resolve(NAMES[model], say=lambda line: None)


def child(*arguments: str) -> Any:
    """What a process of this program says in its last line."""
    command = [sys.executable, __file__, *arguments]
    result = subprocess.run(command, env={**os.environ, **ENVIRONMENT}, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(result.stdout.splitlines()[-1])


def run_all(only: str, steps: int) -> list[dict[str, Any]]:
    """Calibrate, predict and measure the runs that are asked for."""
    chosen = [one for one in combinations() if only in one.name]
    rows, rates, sources = [], {}, {}
    with tempfile.TemporaryDirectory() as scratch:
        for one in chosen:
            if one.model not in sources:
                sources[one.model] = child("--folder", one.model, "--scratch", f"{scratch}/{one.model}")
            source = sources[one.model]
            if (one.model, one.lora) not in rates:
                rates[one.model, one.lora] = child("--calibrate", source, *(["--lora"] if one.lora else []))
            planned = predicted(one, source, rates[one.model, one.lora])
            measured = child("--measure", one.name, "--source", source, "--steps", str(steps))
            rows.append({"name": one.name, "predicted": planned, "measured": measured})
            print(line_of(rows[-1]), flush=True)
    return rows


def line_of(row: Mapping[str, Any]) -> str:
    """A row of the table."""
    planned, measured = row["predicted"], row["measured"]
    memory = f"{planned['bytes'] / 1e6:,.0f} | {measured['bytes'] / 1e6:,.0f} | {_gap(planned, measured, 'bytes')}"
    seconds = f"{planned['seconds']:.2f} | {measured['seconds']:.2f} | {_gap(planned, measured, 'seconds')}"
    return f"| {row['name']} | {memory} | {seconds} |"


def _gap(planned: Mapping[str, float], measured: Mapping[str, float], name: str) -> str:
    return f"{planned[name] / measured[name] - 1:+.0%}"


def write(rows: list[dict[str, Any]]) -> None:
    """Merge rows into the JSON of all results, and write the table from it."""
    file = RESULTS / "plan.json"
    old = json.loads(file.read_text()) if file.is_file() else {"runs": []}
    merged = {row["name"]: row for row in [*old["runs"], *rows]}
    names = [one.name for one in combinations() if one.name in merged]
    machine = f"{platform.machine()}, {os.cpu_count()} cores, one thread, load {os.getloadavg()[0]:.1f} at the end"
    data = {"date": str(date.today()), "machine": machine, "runs": [merged[name] for name in names]}
    file.write_text(json.dumps(data, indent=1) + "\n")
    head = "| run | MB planned | MB measured | gap | s planned | s measured | gap |\n|---|---|---|---|---|---|---|"
    lines = [line_of(row) for row in data["runs"]]
    text = f"# Planned and measured\n\n{data['date']}, {machine}; `make bench-plan`.\n\n{head}\n"
    (RESULTS / "plan.md").write_text(text + "\n".join(lines) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="runs whose name has this in it")
    parser.add_argument("--steps", type=int, default=2, help="steps of each run that count")
    for name in ("--folder", "--scratch", "--calibrate", "--measure", "--source"):  # of the processes it starts
        parser.add_argument(name, help=argparse.SUPPRESS)
    parser.add_argument("--lora", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.folder:
        print(json.dumps(folder_of(asked.folder, asked.scratch)))
    elif asked.calibrate:
        print(json.dumps(calibrated(asked.calibrate, asked.lora)))
    elif asked.measure:
        one = next(one for one in combinations() if one.name == asked.measure)
        print(json.dumps(measure(one, asked.source, asked.steps)))
    else:
        write(run_all(asked.only, asked.steps))


if __name__ == "__main__":
    main()
