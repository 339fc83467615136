"""A stage with all that its algorithm needs, built from the needs alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from groupwise.algorithms.contract import Algorithm, Needs
from groupwise.models.critic import Critic
from groupwise.models.loading import trainable_parameters
from groupwise.models.policy import Policy
from groupwise.models.reference import Reference
from groupwise.run import Stage
from groupwise.sources.contract import Source
from groupwise.sources.cursor import Cursor
from groupwise.sources.demonstrations import Demonstrations
from groupwise.sources.live import Live, Sampler
from groupwise.sources.once import Once
from groupwise.telemetry import ledger
from groupwise.training.optimizer import Optimizer
from groupwise.training.preparation import Prepared
from groupwise.training.recording import Recorder
from groupwise.training.reference_cache import ReferenceCache
from groupwise.training.update import Update
from groupwise.types import Group


@dataclass
class ActiveStage:
    """The stage in hand."""

    index: int
    name: str
    settings: Stage
    algorithm: Algorithm
    """As it is now: coefficients that follow the run make it another object."""
    source: Source
    update: Update
    reference: Reference | ReferenceCache | None
    critic: Critic | None
    temperature: float

    @property
    def key(self) -> str:
        """What keyed orders of this stage depend on beside the run's seed."""
        return f"{self.index}"


def build_stage(
    index: int,
    name: str,
    prepared: Prepared,
    policy: Policy,
    critic: Critic | None,
    sampler: Callable[[], Sampler],
    recorder: Recorder,
    seed: int,
) -> ActiveStage:
    """Sources, optimisers, reference and critic as `prepared.settings.algorithm.needs` says.

    `critic`: the one of the stage before, which goes on being trained where this stage needs one too. The policy holds
    the weights that the stage begins with: they become the reference.
    """
    settings, needs = prepared.settings, prepared.settings.algorithm.needs
    source = build_source(index, name, prepared, sampler, recorder, seed)
    if needs.critic and critic is None:
        critic = Critic.build(settings.critic, policy.loaded, seed)
    optimizer = critic_optimizer = None
    make = partial(Optimizer, settings=settings.optimizer, steps=settings.steps)
    if needs.policy:
        parameters = trainable_parameters(policy.loaded).values()
        optimizer = make(parameters, learning_rate=settings.optimizer.learning_rate)
    if needs.critic:
        assert critic is not None
        critic.judge(needs.judges)
        critic_optimizer = make(critic.trainable(), learning_rate=settings.critic.learning_rate)
    return ActiveStage(
        index=index,
        name=name,
        settings=settings,
        algorithm=settings.algorithm.with_budget(settings.sampling.max_tokens),
        source=source,
        update=Update(
            policy,
            optimizer,
            critic if needs.critic else None,
            critic_optimizer,
            settings.optimizer.micro_batch_tokens,
        ),
        reference=build_reference(policy, needs, source, prepared.test_written, settings.optimizer.micro_batch_tokens),
        critic=critic if needs.critic else None,
        temperature=settings.sampling.temperature if needs.source == "prompts" and needs.sampling == "live" else 1.0,
    )


def build_reference(
    policy: Policy, needs: Needs, source: Source, test: Sequence[Group], max_tokens: int
) -> Reference | ReferenceCache | None:
    """A frozen copy of the policy; or, where all groups are known already, those of the test too, its log-probs of them
    and no copy."""
    if not needs.reference:
        return None
    groups = source.everything() if needs.reference_refresh is None else None
    return Reference(policy.loaded) if groups is None else ReferenceCache(policy, [*groups, *test], max_tokens)


def build_source(
    index: int, name: str, prepared: Prepared, sampler: Callable[[], Sampler], recorder: Recorder, seed: int
) -> Source:
    """Where this stage's groups come from."""
    settings, needs = prepared.settings, prepared.settings.algorithm.needs
    ids = [prompt.id for prompt in prepared.prompts]
    shuffle = settings.prompts.shuffle
    cursor = Cursor(ids, seed=seed, stage=index, shuffle=shuffle)
    if needs.source != "prompts":
        return Demonstrations(prepared.written, cursor)
    if needs.sampling == "live":
        return Live(prepared.prompts, cursor, sampler(), needs.dynamic_sampling)
    file = samples_file(recorder, index)
    count = min(len(ids), settings.steps * settings.prompts.per_step // settings.updates.per_rollout)
    chosen = [prepared.prompts[place] for place, _ in cursor.take(count)]
    return Once(
        chosen,
        sampler(),
        settings.algorithm.select,
        record=lambda groups: recorder.samples(file, name, groups),
        recall=lambda: recall(file if settings.samples is None else Path(settings.samples)),
        shuffle=shuffle,
        ours=settings.samples is None,
    )


def samples_file(recorder: Recorder, index: int) -> Path:
    """Where what a stage sampled once is written."""
    return recorder.folder.path / "samples" / f"stage-{index}.parquet"


def recall(file: Path) -> list[Group] | None:
    """What was sampled once, or None."""
    return ledger.read_groups(file) if file.is_file() else None
