"""How long a step takes, from what is sampled and trained and from a device's rates: arithmetic alone, no torch.

    rollout   prompts once each + sum over decoding steps of seconds(rows still running, what they attend to)
    passes    reference, old log-probs, values: forward, output layer at completions
    update    per micro-batch: forward, backward, output layer at completions; then the optimiser

A prompt is computed once per group, in the rollout as in every other pass; groups whose rewards are all equal are
sampled but not trained on. Rows that finish leave, so that a decoding step becomes cheaper as completions end.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from groupwise.errors import RunFileError
from groupwise.planning.lengths import Lengths, schedule
from groupwise.planning.rates import Rates

PACK_AT = 8
"""The decoding step before which the engine in the trainer's process packs weights."""


@dataclass(frozen=True)
class Step:
    """One rollout and the optimiser steps that it feeds. Raises `RunFileError` for impossible counts."""

    prompts: int
    samples: int
    """Completions per prompt."""
    prompt: float
    """Mean tokens of a prompt."""
    lengths: Lengths
    no_signal: float = 0.0
    """Share of groups that give no gradient: their rewards are all equal."""
    rounds: float = 1.0
    """Times as many groups are sampled as are kept, as dynamic sampling does."""
    epochs: int = 1
    minibatches: int = 1
    micro_batch_tokens: int = 4096
    rows: int = 64
    """Most completions that one engine decodes at a time."""
    policy: bool = True
    """False where only a critic is trained."""
    reference: bool = False
    critic: bool = False
    old_log_probs: bool = False
    """Beside those that several optimiser steps per rollout make necessary."""
    checkpointing: bool = False
    shared_prompt: bool = True
    """Training computes a prompt once per group, not once per completion."""
    reward: float = 0.0
    """Seconds of scoring the rollout."""

    def __post_init__(self) -> None:
        least = {"prompts": 1, "samples": 1, "prompt": 1, "epochs": 1, "minibatches": 1, "micro_batch_tokens": 1}
        for name, smallest in (least | {"rows": 1, "rounds": 1, "reward": 0}).items():
            if not getattr(self, name) >= smallest:
                raise RunFileError(f"{name} = {getattr(self, name)} is impossible", fix=f"give {smallest} or more")
        if not 0 <= self.no_signal <= 1:
            raise RunFileError(f"no_signal = {self.no_signal} is no share", fix="give a number from 0 to 1")

    @property
    def updates(self) -> int:
        """Optimiser steps of one rollout."""
        return self.epochs * self.minibatches

    @property
    def sampled_tokens(self) -> float:
        """Tokens of completions that are sampled."""
        return self.rounds * self.prompts * self.samples * self.lengths.mean


@dataclass(frozen=True)
class Fleet:
    """The devices, and who has them. Raises `RunFileError` for layouts that can't be."""

    devices: int = 1
    """That train."""
    tensor_parallel: int = 1
    """Of them, as many together hold one copy of the model while training."""
    engine_devices: int = 0
    """That sample; 0: those that train, in turn."""
    engine_tensor_parallel: int = 1
    sharded: bool = True
    """Weights, gradients and moments are spread over all that train, and gathered layer by layer."""
    overlap: bool = False
    """Sample for the next step while training on the last: completions are one step stale."""
    per_machine: int = 8
    """Devices of one machine."""

    def __post_init__(self) -> None:
        pairs = {
            "devices": (self.devices, self.tensor_parallel),
            "engine_devices": (self.engine_devices or self.devices, self.engine_tensor_parallel),
        }
        for name, (count, parallel) in pairs.items():
            if count < 1 or parallel < 1 or count % parallel:
                raise RunFileError(
                    f"{name} = {count} can't hold models that are spread over {parallel} devices each",
                    fix=f"give a multiple of {max(1, parallel)}",
                )
        if self.overlap and not self.engine_devices:
            raise RunFileError(
                "sampling can't go on while the same devices train", fix="give devices that sample: engine_devices"
            )

    @property
    def ranks(self) -> int:
        """Copies of the model that train on different groups."""
        return self.devices // self.tensor_parallel

    @property
    def engines(self) -> int:
        """Copies of the model that sample."""
        return (self.engine_devices or self.devices) // self.engine_tensor_parallel

    @property
    def all_devices(self) -> int:
        """What is paid for."""
        return self.devices + self.engine_devices


@dataclass(frozen=True)
class Times:
    """Seconds of one step by phase: prefill, decode, reward, reference, old log-probs, values, forward and backward,
    optimiser, communication; a phase that isn't there is left out."""

    phases: Mapping[str, float]
    overlap: bool
    sampled_tokens: float
    devices: int

    @property
    def rollout(self) -> float:
        """Seconds of sampling and scoring."""
        return sum(self.phases.get(name, 0.0) for name in ("prefill", "decode", "reward"))

    @property
    def update(self) -> float:
        """All other seconds."""
        return sum(self.phases.values()) - self.rollout

    @property
    def step(self) -> float:
        """Seconds of the whole: one after the other, or the longer of the two where they overlap."""
        return max(self.rollout, self.update) if self.overlap else self.rollout + self.update

    @property
    def tokens_per_second(self) -> float:
        """Sampled and trained on."""
        return self.sampled_tokens / self.step

    def device_hours(self, steps: int) -> float:
        """Of a run with so many rollouts."""
        return self.step * steps * self.devices / 3600


