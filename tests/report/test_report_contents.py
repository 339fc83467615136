"""What a page is made of: curves, groups and which of them, pass rates."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from report_runs import RUN, Wrote, add_step, make_run, metric_row, write_metrics

from groupwise.errors import RunFolderError
from groupwise.report import chosen, numbers
from groupwise.report.contents import page_data, sources_of
from groupwise.report.ledger_index import SHOWN, LedgerIndex
from groupwise.report.pass_rates import PROMPTS, STRETCHES, pass_rates

RIGHT, WRONG, HUNG = Wrote("right", 1.0, True), Wrote("wrong", 0.0, False), Wrote("hung", None, None)


def index_of(folder: Path) -> LedgerIndex:
    index = LedgerIndex(sources_of([folder])[0].folder)
    index.refresh()
    return index


def test_every_number_of_a_row_is_in_a_curve_of_its_own() -> None:
    rows = [
        {"step": 0, "stage": "s", "eval": {"reward": 0.5, "reward_interval": [0.25, 0.75], "seconds": 1.0}},
        metric_row(1, kl_k1=None),
        metric_row(2, tokens_sampled=0, kl_k1=0.5, reward_parts={}),
    ]
    curves = numbers.curves_of(rows)
    assert curves["eval.reward"] == ([0], [0.5])
    assert (curves["eval.reward_interval.low"][1], curves["eval.reward_interval.high"][1]) == ([0.25], [0.75])
    assert curves["reward_mean"] == ([1, 2], pytest.approx([0.1, 0.2]))
    assert curves["kl_k1"] == ([2], [0.5]) and curves["reward_parts.form"][0] == [1]
    assert curves["seconds.rollout"] == ([1, 2], [2.0, 2.0])
    assert curves["tokens_per_second.sampling"] == ([1], [20.0])
    assert curves["tokens_per_second.training"] == ([1, 2], [5.0, 5.0])
    assert not {"step", "stage", "status"} & set(curves) and "kl_k3" not in curves


def test_a_thinned_curve_keeps_its_extremes_and_its_order() -> None:
    draws = random.Random(0)
    steps, values = list(range(5001)), [draws.random() for _ in range(5001)]
    values[1234], values[4321] = 9.0, -9.0
    thin_steps, thin_values = numbers.thinned((steps, values), 200)
    assert len(thin_steps) <= 200 and thin_steps == sorted(set(thin_steps))
    assert {(1234, 9.0), (4321, -9.0)} <= set(zip(thin_steps, thin_values, strict=True))
    assert all(values[step] == value for step, value in zip(thin_steps, thin_values, strict=True))
    assert numbers.thinned((steps[:200], values[:200]), 200) == (steps[:200], values[:200])


def test_groups_are_found_by_how_they_ended(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    cut = Wrote("a long one that was cut", 0.0, False, finish="length")
    add_step(run, 1, {"mixed": [RIGHT, WRONG], "same": [WRONG, WRONG], "hung": [RIGHT, HUNG]})
    add_step(run, 2, {"cut": [cut, WRONG], "out": [RIGHT, RIGHT]}, dropped={"out": "all alike"})
    add_step(run, 2, {"test": [RIGHT, WRONG]}, folder="evaluations")
    index = index_of(tmp_path / "run")

    def found(show: str, source: str | None = "training") -> list[str]:
        return [entry.prompt_id for entry in index.find(show, source=source)]

    assert found("all") == ["mixed", "same", "hung", "cut", "out"]
    assert found("mixed") == ["mixed"] and found("not scored") == ["hung"]
    assert found("cut off") == ["cut"] and found("dropped") == ["out"]
    assert found("longest")[0] == "cut" and found("surprising") == ["mixed"]
    assert found("mixed", None) == ["mixed", "test"] and found("all", "evaluation") == ["test"]


def test_a_text_is_found_in_prompt_completion_and_reason_in_any_case(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    add_step(run, 1, {"a": [Wrote("Needle", 1.0), WRONG], "b": [Wrote("x", 0.0, reason="no NEEDLE"), WRONG]})
    add_step(run, 2, {"c": [RIGHT, WRONG], "needle-prompt": [RIGHT, RIGHT], "d.*": [RIGHT, RIGHT]})
    index = index_of(tmp_path / "run")
    assert [entry.prompt_id for entry in index.find(search="needle")] == ["a", "b", "needle-prompt"]
    assert [entry.prompt_id for entry in index.find("mixed", "needle")] == ["a"]
    assert [entry.prompt_id for entry in index.find(search="d.*")] == ["d.*"] and index.find(search="absent") == []


def test_surprise_is_being_unlike_the_siblings_times_being_improbable(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    odd = Wrote("odd", 1.0, True, log_prob=-4.0)
    likely = Wrote("likely", 1.0, True, log_prob=-0.5)
    plain = Wrote("plain", 0.0, False, log_prob=-2.0)
    add_step(run, 1, {"odd": [odd, plain, plain], "likely": [likely, plain, plain], "tied": [odd, odd]})
    surprises = {entry.prompt_id: entry.surprise for entry in index_of(tmp_path / "run").entries()}
    assert surprises == pytest.approx({"odd": 1.0 * 4.0, "likely": 0.5 * 2.0, "tied": 0.0})
    assert [entry.prompt_id for entry in index_of(tmp_path / "run").find("surprising")] == ["odd", "likely"]


def test_titles_leave_out_the_lines_that_all_prompts_of_a_step_begin_with(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    template = "<system>\nYou are careful.\n<user>\nName {}\nand more" + " words" * 100
    add_step(run, 1, {"a cat": [RIGHT, WRONG], "a car": [RIGHT, WRONG]}, prompt=template)
    add_step(run, 2, {"alone": [RIGHT, WRONG]}, prompt="One line {}")
    titles = [entry.title for entry in index_of(tmp_path / "run").entries()]
    assert titles[0].startswith("Name a cat and more words") and titles[0].endswith(" ...") and len(titles[0]) < 200
    assert titles[1].startswith("Name a car") and titles[2] == "One line alone"


def test_the_alarms_of_a_live_page_see_new_rows_and_start_again_where_the_run_went_back(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    collapsed = [metric_row(step, entropy=2.0 if step < 20 else 0.001) for step in range(1, 41)]
    write_metrics(run, collapsed[:10])
    (source,) = sources_of([run.path])

    def said() -> list[str]:
        return [one["alarm"] for one in source.contents()["alarms"]["findings"]]

    assert said() == []
    write_metrics(run, collapsed[10:])
    assert "entropy-collapse" in said() and said() == said()
    run.metrics.unlink()
    write_metrics(run, [metric_row(step, entropy=2.0) for step in range(1, 31)])
    assert "entropy-collapse" not in said()


def test_an_index_reads_what_changed_and_forgets_what_is_gone(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    add_step(run, 1, {"a": [RIGHT, WRONG]})
    add_step(run, 2, {"b": [RIGHT, WRONG]})
    index = index_of(tmp_path / "run")
    kept = index.entries()[1]
    (run.rollouts / "step-000001.parquet").unlink()
    add_step(run, 3, {"c": [RIGHT, RIGHT, WRONG]})
    index.refresh()
    assert [entry.prompt_id for entry in index.entries()] == ["b", "c"] and index.entries()[0] is kept
    add_step(run, 2, {"again": [WRONG] * 5})
    index.refresh()
    assert [entry.prompt_id for entry in index.entries()] == ["again", "c"]


def test_a_file_holds_some_of_each_kind_none_twice_within_its_bounds(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    for step in range(1, 41):
        rare = {"hung": [HUNG, WRONG]} if step == 17 else {"dull": [WRONG, WRONG]}
        add_step(run, step, {f"p{step}": [RIGHT, WRONG], **rare}, dropped={"dull": "alike"} if step == 23 else None)
    index = index_of(tmp_path / "run")
    groups = chosen.choose(index, groups=20)
    keys = [(group["step"], group["id"]) for group in groups]
    assert len(groups) == 20 and len(set(keys)) == 20 and [step for step, _ in keys] == sorted(step for step, _ in keys)
    assert {1, 17, 23, 40} <= {step for step, _ in keys}
    assert any(group["not_scored"] for group in groups) and any(not group["kept"] for group in groups)
    small = chosen.choose(index, size=4000)
    assert 1 <= len(small) < 20 and len(json.dumps(small)) < 5000
    assert len(chosen.choose(index, size=1)) == 1, "one group is there whatever its size"
    everything = chosen.choose(index, groups=1000)
    assert len(everything) == len(index.entries()) == 80


def test_a_group_in_a_file_is_cut_where_it_says_and_whole_when_served(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    long = Wrote("x" * (chosen.TOKENS + 7), 1.0, True)
    add_step(run, 1, {"a": [long, WRONG]}, prompt="y" * (chosen.CHARACTERS + 3))
    add_step(run, 2, {"b": [Wrote("z" * (chosen.CHARACTERS + 9), 1.0), WRONG]}, texts=False)
    index = index_of(tmp_path / "run")
    (first, second) = chosen.choose(index)
    assert (first["prompt_left_out"], len(first["prompt"])) == (3, chosen.CHARACTERS)
    cut = first["completions"][0]
    assert (len(cut["texts"]), cut["left_out"], cut["tokens"]) == (chosen.TOKENS, 7, chosen.TOKENS + 7)
    assert len(cut["log_probs"]) == len(cut["coefficients"]) == chosen.TOKENS and cut["coefficients"][0] == 1.0
    untinted = second["completions"][0]
    assert "texts" not in untinted and untinted["left_out"] == 9 and untinted["are_advantages"]
    whole = chosen.group_of(index.rows(index.entries()[0]), index.entries()[0])
    assert "".join(whole["completions"][0]["texts"]) == long.text and whole["completions"][0]["left_out"] == 0


def test_pass_rates_count_verdicts_by_prompt_and_stretch(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    add_step(run, 1, {"a": [RIGHT, WRONG, HUNG], "b": [WRONG, WRONG]})
    add_step(run, 4, {"a": [RIGHT, RIGHT]})
    rates = pass_rates(index_of(tmp_path / "run").entries())
    assert rates is not None and rates["verdicts"] and rates["spans"] == [[1, 1], [4, 4]]
    assert [(row["id"], row["cells"]) for row in rates["prompts"]] == [
        ("a", [[1.0, 2], [2.0, 2]]),
        ("b", [[0.0, 2], None]),
    ]


def test_pass_rates_of_shaped_rewards_are_between_the_lowest_and_the_highest(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    add_step(run, 1, {"a": [Wrote("x", -2.0), Wrote("y", 0.0)], "b": [Wrote("z", 2.0), HUNG]})
    rates = pass_rates(index_of(tmp_path / "run").entries())
    assert rates is not None and not rates["verdicts"]
    assert [row["cells"] for row in rates["prompts"]] == [[[0.5, 2]], [[1.0, 1]]]


def test_pass_rates_are_bounded_and_say_what_is_left_out(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    for step in range(1, STRETCHES + 6):
        often = {"often": [RIGHT, WRONG]}
        add_step(run, step, often | {f"once-{step}-{n}": [WRONG, WRONG] for n in range(2)})
    rates = pass_rates(index_of(tmp_path / "run").entries())
    assert rates is not None and len(rates["spans"]) == STRETCHES and len(rates["prompts"]) == PROMPTS
    assert rates["prompts"][0]["id"] == "often" and rates["left_out"] == 2 * (STRETCHES + 5) + 1 - PROMPTS
    assert rates["spans"][0][0] == 1 and rates["spans"][-1][1] == STRETCHES + 5
    assert sum(cell[1] for cell in rates["prompts"][0]["cells"]) == 2 * (STRETCHES + 5)
    assert pass_rates([]) is None


def test_a_page_tells_the_run_apart_and_says_what_the_alarms_say(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", RUN | {"steps": 40}, {"device": "cpu", "threads": 3})
    write_metrics(run, [metric_row(step, entropy=2.0 if step < 20 else 0.001) for step in range(1, 41)])
    (run.path / "objective.txt").write_text("J = Σ A log π", "utf-8")
    (told,) = page_data(sources_of([run.path]), live=False)["runs"]
    facts = dict(told["facts"])
    assert facts["model"] == "builtin:tiny-char" and facts["steps"] == "all 40" and facts["threads"] == "3"
    assert facts["stages"] == "grpo, 40 steps" and facts["sampled"] == "1,600 tokens" and facts["time"] == "4 min"
    assert told["objective"] == "J = Σ A log π" and told["stages"] == [("0-grpo", 1)] and told["groups"] == []
    collapse = next(one for one in told["alarms"]["findings"] if one["alarm"] == "entropy-collapse")
    assert 15 <= collapse["since"] <= 25 and collapse["advice"]
    assert [change["name"] for change in told["changes"]][0] == "training reward"


def test_runs_have_names_of_their_own(tmp_path: Path) -> None:
    for place in ("one/run", "two/run", "three"):
        (tmp_path / place).parent.mkdir(exist_ok=True)
        make_run(tmp_path / place)
    assert [source.name for source in sources_of([tmp_path / "one/run", tmp_path / "three"])] == ["run", "three"]
    names = [source.name for source in sources_of([tmp_path / "one/run", tmp_path / "two/run"])]
    assert names == [str(tmp_path / "one/run"), str(tmp_path / "two/run")]
    with pytest.raises(RunFolderError, match="given twice"):
        sources_of([tmp_path / "three", tmp_path / "three"])
    with pytest.raises(RunFolderError, match="holds no run"):
        sources_of([tmp_path])
    with pytest.raises(RunFolderError, match="9 runs are too many"):
        sources_of([tmp_path / "three"] * 9)


def test_the_choices_of_the_page_are_those_of_the_index() -> None:
    from groupwise.report.page import asset

    script = asset("groups.js")
    choices = script[script.index("const CHOICES") :]
    choices = choices[: choices.index("];")]
    assert [name for name in SHOWN if f'["{name}"' not in choices] == []
