"""What is written down of a run: one row of metrics per optimiser step, and every completion."""

from __future__ import annotations

import resource
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from groupwise.alarms import Finding, Watcher
from groupwise.algorithms.contract import Algorithm
from groupwise.core.advantages import degenerate_groups
from groupwise.models.policy import Policy
from groupwise.run import Run
from groupwise.sources.contract import Gathered
from groupwise.telemetry import ledger, metrics
from groupwise.telemetry.display import Display
from groupwise.telemetry.run_folder import RunFolder
from groupwise.telemetry.trackers.contract import Start
from groupwise.telemetry.trackers.guarded import Trackers
from groupwise.training.ledger_writing import LedgerWriter, RolloutRecord
from groupwise.training.preview import signal_share
from groupwise.training.progress import Progress
from groupwise.training.update import Outcome
from groupwise.types import Batch, Group

ALWAYS = ("entropy", "kl_k1", "kl_k3", "clip_fraction_low", "clip_fraction_high", "ratio_max", "sampler_gap_max")
"""Metrics of the update that stand in every row, null where they have no meaning."""


class Recorder:
    """Writes the rows of one run folder."""

    def __init__(self, folder: RunFolder, policy: Policy, display: Display, run: Run) -> None:
        self.folder, self.display, self.total_steps = folder, display, run.total_steps()
        recorded = metrics.read(folder.metrics)
        self.evaluations = [row for row in recorded if "eval" in row]
        self.ledger = LedgerWriter(folder, policy.tokenizer, run.ledger.max_mb, recorded)
        self.said_dropped = self.ledger.cap.dropped > 0
        self.ledger_seconds = 0.0
        begun = Start(folder.path, run.model_dump(mode="json"), max((row["step"] for row in recorded), default=0))
        self.trackers = Trackers(run.trackers, begun, display.say)
        self.watcher = Watcher() if run.alarms.on else None
        self.stop = run.alarms.stop
        self.stopped_by: Finding | None = None
        """The finding that ends the run."""
        for row in recorded:
            self._watch(row, known=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Everything that was handed over is written; where that failed and nothing else did, raises."""
        try:
            if kind is None:
                self.flush()
        finally:
            self.ledger.background.close()
            self.trackers.close(seconds=30.0 if kind is None else 3.0)

    def flush(self) -> None:
        """Wait until the ledger holds all that was handed over. Raises `RunFolderError`."""
        self.ledger.background.flush()

    def rollout(
        self,
        step: int,
        stage: str,
        groups: Sequence[Group],
        trained: Sequence[Group],
        batch: Batch,
        dropped: Mapping[str, str],
    ) -> RolloutRecord:
        """Every completion of a rollout, under the first optimiser step that it feeds; see `RolloutRecord`."""
        return RolloutRecord(self.ledger, step, stage, groups, trained, batch, dropped)

    def samples(self, file: Path, stage: str, groups: Sequence[Group]) -> None:
        """What a stage sampled once, to train on and to look at; it is there when this returns."""
        file.parent.mkdir(exist_ok=True)
        self.ledger.write(file, 0, stage, groups)
        self.flush()

    def step(
        self, progress: Progress, stage: str, outcome: Outcome, rollout: Mapping[str, Any], watch: Watch
    ) -> dict[str, Any]:
        """One row of metrics; `rollout` holds the numbers of the rollout that the step began, or nulls."""
        row: dict[str, Any] = {"step": progress.step, "stage": stage, "status": outcome.status}
        row |= rollout
        row |= dict.fromkeys(ALWAYS) | dict(outcome.metrics)
        row |= {
            "loss": outcome.loss,
            "grad_norm": outcome.grad_norm,
            "learning_rate": outcome.learning_rate,
            "tokens_trained": outcome.tokens_trained,
            "steps_no_signal": progress.no_signal,
            "steps_skipped": progress.skipped,
        }
        row |= watch.totals()
        row |= self._ledger_metrics()
        metrics.append(self.folder.metrics, row)
        self.trackers.log(row)
        self.display.step(row, self.total_steps)
        self._watch(row)
        return row

    def evaluation(self, step: int, stage: str, groups: Sequence[Group], result: Mapping[str, Any]) -> None:
        """A row of its own, and the completions that were sampled for it, if any."""
        if groups:
            self.ledger.write(ledger.file_of(self.folder.evaluations, step), step, stage, groups)
            self.ledger.background.flush()  # a resumed run takes the row for proof that the file is there
        row = {"step": step, "stage": stage, "eval": result}
        self.evaluations.append(row)
        metrics.append(self.folder.metrics, row)
        self.trackers.log(row)
        self.display.evaluation(row)

    def best_step(self) -> int | None:
        """The step, after training began, whose evaluation had the highest reward; see `metrics.best_step`."""
        return metrics.best_step(self.evaluations)

    def _watch(self, row: Mapping[str, Any], *, known: bool = False) -> None:
        """Ask the alarms; what they find is said and kept, unless it is known from before the run was resumed."""
        for finding in self.watcher.see(row) if self.watcher is not None else ():
            if not known:
                metrics.append(self.folder.alarms, finding.to_json())
                self.display.say(f"step {finding.step}: {finding.line()}")
                if finding.alarm in self.stop:
                    self.stopped_by = finding

    def _ledger_metrics(self) -> dict[str, Any]:
        """`ledger_seconds`, `ledger_dropped_steps`; the first drop is said."""
        before, self.ledger_seconds = self.ledger_seconds, self.ledger.background.seconds
        dropped = self.ledger.cap.dropped
        if dropped and not self.said_dropped:
            self.said_dropped = True
            self.display.say(
                f"rollouts/ has reached {self.ledger.cap.limit // 1_000_000:,} MB (ledger.max_mb): "
                "from now on its oldest files are dropped"
            )
        return {"ledger_seconds": self.ledger_seconds - before, "ledger_dropped_steps": dropped}


def rollout_metrics(
    algorithm: Algorithm, gathered: Gathered, batch: Batch, dropped: Mapping[str, str]
) -> dict[str, Any]:
    """The numbers of one rollout step."""
    groups = gathered.groups
    return {
        **metrics.score_metrics(groups if algorithm.needs.rewards else ()),
        **metrics.completion_metrics(groups),
        "frac_degenerate_groups": _degenerate_share(algorithm, batch),
        "frac_degenerate_expected": _expected_degenerate_share(algorithm, groups),
        "frac_dropped_groups": len(dropped) / len(groups) if groups else None,
        "tokens_sampled": gathered.tokens_sampled,
    }


def no_rollout(rollout: Mapping[str, Any]) -> dict[str, Any]:
    """The same names for a step that trains on a rollout whose numbers stand in an earlier row."""
    return dict.fromkeys(rollout) | {"reward_parts": {}, "tokens_sampled": 0}


class Watch:
    """Seconds of a step by phase, its CPU seconds, and the process's peak memory so far."""

    def __init__(self) -> None:
        self.start = self.last = time.perf_counter()
        self.cpu = time.process_time()
        self.seconds = {"rollout": 0.0, "reward": 0.0, "update": 0.0, "record": 0.0}

    def add(self, seconds: Mapping[str, float]) -> None:
        """Take over what a phase measured itself."""
        self.seconds |= seconds
        self.last = time.perf_counter()

    def lap(self, phase: str) -> None:
        """Count the seconds since the last call to a phase."""
        now = time.perf_counter()
        self.seconds[phase] += now - self.last
        self.last = now

    def totals(self) -> dict[str, Any]:
        """`seconds`, `cpu_seconds`, `peak_rss_mb`."""
        other = time.perf_counter() - self.start - sum(self.seconds.values())
        return {
            "seconds": self.seconds | {"other": other},
            "cpu_seconds": time.process_time() - self.cpu,
            "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        }


def _degenerate_share(algorithm: Algorithm, batch: Batch) -> float | None:
    """The share of groups whose rewards are tied; None where there are no rewards."""
    if not algorithm.needs.rewards or bool(batch.rewards.isnan().all()):
        return None
    flags = degenerate_groups(batch.rewards, batch.group_index, len(batch.group_ids))
    return float(flags.double().mean())


def _expected_degenerate_share(algorithm: Algorithm, groups: Sequence[Group]) -> float | None:
    """What the share of groups with equal verdicts would be if every prompt had the step's pass rate."""
    expected = signal_share(groups)[2] if algorithm.needs.rewards else None
    return None if expected is None else 1 - expected
