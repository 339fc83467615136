"""Sampling and scoring without training: whether a run has anything to learn from, before it is paid for."""

from __future__ import annotations

from collections.abc import Sequence

from groupwise.engines.contract import SamplingParams
from groupwise.errors import RunFileError
from groupwise.models.loading import load_model, load_tokenizer
from groupwise.models.policy import Policy
from groupwise.run import Run
from groupwise.run_file import load_run
from groupwise.sources.contract import Gathered
from groupwise.sources.cursor import Cursor
from groupwise.sources.live import Sampler
from groupwise.telemetry.display import ConsoleDisplay
from groupwise.telemetry.metrics import completion_metrics, score_metrics
from groupwise.training.preparation import Prepared, check_parts, prepare
from groupwise.types import Group


def preview(source: str, count: int, overrides: Sequence[str], display: ConsoleDisplay) -> list[Group]:
    """Sample groups for the first `count` prompts of the run's first stage that samples; print what they show."""
    run = load_run(source, overrides).run
    sampling_stages = [stage for stage in run.stages if stage.algorithm.needs.source == "prompts"]
    if not sampling_stages:
        raise RunFileError(
            "no stage of this run samples completions", fix="preview a run with an algorithm such as grpo"
        )
    stage = sampling_stages[0]
    if stage is not run.stages[0]:
        display.say("sampled from the model as the run begins: the stages before this one are not run")
    index = run.stages.index(stage)
    check_parts(run, display.say)
    prepared = prepare(stage, load_tokenizer(run.model, display.say), run.seed, display.say)
    assert prepared.reward is not None
    try:
        policy = Policy.of(load_model(run.model, seed=run.seed, say=display.say))
        groups = list(sample_stage(run, index, prepared, policy, count).groups)
    finally:
        prepared.reward.close()
    _print(groups, stage.sampling.group_size, policy, display)
    return groups


def sample_stage(run: Run, index: int, prepared: Prepared, policy: Policy, count: int) -> Gathered:
    """Groups for the first `count` prompts of a stage, sampled from the policy as it is and scored."""
    stage = run.stages[index]
    assert prepared.reward is not None
    engine = run.engine.build()
    engine.load(policy, 0)
    sampler = Sampler(
        engine=engine,
        reward=prepared.reward,
        tokenizer=policy.tokenizer,
        stop_ids=policy.stop_ids,
        seed=run.seed,
        stage=index,
        purpose="sample",
        group_size=stage.sampling.group_size,
        sampling=SamplingParams(stage.sampling.temperature, stage.sampling.max_tokens),
        token_ends=stage.algorithm.needs.step_rewards,
    )
    ids = [prompt.id for prompt in prepared.prompts]
    cursor = Cursor(ids, seed=run.seed, stage=index, shuffle=stage.prompts.shuffle)
    return sampler.gather([(prepared.prompts[place], visit) for place, visit in cursor.take(count)])


def signal_share(groups: Sequence[Group]) -> tuple[float | None, float | None, float | None]:
    """Pass rate, observed share of groups with both right and wrong completions, and its expectation.

    The expectation is the mean over prompts of 1 - p^G - (1-p)^G at the pooled pass rate: prompts of unequal
    difficulty have less signal than that. Groups without any verdict are left out; None where nothing is left.
    """
    verdicts = [[score.correct for score in group.scores if score and score.correct is not None] for group in groups]
    verdicts = [group for group in verdicts if group]
    if not verdicts:
        return None, None, None
    total = sum(len(group) for group in verdicts)
    rate = sum(sum(group) for group in verdicts) / total
    mixed = sum(any(group) and not all(group) for group in verdicts) / len(verdicts)
    expected = sum(1 - rate ** len(group) - (1 - rate) ** len(group) for group in verdicts) / len(verdicts)
    return rate, mixed, expected


def _print(groups: Sequence[Group], group_size: int, policy: Policy, display: ConsoleDisplay) -> None:
    rate, mixed, expected = signal_share(groups)
    scores, lengths = score_metrics(groups), completion_metrics(groups)

    def share(value: float | None) -> str:
        return "-" if value is None else f"{value:.1%}"

    rows = [
        ("pass rate", share(rate)),
        (f"groups of {group_size} with signal, observed", share(mixed)),
        ("the same, if every prompt had this pass rate: 1 - p^G - (1-p)^G", share(expected)),
        ("mean reward", "-" if scores["reward_mean"] is None else f"{scores['reward_mean']:.3f}"),
        ("not scored", share(scores["frac_not_scored"])),
        ("cut off at the token limit", share(lengths["frac_truncated"])),
        ("mean completion length (tokens)", f"{lengths['completion_length_mean']:.1f}"),
    ]
    rows += [(f"  {name}", f"{value:.3f}") for name, value in scores["reward_parts"].items() if value is not None]
    display.table(f"{len(groups)} prompts x {group_size} completions", ("", ""), rows)
    for group in groups[:3]:
        display.say(f"\n{group.prompt.text.strip()}")
        for completion, score in list(zip(group.completions, group.scores, strict=True))[:3]:
            assert score is not None
            value = "not scored" if score.value is None else f"{score.value:g}"
            text = policy.tokenizer.decode(completion.token_ids, skip_special_tokens=True)
            display.say(f"  [{value}] {text!r}{f'  ({score.reason})' if score.reason else ''}")
