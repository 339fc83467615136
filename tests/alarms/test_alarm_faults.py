"""Every alarm on its synthetic fault, laid over recorded healthy runs; and on those runs as they are."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from histories import HEALTHY, ROOT, Row, rates, recorded, spoilt, steps_of

from groupwise.alarms import ALARMS, Watcher, findings

SUMS = [f"sums-{seed}" for seed in range(10)]
START = 40
"""Index of the first spoilt step of the stage: by then every alarm knows what the start was like."""

Fault = Callable[[Row, int], Mapping[str, Any]]


def parts(row: Row, n: int) -> Mapping[str, Any]:
    """Format is learnt within 40 steps, and the answers are unlearnt; the reward is their sum."""
    share = min(1.0, n / 40)
    form, answer = 0.2 + 0.8 * share, row["reward_parts"]["answer"] * (1 - share)
    return {"reward_mean": form + answer, "reward_parts": {"format": form, "answer": answer}, "correct_mean": answer}


def with_parts(row: Row) -> Row:
    """The row with a reward of two parts, of which one is not learnt yet."""
    answer = row["reward_mean"]
    return row | {"reward_mean": 0.2 + answer, "reward_parts": {"format": 0.2, "answer": answer}}


def slow(row: Row, n: int) -> Mapping[str, Any]:
    return {"seconds": row["seconds"] | {"rollout": row["seconds"]["rollout"] + 4 * sum(row["seconds"].values())}}


FAULTS: dict[str, Fault] = {
    "entropy-collapse": lambda row, n: {"entropy": 0.8 * 0.95**n, "correct_mean": min(row["correct_mean"], 0.7)},
    "entropy-explosion": lambda row, n: {"entropy": row["entropy"] + 0.06 * n},
    "kl-blow-up": lambda row, n: {"kl_k3": 2.0},
    "ratio-blow-up": lambda row, n: {"ratio_max": 50.0},
    "clip-share": lambda row, n: {"clip_fraction_low": 0.2, "clip_fraction_high": 0.2},
    "sampler-gap": lambda row, n: {"sampler_gap_max": 0.5},
    "truncation": lambda row, n: {"frac_truncated": 0.4},
    "wrong-length": lambda row, n: {"wrong_length_mean": row["wrong_length_mean"] + n},
    "repetition": lambda row, n: {"repetition_mean": min(0.9, 0.05 * n)},
    "dead-groups": lambda row, n: {
        "frac_degenerate_groups": 0.97,
        "correct_mean": 0.5,
        "frac_degenerate_expected": 0.01,
    },
    "no-signal": lambda row, n: {"status": "no signal", "grad_norm": 0.0},
    "reward-part": parts,
    "gradient-spikes": lambda row, n: {"grad_norm": row["grad_norm"] * (20 if n % 3 == 0 else 1)},
    "memory-growth": lambda row, n: {"peak_rss_mb": row["peak_rss_mb"] + 20.0 * n},
    "throughput-decay": slow,
}
"""Alarm -> what changes in the nth spoilt row."""


def test_ten_healthy_runs_three_of_several_updates_and_a_long_one_are_recorded() -> None:
    assert ["long-0", *SUMS] + [f"updates-{seed}" for seed in range(3)] == HEALTHY


@pytest.mark.parametrize("name", HEALTHY)
def test_no_alarm_on_a_healthy_run(name: str) -> None:
    rows = recorded(name)
    assert len(steps_of(rows)) == (300 if name == "long-0" else 80)
    assert rows[-1]["eval"]["reward"] > 0.8
    assert findings(rows) == []


def test_no_alarm_on_the_run_of_a_language_model_in_the_docs() -> None:
    lines = (ROOT / "docs" / "follow_instructions.jsonl").read_text().splitlines()
    assert len(lines) > 20 and findings(map(json.loads, lines)) == []


@pytest.mark.parametrize("name", SUMS[::3])
@pytest.mark.parametrize("alarm", FAULTS)
def test_an_alarm_speaks_of_its_fault_in_time_and_no_sooner(alarm: str, name: str) -> None:
    rows = steps_of(recorded(name))
    peak = rows[-1]["peak_rss_mb"]
    rows += [row | {"step": row["step"] + 40, "peak_rss_mb": peak} for row in rows[-40:]]  # room for the slowest
    if alarm == "reward-part":
        rows = [with_parts(row) for row in rows]
        assert findings(rows) == []
    found = [finding for finding in findings(spoilt(rows, START, FAULTS[alarm])) if finding.alarm == alarm]
    assert found, "the alarm is silent"
    first = rows[START]["step"]
    assert first <= found[0].step <= first + ALARMS[alarm].within
    assert found[0].since >= (
        first if alarm not in ("reward-part", "entropy-collapse", "memory-growth") else rows[0]["step"]
    )
    assert found[0].since <= found[0].step
    assert all(len(text) > 20 for text in (found[0].seen, found[0].why, found[0].advice))


@pytest.mark.parametrize("name", SUMS[::3])
def test_a_learning_rate_that_does_nothing_is_said_after_96_steps(name: str) -> None:
    """The first steps of a run, over and over: what they show varies as it did, and goes nowhere."""
    rows = steps_of(recorded(name))[:12]
    idle = [row | {"step": step} for step, row in enumerate(rows * 10)]
    (finding,) = [finding for finding in findings(idle) if finding.alarm == "idle-learning-rate"]
    assert finding.step == idle[0]["step"] + ALARMS["idle-learning-rate"].within - 1
    assert finding.since == idle[0]["step"]


def test_every_alarm_has_a_fault_to_be_tried_on() -> None:
    assert {*FAULTS, "idle-learning-rate"} == set(ALARMS)


def test_every_alarm_can_be_asked_on_runs_of_several_updates() -> None:
    watcher = Watcher()
    for row in recorded("updates-0"):
        watcher.see(row)
    assert watcher.checked == set(ALARMS)


def test_few_false_alarms_on_resampled_healthy_runs() -> None:
    found, runs = rates(4)
    assert runs == 4 * 13
    assert not found


@pytest.mark.slow
@pytest.mark.parametrize(("stretch", "each"), [(1, 100), (5, 20)])
def test_the_stated_rates_of_false_alarms(stretch: int, each: int) -> None:
    """As docs/alarms.md has them."""
    found, runs = rates(each, stretch)
    told = (ROOT / "docs" / "alarms.md").read_text()
    assert f"| {80 * stretch} | {runs:,} | {sum(found.values())} |" in told
