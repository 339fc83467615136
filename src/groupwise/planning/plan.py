"""A job's plan: what it takes, how long, whether there is anything to learn from, and what would be better."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from groupwise.planning.activations import Packing
from groupwise.planning.checkpointing import MARGIN
from groupwise.planning.devices import THIS_MACHINE
from groupwise.planning.jobs import SEED_ACCOUNTING, Job, PlannedNeeds
from groupwise.planning.levers import Lever, levers
from groupwise.planning.memory import Prediction, networks_at_rest, predict
from groupwise.planning.networks import seed_table
from groupwise.planning.rates import Rates, Roofline
from groupwise.planning.signal import SIZES, GroupSignal, PassRates, Refilling, group_signal, refilling
from groupwise.planning.signal_power import Comparison, prompts_needed
from groupwise.planning.time import Fleet, Step, Times
from groupwise.planning.time import predict as predict_times

SMALLEST_MICRO_BATCH = 64
"""Tokens below which no advice goes."""
IMPROVEMENT = 0.05
"""Of the pass rate: what an evaluation should be able to show."""


@dataclass(frozen=True)
class Signal:
    """What groups will give, by group size."""

    groups: Sequence[GroupSignal]
    """`SIZES` and the job's own, in order."""
    own: GroupSignal
    refilling: Refilling | None
    """Where the algorithm samples until enough groups give signal."""
    prompts_to_see: int | None
    """Prompts of an evaluation on which a rise by `IMPROVEMENT` shows with a power of 0.8, before and after on the same
    ones; None where there is no room for it."""


@dataclass(frozen=True)
class AlgorithmRow:
    """What another algorithm would take of the same job."""

    name: str
    at_rest: int
    """Bytes of all networks, over all devices."""
    peak: int
    """Bytes on one device at the height of a step."""
    binding: str
    """The phase that needs them."""


@dataclass(frozen=True)
class Plan:
    """What a job takes. Bytes and seconds."""

    job: Job
    components: Mapping[str, int]
    """Bytes over all devices of the networks, or in the accounting `seed` of all that it counts."""
    memory: Prediction | None
    """None in the accounting `seed`, which has no phases."""
    checkpointing: bool
    largest_micro_batch: int | None
    """Tokens of the largest micro-batch that fits; None: not even the smallest, or it isn't known what is free."""
    algorithms: Sequence[AlgorithmRow]
    times: Times | None
    """None where the devices' rates aren't known."""
    levers: Sequence[Lever]
    signal: Signal | None

    @property
    def total(self) -> int:
        """Bytes over all devices in the phase that needs the most."""
        if self.memory is None:
            return sum(self.components.values())
        return self.memory.binding.in_all

    @property
    def free(self) -> float | None:
        """Bytes that one device has."""
        return self.job.layout.per_device

    @property
    def fits(self) -> bool | None:
        """Whether every phase fits; None where it isn't known what is there."""
        if self.memory is None or self.free is None:
            return None
        return _needed(self.job, self.memory) <= self.free


def plan(
    job: Job,
    *,
    others: Mapping[str, PlannedNeeds],
    rates: Callable[[Job], Rates | None] | None = None,
    pass_rates: PassRates | None = None,
) -> Plan:
    """The plan. others: what further algorithms need, for the table; rates: how fast this machine is, measured.

    Raises `UserError` for layouts and numbers that can't be.
    """
    signal = None
    if pass_rates is not None and job.samples_live:
        signal = _signal(job, pass_rates)
        kept = signal.refilling
        unused = 0.0 if kept else 1 - signal.own.with_signal
        job = replace(job, no_signal=unused, rounds=max(1.0, kept.rounds) if kept else 1.0)
    rows = [_row(replace(job, algorithm=name, needs=needs, reward_models=None)) for name, needs in others.items()]
    if job.accounting == SEED_ACCOUNTING:
        parts = seed_table(job.algorithm, job.needs, job.size or job.model.nominal, job.reward_models)
        return Plan(job, parts, None, False, None, rows, None, (), signal)
    checkpointing, memory = _memory(job)
    times, found = _times(job, checkpointing, rates)
    components = _at_rest(job)
    return Plan(job, components, memory, checkpointing, _largest(job), rows, times, found, signal)


def _row(job: Job) -> AlgorithmRow:
    if job.accounting == SEED_ACCOUNTING:
        total = sum(seed_table(job.algorithm, job.needs, job.size or job.model.nominal).values())
        return AlgorithmRow(job.algorithm, total, total, "all at once")
    _, memory = _memory(job)
    return AlgorithmRow(job.algorithm, sum(_at_rest(job).values()), memory.peak, memory.binding.name)


def _at_rest(job: Job) -> Mapping[str, int]:
    """Bytes of the networks, once each."""
    return networks_at_rest(job.workload())


def _needed(job: Job, memory: Prediction) -> float:
    """Bytes of a device that should be there: this machine's prediction has no margin in it."""
    return memory.peak * (MARGIN if job.layout.device is None else 1.0)


def _memory(job: Job, micro_batch_tokens: int | None = None) -> tuple[bool, Prediction]:
    """Without checkpointing if that is asked for, or if nothing is and it fits."""
    work = job.workload(micro_batch_tokens)
    plain = predict(work, checkpointing=False)
    if job.checkpointing is not None:
        return job.checkpointing, predict(work, checkpointing=True) if job.checkpointing else plain
    free = job.layout.per_device
    if free is None or _needed(job, plain) <= free:
        return False, plain
    return True, predict(work, checkpointing=True)


