"""Where groups come from: sampled and scored, or written by somebody else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from groupwise.engines.contract import Request, SamplingParams
from groupwise.models.tiny_char import tokenizer, vocabulary
from groupwise.sources.cursor import Cursor
from groupwise.sources.demonstrations import Demonstrations
from groupwise.sources.live import Live, Sampler
from groupwise.types import Completion, Group, Prompt, Score, Segment

TOKENS = vocabulary()
PROMPTS = [Prompt(f"p{n}", (TOKENS["a"], TOKENS[str(n)]), f"a{n}", columns={"gold": n}) for n in range(3)]


class Backwards:
    """An engine that answers the last request first, with the prompt's last token and the sample's index."""

    def submit(self, requests: Sequence[Request]) -> None:
        self.requests = list(requests)

    def collect(self) -> list[tuple[int, Completion]]:
        return [(request.id, self._answer(request)) for request in reversed(self.requests)]

    def _answer(self, request: Request) -> Completion:
        ids = (request.prefix[-1], TOKENS[str(request.key.sample)], TOKENS["<eos>"])
        return Completion((Segment(ids, (-1.0,) * 3),), "stop", request.key)


class Keeping:
    """A reward that keeps the records it gets, and scores each by its number."""

    name = "keeping"
    records: Sequence[Any] = ()

    def score(self, records: Sequence[Any]) -> list[Score]:
        self.records = records
        return [Score(float(number)) for number, _ in enumerate(records)]


def sampler(reward: Keeping, engine: Backwards) -> Sampler:
    return Sampler(
        engine=engine, reward=reward, tokenizer=tokenizer(TOKENS), stop_ids=(TOKENS["<eos>"],), seed=7, stage=1,
        purpose="train", group_size=2, sampling=SamplingParams(0.5, 9),
    )  # fmt: skip


def test_completions_and_scores_stand_with_their_prompt_in_sample_order() -> None:
    reward, engine = Keeping(), Backwards()
    gathered = sampler(reward, engine).gather([(PROMPTS[2], 0), (PROMPTS[0], 4)])
    first, second = gathered.groups
    assert (first.id, second.id) == ("p2#0", "p0#4")
    assert (first.prompt, second.prompt) == (PROMPTS[2], PROMPTS[0])
    for group, digit in ((first, "2"), (second, "0")):
        assert [completion.token_ids[:2] for completion in group.completions] == [
            (TOKENS[digit], TOKENS["0"]), (TOKENS[digit], TOKENS["1"]),
        ]  # fmt: skip
    assert [score.value for score in first.scores] == [0.0, 1.0]
    assert [score.value for score in second.scores] == [2.0, 3.0]
    assert gathered.tokens_sampled == 12
    assert set(gathered.seconds) == {"rollout", "reward"} and min(gathered.seconds.values()) >= 0


def test_draws_are_keyed_by_seed_purpose_stage_prompt_visit_and_sample() -> None:
    engine = Backwards()
    sampler(Keeping(), engine).gather([(PROMPTS[1], 3)])
    for sample, request in enumerate(engine.requests):
        key = request.key
        assert (key.seed, key.purpose, key.stage, key.prompt_id, key.visit, key.sample) == (
            7,
            "train",
            1,
            "p1",
            3,
            sample,
        )
        assert request.sampling == SamplingParams(0.5, 9)
        assert request.prefix == PROMPTS[1].token_ids


def test_R078_records_have_the_columns_and_both_texts() -> None:
    reward = Keeping()
    sampler(reward, Backwards()).gather([(PROMPTS[1], 0)])
    assert [record.group_id for record in reward.records] == ["p1#0", "p1#0"]
    assert [record.columns for record in reward.records] == [{"gold": 1}, {"gold": 1}]
    assert [record.text for record in reward.records] == ["10", "11"]
    assert reward.records[0].token_ids[-1] == TOKENS["<eos>"]


def test_the_live_source_walks_its_cursor_and_goes_on_after_a_restart() -> None:
    def live() -> Live:
        cursor = Cursor([prompt.id for prompt in PROMPTS], seed=0, stage=0, shuffle=True)
        return Live(PROMPTS, cursor, sampler(Keeping(), Backwards()))

    whole, broken, again = live(), live(), live()
    expected = [[group.id for group in whole.groups(2).groups] for _ in range(3)]
    assert [group.id for group in broken.groups(2).groups] == expected[0]
    again.restore(broken.state())
    assert [[group.id for group in again.groups(2).groups] for _ in range(2)] == expected[1:]
    assert sorted(sum(expected, [])) == sorted(f"p{n}#{visit}" for n in range(3) for visit in range(2))


def test_demonstrations_are_groups_of_one_that_nothing_scores() -> None:
    answers = [(TOKENS[str(n)], TOKENS["<eos>"]) for n in range(3)]

    def source() -> Demonstrations:
        written = [
            Group(prompt.id, prompt, (Completion((Segment(answer, None),), "stop"),), (None,))
            for prompt, answer in zip(PROMPTS, answers, strict=True)
        ]
        return Demonstrations(written, Cursor(["p0", "p1", "p2"], seed=0, stage=0, shuffle=False))

    first = source()
    gathered = first.groups(4)
    assert [group.id for group in gathered.groups] == ["p0#0", "p1#0", "p2#0", "p0#1"]
    for group, answer in zip(gathered.groups, [*answers, answers[0]], strict=True):
        (completion,) = group.completions
        assert completion.token_ids == answer and completion.finish_reason == "stop" and completion.key is None
        assert group.scores == (None,)
    assert gathered.tokens_sampled == 0
    assert [group.id for group in first.everything()] == ["p0#0", "p1#0", "p2#0"]
    again = source()
    again.restore(first.state())
    assert [group.id for group in again.groups(1).groups] == ["p1#1"]
