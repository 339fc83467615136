"""Alarms about the policy's distribution: entropy, distance to the reference, ratios, clipping, the sampler."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean, median

from groupwise.alarms.contract import WINDOW, Alarm, Seen
from groupwise.alarms.history import MEMORY, History


@dataclass(frozen=True)
class EntropyCollapse(Alarm):
    """Entropy falls to a fraction of what it was while there is still something to learn."""

    name = "entropy-collapse"
    severity = "serious"
    needs = ("entropy", "reward_mean")
    within = 45
    why = "completions of a prompt become alike, groups lose their signal, and what was not found by then stays unfound"
    advice = (
        "raise `algorithm.clip_high` or set `algorithm.beta` above 0, lower `optimizer.learning_rate`, "
        "go back to an earlier checkpoint"
    )
    fall: float = 0.2
    """A fifth: learning a task well may take three quarters of the entropy away."""
    solved: float = 0.9
    """A policy that is right this often has reason to be sure."""

    def seen(self, history: History) -> Seen | None:
        entropy = history["entropy"]
        if len(entropy) < 2 * WINDOW or not len(history["reward_mean"]):
            return None
        before, now, rate = (
            fmean(entropy.first(WINDOW)),
            fmean(entropy.last(WINDOW)),
            history["correct_mean"].mean(WINDOW),
        )
        limit = self.fall * before
        if now >= limit or (rate is not None and rate >= self.solved):
            return None
        text = f"entropy is {now:.3g} nats per token, after {before:.3g} in the first {WINDOW} steps"
        return Seen(text, entropy.since(lambda value: value < limit))


@dataclass(frozen=True)
class EntropyExplosion(Alarm):
    """Entropy rises far above the lowest that it was."""

    name = "entropy-explosion"
    severity = "serious"
    needs = ("entropy", "reward_mean")
    within = 40
    why = "the policy is losing its language: completions turn into noise, and the reward follows"
    advice = (
        "lower `optimizer.learning_rate`, lower `algorithm.clip_high`, set `algorithm.beta` above 0, "
        "go back to an earlier checkpoint"
    )
    rise: float = 1.0
    """Nats per token: nearly three times as many tokens to choose among at every place."""
    factor: float = 2.0
    """Where entropy is high from the start, a nat more is little."""

    def seen(self, history: History) -> Seen | None:
        entropy = history["entropy"]
        if len(entropy) < 2 * WINDOW or not len(history["reward_mean"]):
            return None
        past = entropy.values[max(0, len(entropy) - MEMORY) : len(entropy) - WINDOW]
        least = min(fmean(past[start : start + WINDOW]) for start in range(0, len(past) - WINDOW + 1, WINDOW))
        now = fmean(entropy.last(WINDOW))
        limit = max(least + self.rise, self.factor * least)
        if now <= limit:
            return None
        text = f"entropy is {now:.3g} nats per token, after {least:.3g} before"
        return Seen(text, entropy.since(lambda value: value > (least + limit) / 2))


@dataclass(frozen=True)
class KlBlowUp(Alarm):
    """The policy is far from the reference, or suddenly moves away from it."""

    name = "kl-blow-up"
    severity = "serious"
    needs = ("kl_k3",)
    within = 8
    why = "the policy forgets what the reference knows, and the penalty's gradient outgrows the reward's"
    advice = "raise `algorithm.beta` or set `algorithm.adaptive_kl`, lower `optimizer.learning_rate`"
    level: float = 1.0
    """Nats per token: on average it gives its own tokens about e times the probability that the reference gives."""
    jump: float = 5.0
    """Times the mean of the 32 steps before; growth with the square of the steps stays below 4."""
    least: float = 0.3
    """Nats per token below which a jump is the start of a run."""

    def seen(self, history: History) -> Seen | None:
        kl = history["kl_k3"]
        now = kl.mean(WINDOW)
        if now is None:
            return None
        earlier = kl.last(32, skip=WINDOW)
        before = fmean(earlier) if len(earlier) >= 2 * WINDOW else None
        if now > self.level:
            return Seen(f"KL to the reference is {now:.3g} nats per token", kl.since(lambda value: value > self.level))
        if before is None or now < max(self.least, self.jump * before):
            return None
        text = f"KL to the reference is {now:.3g} nats per token, after {before:.3g} in the {len(earlier)} steps before"
        return Seen(text, kl.since(lambda value: value > self.jump * before))


@dataclass(frozen=True)
class RatioBlowUp(Alarm):
    """The largest importance ratio of most steps is far from 1."""

    name = "ratio-blow-up"
    severity = "serious"
    needs = ("ratio_max",)
    within = 8
    why = (
        "later updates of a rollout train on completions that the policy would no longer write; clipping hides how many"
    )
    advice = "lower `updates.epochs` or `updates.minibatches`, lower `optimizer.learning_rate`"
    limit: float = 10.0
    """Clipping takes the gradient beyond 1.2 or so away, so healthy runs go little further, whatever the token."""

    def seen(self, history: History) -> Seen | None:
        ratio = history["ratio_max"]
        typical = ratio.median(WINDOW)
        if typical is None or typical < self.limit:
            return None
        text = f"the largest ratio of a step is {typical:.3g} (median of {WINDOW} steps)"
        return Seen(text, ratio.since(lambda value: value >= self.limit))


@dataclass(frozen=True)
class ClipShare(Alarm):
    """Clipping takes away much of the gradient."""

    name = "clip-share"
    severity = "warning"
    needs = ("clip_fraction_low", "clip_fraction_high")
    within = 8
    why = "sampled tokens that are clipped away teach nothing, and the rest pulls in a direction of its own"
    advice = (
        "lower `updates.epochs` or `updates.minibatches`, lower `optimizer.learning_rate`, "
        "widen `algorithm.clip_low` and `algorithm.clip_high`"
    )
    limit: float = 0.3
    """Of trained tokens. Ratios of whole sequences clip about 0.15 in healthy runs (GSPO), of tokens far less."""

    def seen(self, history: History) -> Seen | None:
        share = history["clip_fraction"]
        mean = share.mean(WINDOW)
        if mean is None or mean < self.limit:
            return None
        text = f"{mean:.0%} of the trained tokens are clipped (mean of {WINDOW} steps)"
        return Seen(text, share.since(lambda value: value >= self.limit))


@dataclass(frozen=True)
class SamplerGap(Alarm):
    """Sampler and trainer disagree on the log-probs of one and the same policy."""

    name = "sampler-gap"
    severity = "serious"
    needs = ("sampler_gap_max",)
    within = 8
    why = "the gradient is that of another policy than the one that sampled: it is biased, and runs collapse from it"
    advice = (
        'set `model.dtype = "float32"`, set `algorithm.correction`, '
        "check that sampler and trainer have the same weights and temperature"
    )
    level: float = 3.0
    """Nats: most steps have a token whose probability is off by a factor of 20; bfloat16 stays below 1."""
    growth: float = 10.0
    """Times the median of the stage's first steps."""
    least: float = 0.1
    """Nats below which growth is rounding."""

    def seen(self, history: History) -> Seen | None:
        gap = history["fresh_sampler_gap"]
        typical = gap.median(WINDOW)
        if typical is None:
            return None
        before = median(gap.first(WINDOW))
        grown = len(gap) >= 2 * WINDOW and typical >= max(self.least, self.growth * before)
        if typical < self.level and not grown:
            return None
        limit = max(self.least, self.growth * before) if grown else self.level
        began = f", after {before:.2g} in the first steps" if grown else ""
        text = f"log-probs of sampler and trainer differ by up to {typical:.2g} nats (median of {WINDOW} steps){began}"
        return Seen(text, gap.since(lambda value: value >= limit))
