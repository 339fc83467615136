"""`groupwise check-task`: whether a run's rewards and prompts are fit to train on, before any training.

For each stage that scores completions: the golds that can't be used, all of them; what each reward says of gold, empty,
cut and spoilt answers (`probes`); and, with the model as the run begins, how much signal there is. A finding is serious
where training would learn from wrong verdicts: then the command ends with status 1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizerBase

from groupwise.checking.probes import Probe
from groupwise.checking.signal import Signal, measure
from groupwise.checking.verifiers import TOLERATED, VerifierReport, bad_rows, check_verifier, pays
from groupwise.models.loading import load_model, load_tokenizer
from groupwise.models.policy import Policy
from groupwise.rewards.base import RewardSettings
from groupwise.rewards.build import build_reward
from groupwise.rewards.contract import Record
from groupwise.run import Run, Stage
from groupwise.run_file import load_run
from groupwise.tasks import InMemory
from groupwise.tasks.chat import encode_rendered
from groupwise.tasks.rendering import render
from groupwise.tasks.rows import checked_rows
from groupwise.telemetry.display import Display
from groupwise.training.preparation import prepare, reward_settings
from groupwise.training.preview import sample_stage


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was found, in plain words."""

    text: str
    serious: bool


@dataclass(slots=True)
class StageReport:
    """What was found out about one stage."""

    name: str
    task: str
    rows: int = 0
    bad: list[tuple[str, str]] = field(default_factory=list)
    """Id of each row that can't be used, and why."""
    verifiers: list[VerifierReport] = field(default_factory=list)
    pays: tuple[float, float] | None = None
    """Mean of the whole reward, all parts together: of accepted gold answers, and of nothing."""
    signal: Signal | None = None
    findings: list[Finding] = field(default_factory=list)

    @property
    def serious(self) -> bool:
        """Whether training would learn from wrong verdicts."""
        return any(finding.serious for finding in self.findings)


def check_task(
    source: str, overrides: Sequence[str], *, rows: int, prompts: int, model: bool, display: Display
) -> list[StageReport]:
    """A report for each stage with rewards; stages that score the same task alike are checked once.

    rows: how many are probed; prompts: how many groups are sampled, where `model` says so. Raises a `UserError` for
    what can't be checked at all.
    """
    run = load_run(source, overrides).run
    tokenizer = load_tokenizer(run.model, display.say)
    policy: Policy | None = None
    reports: list[StageReport] = []
    for index, settings in _scored_stages(run):
        stage = run.stages[index]
        report, sound = _check_stage(run, index, settings, tokenizer, rows, display.say)
        if model and sound.train and stage.algorithm.needs.source == "prompts":
            if index > 0:
                display.say("sampled from the model as the run begins: the stages before this one are not run")
            if policy is None:
                policy = Policy.of(load_model(run.model, seed=run.seed, say=display.say))
            given = stage.model_copy(update={"rewards": tuple(settings)})
            prepared = prepare(given, tokenizer, run.seed, display.say, given=InMemory(sound.train, sound.test or None))
            assert prepared.reward is not None, "the stage has rewards"
            with closing(prepared.reward):
                gathered = sample_stage(run, index, prepared, policy, min(prompts, len(prepared.prompts)))
            report.signal = measure(gathered, stage.sampling.group_size)
        report.findings += _findings(report, len(settings))
        reports.append(report)
    return reports


@dataclass(frozen=True, slots=True)
class _Sound:
    """Rows that can be used."""

    train: list[Mapping[str, Any]]
    test: list[Mapping[str, Any]]


def _scored_stages(run: Run) -> Iterator[tuple[int, list[RewardSettings]]]:
    """Stages with a reward, and its settings: of those with the same task and reward the one that samples, or first."""
    last: dict[str, tuple[int, list[RewardSettings]]] = {}
    for index, stage in enumerate(run.stages):
        settings = reward_settings(stage, stage.task)
        if settings:
            key = repr((stage.task, settings))
            if key not in last or run.stages[last[key][0]].algorithm.needs.source != "prompts":
                last[key] = (index, settings)
    return iter(last.values())


