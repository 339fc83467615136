"""An evaluation end to end on the smallest model: its draws, what it records, how it goes on, what it refuses."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest

from groupwise.errors import DataError, RunFileError, RunFolderError
from groupwise.evaluating import running
from groupwise.evaluating.results import Results, compare, over_seeds, read_results
from groupwise.evaluating.running import Wanted, evaluate
from groupwise.evaluating.target import Target, find_target
from groupwise.sources.live import Sampler
from groupwise.tasks.sums import Sums

WANTED = Wanted(samples=4)


def silent(line: str) -> None:
    """Nobody listens."""


def target_of(source: Path | str, **changes: Any) -> Target:
    return find_target(str(source), **{"task": None, "step": "last", "overrides": (), "say": silent, **changes})


def rows(folder: Path) -> dict[tuple[str, int], dict[str, Any]]:
    """Recorded completions by prompt and sample."""
    found = [row for path in sorted(folder.glob("step-*.parquet")) for row in parquet.read_table(path).to_pylist()]
    assert len({(row["prompt_id"], row["sample"]) for row in found}) == len(found)
    return {(row["prompt_id"], row["sample"]): row for row in found}


@pytest.fixture(scope="module")
def whole(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Results, Path]:
    """An evaluation of the last checkpoint, in one piece."""
    return evaluate(target_of(trained), WANTED, tmp_path_factory.mktemp("whole") / "eval", silent)


def test_the_samples_are_those_that_the_run_itself_evaluated(trained: Path, whole: tuple[Results, Path]) -> None:
    results, folder = whole
    drawn, known = rows(folder / "samples"), rows_of_step(trained, 16)
    assert drawn.keys() == known.keys() and len(drawn) == 24 * 4
    assert all(drawn[key]["token_ids"] == known[key]["token_ids"] for key in known)
    last = [json.loads(line) for line in (trained / "metrics.jsonl").read_text().splitlines()][-1]["eval"]
    assert results.measures["avg@4"].value == pytest.approx(last["correct"])
    assert 0.1 < last["correct"] < 0.95


def rows_of_step(run: Path, step: int) -> dict[tuple[str, int], dict[str, Any]]:
    found = parquet.read_table(run / "evaluations" / f"step-{step:06d}.parquet").to_pylist()
    return {(row["prompt_id"], row["sample"]): row for row in found}


def test_measures_are_those_of_the_recorded_verdicts(whole: tuple[Results, Path]) -> None:
    results, folder = whole
    by_prompt: dict[str, list[bool]] = {}
    for row in rows(folder / "samples").values():
        by_prompt.setdefault(row["prompt_id"], []).append(row["correct"])
    count = len(by_prompt)
    measures = results.measures
    assert set(measures) == {"greedy", "avg@4", "pass@2", "pass@4", "maj@4"}
    assert measures["pass@4"].value == pytest.approx(sum(any(v) for v in by_prompt.values()) / count)
    pairs = [1 - (4 - sum(v)) * (3 - sum(v)) / 12 for v in by_prompt.values()]
    assert measures["pass@2"].value == pytest.approx(sum(pairs) / count)
    greedy = [row["correct"] for row in rows(folder / "greedy").values()]
    assert measures["greedy"].value == pytest.approx(sum(greedy) / count)
    for measure in measures.values():
        assert measure.interval is not None and measure.interval[0] <= measure.value <= measure.interval[1]


def test_majorities_are_those_of_the_answers(whole: tuple[Results, Path]) -> None:
    """With k = n it is the vote of all samples, ties split evenly."""
    results, folder = whole
    votes: dict[str, list[Any]] = {}
    for row in rows(folder / "samples").values():
        said = row["token_ids"][:-1] if row["finish_reason"] == "stop" else row["token_ids"]
        votes.setdefault(row["prompt_id"], []).append("right" if row["correct"] else tuple(said))
    for prompt, given in votes.items():
        answers = [vote for vote in given if vote]
        leaders = {vote for vote in answers if answers.count(vote) == max(map(answers.count, answers))}
        assert results.by_prompt["maj@4"][prompt] == pytest.approx(("right" in leaders) / max(1, len(leaders)))
    assert 0 < sum(results.by_prompt["maj@4"].values()) < len(votes)


def test_neither_order_nor_batch_changes_a_draw(
    trained: Path, whole: tuple[Results, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = Sums.rows
    monkeypatch.setattr(Sums, "rows", lambda self, split, seed: plain(self, split, seed)[:24][::-1])
    monkeypatch.setattr(running, "CHUNK", 12)
    results, folder = evaluate(target_of(trained), WANTED, tmp_path / "eval", silent)
    one, other = rows(folder / "samples"), rows(whole[1] / "samples")
    assert {key: row["token_ids"] for key, row in one.items()} == {key: row["token_ids"] for key, row in other.items()}
    assert results.by_prompt == whole[0].by_prompt
    assert results.measures == whole[0].measures


def test_a_stopped_evaluation_goes_on_and_ends_as_an_uninterrupted_one(
    trained: Path, whole: tuple[Results, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "CHUNK", 16)
    gather, calls = Sampler.gather, []

    def stopping(self: Sampler, prompts: Sequence[Any]) -> Any:
        calls.append(len(prompts))
        if len(calls) == 4:
            raise KeyboardInterrupt
        return gather(self, prompts)

    monkeypatch.setattr(Sampler, "gather", stopping)
    out = tmp_path / "eval"
    with pytest.raises(KeyboardInterrupt):
        evaluate(target_of(trained), WANTED, out, silent)
    assert not (out / "results.json").exists()
    (out / "samples" / ".step-000002.parquet.new").write_bytes(b"half a file")
    lines: list[str] = []
    results, _ = evaluate(target_of(trained), WANTED, out, lines.append)
    assert sum(calls) == 24 + 24 + 4  # each prompt once for either kind, and the four of the stopped chunk again
    assert any("going on, 4 of 24 prompts" in line for line in lines)
    assert results.to_json() == whole[0].to_json()


def test_a_finished_one_is_read_without_the_model(
    trained: Path, whole: tuple[Results, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def load_model(*_: Any, **__: Any) -> None:
        raise AssertionError("the model was loaded")

    monkeypatch.setattr(running, "load_model", load_model)
    again, _ = evaluate(target_of(trained), WANTED, whole[1], silent)
    assert again == whole[0] == read_results(whole[1])
    fewer, _ = evaluate(target_of(trained), Wanted(samples=4, prompts=10), whole[1], silent)
    assert len(fewer.prompts) == 10
    evaluate(target_of(trained), WANTED, whole[1], silent)


def test_two_checkpoints_are_paired_by_prompt(trained: Path, whole: tuple[Results, Path], tmp_path: Path) -> None:
    early, _ = evaluate(target_of(trained, step="8"), WANTED, tmp_path / "early", silent)
    assert early.label.endswith("step 8")
    pairs = compare(early, whole[0])
    gain = pairs["avg@4"]
    assert gain.prompts == 24
    assert gain.difference == pytest.approx(whole[0].measures["avg@4"].value - early.measures["avg@4"].value)
    assert gain.difference > 0 and gain.p is not None and gain.p < 0.05
    same = compare(whole[0], whole[0])["pass@4"]
    assert (same.difference, same.p) == (0.0, 1.0)


def test_other_prompts_are_named(trained: Path, whole: tuple[Results, Path], tmp_path: Path) -> None:
    fewer, _ = evaluate(target_of(trained), Wanted(samples=0, prompts=23), tmp_path / "fewer", silent)
    with pytest.raises(DataError, match=r"not asked the same: 1 of 24 prompts differ, '\d\+\d' for one; evaluate"):
        compare(fewer, whole[0])
    other, _ = evaluate(target_of(trained), Wanted(samples=2, greedy=False), tmp_path / "other", silent)
    sampled = Results(**{**whole[0].__dict__, "by_prompt": {"avg@4": whole[0].by_prompt["avg@4"]}})
    with pytest.raises(DataError, match=r"no measure in common \(avg@2, pass@2; avg@4\)"):
        compare(other, sampled)


def test_another_evaluation_is_not_mixed_in(trained: Path, whole: tuple[Results, Path], tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="holds another evaluation: samples is 4 there and 2 here; give another"):
        evaluate(target_of(trained), Wanted(samples=2), whole[1], silent)
    with pytest.raises(RunFolderError, match="holds another evaluation: weights is"):
        evaluate(target_of(trained, step="8"), WANTED, whole[1], silent)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    with pytest.raises(RunFolderError, match="holds something that is no evaluation"):
        evaluate(target_of(trained), WANTED, tmp_path / "mine", silent)


def test_changed_data_are_noticed(trained: Path, whole: tuple[Results, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Sums.rows
    monkeypatch.setattr(
        Sums, "rows", lambda self, split, seed: [{**row, "answer": "1"} for row in plain(self, split, seed)]
    )
    with pytest.raises(DataError, match="prompt '.*' is not the one that .* holds an answer to"):
        evaluate(target_of(trained), WANTED, whole[1], silent)


def test_a_model_is_asked_another_runs_questions(trained: Path, tmp_path: Path) -> None:
    exported = target_of("builtin:tiny-char", task=str(trained))
    assert (exported.run.model.name, exported.weights, exported.run.seed) == ("builtin:tiny-char", None, 0)
    results, _ = evaluate(exported, Wanted(samples=0), tmp_path / "start", silent)
    assert results.measures["greedy"].value < 0.1
    by_name = target_of("builtin:tiny-char", task="sums", overrides=("task.digits=2", "seed=3"))
    assert isinstance(by_name.stage.task, Sums) and by_name.stage.task.digits == 2 and by_name.run.seed == 3


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        ({"samples": 4, "ks": (1, 8)}, "--pass-at 8 can't be had from 4 samples per prompt; raise --samples to 8"),
        ({"samples": 4, "ks": (0,)}, "--pass-at 0 can't be had from 4 samples"),
        ({"samples": 0, "greedy": False}, "asks for nothing"),
        ({"samples": 8, "temperature": 0.0}, "at temperature 0 are all alike"),
        ({"samples": 5000}, "--samples 5000 is more than 1000"),
    ],
)
def test_what_contradicts_itself_is_refused(wanted: dict[str, Any], told: str) -> None:
    with pytest.raises(RunFileError, match=told):
        Wanted(**wanted)


def test_ks() -> None:
    assert Wanted(samples=8).all_ks == (2, 4, 8)
    assert Wanted(samples=12).all_ks == (2, 4, 8, 12)
    assert Wanted(samples=1).all_ks == (1,)
    assert Wanted(samples=0).all_ks == ()
    assert Wanted(samples=8, ks=(4, 1)).all_ks == (1, 4)


def test_the_interval_over_seeds_of_a_share_stays_inside(whole: tuple[Results, Path]) -> None:
    none = Results(**{**whole[0].__dict__, "by_prompt": {"greedy": dict.fromkeys(whole[0].prompts, 0.0)}})
    found = over_seeds([whole[0], none])
    assert set(found) == {"greedy"}  # the other measures are not those of both
    assert found["greedy"].mean == pytest.approx(whole[0].measures["greedy"].value / 2)
    assert found["greedy"].interval == (0.0, 1.0)
