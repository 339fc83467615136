"""The loop. It knows no algorithm, reward, task or engine by name.

get scored groups -> keep -> pack -> annotate -> credit -> update -> publish -> record -> evaluate -> save
"""

from __future__ import annotations

import json
import resource
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from groupwise.algorithms.contract import Algorithm
from groupwise.core.advantages import degenerate_groups
from groupwise.engines.contract import Engine, SamplingParams
from groupwise.errors import TrainingError
from groupwise.models.loading import load_weights
from groupwise.models.policy import Policy
from groupwise.models.reference import Reference
from groupwise.models.saving import save_model
from groupwise.packing import pack, to
from groupwise.run import Run, Stage
from groupwise.sources.contract import Gathered, Source
from groupwise.sources.cursor import Cursor
from groupwise.sources.demonstrations import Demonstrations
from groupwise.sources.live import Live, Sampler
from groupwise.telemetry import ledger, metrics
from groupwise.telemetry.display import Display
from groupwise.telemetry.run_folder import RunFolder
from groupwise.training import checkpoint
from groupwise.training.evaluation import evaluate
from groupwise.training.interrupts import Interrupts
from groupwise.training.preparation import Prepared
from groupwise.training.progress import Progress
from groupwise.training.update import NO_SIGNAL, UPDATED, Outcome, Update, log_probs_of
from groupwise.types import Batch, Group


@dataclass
class ActiveStage:
    """The stage in hand."""

    settings: Stage
    algorithm: Algorithm
    source: Source
    update: Update
    reference: Reference | None
    temperature: float


