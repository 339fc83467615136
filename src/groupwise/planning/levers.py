"""What would speed a step up most: it is planned again with one thing changed at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from groupwise.planning.time import Fleet, Step, Times


@dataclass(frozen=True)
class Lever:
    """One change, and the step with it."""

    change: str
    times: Times
    before: Times

    @property
    def factor(self) -> float:
        """How many times as fast a step is."""
        return self.before.step / self.times.step


def levers(
    step: Step, fleet: Fleet, predict: Callable[[Step, Fleet], Times], fits: Callable[[Step, Fleet], bool]
) -> list[Lever]:
    """Every change that makes a step faster and fits into memory, the best first. `predict` says how long a step takes
    on a fleet.

    Some change what is learned from (shorter completions, stale ones, no reference); more devices cost more.
    """
    before = predict(step, fleet)
    found = [Lever(change, predict(*changed), before) for change, changed in _changes(step, fleet) if fits(*changed)]
    return sorted((lever for lever in found if lever.factor > 1.001), key=lambda lever: lever.times.step)


def _changes(step: Step, fleet: Fleet) -> Iterator[tuple[str, tuple[Step, Fleet]]]:
    if not step.shared_prompt:
        yield "compute each prompt once per group in training", (replace(step, shared_prompt=True), fleet)
    if step.checkpointing:
        yield "keep activations: no gradient checkpointing", (replace(step, checkpointing=False), fleet)
    if step.reference:
        yield "drop the reference", (replace(step, reference=False), fleet)
    if step.rows < step.prompts * step.samples / fleet.engines:
        yield "decode twice as many completions at a time", (replace(step, rows=2 * step.rows), fleet)
    yield (
        "micro-batches of twice as many tokens",
        (replace(step, micro_batch_tokens=2 * step.micro_batch_tokens), fleet),
    )
    if step.lengths.longest > 1:
        half = step.lengths.capped(step.lengths.longest // 2)
        yield f"completions of at most {half.longest} tokens", (replace(step, lengths=half), fleet)
    if step.epochs > 1:
        yield "train once on each rollout", (replace(step, epochs=1), fleet)
    yield from ((name, (step, changed)) for name, changed in _fleets(fleet))


def _fleets(fleet: Fleet) -> Iterator[tuple[str, Fleet]]:
    stale = "sample while training, one step stale"
    if fleet.engine_devices and not fleet.overlap:
        yield stale, replace(fleet, overlap=True)
    for quarters in (1, 2, 3) if not fleet.engine_devices else ():
        engines = fleet.devices * quarters // 4 // fleet.engine_tensor_parallel * fleet.engine_tensor_parallel
        training = fleet.devices - engines
        if engines and training and training % fleet.tensor_parallel == 0:
            name = f"{stale}, with {engines} of {fleet.devices} devices"
            yield name, replace(fleet, devices=training, engine_devices=engines, overlap=True)
    if fleet.all_devices > 1:
        doubled = replace(fleet, devices=2 * fleet.devices, engine_devices=2 * fleet.engine_devices)
        yield f"{doubled.all_devices} devices in place of {fleet.all_devices}", doubled
