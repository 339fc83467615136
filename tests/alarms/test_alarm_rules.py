"""The rows of the list of known faults that alarms answer, and how findings begin, end and return."""

from __future__ import annotations

import json
import random
import re
from typing import Any

import pytest
from histories import ROOT, recorded, steps_of

from groupwise.alarms import ALARMS, Finding, History, Watcher, findings
from groupwise.alarms.settings import AlarmSettings
from groupwise.alarms.showing import lines_of


def made(metrics: list[dict[str, Any]], stage: str = "0-grpo") -> list[dict[str, Any]]:
    """Rows with these numbers, from step 1 on."""
    return [{"step": step, "stage": stage, "status": "updated"} | row for step, row in enumerate(metrics, 1)]


def names(found: list[Finding]) -> list[str]:
    return [finding.alarm for finding in found]


def test_R006_a_loss_of_nothing_is_no_fault_where_there_is_a_gradient() -> None:
    healthy = {"loss": -1e-9, "grad_norm": 1.5, "frac_degenerate_groups": 0.0, "reward_mean": 0.5, "correct_mean": 0.5}
    assert findings(made([healthy | {"frac_degenerate_expected": 0.125}] * 60)) == []


def test_R006_steps_without_gradient_are_a_fault_whatever_the_loss() -> None:
    dead = {"status": "no signal", "loss": 0.0, "grad_norm": 0.0, "frac_degenerate_groups": 1.0, "correct_mean": 1.0}
    (finding,) = findings(made([dead | {"reward_mean": 1.0, "frac_degenerate_expected": 1.0}] * 12))
    assert (finding.alarm, finding.since, finding.step) == ("no-signal", 1, 4)
    assert finding.seen == "4 of the last 4 steps had no gradient; 100% of completions are right"


def test_R053_the_part_that_explains_the_gain_is_named() -> None:
    rows = []
    for step in range(60):
        form, answer = 0.2 + 0.8 * step / 59, 0.3 - 0.28 * step / 59
        rows.append({"reward_mean": form + answer, "reward_parts": {"format": form, "accuracy": answer}})
    (finding,) = findings(made(rows))
    assert finding.alarm == "reward-part" and finding.step <= 60
    assert finding.seen.startswith("format gives ") and "accuracy 0.2" in finding.seen


def test_R053_a_reward_that_rises_by_its_accuracy_is_no_fault() -> None:
    draw = random.Random(0)
    rows = []
    for step in range(60):
        form, answer = 0.9 + draw.gauss(0, 0.02), 0.1 + 0.8 * step / 59 + draw.gauss(0, 0.03)
        rows.append({"reward_mean": form + answer, "reward_parts": {"format": form, "accuracy": answer}})
    assert findings(made(rows)) == []


def test_R053_a_penalty_that_is_avoided_is_no_part_that_falls() -> None:
    """A share that costs reward (weight -1) goes down while accuracy rises: both are meant."""
    draw = random.Random(0)
    rows = []
    for step in range(60):
        loops, answer = 0.6 - 0.5 * step / 59 + draw.gauss(0, 0.02), 0.1 + 0.8 * step / 59 + draw.gauss(0, 0.03)
        rows.append({"reward_mean": answer - loops, "reward_parts": {"loops": loops, "accuracy": answer}})
    assert findings(made(rows)) == []


def test_R097_entropy_that_collapses_or_explodes_is_said_within_80_steps() -> None:
    falling = made([{"entropy": 0.6 * 0.95**step, "reward_mean": 0.5} for step in range(80)])
    rising = made([{"entropy": 0.6 + 2.4 * step / 79, "reward_mean": 0.5} for step in range(80)])
    assert names(findings(falling)) == ["entropy-collapse"]
    assert names(findings(rising)) == ["entropy-explosion"]


@pytest.mark.parametrize("seed", range(20))
def test_R097_noise_is_neither(seed: int) -> None:
    draw = random.Random(seed)
    assert findings(made([{"entropy": draw.gauss(0.6, 0.1), "reward_mean": 0.5} for _ in range(300)])) == []


def test_entropy_may_go_where_the_task_is_solved() -> None:
    rows = [{"entropy": 0.6 * 0.95**step, "reward_mean": 1.0, "correct_mean": 0.97} for step in range(80)]
    assert findings(made(rows)) == []


def test_wrong_answers_may_grow_with_right_ones() -> None:
    def row(step: int, right: float) -> dict[str, Any]:
        return {"wrong_length_mean": 100.0 + 3 * step + step % 3, "correct_length_mean": right + step % 2}

    assert findings(made([row(step, 90.0 + 3 * step) for step in range(60)])) == []
    (finding,) = findings(made([row(step, 90.0) for step in range(60)]))
    assert finding.alarm == "wrong-length"


def test_tied_groups_are_measured_against_the_pass_rate() -> None:
    """At a pass rate of 97 % with groups of eight, 78 % tied is what chance gives; at 50 % it is a fault."""
    by_chance = 0.97**8 + 0.03**8
    assert findings(made([{"frac_degenerate_groups": 0.8, "frac_degenerate_expected": by_chance}] * 20)) == []
    (finding,) = findings(made([{"frac_degenerate_groups": 0.8, "frac_degenerate_expected": 2 * 0.5**8}] * 20))
    assert finding.seen == "80% of groups are tied, where the pass rate gives 1% (mean of 8 steps)"
    assert names(findings(made([{"frac_degenerate_groups": 0.95}] * 20))) == ["dead-groups"]


