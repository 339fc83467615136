"""Alarms about the completions themselves: cut off, long when wrong, repeating themselves."""

from __future__ import annotations

from dataclasses import dataclass

from groupwise.alarms.contract import CLEAR, WINDOW, Alarm, Seen
from groupwise.alarms.history import Change, History, Series

COMPARED = 16
"""Steps of the stage's start and of its end that are compared."""


def clear_rise(series: Series, least: float) -> Change | None:
    """The change from the first to the last steps where it is a rise by `least` and clearly beyond chance."""
    change = series.change(COMPARED)
    return change if change is not None and change.now - change.before >= max(least, CLEAR * change.error) else None


@dataclass(frozen=True)
class Truncation(Alarm):
    """More and more completions meet the token limit, or half of them do all the time."""

    name = "truncation"
    severity = "warning"
    needs = ("frac_truncated",)
    within = 16
    why = "a completion that is cut off is mostly judged wrong for its length, whatever it was about to say"
    advice = (
        "raise `sampling.max_tokens`, set `algorithm.soft_overlong` or `algorithm.overlong_filter`, "
        "look at whether completions loop"
    )
    rise: float = 0.15
    """Share of completions: above it a change of length is no longer a matter of style."""
    level: float = 0.5
    """Share of completions: with most cut off, verdicts are about length."""

    def seen(self, history: History) -> Seen | None:
        share = history["frac_truncated"]
        now = share.mean(WINDOW)
        if now is None:
            return None
        risen = clear_rise(share, self.rise)
        if risen is not None:
            before, now, _ = risen
            text = f"{now:.0%} of completions are cut off, after {before:.0%} in the first {COMPARED} steps"
            return Seen(text, share.since(lambda value: value > (before + now) / 2))
        if now < self.level:
            return None
        text = f"{now:.0%} of completions are cut off (mean of {WINDOW} steps)"
        return Seen(text, share.since(lambda value: value >= self.level))


@dataclass(frozen=True)
class WrongLength(Alarm):
    """Wrong completions grow longer and right ones don't."""

    name = "wrong-length"
    severity = "warning"
    needs = ("wrong_length_mean", "correct_length_mean")
    within = 30
    why = (
        "a mean over each completion's tokens makes a long wrong answer cheap per token, so length grows where it "
        "doesn't help, and sampling slows down"
    )
    advice = 'use `algorithm.name = "dr_grpo"` or `algorithm.aggregation = "token-mean"`, set `algorithm.soft_overlong`'
    factor: float = 1.5
    """Times the length of the first steps."""
    apart: float = 1.3
    """Times the first quotient of wrong and right lengths: where both grow, the task asks for it."""
    least: float = 8.0
    """Tokens: fewer cost nothing."""

    def seen(self, history: History) -> Seen | None:
        wrong, right = history["wrong_length_mean"], history["correct_length_mean"].change(COMPARED)
        risen, apart = clear_rise(wrong, self.least), clear_rise(history["wrong_to_correct_length"], 0.0)
        if risen is None or apart is None or right is None:
            return None
        if risen.now < self.factor * risen.before or apart.now < self.apart * apart.before:
            return None
        text = (
            f"wrong completions have {risen.now:.0f} tokens, after {risen.before:.0f} in the first {COMPARED} steps; "
            f"right ones {right.now:.0f}, after {right.before:.0f}"
        )
        return Seen(text, wrong.since(lambda value: value > (1 + self.factor) / 2 * risen.before))


@dataclass(frozen=True)
class Repetition(Alarm):
    """Completions repeat themselves more than they did."""

    name = "repetition"
    severity = "warning"
    needs = ("repetition_mean",)
    within = 16
    why = "text that loops is the first sign of a reward that pays for length, and of a policy that falls apart"
    advice = (
        "read the longest completions, add a `repetition` reward, lower `optimizer.learning_rate`, "
        "set `algorithm.beta` above 0"
    )
    rise: float = 0.15
    """Of the pieces of four tokens; reasoning that restates its task repeats more than this, but from the start."""

    def seen(self, history: History) -> Seen | None:
        share = history["repetition_mean"]
        risen = clear_rise(share, self.rise)
        if risen is None:
            return None
        before, now, _ = risen
        began = f"after {before:.0%} in the first {COMPARED} steps"
        text = f"{now:.0%} of a completion's four-token pieces are repeats, {began}"
        return Seen(text, share.since(lambda value: value > (before + now) / 2))
