"""Alarms about what there is to learn from: groups that tell nothing apart, and parts of a reward that are gamed."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean

from groupwise.alarms import drift
from groupwise.alarms.contract import WINDOW, Alarm, Seen
from groupwise.alarms.history import MEMORY, History


@dataclass(frozen=True)
class DeadGroups(Alarm):
    """Far more groups are tied than the pass rate explains."""

    name = "dead-groups"
    severity = "warning"
    needs = ("frac_degenerate_groups",)
    within = 8
    why = "tied groups have no gradient: what was sampled for them is thrown away"
    advice = (
        "take prompts of middling difficulty (`groupwise check-task` shows them), raise `sampling.group_size`, "
        "set `algorithm.dynamic_sampling`; where completions are all alike, raise `sampling.temperature`"
    )
    share: float = 0.25
    """Of the groups with signal that the pass rate p would give, 1 - p^G - (1-p)^G. It holds for prompts of equal
    difficulty; real ones, of unequal, have down to half of it."""
    expected: float = 0.3
    """Where fewer groups than this should have signal, the task is nearly solved or out of reach."""
    alone: float = 0.9
    """Share of tied groups that says enough where no verdicts give a pass rate."""

    def seen(self, history: History) -> Seen | None:
        tied, by_chance = history["frac_degenerate_groups"], history["frac_degenerate_expected"]
        now, expected = tied.mean(WINDOW), by_chance.mean(WINDOW)
        if now is None:
            return None
        if expected is None:
            if now < self.alone or len(by_chance):
                return None
            text = f"{now:.0%} of groups are tied (mean of {WINDOW} steps)"
            return Seen(text, tied.since(lambda value: value >= self.alone))
        limit = 1 - self.share * (1 - expected)
        if 1 - expected < self.expected or now < limit:
            return None
        text = f"{now:.0%} of groups are tied, where the pass rate gives {expected:.0%} (mean of {WINDOW} steps)"
        return Seen(text, tied.since(lambda value: value >= limit))


@dataclass(frozen=True)
class NoSignal(Alarm):
    """Steps without any gradient: nothing is learned in them."""

    name = "no-signal"
    severity = "serious"
    needs = ("no_signal",)
    within = 8
    why = "such steps change no weight; a loss near 0 would be no fault in itself, a step without gradient is lost"
    advice = (
        "where all is right, take harder prompts or end here; where all is wrong, easier prompts or an `sft` stage "
        "first; raise `prompts.per_step` and `sampling.group_size`"
    )
    least: int = 4
    """Of the last eight: one may be chance, half are not."""

    def seen(self, history: History) -> Seen | None:
        without = history["no_signal"]
        count = int(sum(without.last(WINDOW)))
        if count < self.least:
            return None
        rate = history["correct_mean"].mean(min(WINDOW, len(history["correct_mean"]) or 1))
        passed = "" if rate is None else f"; {rate:.0%} of completions are right"
        text = f"{count} of the last {len(without.last(WINDOW))} steps had no gradient{passed}"
        return Seen(text, without.since(lambda value: value > 0))


@dataclass(frozen=True)
class RewardPart(Alarm):
    """One part of the reward explains the gain while another, or the share of right completions, falls (`drift`)."""

    name = "reward-part"
    severity = "serious"
    needs = ("reward_mean", "reward_parts")
    within = 48
    why = "the reward goes up and the task gets worse: the policy has found the part that is easiest to please"
    advice = (
        "lower that part's `rewards.weight`, or pay it only where the answer is right; read completions with "
        "`groupwise audit`; choose checkpoints by a metric that is no reward"
    )
    least: int = 32
    """Steps with eight in a quarter, so that their spread says what chance does."""

    def seen(self, history: History) -> Seen | None:
        reward = history["reward_mean"].last(MEMORY)
        parts = {name: series.last(MEMORY) for name, series in history.named("reward_parts.").items()}
        parts = {name: values for name, values in parts.items() if len(values) == len(reward)}
        if len(reward) < self.least or not parts:
            return None
        correct = history["correct_mean"].last(MEMORY)
        means = [dict(zip(parts, values, strict=True)) for values in zip(*parts.values(), strict=True)]
        weights = drift.part_weights(list(zip(means, reward, strict=True)))
        found = drift.gamed(reward, parts, correct, weights)
        if found is None:
            return None
        quarter = len(reward) // drift.QUARTERS
        known = {**parts, drift.CORRECT: correct}
        changes = ", ".join(
            f"{name} {fmean(known[name][(found.since_quarter - 1) * quarter :][:quarter]):.2f} -> "
            f"{fmean(known[name][-quarter:]):.2f}"
            for name in (found.part, *found.fallen)
        )
        text = f"{found.part} gives {found.share_of_gain:.0%} of the reward's gain while others fall: {changes}"
        return Seen(text, history["reward_mean"].steps[-len(reward) + (found.since_quarter - 1) * quarter])
