"""A plan as tables and lines of at most 80 columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from groupwise.planning.jobs import SEED_ACCOUNTING, Job
from groupwise.planning.memory import Prediction
from groupwise.planning.plan import IMPROVEMENT, Plan, Signal
from groupwise.planning.time import Times

BAR = 20
"""Columns of the longest bar."""

Table = Callable[[str, Sequence[str], Sequence[Sequence[str]]], None]


class Display(Protocol):
    """What a plan is shown on."""

    def say(self, line: str) -> None:
        """One line."""

    def table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """A small table, the first column on the left."""


def show(plan: Plan, display: Display) -> None:
    """The whole plan."""
    for line in assumptions(plan.job):
        display.say(line)
    display.say("")
    if plan.memory is None:
        _show_parts(plan, display)
    else:
        _show_phases(plan, plan.memory, display)
        _show_verdict(plan, display)
    _show_algorithms(plan, display)
    if plan.times is not None:
        _show_times(plan, plan.times, display)
    if plan.signal is not None:
        _show_signal(plan, plan.signal, display)
    if plan.memory is not None and not plan.job.samples_live:
        display.say("nothing is sampled while training, so neither seconds nor signal are planned")


def assumptions(job: Job) -> list[str]:
    """What is planned for, in words."""
    layout, lengths = job.layout, job.lengths
    size = job.size or (job.model.nominal if job.accounting == SEED_ACCOUNTING else job.parameters)
    trained = "all trained" if job.lora is None else f"{job.trained:,} trained in adapters of rank {job.lora}"
    stage = f"stage {job.stage}: " if job.stage else ""
    lines = [f"{stage}{job.algorithm} on {job.model.name}: {size:,} parameters, {trained}"]
    if job.accounting == SEED_ACCOUNTING:
        return [*lines, "accounting seed: weights in 2 bytes and AdamW's moments in 8, all at once, nothing else"]
    lines.append(
        f"a step: {job.prompts} prompts of at most {job.prompt} tokens, {job.samples} completions each, "
        f"{lengths.mean:.0f} tokens on average and at most {lengths.longest}"
    )
    here = "this machine" if layout.memory is not None else "no device that was named"
    kind = here if layout.device is None else f"{layout.devices} {layout.device.name}"
    apart = f" and {layout.engine_devices} that sample" if layout.engine_devices else ""
    models = f", learned reward models: {job.reward_models}" if job.reward_models and job.needs.rewards else ""
    lines.append(
        f"on {kind}{apart}: accounting {job.accounting}, micro-batches of {job.micro_batch_tokens} tokens, "
        f"sampling {job.engine.place}{models}"
    )
    return lines


def size_of(size: float) -> str:
    """Bytes with a unit."""
    for unit, name in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB")):
        if abs(size) >= unit:
            return f"{size / unit:.3g} {name}" if size >= 100 * unit else f"{size / unit:.2f} {name}"
    return f"{size / 1e3:.0f} kB"


def _bar(share: float) -> str:
    return ("█" * max(1, round(BAR * share))).ljust(BAR)


def _show_parts(plan: Plan, display: Display) -> None:
    largest = max(plan.components.values())
    rows = [(name, size_of(size), _bar(size / largest)) for name, size in plan.components.items()]
    rows.append(("in all", f"{size_of(plan.total)} ({plan.total / 2**30:,.0f} GiB)", ""))
    display.table("Memory", ("", "bytes", ""), rows)


def _show_phases(plan: Plan, memory: Prediction, display: Display) -> None:
    several = any(phase.devices > 1 for phase in memory.phases)
    rows = []
    for phase in memory.phases:
        mark = "  <- the most" if phase is memory.binding else ""
        whole = (f"{phase.in_all / 1e9:,.1f}",) if several else ()
        rows.append((phase.name + mark, f"{phase.total / 1e9:.2f}", f"{phase.total / 2**30:.2f}", *whole))
    columns = ("phase", "GB per device" if several else "GB", "GiB", *(("GB in all",) if several else ()))
    display.table("Memory at the height of each phase", columns, rows)
    phase = memory.binding
    parts = sorted(phase.components.items(), key=lambda part: -part[1])
    shown = [(name, size_of(size), _bar(size / parts[0][1])) for name, size in parts if size >= phase.total / 200]
    display.table(f"What the {phase.name} holds", ("", "bytes", ""), shown)
    for name, size in memory.binding.host.items():
        display.say(f"in the host's memory meanwhile: {name} {size_of(size)} per device")


def _show_verdict(plan: Plan, display: Display) -> None:
    how = "with gradient checkpointing" if plan.checkpointing else "without gradient checkpointing"
    if plan.free is None:
        display.say(f"planned {how}; what is free wasn't given")
        return
    word = "fits" if plan.fits else "does NOT fit"
    display.say(f"it {word} into {size_of(plan.free)} per device, {how}")
    if plan.largest_micro_batch is None:
        display.say("no micro-batch fits: take more devices, adapters (--lora), or a smaller model")
    else:
        display.say(f"the largest micro-batch that fits: {plan.largest_micro_batch:,} tokens")


def _show_algorithms(plan: Plan, display: Display) -> None:
    if not plan.algorithms:
        return
    largest = max(row.peak for row in plan.algorithms)
    rows = [
        (row.name, size_of(row.at_rest), size_of(row.peak), row.binding, _bar(row.peak / largest))
        for row in plan.algorithms
    ]
    title = "The same with other algorithms"
    if plan.memory is None:
        display.table(
            f"{title}, a reward model with ppo", ("", "bytes", ""), [(row[0], row[1], row[4]) for row in rows]
        )
    else:
        display.table(f"{title}: networks in all, peak of one device", ("", "networks", "peak", "in", ""), rows)


def _show_times(plan: Plan, times: Times, display: Display) -> None:
    rows = [(name, f"{seconds:.3g}", f"{seconds / times.step:.0%}") for name, seconds in times.phases.items()]
    rows.append(("step", f"{times.step:.3g}", ""))
    display.table("Seconds of a step", ("", "seconds", "share"), rows)
    hours = times.device_hours(plan.job.steps)
    display.say(
        f"{times.tokens_per_second:,.0f} sampled tokens per second; "
        f"{plan.job.steps} steps take {hours:,.3g} device-hours"
    )
    for lever in plan.levers[:3]:
        display.say(f"{lever.factor:.2f} times as fast: {lever.change}")


def _show_signal(plan: Plan, signal: Signal, display: Display) -> None:
    rows = [
        (
            f"{group.size}{'  <- this run' if group.size == plan.job.samples else ''}",
            f"{group.with_signal:.0%}",
            f"{group.effective_prompts:.1f}",
            f"{group.baseline_error:.3f}",
        )
        for group in signal.groups
    ]
    columns = ("group size", "with signal", "prompts that teach", "baseline's error")
    display.table("Signal: groups that hold both right and wrong completions", columns, rows)
    if (again := signal.refilling) is not None:
        display.say(
            f"dynamic sampling: {again.rounds:.1f} rounds and {again.samples:,.0f} completions a step on average; "
            f"{again.exhausted:.1%} of the steps stay short"
        )
    if signal.prompts_to_see is not None:
        display.say(
            f"a rise of the pass rate by {IMPROVEMENT} shows on {signal.prompts_to_see:,} test prompts "
            "(power 0.8, before and after on the same ones)"
        )
