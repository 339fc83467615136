"""Dynamic sampling ends, whatever the prompts are like, and says what it found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tiny_runs import ROWS, Lines, always, metric_rows, rollouts, tiny, weights

import groupwise
from groupwise.algorithms.parts import DynamicSampling
from groupwise.errors import TrainingError
from groupwise.sources.contract import Gathered
from groupwise.sources.cursor import Cursor
from groupwise.sources.live import Live, Sampler
from groupwise.types import Completion, Group, Prompt, Score, Segment

LEARNABLE = ("row-1", "row-4")


def two_rows_are_learnable() -> Any:
    """A reward by which completions of two rows are right and wrong by turns, all others right; in process."""

    @groupwise.group_reward
    def verdicts(records: list[Any]) -> list[bool]:
        return [record.prompt_id not in LEARNABLE or place % 2 == 0 for place, record in enumerate(records)]

    return verdicts


def run_of(on_exhausted: str, **changes: Any) -> dict[str, Any]:
    dapo = {"name": "dapo", "dynamic_sampling": {"max_rounds": 3, "on_exhausted": on_exhausted}}
    return tiny(steps=2, prompts={"per_step": 4, "shuffle": False}, **changes) | {"algorithm": dapo}


@pytest.fixture
def rounds(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of prompts of each round of sampling, as it happens."""
    seen: list[int] = []
    gather = Sampler.gather

    def counted(self: Sampler, prompts: Sequence[tuple[Prompt, int]]) -> Gathered:
        seen.append(len(prompts))
        return gather(self, prompts)

    monkeypatch.setattr(Sampler, "gather", counted)
    return seen


@pytest.mark.parametrize("on_exhausted", ["train_partial", "skip"])
def test_R052_a_pool_without_signal_is_left_after_the_last_round(
    tmp_path: Path, rounds: list[int], on_exhausted: str
) -> None:
    lines = Lines()
    folder = groupwise.train(
        run_of(on_exhausted), prompts=ROWS, rewards=[always(True)], out=tmp_path / "run", display=lines
    ).folder
    assert rounds == [4] * 3 * 2  # three rounds for each of two steps
    assert [row["status"] for row in metric_rows(folder)] == ["no signal", "no signal"]
    told = "no learnable prompts: after 3 rounds of sampling 0 of 4 groups give signal (12 x every completion is right)"
    assert [line for line in lines.lines if "learnable" in line] == [f"{told}; the step is skipped"] * 2
    recorded = rollouts(folder)
    assert len(recorded) == 2 * 12 * 4
    assert {row["dropped_because"] for row in recorded} == {"every completion is right"}
    assert not any(row["kept"] for row in recorded)
    assert [row["frac_dropped_groups"] for row in metric_rows(folder)] == [1, 1]


def test_R052_a_pool_without_signal_stops_the_run_where_that_is_asked_for(tmp_path: Path, rounds: list[int]) -> None:
    with pytest.raises(
        TrainingError, match=r"no learnable prompts: after 3 rounds .* 0 of 4 .*12 x no completion is right"
    ):
        groupwise.train(run_of("error"), prompts=ROWS, rewards=[always(False)], out=tmp_path / "run", display=Lines())
    assert rounds == [4] * 3
    assert not (tmp_path / "run/metrics.jsonl").exists()