def test_the_gap_of_later_updates_is_no_fault_of_the_sampler() -> None:
    """There the policy has moved; what the sampler did shows in the first update of a rollout."""
    later = {"sampler_gap_max": 4.0, "completion_length_mean": None}
    first = {"sampler_gap_max": 1e-5, "completion_length_mean": 12.0}
    assert findings(made([first, later, later, later] * 20)) == []
    assert names(findings(made([first | {"sampler_gap_max": 4.0}] * 20))) == ["sampler-gap"]


def test_memory_that_grows_ever_more_slowly_is_no_leak() -> None:
    assert findings(made([{"peak_rss_mb": 1000 + 800 * (1 - 0.97**step)} for step in range(300)])) == []
    jumps = [{"peak_rss_mb": 1000.0 + 300 * (step // 40)} for step in range(120)]
    assert findings(made(jumps)) == []
    (leak,) = findings(made([{"peak_rss_mb": 1000.0 + 10 * step} for step in range(120)]))
    assert (leak.alarm, leak.since) == ("memory-growth", 8)
    assert leak.seen == "peak memory grows by 10 MiB a step: 1710 MiB, after 1070 at step 8"


def test_a_finding_is_said_once_and_again_only_if_it_returns() -> None:
    def share(step: int) -> float:
        return 0.6 if 20 <= step < 60 and step % 7 else 0.05 if step < 100 else 0.6

    rows = made([{"clip_fraction_low": share(step), "clip_fraction_high": 0.0} for step in range(1, 131)])
    watcher = Watcher()
    said = [(row["step"], finding.alarm) for row in rows for finding in watcher.see(row)]
    assert [name for _, name in said] == ["clip-share", "clip-share"]
    first, second = watcher.findings
    assert 20 <= first.since <= first.step <= 28 and first.until is not None and 55 <= first.until <= 66
    assert 100 <= second.since <= second.step <= 108 and second.until is None


def test_a_new_stage_is_a_new_history() -> None:
    """Entropy of the stage before is no start to compare with; what held there is over."""
    first = made([{"status": "no signal", "entropy": 3.0, "reward_mean": 0.1}] * 20)
    second = [
        {"step": 20 + step, "stage": "1-grpo", "status": "updated", "entropy": 0.3, "reward_mean": 0.1}
        for step in range(1, 31)
    ]
    (finding,) = findings(first + second)
    assert (finding.alarm, finding.stage, finding.until) == ("no-signal", "0-grpo", 20)


def test_numbers_that_are_missing_or_not_finite_are_left_out() -> None:
    history = History.of(made([{"entropy": 1.0}, {"entropy": None}, {"entropy": float("nan")}, {"entropy": 3.0}]))
    assert history["entropy"].values == [1.0, 3.0] and history["entropy"].steps == [1, 4]
    assert history["entropy"].mean(2) == 2.0 and history["entropy"].mean(3) is None
    assert not history.knows("kl_k3") and len(history["kl_k3"]) == 0
    assert findings([]) == []


def test_what_is_advised_are_settings_that_there_are() -> None:
    listed = (ROOT / "tests" / "settings.txt").read_text().splitlines()
    known = {re.sub(r"\[.*?\]", "", line) for line in listed} | {"algorithm.name"}
    for alarm in ALARMS.values():
        quoted = set(re.findall(r"`([a-z_]+\.[a-z_]+)(?: = [^`]+)?`", alarm.advice))
        assert quoted and quoted <= known, alarm.name


@pytest.mark.parametrize("width", [80, 40])
def test_what_is_shown_fits_and_leaves_nothing_out(width: int) -> None:
    rows = steps_of(recorded("sums-0"))
    spoilt = [row | {"status": "no signal", "frac_truncated": 0.9} for row in rows]
    watcher = Watcher()
    for row in spoilt:
        watcher.see(row)
    lines = list(lines_of(watcher.findings, watcher.checked, len(rows), width))
    assert max(map(len, lines)) <= width
    text = re.sub(r"\s+", " ", " ".join(lines))
    assert lines[0] == "Serious" and "Warnings" in lines
    for finding in watcher.findings:
        assert finding.seen in text and finding.why in text and finding.advice in text
    assert "Not looked at, for lack of numbers: kl-blow-up (kl_k3)" in text


def test_all_is_well_is_said_with_what_was_looked_at() -> None:
    text = " ".join(lines_of([], {"truncation", "no-signal"}, 40))
    assert text.startswith("All is well: in 40 steps none of 2 alarms found anything.")
    assert "Looked at: truncation, no-signal" in text and "too few" not in text
    assert "too few" in " ".join(lines_of([], {"truncation"}, 9))


def test_a_finding_is_json() -> None:
    (finding,) = findings(made([{"status": "no signal"}] * 8))
    told = json.loads(json.dumps(finding.to_json()))
    assert Finding(**told) == finding
    assert set(told) == {"alarm", "severity", "stage", "step", "since", "seen", "why", "advice", "until"}


def test_names_of_alarms_in_a_run_file_are_checked() -> None:
    assert AlarmSettings(stop=("entropy-collapse",)).stop == ("entropy-collapse",)
    with pytest.raises(ValueError, match="there is no alarm 'entropy_colapse'; did you mean entropy-collapse?"):
        AlarmSettings(stop=("entropy_colapse",))
    with pytest.raises(ValueError, match="alarms.stop has no effect with alarms.on = false"):
        AlarmSettings(on=False, stop=("truncation",))


def test_every_alarm_is_in_the_docs_with_its_promise() -> None:
    page = (ROOT / "docs" / "alarms.md").read_text()
    for alarm in ALARMS.values():
        assert re.search(rf"^\| `{alarm.name}` \| {alarm.severity} \| .* \| {alarm.within} \|$", page, re.MULTILINE)