def _check_stage(
    run: Run,
    index: int,
    settings: list[RewardSettings],
    tokenizer: PreTrainedTokenizerBase,
    count: int,
    say: Callable[[str], None],
) -> tuple[StageReport, _Sound]:
    stage = run.stages[index]
    report = StageReport(run.stage_name(index), stage.task.name)
    train = checked_rows(stage.task.rows("train", run.seed), f"task {stage.task.name}")
    test = list(stage.task.rows("test", run.seed))[: stage.evaluation.prompts]
    if test:
        test = list(checked_rows(test, f"the test split of task {stage.task.name}"))
    report.rows = len(train) + len(test)
    with closing(build_reward(settings, base=Path.cwd())) as reward:
        for line in [*reward.notes, *reward.announced([*train, *test])]:
            say(line)
        found = bad_rows(reward, [*train, *test])
        report.bad = [(str(row["id"]), why) for row, why in found]
        bad = {id(row) for row, _ in found}
        sound = _Sound([row for row in train if id(row) not in bad], [row for row in test if id(row) not in bad])

        def record_of(probe: Probe, group: str) -> Record:
            return _record(probe, group, stage, tokenizer)

        for one, part in zip(settings, reward.parts, strict=True):
            report.verifiers.append(check_verifier(one, part.reward, sound.train, count, record_of))
        accepted = [probe for verifier in report.verifiers for probe in verifier.accepted.values()]
        report.pays = pays(reward, accepted, record_of)
    return report, sound


def _record(probe: Probe, group: str, stage: Stage, tokenizer: PreTrainedTokenizerBase) -> Record:
    """The probe as if the model had written it."""
    prompt = render(probe.row, tokenizer, stage.prompts.chat)
    ids = encode_rendered(probe.text, tokenizer)
    if probe.finish_reason == "stop" and tokenizer.eos_token_id is not None:
        ids = (*ids, int(tokenizer.eos_token_id))
    return Record(
        group_id=group,
        prompt_id=prompt.id,
        prompt=prompt.text,
        messages=prompt.messages,
        columns=prompt.columns,
        text=probe.text,
        clean_text=probe.text,
        token_ids=ids,
        finish_reason=probe.finish_reason,
    )


def _findings(report: StageReport, rewards: int) -> Iterator[Finding]:
    """What the numbers mean."""
    if report.bad:
        yield Finding(
            f"{len(report.bad)} of {report.rows} rows can't be used, for the reasons above: mend or remove them", True
        )
    for verifier in report.verifiers:
        yield from _of_verifier(verifier, alone=rewards == 1)
    if report.pays is not None and report.pays[1] >= report.pays[0]:
        gold, nothing = report.pays
        yield Finding(f"saying nothing pays {nothing:.3g}, and the bare gold answer {gold:.3g}", rewards == 1)
    if report.signal is not None:
        yield from (Finding(text, False) for text in report.signal.remarks())


def _of_verifier(verifier: VerifierReport, alone: bool) -> Iterator[Finding]:
    label, rows = verifier.label, verifier.rows
    if verifier.refused:
        reasons = Counter(one.score.reason or "no reason given" for one in verifier.refused)
        why = reasons.most_common(1)[0][0]
        known = "every form" if verifier.own_gold else "its written form"
        yield Finding(
            f"{label} refuses the gold answer of {len(verifier.refused)} of {rows} rows in {known} (for one: {why})",
            verifier.own_gold or alone,
        )
    elif rows and not verifier.accepted:
        yield Finding(
            f"{label}: no answer is known to be right, so it was only tried with nothing; a column `completion` "
            "with a right answer would test it",
            False,
        )
    for (kind, name), tally in verifier.tallies.items():
        if kind == "gold" and verifier.own_gold and verifier.accepted and 0 < tally.right < tally.count:
            yield Finding(f"{label} refuses {tally.count - tally.right} of {tally.count} golds written {name}", False)
        if kind == "nothing" and tally.right:
            yield Finding(f"{label} calls the empty answer right in {tally.right} of {tally.count} rows", True)
        if kind in ("cut", "spoilt") and (tally.right == tally.count or tally.right > max(1, TOLERATED * tally.count)):
            yield Finding(
                f"{label} calls {tally.right} of {tally.count} answers right that were spoilt ({name})",
                kind == "spoilt" and verifier.own_gold,
            )
