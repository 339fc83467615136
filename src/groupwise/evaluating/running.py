"""An evaluation: the test prompts, sampled by keyed draws and judged, a chunk at a time, then summed up.

Draws have the keys of the evaluations in training (seed, prompt, sample), so that the samples of a checkpoint are those
that its run evaluated, and two models differ by their weights alone. No order and no batch changes a draw.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from transformers import PreTrainedTokenizerBase

from groupwise.engines.contract import Engine, SamplingParams
from groupwise.errors import DataError, RunFileError
from groupwise.evaluating.answers import reader_of
from groupwise.evaluating.measures import measure_greedy, measure_samples
from groupwise.evaluating.records import Records, default_folder, digest_of, identity_of
from groupwise.evaluating.results import Results
from groupwise.evaluating.target import Target
from groupwise.models.loading import load_model, load_tokenizer
from groupwise.models.policy import Policy
from groupwise.rewards.combine import Combined
from groupwise.run import Stage
from groupwise.sources.live import Sampler
from groupwise.statistics.sampling import MOST
from groupwise.tasks.rendering import render_all
from groupwise.tasks.rows import checked_rows
from groupwise.telemetry.metrics import completion_metrics, score_metrics
from groupwise.telemetry.run_folder import write_atomically
from groupwise.training.preparation import reward_of, reward_settings
from groupwise.types import Group, Prompt

CHUNK = 512
"""Completions between two writes: what an interruption loses at most, and enough to keep a device busy."""

Say = Callable[[str], None]


@dataclass(frozen=True)
class Wanted:
    """How to evaluate. Raises `RunFileError` for what contradicts itself."""

    samples: int = 8
    """Completions per prompt at `temperature`; 0: none."""
    temperature: float | None = None
    """None: that of the run's evaluations, or of its training where those are greedy."""
    greedy: bool = True
    """Also answer once at temperature 0."""
    ks: tuple[int, ...] | None = None
    """Of pass@k and maj@k; None: the powers of two up to `samples`, and `samples`."""
    prompts: int | None = None
    """The first ones of the test split; None: as many as the run evaluates, 0: all."""

    def __post_init__(self) -> None:
        if not self.samples and not self.greedy:
            raise RunFileError("--samples 0 with --no-greedy asks for nothing", fix="leave one of them out")
        if self.samples > MOST:
            raise RunFileError(f"--samples {self.samples} is more than {MOST}", fix="ask for fewer")
        if self.samples and self.temperature == 0:
            raise RunFileError(
                f"--samples {self.samples} at temperature 0 are all alike",
                fix="give a temperature above 0, or --samples 0 for the greedy answer alone",
            )
        wrong = next((k for k in self.ks or () if not 1 <= k <= self.samples), None)
        if wrong is not None:
            raise RunFileError(
                f"--pass-at {wrong} can't be had from {self.samples} samples per prompt",
                fix=f"raise --samples to {max(wrong, 1)}, or ask for 1 to {self.samples}",
            )

    def temperature_in(self, stage: Stage) -> float:
        """The one in effect."""
        return self.temperature or stage.evaluation.temperature or stage.sampling.temperature

    @property
    def all_ks(self) -> tuple[int, ...]:
        """In ascending order."""
        powers = [2**power for power in range(1, self.samples.bit_length())]
        return tuple(sorted(set(self.ks if self.ks is not None else [*powers, self.samples] if self.samples else [])))


def evaluate(target: Target, wanted: Wanted, out: Path | None, say: Say) -> tuple[Results, Path]:
    """Sample what isn't recorded yet, and sum up; the results, and the folder that holds them. Raises a `UserError`.

    The model is loaded only where something is left to sample.
    """
    stage = target.stage
    tokenizer = load_tokenizer(target.run.model, say)
    max_tokens = stage.evaluation.max_tokens or stage.sampling.max_tokens
    identity = identity_of(target, wanted.samples, wanted.temperature_in(stage), max_tokens)
    reward = reward_of(stage, stage.task)
    assert reward is not None, "the stage was chosen for its rewards"
    with closing(reward):
        prompts = _prompts(target, wanted, reward, tokenizer, say)
        asked = identity | {"prompts": wanted.prompts, "greedy": wanted.greedy, "ks": wanted.ks}
        records = Records(default_folder(target.label, asked) if out is None else out, identity)
        kinds = {"greedy": SamplingParams(0.0, max_tokens)} if wanted.greedy else {}
        if wanted.samples:
            kinds["samples"] = SamplingParams(wanted.temperature_in(stage), max_tokens)
        done = {kind: records.done(kind, prompts) for kind in kinds}
        if any(len(groups) < len(prompts) for groups in done.values()):
            policy = Policy.of(load_model(target.run.model, seed=target.run.seed, weights=target.weights, say=_nothing))
            engine = target.run.engine.build()
            engine.load(policy, target.step)
            for kind, params in kinds.items():
                size = 1 if kind == "greedy" else wanted.samples
                sampler = _sampler(target, policy, engine, reward, size, params)
                done[kind] |= _sample(kind, target, sampler, prompts, done[kind], records, say)
    groups = {kind: [found[prompt.id] for prompt in prompts] for kind, found in done.items()}
    results = _summed_up(target, wanted, identity, prompts, groups, tokenizer)
    write_atomically(records.results, json.dumps(results.to_json(), indent=1) + "\n")
    return results, records.folder


