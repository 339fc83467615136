"""The engine that gives back recorded groups."""

from __future__ import annotations

from dataclasses import replace

import pytest

from groupwise.engines.contract import Request, SamplingParams
from groupwise.engines.replay import ReplayEngine, ReplayEngineSettings
from groupwise.engines.torch import TorchEngine
from groupwise.errors import DataError
from groupwise.telemetry import ledger
from groupwise.types import Completion, DrawKey, Group, Prompt, Score, Segment

PROMPTS = (Prompt("a", (3, 4, 5), "abc"), Prompt("b", (6, 7), "de"))


def request_of(id, prompt, visit, sample, stage=0, purpose="train"):
    key = DrawKey(0, purpose, stage, prompt.id, visit, sample)
    return Request(id, prompt.token_ids, SamplingParams(1.0, 6), key)


@pytest.fixture
def recorded(make_policy, tmp_path):
    """A run folder with two steps, and the requests that its completions answered."""
    engine = TorchEngine()
    answered = {}
    (tmp_path / "rollouts").mkdir()
    for step in (1, 2):
        engine.load(make_policy(), version=step - 1)
        groups = []
        for number, prompt in enumerate(PROMPTS):
            engine.submit([request_of(sample, prompt, step - 1, sample) for sample in range(3)])
            completions = tuple(completion for _, completion in sorted(engine.collect()))
            answered |= {(number, step - 1, sample): own for sample, own in enumerate(completions)}
            groups.append(Group(f"{prompt.id}#{step - 1}", prompt, completions, (Score(1.0),) * 3))
        texts = [["text"] * 3] * len(groups)
        ledger.write(ledger.file_of(tmp_path / "rollouts", step), step, "0-grpo", groups, texts, {}, {})
    return tmp_path, answered


@pytest.mark.parametrize("inner", [".", "rollouts"])
def test_recorded_completions_come_back_for_their_prompt_visit_and_sample(recorded, inner):
    folder, answered = recorded
    engine = ReplayEngineSettings(path=str(folder / inner)).build()
    engine.load(None, version=99)
    places = list(answered)[::-1]
    engine.submit([request_of(id, PROMPTS[place[0]], *place[1:]) for id, place in enumerate(places)])
    finished = dict(engine.collect())
    assert len(places) == 12 and engine.collect() == []
    for id, place in enumerate(places):
        assert replace(finished[id], key=None) == replace(answered[place], key=None)  # log-probs and version too


def test_what_was_not_recorded_is_refused(recorded):
    engine = ReplayEngine(recorded[0])
    other = Prompt("c", (3, 4, 6), "abd")
    for wrong in (request_of(0, other, 0, 0), request_of(0, PROMPTS[0], 2, 0), request_of(0, PROMPTS[0], 0, 3)):
        with pytest.raises(DataError, match=f"no completion recorded .*{wrong.key.prompt_id}.*; replay with"):
            engine.submit([wrong])


def write_step(folder, step, stage, tokens, log_probs):
    completion = Completion((Segment(tokens, log_probs),), "stop")
    group = Group("a#0", PROMPTS[0], (completion,), (Score(1.0),))
    ledger.write(ledger.file_of(folder, step), step, stage, [group], [["text"]], {}, {})


def replayed(folder, stage):
    engine = ReplayEngine(folder)
    engine.submit([request_of(0, PROMPTS[0], 0, 0, stage)])
    return engine.collect()[0][1].token_ids


def test_stages_that_sampled_are_kept_apart(tmp_path):
    write_step(tmp_path, 1, "0-grpo", (5, 2), (-1.0, -1.0))
    write_step(tmp_path, 2, "1-grpo", (6, 2), (-1.0, -1.0))
    assert replayed(tmp_path, stage=0) == (5, 2) and replayed(tmp_path, stage=1) == (6, 2)


def test_demonstrations_are_no_samples_and_the_only_stage_that_sampled_answers_any(tmp_path):
    write_step(tmp_path, 1, "0-sft", (9, 2), None)
    write_step(tmp_path, 2, "1-grpo", (6, 2), (-1.0, -1.0))
    assert replayed(tmp_path, stage=0) == replayed(tmp_path, stage=1) == (6, 2)


def test_evaluation_is_not_replayed(recorded):
    with pytest.raises(DataError, match=r"only has the completions of training.*; set evaluation.prompts = 0"):
        ReplayEngine(recorded[0]).submit([request_of(0, PROMPTS[0], 0, 0, purpose="eval")])


def test_a_folder_without_rollouts_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"no recorded rollouts in .*; give a run folder whose rollouts/ holds"):
        ReplayEngine(tmp_path)