def _largest(job: Job) -> int | None:
    """By halving: the phases grow with the micro-batch. At most the tokens of a whole step."""
    free = job.layout.per_device
    if free is None:
        return None

    def fits(tokens: int) -> bool:
        return _needed(job, _memory(job, tokens)[1]) <= free

    whole = Packing.full(
        2**62, job.prompt, job.lengths.longest, job.samples, -(-job.prompts // job.sharding.shards)
    ).tokens
    if not fits(SMALLEST_MICRO_BATCH):
        return None
    low, high = SMALLEST_MICRO_BATCH, max(SMALLEST_MICRO_BATCH, whole)
    if fits(high):
        return high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _times(
    job: Job, checkpointing: bool, rates: Callable[[Job], Rates | None] | None
) -> tuple[Times | None, Sequence[Lever]]:
    if not job.samples_live:
        return None, ()
    if job.layout.device is None:
        here = None if rates is None else rates(job)
        if here is None:
            return None, ()
        trainer = engine = here
    else:
        trained = job.trained / job.parameters
        trainer, engine = (
            Roofline(job.layout.device, job.model.shape, job.parameters, tensor_parallel=parallel, trained=trained)
            for parallel in (job.layout.tensor_parallel, job.engine.tensor_parallel)
        )

    def predicted(step: Step, fleet: Fleet) -> Times:
        return predict_times(step, fleet, trainer, engine)

    def fits(step: Step, fleet: Fleet) -> bool:
        free = job.layout.per_device
        if free is None:
            return True
        layout = replace(job.layout, devices=fleet.devices, engine_devices=fleet.engine_devices)
        changed = replace(
            job,
            layout=layout,
            lengths=step.lengths,
            rows=step.rows,
            micro_batch_tokens=step.micro_batch_tokens,
            checkpointing=step.checkpointing,
        )
        return _needed(changed, _memory(changed)[1]) <= free

    step = job.step(job.micro_batch_tokens, checkpointing)
    return predicted(step, job.fleet), levers(step, job.fleet, predicted, fits)


def _signal(job: Job, rates: PassRates) -> Signal:
    sizes = sorted({*SIZES, job.samples} - {1})
    groups = group_signal(rates, job.prompts, sizes)
    (own,) = group_signal(rates, job.prompts, [job.samples])
    dynamic = getattr(job.needs, "dynamic_sampling", None)
    again = None
    if dynamic is not None:
        again = refilling(rates, job.samples, job.prompts, max_rounds=dynamic.max_rounds)
    room = 1 - rates.expected(1, 0)
    seen = prompts_needed(rates, IMPROVEMENT, Comparison()) if room > IMPROVEMENT else None
    return Signal(groups, own, again, seen)


def to_json(found: Plan) -> dict[str, Any]:
    """What `--json` prints: bytes as GB, which are 10^9."""
    job, memory = found.job, found.memory
    answer: dict[str, Any] = {
        **({"stage": job.stage} if job.stage else {}),
        "model": job.model.name,
        "parameters": job.size or (job.model.nominal if memory is None else job.parameters),
        "algorithm": job.algorithm,
        "accounting": job.accounting,
        "devices": job.layout.devices + job.layout.engine_devices,
        "device": _device(job),
        "total_gb": found.total / 1e9,
        "total_gib": found.total / 2**30,
        "components": gigabytes(found.components),
        "phases": {},
        "algorithms": {
            row.name: {"at_rest_gb": row.at_rest / 1e9, "peak_gb": row.peak / 1e9} for row in found.algorithms
        },
    }
    if memory is not None:
        answer |= {
            "phases": {
                phase.name: {
                    "per_device_gb": phase.total / 1e9,
                    "in_all_gb": phase.in_all / 1e9,
                    "components": gigabytes(phase.components),
                    "host": gigabytes(phase.host),
                }
                for phase in memory.phases
            },
            "binding_phase": memory.binding.name,
            "peak_per_device_gb": memory.peak / 1e9,
            "free_per_device_gb": None if found.free is None else found.free / 1e9,
            "fits": found.fits,
            "gradient_checkpointing": found.checkpointing,
            "largest_micro_batch_tokens": found.largest_micro_batch,
        }
    if (times := found.times) is not None:
        answer["time"] = {
            "seconds": dict(times.phases),
            "step_seconds": times.step,
            "tokens_per_second": times.tokens_per_second,
            "device_hours": times.device_hours(job.steps),
            "faster": [{"change": lever.change, "factor": lever.factor} for lever in found.levers],
        }
    if (signal := found.signal) is not None:
        answer["signal"] = {
            "groups_with_signal": {group.size: group.with_signal for group in signal.groups},
            "effective_prompts": signal.own.effective_prompts,
            "baseline_error": signal.own.baseline_error,
            "rounds": None if signal.refilling is None else signal.refilling.rounds,
            "prompts_to_see_a_rise_of_0.05": signal.prompts_to_see,
        }
    return answer


def _device(job: Job) -> str | None:
    """Its kind; None where none was named."""
    if job.layout.device is not None:
        return job.layout.device.name
    return None if job.layout.memory is None else THIS_MACHINE


def gigabytes(parts: Mapping[str, int]) -> dict[str, float]:
    """Bytes as GB."""
    return {name: size / 1e9 for name, size in parts.items() if size}
