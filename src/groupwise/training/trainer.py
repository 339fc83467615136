"""The loop. It knows no algorithm, reward, task or engine by name.

get scored groups -> keep -> pack -> annotate -> credit
        -> minibatches -> update -> record -> publish -> evaluate -> save
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from pydantic import TypeAdapter

from groupwise.algorithms import AnyAlgorithm
from groupwise.engines.contract import Engine, SamplingParams
from groupwise.errors import TrainingError
from groupwise.models.critic import Critic
from groupwise.models.loading import load_weights
from groupwise.models.policy import Policy
from groupwise.models.reference import Reference
from groupwise.models.saving import save_model
from groupwise.packing import pack, to
from groupwise.run import Run
from groupwise.sources.contract import Gathered
from groupwise.sources.live import Sampler
from groupwise.telemetry.display import Display
from groupwise.telemetry.metrics import merged
from groupwise.telemetry.run_folder import RunFolder
from groupwise.training import checkpoint
from groupwise.training.annotation import annotate
from groupwise.training.evaluation import NOTHING_SAMPLED, evaluate, evaluate_written
from groupwise.training.interrupts import Interrupts
from groupwise.training.minibatches import minibatches
from groupwise.training.preparation import Prepared
from groupwise.training.progress import Progress
from groupwise.training.recording import Recorder, Watch, no_rollout, rollout_metrics
from groupwise.training.stage import ActiveStage, build_stage
from groupwise.training.update import NO_SIGNAL, UPDATED, Outcome
from groupwise.types import Batch, Group

ALGORITHM: TypeAdapter = TypeAdapter(AnyAlgorithm)
"""Reads and writes an algorithm as it is now: coefficients that follow the run are no longer those of the run file."""


class Trainer:
    """Trains a policy through the stages of a run, from the start or from a checkpoint."""

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
        self.run, self.prepared, self.policy, self.display = run, prepared, policy, display
        self.folder = folder
        self.engine: Engine = run.engine.build()
        self.interrupts = Interrupts()
        self.recorder = Recorder(folder, policy, display, run)
        self.progress, self.resumed = Progress(), resumed
        self.critic: Critic | None = None
        self.saved_step = 0
        if resumed is not None:
            self.progress = Progress.from_json(_read(resumed)["progress"])

    def train(self) -> bool:
        """Run every step that is left; False where an interruption or an alarm ended it early."""
        with self.interrupts.listening(self.display.say), self.recorder:
            while self.progress.stage < len(self.run.stages):
                stage = self.enter()
                self.evaluate(stage, first=True)
                ended = False
                while not ended:
                    ended = self.step(stage)
                    stopped = self.interrupts.signal is not None or self.recorder.stopped_by is not None
                    if stopped and not (ended and self._last(stage)):
                        self.save(stage, ended)
                        return False
                self.progress.end_stage()
        return True

    def step(self, stage: ActiveStage) -> bool:
        """One rollout, the optimiser steps that it feeds, and what is recorded of them. True at the stage's end."""
        self.refresh_reference(stage)
        watch = Watch()
        gathered = stage.source.groups(stage.settings.prompts.per_step)
        watch.add(gathered.seconds)
        if gathered.note:
            self.display.say(gathered.note)
        kept, dropped = keep(stage, gathered)
        batch = self.prepare(stage, kept)
        self.progress.stage_tokens += gathered.tokens_sampled
        rollout = rollout_metrics(stage.algorithm, gathered, batch, dropped)
        credit = merged([stage.algorithm.diagnose(batch)])
        key = f"{self.run.seed}/{stage.key}/{self.progress.stage_step}"
        rows: list[dict] = []
        with self.recorder.rollout(self.progress.step + 1, stage.name, gathered.groups, kept, batch, dropped) as record:
            for minibatch in minibatches(
                batch, stage.settings.updates, key, whole_groups=stage.algorithm.needs.couples_groups
            ):
                outcome = stage.update.step(stage.algorithm, minibatch.batch, self.progress.stage_step)
                self.count(outcome, gathered)
                watch.lap("update")
                record.updated(minibatch, outcome.coefficients)
                watch.lap("record")
                rows.append(self.recorder.step(self.progress, stage.name, outcome, {**rollout, **credit}, watch))
                rollout, credit, watch = no_rollout(rollout), {}, Watch()
        ended = self.progress.stage_step == stage.settings.steps or _reached(stage, rows[0]) or self._spent(stage)
        stage.algorithm = stage.algorithm.advance(rows[0], len(batch.completion_spans))
        self.publish()
        self.evaluate(stage, ended=ended)
        self.save_when_due(stage, ended)
        self.stop_when_hopeless(stage, outcome, gathered)
        return ended

    def prepare(self, stage: ActiveStage, groups: Sequence[Group]) -> Batch:
        """Pack, annotate, credit: the batch that a rollout's optimiser steps are cut from."""
        needs = stage.algorithm.needs
        batch = to(pack(groups, temperature=stage.temperature), self.policy.device)
        if needs.sampling == "once":  # drawn from another policy, so there is nothing to compare with
            batch = replace(batch, sampler_log_probs=None)
        batch = annotate(
            batch,
            needs,
            self.policy,
            stage.reference,
            stage.critic,
            several_updates=stage.settings.updates.per_rollout > 1,
            max_tokens=stage.settings.optimizer.micro_batch_tokens,
        )
        return stage.algorithm.credit(batch)

    def enter(self) -> ActiveStage:
        """Build the stage in hand; continue it where a checkpoint says so."""
        self.publish()  # what a stage samples once is drawn while it is built
        index = self.progress.stage
        prepared = self.prepared[index]
        sampling = prepared.settings.sampling
        stage = build_stage(
            index,
            self.run.stage_name(index),
            prepared,
            self.policy,
            self.critic,
            lambda: self.sampler(prepared, "train", sampling.group_size, sampling.temperature, sampling.max_tokens),
            self.recorder,
            self.run.seed,
        )
        if self.resumed is not None:
            self.restore(stage, self.resumed)
            self.resumed = None
        self.critic = stage.critic
        self.publish()
        return stage

    def restore(self, stage: ActiveStage, folder: Path) -> None:
        """Bring the stage to where the checkpoint was written."""
        load_weights(self.policy.loaded, folder)
        if stage.critic is not None and (folder / "critic.safetensors").is_file():
            stage.critic.restore(folder / "critic.safetensors")
        if self.progress.stage_step == 0:
            return
        state = _read(folder)
        stage.source.restore(state["source"])
        stage.algorithm = ALGORITHM.validate_python(state["algorithm"])
        if isinstance(stage.reference, Reference) and (folder / "reference.safetensors").is_file():
            stage.reference.restore(folder / "reference.safetensors")
        for name, optimizer in stage.update.active.items():
            optimizer.restore(torch.load(folder / f"optimizer-{name}.pt", weights_only=True))

    def refresh_reference(self, stage: ActiveStage) -> None:
        """Move the reference to the policy, or towards it, before the rollout of the step, where it is due."""
        refresh, step = stage.algorithm.needs.reference_refresh, self.progress.stage_step
        if isinstance(stage.reference, Reference) and refresh is not None and _crossed(stage, step, refresh.every):
            stage.reference.refresh(refresh.mixing)

    def publish(self) -> None:
        """From now on completions are drawn from the policy as it is."""
        self.engine.load(self.policy, self.progress.updates)

    def sampler(
        self, prepared: Prepared, purpose: str, group_size: int, temperature: float, max_tokens: int
    ) -> Sampler:
        """What samples and scores groups of this stage. Evaluations share their draws over the whole run."""
        assert prepared.reward is not None
        return Sampler(
            engine=self.engine,
            reward=prepared.reward,
            tokenizer=self.policy.tokenizer,
            stop_ids=self.policy.stop_ids,
            seed=self.run.seed,
            stage=0 if purpose == "eval" else self.progress.stage,
            purpose=purpose,
            group_size=group_size,
            sampling=SamplingParams(temperature, max_tokens),
            token_ends=prepared.settings.algorithm.needs.step_rewards,
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

    def evaluate(self, stage: ActiveStage, *, first: bool = False, ended: bool = False) -> None:
        """Evaluate before the run, every so many steps, and at the end of the stage."""
        settings, prepared, step = stage.settings.evaluation, self.prepared[stage.index], self.progress.step
        due = step == 0 if first else ended or self._crossed(stage, settings.every)
        anything = prepared.test_prompts or prepared.test_written
        if not due or not anything or any(row["step"] == step for row in self.recorder.evaluations):
            return
        groups: list[Group] = []
        result = NOTHING_SAMPLED
        if prepared.test_prompts:
            max_tokens = settings.max_tokens or stage.settings.sampling.max_tokens
            sampler = self.sampler(prepared, "eval", settings.samples, settings.temperature, max_tokens)
            groups, result = evaluate(sampler, prepared.test_prompts)
        if prepared.test_written:
            batch = self.prepare(stage, prepared.test_written)
            result = result | evaluate_written(stage.update, stage.algorithm, batch)
        self.recorder.evaluation(step, stage.name, groups, result)

    def save_when_due(self, stage: ActiveStage, ended: bool) -> None:
        """Save every so many steps, at the end of the stage, and where an evaluation was the best so far."""
        best = self.recorder.best_step() == self.progress.step
        if ended or best or self._crossed(stage, self.run.checkpoint.every):
            self.save(stage, ended)

    def save(self, stage: ActiveStage, ended: bool) -> None:
        """Write a checkpoint, then remove those that nobody needs."""
        if self.saved_step == self.progress.step:
            return
        self.recorder.flush()

        def fill(path: Path) -> None:
            for note in save_model(self.policy.loaded, path):
                self.display.say(note)
            for name, optimizer in stage.update.active.items():
                torch.save(optimizer.state(), path / f"optimizer-{name}.pt")
            if stage.critic is not None:
                stage.critic.save(path / "critic.safetensors")
            if isinstance(stage.reference, Reference) and stage.algorithm.needs.reference_refresh is not None:
                stage.reference.save(path / "reference.safetensors")
            progress = Progress.from_json(self.progress.to_json())
            if ended:
                progress.end_stage()
            state = {
                "progress": progress.to_json(),
                "source": stage.source.state(),
                "algorithm": ALGORITHM.dump_python(stage.algorithm, mode="json"),
            }
            (path / "trainer.json").write_text(json.dumps(state))

        checkpoint.write(self.folder.checkpoints, self.progress.step, fill)
        self.saved_step = self.progress.step
        protected = {*self.progress.ends, self.recorder.best_step() or 0, self.step_before_alarm() or 0}
        checkpoint.prune(self.folder.checkpoints, self.run.checkpoint.keep, protected)

    def step_before_alarm(self) -> int | None:
        """The newest checkpoint from before the finding that ends the run began; None without either."""
        finding = self.recorder.stopped_by
        found = checkpoint.found(self.folder.checkpoints)
        return None if finding is None else max((step for step, _ in found if step < finding.since), default=None)

    def stop_when_hopeless(self, stage: ActiveStage, outcome: Outcome, gathered: Gathered) -> None:
        """Raise `TrainingError` after too many steps in a row that gave nothing to learn from."""
        limit = stage.settings.optimizer.max_bad_steps
        if self.progress.bad_in_a_row >= limit:
            why = _commonest_reason(gathered.groups) if outcome.usable else outcome.status
            raise TrainingError(
                f"stopped at step {self.progress.step}: {limit} steps in a row gave no usable update ({why})",
                fix="look at the newest file in rollouts/; lower the learning rate or mend the reward, then --resume",
            )

    def _crossed(self, stage: ActiveStage, period: int) -> bool:
        """Whether a multiple of `period` lies among the steps that the last rollout fed."""
        return _crossed(stage, self.progress.step, period)

    def _spent(self, stage: ActiveStage) -> bool:
        budget = stage.settings.max_tokens_sampled
        return budget is not None and self.progress.stage_tokens >= budget

    def _last(self, stage: ActiveStage) -> bool:
        return stage.index == len(self.run.stages) - 1


def keep(stage: ActiveStage, gathered: Gathered) -> tuple[list[Group], dict[str, str]]:
    """The groups to train on, with the completions to train on, and why the others are dropped, by id."""
    dropped = dict(gathered.dropped)
    for group in gathered.groups:
        if group.id not in dropped and (reason := stage.algorithm.keep(group)) is not None:
            dropped[group.id] = reason
    kept = [part for group in gathered.groups if group.id not in dropped for part in stage.algorithm.select(group)]
    return kept, dropped


def _crossed(stage: ActiveStage, step: int, period: int) -> bool:
    """Whether a multiple of `period` lies among the steps up to `step` that the last rollout fed."""
    return step > 0 and period > 0 and step // period > (step - stage.settings.updates.per_rollout) // period


def _reached(stage: ActiveStage, row: dict) -> bool:
    """Whether the metric that ends the stage early is above its value; `row` is the first of a rollout."""
    until = stage.algorithm.needs.until
    return until is not None and row.get(until[0]) is not None and row[until[0]] > until[1]


def _read(folder: Path) -> dict:
    return json.loads((folder / "trainer.json").read_text("utf-8"))


def _nothing_scored(groups: Sequence[Group]) -> bool:
    scores = [score for group in groups for score in group.scores if score is not None]
    return bool(scores) and all(score.value is None for score in scores)


def _commonest_reason(groups: Sequence[Group]) -> str:
    """Why nothing could be scored."""
    reasons = Counter(score.reason for group in groups for score in group.scores if score is not None and score.reason)
    return f"nothing could be scored: {reasons.most_common(1)[0][0]}" if reasons else "nothing could be scored"
