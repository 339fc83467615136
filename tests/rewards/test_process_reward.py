"""Rewards of steps: where a step ends, what the models and rules say there, and how they become one value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tiny_reward_models as tiny
import torch
import transformers as hf
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from groupwise.errors import ModelError, RewardError
from groupwise.rewards.contract import Record
from groupwise.rewards.learned.process import Process
from groupwise.rewards.learned.process_rule import ProcessRule
from groupwise.rewards.learned.steps import AGGREGATES, failed, scored, split
from groupwise.types import Score

TEXT = "S1: a.\nS2: b.\nS3: c."
REWARDS = (0.9, 0.2, 0.7)
WriteFile = Callable[[str], Path]


def in_tokens(*tokens: str) -> Record:
    """A completion sampled in these tokens, and a terminator."""
    text, ends, reached = "".join(tokens), [], 0
    for token in tokens:
        reached += len(token)
        ends.append(reached)
    ids = tuple(range(len(tokens) + 1))
    return Record("g", "p", "ask", None, {}, text, text, ids, "stop", (*ends, len(text)))


def r096_score(record: Record, **settings: Any) -> Score:
    return scored(record, split(record.text, "\n"), REWARDS, **({"aggregate": "min"} | settings))


@pytest.mark.parametrize(
    "tokens, ends",
    [
        (("S", "1: a", ".", "\n", "S2", ": b.", "\n", "S3: c", "."), (2, 5, 8)),
        (("S1", ": a", ".\nS", "2: b", ".\n", "S3", ": c."), (2, 4, 6)),
        (("S1: a.\n", "S2: b.\n", "S3: c."), (0, 1, 2)),
        (tuple(TEXT), (5, 12, 19)),
    ],
)
def test_R096_step_rewards_stand_on_the_last_token_of_each_step(tokens: tuple[str, ...], ends: tuple[int, ...]) -> None:
    score = r096_score(in_tokens(*tokens))
    assert (score.step_rewards, score.step_ends) == (REWARDS, ends)


def test_R096_aggregates_are_named() -> None:
    found = {name: r096_score(in_tokens(*TEXT), aggregate=name).value for name in AGGREGATES}
    wanted = {"min": 0.2, "product": 0.126, "last": 0.7, "sum": 1.8, "mean": 0.6}
    assert found == pytest.approx(wanted)


def test_R096_a_failed_scorer_gives_none_for_each_step() -> None:
    score = failed(in_tokens(*TEXT), split(TEXT, "\n"), "it broke")
    assert (score.value, score.step_rewards, score.step_ends) == (None, (None,) * 3, (5, 12, 19))


@pytest.mark.parametrize(
    "first, second, lower", [(0.9, 0.2, 0.2), (0.2, 0.9, 0.2), (None, 0.9, None), (0.9, None, None)]
)
def test_a_token_that_ends_two_steps_gets_the_lower_reward(
    first: float | None, second: float | None, lower: float | None
) -> None:
    """The value counts both."""
    record = in_tokens("S1: a.\nS2: b.", "\nS3: c.")
    score = scored(record, split(TEXT, "\n"), (first, second, 0.7), "sum")
    assert (score.step_rewards, score.step_ends) == ((lower, 0.7), (0, 1))
    assert score.value == pytest.approx((first or 0) + (second or 0) + 0.7)


def test_steps_without_reward_do_not_count_in_the_value() -> None:
    record = in_tokens(*TEXT)
    score = scored(record, split(TEXT, "\n"), (None, 0.5, 0.25), "product")
    assert (score.value, score.step_rewards) == (0.125, (None, 0.5, 0.25))
    nothing = scored(record, split(TEXT, "\n"), (None,) * 3, "min")
    assert (nothing.value, nothing.reason) == (None, ""), "none of them applies, which is no failure"


def test_where_no_steps_are_asked_for_there_is_a_value_alone() -> None:
    score = r096_score(replace(in_tokens(*TEXT), token_ends=None))
    assert (score.value, score.step_rewards, score.step_ends) == (0.2, None, None)


@given(st.text(alphabet="ab \n.", max_size=30), st.sampled_from(["\n", "\n\n", ". "]))
def test_steps_are_the_pieces_that_are_not_blank(text: str, separator: str) -> None:
    spans = split(text, separator)
    pieces = [piece.rstrip() for piece in text.split(separator) if piece.strip()]
    assert [text[start:end] for start, end in spans] == pieces
    assert all(first[1] <= second[0] for first, second in zip(spans, spans[1:], strict=False))


# Models


def chances(kind: str, folder: Path, ids: list[int], places: list[int]) -> list[float]:
    """What the model says at places of a row that is run alone, by the formulas in the module's docstring."""
    causal = kind == "causal"
    model = (hf.AutoModelForCausalLM if causal else hf.AutoModelForTokenClassification).from_pretrained(folder).eval()
    with torch.no_grad():
        logits = model(torch.tensor([ids])).logits[0, places].double()
    if causal:
        logits = logits[:, [tiny.VOCABULARY["-"], tiny.VOCABULARY["+"]]]
    good = logits[:, -1] - (logits[:, 0] if logits.shape[1] == 2 else 0)
    return (1 / (1 + (-good).exp())).tolist()


