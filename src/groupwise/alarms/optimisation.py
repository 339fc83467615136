"""Alarms about the optimiser: gradients that jump, and a learning rate that moves nothing."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from groupwise.alarms.contract import WINDOW, Alarm, Seen
from groupwise.alarms.history import History


@dataclass(frozen=True)
class GradientSpikes(Alarm):
    """Several gradients in a short time are many times the usual."""

    name = "gradient-spikes"
    severity = "warning"
    needs = ("grad_norm",)
    within = 12
    why = "clipping bounds each step, but a spike's direction is that of few tokens, and Adam remembers it"
    advice = (
        "lower `optimizer.learning_rate` or `optimizer.max_grad_norm`, raise `optimizer.warmup_steps`, "
        "raise `prompts.per_step`, look at the completions of those steps"
    )
    factor: float = 8.0
    """Times the median of the 32 steps before; the share of groups with signal alone moves it by a factor of 3."""
    least: int = 3
    """In eight steps: clipping takes care of one, and two may meet by chance."""

    def seen(self, history: History) -> Seen | None:
        norm = history["grad_norm"]
        earlier = [value for value in norm.last(32, skip=WINDOW) if value > 0]
        if len(earlier) < 2 * WINDOW:
            return None
        limit = self.factor * median(earlier)
        spikes = [value for value in norm.last(WINDOW) if value >= limit]
        if len(spikes) < self.least:
            return None
        step = next(step for step, value in zip(norm.steps[-WINDOW:], norm.last(WINDOW), strict=True) if value >= limit)
        text = (
            f"{len(spikes)} of the last {WINDOW} gradients are {self.factor:.0f} times the usual or more, "
            f"up to {max(spikes):.3g} after {median(earlier):.3g}"
        )
        return Seen(text, step)


@dataclass(frozen=True)
class IdleLearningRate(Alarm):
    """There is a gradient and the weights move, but nothing that the policy does changes from the stage's beginning."""

    name = "idle-learning-rate"
    severity = "warning"
    needs = ("reward_mean", "entropy", "completion_length_mean", "grad_norm", "learning_rate")
    within = 96
    why = "the run costs what a run costs and learns nothing"
    advice = (
        "raise `optimizer.learning_rate` tenfold, shorten `optimizer.warmup_steps`; where weights are in bfloat16 and "
        'small steps round to nothing, set `model.dtype = "float32"`'
    )
    steps: int = 96
    """From the stage's start: slow runs too have moved entropy by then."""
    compared: int = 32
    """Steps at each end."""
    errors: float = 2.0
    """Standard errors within which the ends are called equal."""
    relative: float = 0.1
    """Change of entropy that as many standard errors must rule out: where steps differ much, nothing is said."""
    solved: float = 0.95
    """A policy that is right this often has nothing left to change."""

    def seen(self, history: History) -> Seen | None:
        watched = ("reward_mean", "entropy", "completion_length_mean")
        changes = {name: history[name].change(self.compared) for name in watched}
        if any(len(history[name]) < self.steps for name in watched):
            return None
        rate, norm, correct = history["learning_rate"], history["grad_norm"], history["correct_mean"].mean(WINDOW)
        if median(norm.values[-self.steps :]) <= 0 or median(rate.values[-self.steps :]) <= 0:
            return None
        if correct is not None and correct >= self.solved:
            return None
        if any(change and abs(change.now - change.before) > self.errors * change.error for change in changes.values()):
            return None
        entropy = changes["entropy"]
        assert entropy is not None
        most = abs(entropy.now - entropy.before) + self.errors * entropy.error
        if most > self.relative * entropy.before:
            return None
        reward = history["reward_mean"].mean(self.compared)
        text = (
            f"after {len(history['reward_mean'])} steps reward ({reward:.3g}), entropy ({entropy.now:.3g}) and length "
            f"are what they were; the gradient is {median(norm.values):.3g}, the learning rate {rate.values[-1]:.3g}"
        )
        return Seen(text, history["reward_mean"].steps[0])