class Trainer:
    """Trains a policy through the stages of a run. Make it with a fresh or a restored `Progress`, then `train()`."""

    def __init__(
        self,
        run: Run,
        prepared: Sequence[Prepared],
        policy: Policy,
        folder: RunFolder,
        display: Display,
        resumed: Path | None = None,
    ) -> None:
        """`resumed`: the checkpoint to continue from. The policy holds the weights that its stage began with."""
        self.run, self.prepared, self.policy, self.folder, self.display = run, prepared, policy, folder, display
        self.engine: Engine = run.engine.build()
        self.interrupts = Interrupts()
        self.progress, self.resumed = Progress(), resumed
        self.evaluations = [row for row in metrics.read(folder.metrics) if "eval" in row]
        self.saved_step = 0
        if resumed is not None:
            self.progress = Progress.from_json(json.loads((resumed / "trainer.json").read_text())["progress"])

    def train(self) -> bool:
        """Run every step that is left; False where an interruption ended it early."""
        with self.interrupts.listening(self.display.say):
            while self.progress.stage < len(self.run.stages):
                stage = self.enter()
                self.evaluate(stage, first=True)
                while self.progress.stage_step < stage.settings.steps:
                    self.step(stage)
                    if self.interrupts.signal is not None and self.progress.step < self.run.total_steps():
                        self.save(stage)
                        return False
                self.progress.stage, self.progress.stage_step = self.progress.stage + 1, 0
        return True

    def step(self, stage: ActiveStage) -> None:
        """One rollout, one optimiser step, and what is recorded of them."""
        watch = _Watch()
        gathered = stage.source.groups(stage.settings.prompts.per_step)
        watch.add(gathered.seconds)
        dropped = {group.id: reason for group in gathered.groups if (reason := stage.algorithm.keep(group)) is not None}
        kept = [group for group in gathered.groups if group.id not in dropped]
        batch = self.annotate(stage, to(pack(kept, temperature=stage.temperature), self.policy.device))
        batch = stage.algorithm.credit(batch)
        outcome = stage.update.step(batch, self.progress.stage_step)
        self.count(outcome, gathered)
        self.publish()
        watch.lap("update")
        self.record(stage, gathered, dropped, batch, outcome, watch)
        self.evaluate(stage)
        self.save_when_due(stage)
        self.stop_when_hopeless(stage, outcome)

    def enter(self) -> ActiveStage:
        """Build what the stage needs and nothing else; continue it where a checkpoint says so."""
        index, prepared = self.progress.stage, self.prepared[self.progress.stage]
        settings, algorithm = prepared.settings, prepared.settings.algorithm
        cursor = Cursor(
            [prompt.id for prompt in prepared.prompts],
            seed=self.run.seed,
            stage=index,
            shuffle=settings.prompts.shuffle,
        )
        source: Source
        if algorithm.needs.source == "demonstrations":
            source, temperature = Demonstrations(prepared.prompts, prepared.demonstrations, cursor), 1.0
        else:
            sampling = settings.sampling
            sampler = self.sampler(prepared, "train", sampling.group_size, sampling.temperature, sampling.max_tokens)
            source, temperature = Live(prepared.prompts, cursor, sampler), sampling.temperature
        reference = Reference(self.policy.loaded) if algorithm.needs.reference else None
        update = Update(self.policy, algorithm, settings.optimizer, settings.steps)
        if self.resumed is not None:
            load_weights(self.policy.loaded, self.resumed)
            if self.progress.stage_step:
                source.restore(json.loads((self.resumed / "trainer.json").read_text())["source"])
                update.restore(torch.load(self.resumed / "optimizer.pt", weights_only=True))
            self.resumed = None
        self.publish()
        return ActiveStage(settings, algorithm, source, update, reference, temperature)

    def annotate(self, stage: ActiveStage, batch: Batch) -> Batch:
        """Add the log-probs that the algorithm asked for, and nothing else."""
        if stage.reference is None:
            return batch
        completions = list(range(len(batch.completion_spans)))
        with stage.reference.model():
            log_probs = log_probs_of(self.policy, batch, completions, stage.settings.optimizer.micro_batch_tokens)
        return replace(batch, ref_log_probs=log_probs)

    def publish(self) -> None:
        """From now on completions are drawn from the policy as it is."""
        self.engine.load(self.policy, self.progress.updates)

    def sampler(
        self, prepared: Prepared, purpose: str, group_size: int, temperature: float, max_tokens: int
    ) -> Sampler:
        """What samples and scores groups of this stage. Evaluations share their draws over the whole run."""
        assert prepared.reward is not None
        stage = 0 if purpose == "eval" else self.progress.stage
        return Sampler(
            engine=self.engine,
            reward=prepared.reward,
            tokenizer=self.policy.tokenizer,
            stop_ids=self.policy.stop_ids,
            seed=self.run.seed,
            stage=stage,
            purpose=purpose,
            group_size=group_size,
            sampling=SamplingParams(temperature, max_tokens),
        )

    def count(self, outcome: Outcome, gathered: Gathered) -> None:
        """Move the counters on by one step."""
        progress = self.progress
        progress.step += 1
        progress.stage_step += 1
        progress.updates += outcome.status == UPDATED
        progress.no_signal += outcome.status == NO_SIGNAL
        progress.skipped += not outcome.usable
        good = outcome.usable and not _nothing_scored(gathered.groups)
        progress.bad_in_a_row = 0 if good else progress.bad_in_a_row + 1

    def record(
        self,
        stage: ActiveStage,
        gathered: Gathered,
        dropped: dict[str, str],
        batch: Batch,
        outcome: Outcome,
        watch: _Watch,
    ) -> None:
        """One row of metrics, and the ledger of the step's completions."""
        name = self.run.stage_name(self.progress.stage)
        self.write_ledger(self.folder.rollouts, name, gathered.groups, batch, dropped)
        row: dict[str, Any] = {"step": self.progress.step, "stage": name, "status": outcome.status}
        row |= metrics.score_metrics(gathered.groups) | metrics.completion_metrics(gathered.groups)
        row["frac_degenerate_groups"] = _degenerate_share(stage.algorithm, batch)
        row["frac_dropped_groups"] = len(dropped) / len(gathered.groups)
        names = ("entropy", "kl_k1", "kl_k3", "clip_fraction_low", "clip_fraction_high", "ratio_max", "sampler_gap_max")
        row |= dict.fromkeys(names) | dict(outcome.metrics)
        row |= {
            "loss": outcome.loss,
            "grad_norm": outcome.grad_norm,
            "learning_rate": outcome.learning_rate,
            "tokens_sampled": gathered.tokens_sampled,
            "tokens_trained": outcome.tokens_trained,
            "steps_no_signal": self.progress.no_signal,
            "steps_skipped": self.progress.skipped,
        }
        row |= watch.totals()
        metrics.append(self.folder.metrics, row)
        self.display.step(row, self.run.total_steps())

    def evaluate(self, stage: ActiveStage, *, first: bool = False) -> None:
        """Evaluate before the run, every so many steps, and at the end of the stage."""
        settings, prepared, step = stage.settings.evaluation, self.prepared[self.progress.stage], self.progress.step
        due = step == 0 if first else self.progress.stage_step == stage.settings.steps or _every(settings.every, step)
        if not due or not prepared.test_prompts or any(row["step"] == step for row in self.evaluations):
            return
        max_tokens = settings.max_tokens or stage.settings.sampling.max_tokens
        sampler = self.sampler(prepared, "eval", settings.samples, settings.temperature, max_tokens)
        groups, result = evaluate(sampler, prepared.test_prompts)
        name = self.run.stage_name(self.progress.stage)
        self.write_ledger(self.folder.evaluations, name, groups, None, {})
        row = {"step": step, "stage": name, "eval": result}
        self.evaluations.append(row)
        metrics.append(self.folder.metrics, row)
        self.display.evaluation(row)

    def best_step(self) -> int | None:
        """The step, after training began, whose evaluation had the highest reward; see `metrics.best_step`."""
        return metrics.best_step(self.evaluations)

    def save_when_due(self, stage: ActiveStage) -> None:
        """Save every so many steps, at the end of the stage, and where an evaluation was the best so far."""
        step = self.progress.step
        ends = self.progress.stage_step == stage.settings.steps
        if ends or _every(self.run.checkpoint.every, step) or self.best_step() == step:
            self.save(stage)

    def save(self, stage: ActiveStage) -> None:
        """Write a checkpoint, then remove those that nobody needs."""
        if self.saved_step == self.progress.step:
            return

        def fill(path: Path) -> None:
            for note in save_model(self.policy.loaded, path):
                self.display.say(note)
            torch.save(stage.update.state(), path / "optimizer.pt")
            progress = self.progress.to_json()
            if self.progress.stage_step == stage.settings.steps:
                progress |= {"stage": self.progress.stage + 1, "stage_step": 0}
            (path / "trainer.json").write_text(json.dumps({"progress": progress, "source": stage.source.state()}))

        checkpoint.write(self.folder.checkpoints, self.progress.step, fill)
        self.saved_step = self.progress.step
        checkpoint.prune(
            self.folder.checkpoints, self.run.checkpoint.keep, {*stage_ends(self.run), self.best_step() or 0}
        )

    def stop_when_hopeless(self, stage: ActiveStage, outcome: Outcome) -> None:
        """Raise `TrainingError` after too many steps in a row that gave nothing to learn from."""
        limit = stage.settings.optimizer.max_bad_steps
        if self.progress.bad_in_a_row >= limit:
            why = "nothing could be scored" if outcome.usable else outcome.status
            raise TrainingError(
                f"stopped at step {self.progress.step}: {limit} steps in a row gave no usable update ({why})",
                fix="look at the newest file in rollouts/; lower the learning rate or mend the reward, then --resume",
            )

    def write_ledger(
        self, folder: Path, stage: str, groups: Sequence[Group], batch: Batch | None, dropped: dict[str, str]
    ) -> None:
        """Record every completion of these groups, with its advantages where a batch has them."""
        decode = self.policy.tokenizer.decode
        texts = [[decode(completion.token_ids) for completion in group.completions] for group in groups]
        advantages: dict[str, list[list[float]]] = {}
        if batch is not None and batch.advantages is not None:
            values = batch.advantages.tolist()
            for number, (start, end) in zip(batch.group_index.tolist(), batch.completion_spans, strict=True):
                advantages.setdefault(batch.group_ids[number], []).append(values[start:end])
        ledger.write(folder, self.progress.step, stage, groups, texts, advantages, dropped)