def prefix(chat: bool = True) -> list[int]:
    return list(tiny.tokenizer()("user: say it.<eos>\nassistant: " if chat else "say it.")["input_ids"])


@pytest.mark.parametrize("chat", [True, False])
@pytest.mark.parametrize("labels", [1, 2])
@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_a_token_classifier_is_read_at_the_end_of_each_step(kind: str, labels: int, chat: bool, tmp_path: Path) -> None:
    tiny.save(tiny.build(f"{kind} token", labels), tmp_path, tiny.tokenizer(side="left"))
    texts = ("s1: a.\ns2: b. \n\ns3: c.", "one step", "x\ny")
    found = Process(model=str(tmp_path)).build(Path()).score([tiny.record_of(text, chat=chat) for text in texts])
    for text, score, ends in zip(texts, found, ((5, 12, 21), (7,), (0, 2)), strict=True):
        before = prefix(chat)
        ids = [*before, *tiny.tokenizer()(text)["input_ids"]]
        wanted = chances("token", tmp_path, ids, [len(before) + end for end in ends])
        assert score.step_rewards == pytest.approx(wanted, abs=1e-5)
        assert score.step_ends == ends
        assert score.value == pytest.approx(min(wanted), abs=1e-5)
        assert score.correct is None


@pytest.mark.parametrize("chat", [True, False])
def test_a_model_that_was_trained_here_says_what_the_trained_critic_says(chat: bool, tmp_path: Path) -> None:
    says = tiny.exported("steps", tmp_path / "prm")
    record = tiny.record_of("s1: a.\ns2: b.", chat=chat)
    [score] = Process(model=str(tmp_path / "prm")).build(Path()).score([record])
    before = prefix(chat)
    logits = torch.tensor(says([*before, *record.token_ids]))[[len(before) + 5, len(before) + 12]]
    assert score.step_ends == (5, 12)
    assert score.step_rewards == pytest.approx(logits.sigmoid().tolist(), abs=1e-5)


def test_a_causal_model_is_read_at_its_mark(tmp_path: Path) -> None:
    tiny.save(tiny.build("llama causal"), tmp_path)
    settings = Process(model=str(tmp_path), mark=" =\n", good_token="+", bad_token="-", aggregate="product")
    texts = ("a.\nb.", "a longer one")
    found = settings.build(Path()).score([tiny.record_of(text, chat=False) for text in texts])
    shown = ("a. =\nb. =\n", "a longer one =\n")
    for text, score, places in zip(shown, found, ((3, 8), (13,)), strict=True):
        before = prefix(chat=False)
        ids = [*before, *tiny.tokenizer()(text)["input_ids"]]
        wanted = chances("causal", tmp_path, ids, [len(before) + place for place in places])
        assert score.step_rewards == pytest.approx(wanted, abs=1e-5)
        assert score.value == pytest.approx(torch.tensor(wanted).prod().item(), abs=1e-5)
    assert found[0].step_ends == (1, 4), "the mark is the model's alone: ends are those of the sampled tokens"


def test_a_mark_of_white_space_is_read_at_its_own_end(tmp_path: Path) -> None:
    tiny.save(tiny.build("llama token"), tmp_path)
    [score] = Process(model=str(tmp_path), mark="\n").build(Path()).score([tiny.record_of("a.\n\nb.", chat=False)])
    before = prefix(chat=False)
    wanted = chances("token", tmp_path, [*before, *tiny.tokenizer()("a.\nb.\n")["input_ids"]], [len(before) + 2, -1])
    assert score.step_rewards == pytest.approx(wanted, abs=1e-5)


