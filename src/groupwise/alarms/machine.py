"""Alarms about the machine: memory that grows without end, and steps that get slower."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from groupwise.alarms.contract import WINDOW, Alarm, Seen
from groupwise.alarms.history import History, Series


@dataclass(frozen=True)
class MemoryGrowth(Alarm):
    """The process's peak memory goes on growing, as fast as it did before."""

    name = "memory-growth"
    severity = "serious"
    needs = ("peak_rss_mb",)
    within = 72
    why = "at this rate the machine ends the run, and what came after the last checkpoint is lost"
    advice = (
        "save more often (`checkpoint.every`) and resume; look for a reward that keeps what it saw, "
        "lower `optimizer.micro_batch_tokens` where completions grow"
    )
    span: int = 32
    """Steps; two spans are compared. Longer completions and caches raise the peak too, ever more slowly."""
    least: float = 0.05
    """Of the memory before, in each span."""
    kept: float = 0.9
    """The second span's growth as a share of the first's: caches that fill have slowed down by then."""

    def seen(self, history: History) -> Seen | None:
        peak = history["peak_rss_mb"]
        if len(peak) < 2 * self.span + WINDOW:
            return None
        start, middle, now = (peak.values[-1 - back] for back in (2 * self.span, self.span, 0))
        half = peak.values[-1 - self.span // 2]
        first, second = middle - start, now - middle
        steady = min(now - half, half - middle) >= second / 4  # one long batch raises the peak once
        if min(first, second) < self.least * start or second < self.kept * first or not steady:
            return None
        text = f"peak memory grows by {second / self.span:.3g} MiB a step: {now:.0f} MiB, after {start:.0f} at step"
        since = peak.steps[-1 - 2 * self.span]
        return Seen(f"{text} {since}", since)


@dataclass(frozen=True)
class ThroughputDecay(Alarm):
    """Steps take longer, and not because they do more."""

    name = "throughput-decay"
    severity = "warning"
    needs = ("tokens_sampled", "seconds")
    within = 12
    why = "the rest of the run takes twice as long as was planned"
    advice = (
        "where it is the reward, look at its workers and time limits; the rollout, at `sampling.max_tokens` and at "
        "other processes on the machine; the update, at `optimizer.micro_batch_tokens`"
    )
    compared: int = 16
    """Steps at each end, of which medians are taken: other work on the machine slows down single ones."""
    warmup: int = 2
    """First steps that compile and fill caches."""
    speed: float = 0.5
    """Of the tokens per second at first."""
    longer: float = 1.5
    """Times the seconds of a step at first: short completions give few tokens per second, and cost nothing."""

    def seen(self, history: History) -> Seen | None:
        speed, seconds = history["tokens_per_second"], history["step_seconds"]
        if len(speed) < 2 * self.compared + self.warmup:
            return None
        before, now = self._ends(speed)
        took, takes = self._ends(seconds)
        if now > self.speed * before or takes < self.longer * took:
            return None
        grown = {name: _growth(self._ends(series)) for name, series in history.named("seconds.").items()}
        phase = max(grown, key=grown.__getitem__)
        text = (
            f"{now:.3g} tokens per second, after {before:.3g}; a step takes {takes:.3g} s, after {took:.3g}, "
            f"and most of the difference is {phase}"
        )
        return Seen(text, speed.since(lambda value: value < self.speed * before))

    def _ends(self, series: Series) -> tuple[float, float]:
        return median(series.first(self.compared, self.warmup)), median(series.last(self.compared))


def _growth(ends: tuple[float, float]) -> float:
    before, now = ends
    return now - before