def _prompts(
    target: Target, wanted: Wanted, reward: Combined, tokenizer: PreTrainedTokenizerBase, say: Say
) -> list[Prompt]:
    """The test prompts, their rows checked by the reward."""
    stage = target.stage
    most = stage.evaluation.prompts if wanted.prompts is None else wanted.prompts
    rows = list(stage.task.rows("test", target.run.seed))
    if not rows:
        raise DataError(
            f"task {stage.task.name} has no test rows to evaluate on",
            fix="give it some (of the task `data`: --set task.test_rows=100)",
        )
    where = f"the test split of task {stage.task.name}"
    given = checked_rows(rows[: most or None], where)
    settings = stage.prompts
    prompts, notes = render_all(given, tokenizer, settings.chat, settings.max_tokens, settings.over_limit, where)
    for line in [*notes, *reward.notes, *reward.announced(given)]:
        say(line)
    reward.check(given)
    return prompts


def _sampler(
    target: Target, policy: Policy, engine: Engine, reward: Combined, size: int, params: SamplingParams
) -> Sampler:
    return Sampler(
        engine=engine,
        reward=reward,
        tokenizer=policy.tokenizer,
        stop_ids=policy.stop_ids,
        seed=target.run.seed,
        stage=0,
        purpose="eval",
        group_size=size,
        sampling=params,
        token_ends=target.stage.algorithm.needs.step_rewards,
    )


def _sample(
    kind: str,
    target: Target,
    sampler: Sampler,
    prompts: Sequence[Prompt],
    done: dict[str, Group],
    records: Records,
    say: Say,
) -> dict[str, Group]:
    """The groups of the prompts that are not done, recorded as they come."""
    left = [prompt for prompt in prompts if prompt.id not in done]
    if done and left:
        say(f"{target.label}, {kind}: going on, {len(done)} of {len(prompts)} prompts are recorded in {records.folder}")
    found: dict[str, Group] = {}
    size = max(1, CHUNK // sampler.group_size)
    for chunk in (left[start : start + size] for start in range(0, len(left), size)):
        groups = sampler.gather([(prompt, 0) for prompt in chunk]).groups
        texts = [[sampler.tokenizer.decode(one.token_ids) for one in group.completions] for group in groups]
        records.add(kind, target.step, groups, texts)
        found |= {group.prompt.id: group for group in groups}
        if len(chunk) < len(left):
            say(f"{target.label}, {kind}: {len(done) + len(found)} of {len(prompts)} prompts")
    return found


def _summed_up(
    target: Target,
    wanted: Wanted,
    identity: dict,
    prompts: Sequence[Prompt],
    groups: dict[str, list[Group]],
    tokenizer: PreTrainedTokenizerBase,
) -> Results:
    values = measure_greedy(groups["greedy"]) if "greedy" in groups else {}
    if "samples" in groups:
        reader = reader_of(reward_settings(target.stage, target.stage.task))
        values |= measure_samples(groups["samples"], wanted.samples, wanted.all_ks, reader, tokenizer)
    every = [group for found in groups.values() for group in found]
    return Results(
        label=target.label,
        asked=identity,
        prompts={prompt.id: digest_of(prompt) for prompt in prompts},
        by_prompt={name: found for name, found in values.items() if found},
        not_scored=score_metrics(every)["frac_not_scored"],
        truncated=completion_metrics(every)["frac_truncated"],
        completion_length=completion_metrics(every)["completion_length_mean"],
    )


def _nothing(line: str) -> None:
    """What loading says is about training."""