def bpe_tokenizer() -> Any:
    """Bytes with a few merges, so that a token holds the end of one step and the start of the next, and a character
    takes several tokens."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = [(".", "Ċ"), (".Ċ", "b")]
    vocabulary = ["<eos>", *alphabet, *("".join(pair) for pair in merges)]
    model = models.BPE({token: number for number, token in enumerate(vocabulary)}, merges)
    backend = Tokenizer(model)
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens(["<eos>"])
    return hf.PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<eos>", pad_token="<eos>")


def test_a_models_own_tokens_are_aligned_by_characters(tmp_path: Path) -> None:
    own = bpe_tokenizer()
    torch.manual_seed(0)
    sizes = tiny.LLAMA | {"vocab_size": len(own), "pad_token_id": 0, "eos_token_id": 0}
    tiny.save(hf.LlamaForTokenClassification(hf.LlamaConfig(**sizes, num_labels=1)).eval(), tmp_path, own)
    text = "a.\nb\u20ac\nc"
    record = in_tokens(*text)
    ids = own("ask" + text)["input_ids"]
    assert own.convert_ids_to_tokens(ids) == ["a", "s", "k", "a", ".Ċb", "â", "Ĥ", "¬", "Ċ", "c"]
    [score] = Process(model=str(tmp_path)).build(Path()).score([record])
    assert score.step_rewards == pytest.approx(chances("token", tmp_path, ids, [4, 7, 9]), abs=1e-5)
    assert score.step_ends == (1, 4, 6)


def test_what_the_model_cannot_read_has_none_for_each_step(tmp_path: Path) -> None:
    tiny.save(tiny.build("llama token"), tmp_path)
    texts = ("a.\n" + "b" * 300, "a.\nb<eos>.\nc.", "\n \n", "", "a.\nb.")
    found = Process(model=str(tmp_path)).build(Path()).score([tiny.record_of(text) for text in texts])
    assert [score.value is None for score in found] == [True] * 4 + [False]
    assert [score.step_rewards for score in found[:4]] == [(None,) * 2, (None,) * 3, (), ()]
    assert "256 at most" in found[0].reason and "spells '<eos>'" in found[1].reason
    assert "has no step" in found[2].reason and "has no step" in found[3].reason


@pytest.mark.parametrize(
    "wrong",
    [{"good_token": "+"}, {"bad_token": "-", "mark": "="}, {"good_token": "+", "bad_token": "-"}, {"separator": ""}],
)
def test_settings_that_make_no_sense_together_are_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        Process(model="m", **wrong)  # type: ignore[arg-type]


def test_models_that_cannot_score_steps_are_refused(tmp_path: Path) -> None:
    three, causal = tmp_path / "three", tmp_path / "causal"
    tiny.save(tiny.build("llama token", labels=3), three)
    tiny.save(tiny.build("llama causal"), causal)
    with pytest.raises(ModelError, match="has 3 outputs for each token"):
        Process(model=str(three)).build(Path()).check([])
    with pytest.raises(ModelError, match="missing weights for AutoModelForTokenClassification"):
        Process(model=str(causal)).build(Path()).check([])
    with pytest.raises(ModelError, match="'good' is 4 tokens"):
        Process(model=str(causal), mark="=", good_token="good", bad_token="-").build(Path()).check([])


# Rules

RULES = """
    def given(step):
        return [0.9, 0.2, 0.7][step.index]

    def sums(step):
        if "=" not in step.text:
            return None
        left, _, right = step.text.partition("=")
        return sum(map(int, left.split("+"))) == int(right)

    def own(step):
        assert step.record.text.startswith(step.before + step.text)
        return float(len(step.before))

    def breaks(step):
        return 1 / (2 - step.index)

    def hangs(step):
        while step.index == 1:
            pass
        return 1.0

    def needs(step):
        return step.record.columns["gold"] in step.text
    needs.columns = ["gold"]
"""


@pytest.fixture
def rule(reward_file: WriteFile) -> Any:
    """Scores texts with one of the rules."""
    path = reward_file(RULES)
    built = []

    def make(function: str, **settings: Any) -> Any:
        built.append(ProcessRule(file=path.name, function=function, **settings).build(path.parent))
        return built[-1]

    yield make
    for one in built:
        one.close()


def test_R096_a_rule_judges_each_step(rule: Any) -> None:
    [score] = rule("given", aggregate="product").score([in_tokens(*TEXT)])
    assert (score.step_rewards, score.step_ends) == (REWARDS, (5, 12, 19))
    assert score.value == pytest.approx(0.126)
    assert score.reason == "product of the steps' 0.9, 0.2, 0.7"


def test_a_step_to_which_a_rule_does_not_apply_is_left_out(rule: Any) -> None:
    good, bad = rule("sums").score([in_tokens(*"so\n1+2=3"), in_tokens(*"1+1=3\n2+2=4")])
    assert (good.value, good.step_rewards) == (1.0, (None, 1.0))
    assert (bad.value, bad.step_rewards) == (0.0, (0.0, 1.0))


def test_a_rule_sees_what_stood_before_its_step_and_the_row(rule: Any) -> None:
    [score] = rule("own").score([in_tokens(*TEXT)])
    assert score.step_rewards == (0.0, 7.0, 14.0)
    reward = rule("needs")
    reward.check([{"gold": "c"}])
    [score] = reward.score([replace(in_tokens(*TEXT), columns={"gold": "c"})])
    assert score.step_rewards == (0.0, 0.0, 1.0)


def test_R096_a_rule_that_raises_or_hangs_gives_none_for_each_step(rule: Any) -> None:
    broken, fine = rule("breaks").score([in_tokens(*TEXT), in_tokens(*"a\nb")])
    assert (broken.value, broken.step_rewards) == (None, (None,) * 3)
    assert "step 3: breaks raised ZeroDivisionError" in broken.reason
    assert fine.step_rewards == (0.5, 1.0)
    [stuck, alone] = rule("hangs", cpu_seconds=0.3, workers=1).score([in_tokens(*TEXT), in_tokens(*"a")])
    assert (stuck.value, stuck.step_rewards, stuck.step_ends) == (None, (None,) * 3, (5, 12, 19))
    assert alone.value == 1.0


def test_a_rule_that_is_not_there_is_an_error_before_training(rule: Any) -> None:
    with pytest.raises(RewardError, match="no function 'absent'"):
        rule("absent").check([])
