"""Process supervision on real step labels: model solutions of GSM8K problems, from text to advantages per token."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from groupwise.algorithms import GRPO
from groupwise.errors import DataError
from groupwise.packing import pack
from groupwise.rewards.records import record_for
from groupwise.types import Batch, Completion, Group, Prompt, Score, Segment

ROWS = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "data" / "gsm8k_steps" / "rows.jsonl").read_text("utf-8").splitlines()
]


@dataclass(frozen=True)
class Solution:
    """A solution as text, with the end of each step in it and the step's label."""

    text: str
    ends: list[int]
    labels: list[float | None]
    outcome: bool


def label(step: dict[str, Any]) -> float | None:
    """1 where all arithmetic of the step is right, 0 where some is wrong; None where nothing says."""
    verdicts = [calculation["arithmetic_ok"] for calculation in step["calc"]]
    if False in verdicts:
        return 0.0
    return 1.0 if True in verdicts else None


def solution(row: dict[str, Any]) -> Solution:
    texts = [step["text"] + "\n" for step in row["steps"]]
    ends = np.cumsum([len(text) for text in texts]).tolist()
    return Solution("".join(texts), ends, [label(step) for step in row["steps"]], row["outcome"])


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    """A byte-level BPE of these texts: tokens of many characters, and none is unknown."""
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=600, special_tokens=["<end>"], initial_alphabet=alphabet, show_progress=False
    )
    backend.train_from_iterator([row["question"] + solution(row).text for row in ROWS], trainer)
    return PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<end>", clean_up_tokenization_spaces=False)


def scored(found: Solution, prompt: Prompt, tokenizer: PreTrainedTokenizerFast) -> tuple[Completion, Score]:
    """The solution as if it had been sampled, scored as a process reward does: by the record's token ends."""
    ids = (*tokenizer(found.text)["input_ids"], tokenizer.eos_token_id)
    completion = Completion((Segment(ids, (-1.0,) * len(ids)),), "stop")
    record = record_for(prompt, completion, tokenizer, [tokenizer.eos_token_id], "g", with_token_ends=True)
    assert record.text == found.text and record.token_ends is not None
    ends = [next(token for token, end in enumerate(record.token_ends) if end >= place) for place in found.ends]
    score = Score(float(found.outcome), found.outcome, step_rewards=tuple(found.labels), step_ends=tuple(ends))
    return completion, score


def groups_of(tokenizer: PreTrainedTokenizerFast) -> list[tuple[Group, list[Solution]]]:
    by_question = defaultdict(list)
    for row in ROWS:
        by_question[row["question"]].append(solution(row))
    groups = []
    for number, (question, solutions) in enumerate(by_question.items()):
        prompt = Prompt(f"q{number}", tuple(tokenizer(question)["input_ids"]), question)
        completions, scores = zip(*(scored(found, prompt, tokenizer) for found in solutions), strict=True)
        groups.append((Group(f"q{number}#0", prompt, completions, scores), solutions))
    return groups


def expected(solutions: list[Solution], tokenizer: PreTrainedTokenizerFast) -> list[np.ndarray]:
    """The equation over again, in characters: a token has the rewards of all steps that end after it starts."""
    rewards = np.array([reward for found in solutions for reward in found.labels if reward is not None])
    divisor = np.sqrt(rewards.var() + 1e-8)
    tied = rewards.max() == rewards.min()
    advantages = []
    for found in solutions:
        starts = [start for start, _ in tokenizer(found.text, return_offsets_mapping=True)["offset_mapping"]]
        steps = [(end, reward) for end, reward in zip(found.ends, found.labels, strict=True) if reward is not None]
        of_tokens = [
            sum((reward - rewards.mean()) / divisor for end, reward in steps if end > start) for start in starts
        ]
        advantages.append(np.array([*of_tokens, 0.0]) * (not tied))
    return advantages


def test_R096_real_step_labels_reach_the_tokens_of_their_steps(tokenizer: PreTrainedTokenizerFast) -> None:
    groups = groups_of(tokenizer)
    batch: Batch = pack([group for group, _ in groups], temperature=1.0)
    credited = GRPO(beta=0.0, supervision="process").credit(batch)
    assert credited.advantages is not None
    wanted = [advantages for _, solutions in groups for advantages in expected(solutions, tokenizer)]
    assert len(wanted) == len(batch.completion_spans) == 48
    for (start, end), advantages in zip(batch.completion_spans, wanted, strict=True):
        np.testing.assert_allclose(credited.advantages[start:end].numpy(), advantages, rtol=2e-6, atol=2e-6)
    assert sum(bool(np.any(advantages != 0)) for advantages in wanted) > 40


def test_R096_steps_without_a_label_are_neither_right_nor_wrong(tokenizer: PreTrainedTokenizerFast) -> None:
    group, solutions = groups_of(tokenizer)[0]
    first = next(number for number, found in enumerate(solutions) if None in found.labels and 1.0 in found.labels)
    completion, score = scored(solutions[first], group.prompt, tokenizer)
    unlabelled = [
        end for end, reward in zip(score.step_ends or (), score.step_rewards or (), strict=True) if reward is None
    ]
    labelled = [
        end for end, reward in zip(score.step_ends or (), score.step_rewards or (), strict=True) if reward is not None
    ]
    assert unlabelled and labelled
    bare = Score(score.value, score.correct, step_rewards=tuple(r for r in solutions[first].labels if r is not None),
                 step_ends=tuple(labelled))  # fmt: skip
    algorithm = GRPO(beta=0.0, supervision="process")
    rest = [pair for number, pair in enumerate(zip(group.completions, group.scores, strict=True)) if number != first]
    results = []
    for own in (score, bare):
        completions, scores = zip((completion, own), *rest, strict=True)
        batch = pack([Group(group.id, group.prompt, completions, scores)], temperature=1.0)
        results.append(algorithm.credit(batch).advantages)
    assert (results[0] == results[1]).all()


def test_a_reward_without_steps_is_an_error_unless_the_outcome_counts_as_one() -> None:
    prompt = Prompt("p", (1,), "p")
    completion = Completion((Segment((2, 3), (-0.1, -0.2)),), "stop")
    group = Group("p#0", prompt, (completion, completion), (Score(1.0), Score(0.0)))
    with pytest.raises(DataError, match="needs rewards of steps, and the reward gives none"):
        GRPO(supervision="process", beta=0).credit(pack([group], temperature=1.0))
    credited = GRPO(supervision="process", beta=0, outcome_as_step=True).credit(pack([group], temperature=1.0))
    assert credited.loss_mask.sum() == 4