def test_R052_too_few_learnable_groups_are_trained_on_or_skipped_or_stop_the_run(
    tmp_path: Path, rounds: list[int]
) -> None:
    """Twelve prompts of ten rows hold three learnable groups, where four are wanted."""

    def train(on_exhausted: str, lines: Lines) -> Path:
        run = run_of(on_exhausted) | {"steps": 1}
        out = tmp_path / on_exhausted
        return groupwise.train(run, prompts=ROWS, rewards=[two_rows_are_learnable()], out=out, display=lines).folder

    lines = Lines()
    trained = train("train_partial", lines)
    assert [row["status"] for row in metric_rows(trained)] == ["updated"]
    assert "too few learnable prompts: after 3 rounds of sampling 3 of 4 groups give signal" in lines.text
    assert "the step trains on those" in lines.text
    kept = [row for row in rollouts(trained) if row["kept"]]
    assert [row["group_id"] for row in kept[::4]] == ["row-1#0", "row-4#0", "row-1#1"]
    assert metric_rows(trained)[0]["tokens_trained"] == sum(len(row["token_ids"]) for row in kept)

    skipped = train("skip", Lines())
    assert [row["status"] for row in metric_rows(skipped)] == ["no signal"]
    reasons = [row["dropped_because"] for row in rollouts(skipped)]
    assert reasons.count("too few groups give signal") == 3 * 4 and None not in reasons
    assert weights(skipped, 1) != weights(trained, 1)

    with pytest.raises(TrainingError, match="too few learnable prompts: after 3 rounds of sampling 3 of 4"):
        train("error", Lines())
    assert rounds == [4] * 9


def test_groups_beyond_those_wanted_are_recorded_and_not_trained_on(tmp_path: Path, rounds: list[int]) -> None:
    """Five rows with one learnable among the first two, so that the second round finds more than is wanted."""

    @groupwise.group_reward
    def all_but_the_first(records: list[Any]) -> list[bool]:
        return [record.prompt_id != "row-0" and place % 2 == 0 for place, record in enumerate(records)]

    run = tiny(steps=1, prompts={"per_step": 2, "shuffle": False}) | {"algorithm": "dapo"}
    folder = groupwise.train(
        run, prompts=ROWS[:5], rewards=[all_but_the_first], out=tmp_path / "run", display=Lines()
    ).folder
    assert rounds == [2, 2]
    reasons = {row["group_id"]: row["dropped_because"] for row in rollouts(folder)}
    assert reasons == {
        "row-0#0": "no completion is right", "row-1#0": None, "row-2#0": None,
        "row-3#0": "more groups than the step needs",
    }  # fmt: skip


class Drawn:
    """Stands in for a sampler: groups of a policy with a version, all but the first of a round learnable."""

    def __init__(self) -> None:
        self.version = 0

    def gather(self, prompts: Sequence[tuple[Prompt, int]]) -> Gathered:
        completions = tuple(Completion((Segment((n,), (0.0,), version=self.version),), "stop") for n in range(2))
        scores = (Score(1.0, True), Score(0.0, False))
        groups = [Group(f"{prompt.id}#{visit}", prompt, completions, scores) for prompt, visit in prompts]
        # Two of three are learnable, so a second round brings one too many.
        dull = [replace(group, scores=(Score(1.0, True),) * 2) for group in groups[:1]]
        return Gathered([*dull, *groups[1:]], {"rollout": 1.0}, 2 * len(groups))


@pytest.mark.parametrize(
    ("surplus", "updated", "carried"), [("discard", False, 0), ("carry", False, 1), ("carry", True, 0)]
)
def test_surplus_groups_serve_the_next_step_only_where_the_policy_is_still_the_same(
    surplus: str, updated: bool, carried: int
) -> None:
    prompts = [Prompt(f"p{n}", (n,), str(n)) for n in range(6)]
    sampler = Drawn()
    source = Live(
        prompts,
        Cursor([prompt.id for prompt in prompts], seed=0, stage=0, shuffle=False),
        sampler,  # type: ignore[arg-type]
        DynamicSampling(surplus=surplus),  # type: ignore[arg-type]
    )
    first = source.groups(3)
    assert first.rounds == 2 and first.tokens_sampled == 12
    assert first.dropped["p5#0"] == "more groups than the step needs"
    sampler.version += updated
    second = source.groups(3)
    assert [group.id for group in second.groups[:carried]] == ["p5#0"][:carried]
    assert second.rounds == (1 if carried else 2)
    assert len(second.groups) - len(second.dropped) == 3