def stage_ends(run: Run) -> list[int]:
    """The steps at which stages end."""
    ends, total = [], 0
    for stage in run.stages:
        total += stage.steps
        ends.append(total)
    return ends


class _Watch:
    """Seconds of a step by phase, its CPU seconds, and the process's peak memory so far."""

    def __init__(self) -> None:
        self.start = self.last = time.perf_counter()
        self.cpu = time.process_time()
        self.seconds = {"rollout": 0.0, "reward": 0.0, "update": 0.0}

    def add(self, seconds: Any) -> None:
        self.seconds |= seconds
        self.last = time.perf_counter()

    def lap(self, phase: str) -> None:
        self.seconds[phase] += time.perf_counter() - self.last

    def totals(self) -> dict[str, Any]:
        other = time.perf_counter() - self.start - sum(self.seconds.values())
        return {
            "seconds": self.seconds | {"other": other},
            "cpu_seconds": time.process_time() - self.cpu,
            "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        }


def _every(period: int, step: int) -> bool:
    return period > 0 and step % period == 0


def _nothing_scored(groups: Sequence[Group]) -> bool:
    scores = [score for group in groups for score in group.scores if score is not None]
    return bool(scores) and all(score.value is None for score in scores)


def _degenerate_share(algorithm: Algorithm, batch: Batch) -> float | None:
    """The share of groups whose rewards are tied; None where there are no rewards."""
    if not algorithm.needs.rewards or not batch.group_ids:
        return None
    flags = degenerate_groups(batch.rewards, batch.group_index, len(batch.group_ids))
    return float(flags.double().mean())