def predict(step: Step, fleet: Fleet, trainer: Rates, engine: Rates) -> Times:
    """Seconds of one step. `trainer` and `engine` are the same model, as it lies on the devices of either."""
    phases = _rollout(step, fleet, engine) | _passes(step, fleet, trainer) | _update(step, fleet, trainer)
    shown = {name: seconds for name, seconds in phases.items() if seconds > 0}
    return Times(shown, fleet.overlap, step.sampled_tokens, fleet.all_devices)


def _rollout(step: Step, fleet: Fleet, engine: Rates) -> dict[str, float]:
    """Of the engine that has the longest completion of all, which is the one that everybody waits for."""
    groups = max(1, math.ceil(step.rounds * step.prompts / fleet.engines))
    lengths = step.lengths.dealt(groups * step.samples)
    longest = step.lengths.of(math.ceil(step.rounds * step.prompts) * step.samples)[-1]
    lengths[lengths.index(max(lengths))] = longest
    prefill = decode = 0.0
    done, packed = 0, False
    for stretch in schedule(lengths, step.samples, step.rows):
        if stretch.admitted:
            tokens = stretch.admitted * step.prompt
            prefill += engine.forward(tokens, stretch.admitted * step.prompt**2 / 2)
            prefill += engine.first_tokens(stretch.admitted) + engine.move(stretch.rows * step.lengths.longest)
        plain = 0 if packed else min(stretch.steps, max(0, PACK_AT - 1 - done))
        decode += plain * engine.decode(stretch.rows, step.prompt, stretch.held, packed=False)
        if stretch.steps > plain:
            decode += 0.0 if packed else engine.pack()
            packed = True
            decode += (stretch.steps - plain) * engine.decode(stretch.rows, step.prompt, stretch.held, packed=True)
        done += stretch.steps
        decode += engine.move((stretch.rows - stretch.finished) * step.lengths.longest)
    return {"prefill": prefill, "decode": decode, "reward": step.reward}


@dataclass(frozen=True)
class _Pass:
    """A micro-batch: how many of its kind there are, and what it holds."""

    count: float
    tokens: float
    pairs: float
    scored: float


def _micro_batches(step: Step, groups: float) -> list[_Pass]:
    """What one rank computes for so many groups. Parts of a group that is over the limit share its prompt."""
    lengths = step.lengths.of(min(4096, step.prompts * step.samples))
    mean = sum(lengths) / len(lengths)
    squares = sum(length**2 for length in lengths) / len(lengths)
    own = mean * step.prompt + squares / 2  # pairs of one completion
    limit, samples = step.micro_batch_tokens, step.samples
    if not step.shared_prompt:
        size, pairs = step.prompt + mean, own + step.prompt**2 / 2
        count = max(1, min(math.floor(limit / size), math.ceil(groups * samples)))
        passes = groups * samples / count
        return [_Pass(passes, count * size, count * pairs, count * mean)]
    group = step.prompt + samples * mean
    if group <= limit:
        count = max(1, min(math.floor(limit / group), math.ceil(groups)))
        passes = max(1.0, math.ceil(groups / count)) if groups else 0.0
        share = groups / passes if passes else 0.0
        return [_Pass(passes, share * group, share * (step.prompt**2 / 2 + samples * own), share * samples * mean)]
    together = max(1, min(samples, math.floor((limit - step.prompt) / mean)))
    parts = math.ceil(samples / together)
    return [
        _Pass(groups, step.prompt, step.prompt**2 / 2, 0.0),
        _Pass(groups * parts, samples * mean / parts, samples * own / parts, samples * mean / parts),
    ]


def _passes(step: Step, fleet: Fleet, rates: Rates) -> dict[str, float]:
    """Those without a gradient, over all groups that were kept."""
    micro = _micro_batches(step, step.prompts / fleet.ranks)
    layers = sum(one.count * rates.forward(one.tokens, one.pairs) for one in micro)
    scored = sum(one.count * rates.log_probs(one.scored, gradient=False) for one in micro if one.scored)
    old = step.policy and (step.old_log_probs or step.updates > 1)
    return {
        "reference": layers + scored if step.reference else 0.0,
        "old log-probs": layers + scored if old else 0.0,
        "values": layers if step.critic else 0.0,
    }


def _update(step: Step, fleet: Fleet, rates: Rates) -> dict[str, float]:
    """Forward, backward, optimiser, and what of the communication doesn't hide behind them."""
    groups = step.prompts * (1 - step.no_signal) / step.minibatches / fleet.ranks
    micro = _micro_batches(step, groups)
    passes = sum(one.count for one in micro)
    layers = sum(one.count * rates.train(one.tokens, one.pairs, checkpointing=step.checkpointing) for one in micro)
    layers += passes * rates.embed() + max(0.0, passes - 1) * rates.accumulate()
    scored = sum(one.count * rates.log_probs(one.scored, gradient=True) for one in micro if one.scored)
    networks = step.policy + step.critic
    compute = networks * layers + step.policy * scored
    trained = 1 if groups else 0
    optimiser = step.policy * rates.optimise(fleet.ranks) + step.critic * rates.critic_optimise(fleet.ranks)
    gather = rates.gather(fleet.ranks, fleet.per_machine)
    talk = (3 * passes if fleet.sharded else 2) * networks * gather  # weights forward, backward, and gradients back
    exposed = max(0.0, talk - compute) if fleet.sharded else talk
    hand_over = step.policy * gather if fleet.all_devices > 1 else 0.0  # the engines get the new weights
    return {
        "forward and backward": step.updates * compute,
        "optimiser": step.updates * trained * optimiser,
        "communication": step.updates * trained * exposed + hand_over,
    }
