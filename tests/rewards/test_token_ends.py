"""Where in a completion's text each of its tokens ends."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from groupwise.rewards.records import record_for, token_ends
from groupwise.types import Completion, Prompt, Segment

SENTENCE = "S1: a.\nS2: b.\nS3: c."


def byte_level(vocabulary: int) -> PreTrainedTokenizerFast:
    """Byte-level BPE: characters beyond ASCII take several tokens where the vocabulary is small."""
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=["<end>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator([SENTENCE, "héllo wörld \N{GRINNING FACE} the the the cat"], trainer)
    return PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<end>", clean_up_tokenization_spaces=False)


def metaspace() -> PreTrainedTokenizerFast:
    """Tokens that carry the space before them, of which the decoder drops the first."""
    words = ["<unk>", "<end>", "\u2581a", "\u2581cat", "b", "s", "\u2581"]
    backend = Tokenizer(models.BPE({word: number for number, word in enumerate(words)}, [], unk_token="<unk>"))
    backend.decoder = decoders.Metaspace()
    return PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<end>", clean_up_tokenization_spaces=False)


TINY, LARGER, SPACES = byte_level(260), byte_level(330), metaspace()


def decode(tokenizer: PreTrainedTokenizerFast, ids: list[int]) -> str:
    return tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)


@pytest.mark.parametrize("tokenizer", [TINY, LARGER])
@settings(max_examples=60)
@given(text=st.text(alphabet="ab .é\N{GRINNING FACE}\nthe", max_size=25))
def test_a_token_ends_where_the_text_of_all_up_to_it_is_complete(tokenizer, text):
    ids = tokenizer(text)["input_ids"]
    assert decode(tokenizer, ids) == text
    wanted = [len(decode(tokenizer, ids[: count + 1]).rstrip("\N{REPLACEMENT CHARACTER}")) for count in range(len(ids))]
    assert token_ends(ids, text, tokenizer) == wanted


@settings(max_examples=60)
@given(ids=st.lists(st.integers(2, 6), max_size=12))
def test_spaces_that_only_the_first_token_loses_are_counted_once(ids):
    text = decode(SPACES, ids)
    assert token_ends(ids, text, SPACES) == [len(decode(SPACES, ids[: count + 1])) for count in range(len(ids))]


def test_half_a_character_at_the_end_belongs_to_the_last_token():
    ids = TINY("a\N{GRINNING FACE}")["input_ids"][:-2]
    assert len(ids) == 3
    text = decode(TINY, ids)
    ends = token_ends(ids, text, TINY)
    assert ends[0] == ends[1] == 1 and ends[-1] == len(text)


def test_R096_steps_end_with_their_last_sampled_token():
    for tokenizer in (TINY, LARGER):
        ids = (*tokenizer(SENTENCE)["input_ids"], tokenizer.eos_token_id)
        completion = Completion((Segment(ids, (-1.0,) * len(ids)),), "stop")
        record = record_for(
            Prompt("p", (1,), ""), completion, tokenizer, [tokenizer.eos_token_id], "g", with_token_ends=True
        )
        assert record.token_ends is not None and len(record.token_ends) == len(ids)
        assert record.token_ends[-1] == record.token_ends[-2] == len(SENTENCE)
        for step in ("S1: a.", "S1: a.\nS2: b.", SENTENCE):
            last = next(token for token, end in enumerate(record.token_ends) if end >= len(step))
            assert len(decode(tokenizer, list(ids[:last]))) < len(step) <= len(decode(tokenizer, list(ids[: last + 1])))


def test_nobody_pays_for_token_ends_that_were_not_asked_for():
    completion = Completion((Segment((5, 6), (-1.0, -1.0)),), "stop")
    assert record_for(Prompt("p", (1,), ""), completion, TINY, [], "g").token_ends is None
