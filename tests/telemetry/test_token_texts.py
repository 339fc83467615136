"""The text of each token: joined it is the completion, whatever the tokenizer."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from groupwise.models.loading import load_tokenizer
from groupwise.models.settings import ModelSettings
from groupwise.telemetry.token_texts import LONGEST_RUN, TokenTexts

TEXTS = ["日本語 and naïve", "👩‍👩‍👧 ok, 中 x", "a  b\n\tc", "\u202e right to left ﷽", "é" * 5, ""]
CORPUS = ["the cat sat on the mat . it can ' t", "the dog , naïve", *TEXTS]


def byte_level() -> PreTrainedTokenizerFast:
    """256 bytes and a few merges: every character beyond ASCII is spread over tokens."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=280, initial_alphabet=alphabet))
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<end>")


def sentence_piece() -> PreTrainedTokenizerFast:
    """As Llama 2 has it: spaces are part of words, the first is taken away, unknown characters fall back to bytes."""
    vocabulary = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁the", "▁c", "at", "▁", "s", "t", ",", "▁ok"]
    tokenizer = Tokenizer(
        models.BPE({piece: place for place, piece in enumerate(vocabulary)}, [], unk_token="<unk>", byte_fallback=True)
    )
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>")


def built_in() -> PreTrainedTokenizerFast:
    return load_tokenizer(ModelSettings(name="builtin:smollm2-135m-instruct"))


KINDS = [byte_level, sentence_piece, built_in]


@pytest.mark.parametrize("make", KINDS)
def test_joined_they_are_the_completion_for_any_ids(make: Callable[[], PreTrainedTokenizerFast]) -> None:
    """Random ids too: most of them are no valid text."""
    tokenizer = make()
    texts, draw = TokenTexts(tokenizer.decode), random.Random(0)
    sequences = [tokenizer.encode(text, add_special_tokens=False) for text in TEXTS]
    sequences += [[draw.randrange(len(tokenizer)) for _ in range(draw.randrange(40))] for _ in range(150)]
    for ids in sequences:
        text = tokenizer.decode(ids)
        found = texts.of(ids, text)
        assert found is not None and len(found) == len(ids), ids
        assert "".join(found) == text


@pytest.mark.parametrize("make", KINDS[:2])
def test_a_character_stands_at_the_token_that_completes_it(make: Callable[[], PreTrainedTokenizerFast]) -> None:
    tokenizer = make()
    ids = [token for byte in "t中t".encode() for token in single_byte(tokenizer, byte)]
    assert TokenTexts(tokenizer.decode).of(ids, tokenizer.decode(ids)) == ["t", "", "", "中", "t"]


def single_byte(tokenizer: PreTrainedTokenizerFast, byte: int) -> list[int]:
    vocabulary = tokenizer.get_vocab()
    if "<0x41>" in vocabulary:
        return [vocabulary[f"<0x{byte:02X}>"]]
    return [vocabulary[byte_name(byte)]]


def byte_name(byte: int) -> str:
    """GPT-2's printable names of bytes: those that have none of their own follow from 256 on."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    return chr(byte) if byte in printable else chr(256 + [b for b in range(256) if b not in printable].index(byte))


def test_a_first_space_that_the_tokenizer_takes_away_is_not_in_the_texts() -> None:
    tokenizer = sentence_piece()
    the, c, at = (tokenizer.get_vocab()[piece] for piece in ("▁the", "▁c", "at"))
    assert TokenTexts(tokenizer.decode).of([the, c, at, the], "the cat the") == ["the", " c", "at", " the"]


def test_a_long_run_of_broken_bytes_stands_at_its_last_token() -> None:
    tokenizer = byte_level()
    broken = single_byte(tokenizer, 0xE4) * (LONGEST_RUN + 1)
    text = tokenizer.decode(broken)
    assert TokenTexts(tokenizer.decode).of(broken, text) == [""] * LONGEST_RUN + [text]


def test_punctuation_that_is_drawn_to_the_word_before_it_is_cut_there() -> None:
    tokenizer = Tokenizer(models.WordPiece({"[UNK]": 0, "it": 1, ".": 2, "can": 3}, unk_token="[UNK]"))
    tokenizer.decoder = decoders.WordPiece(cleanup=True)
    assert TokenTexts(tokenizer.decode).of([1, 3, 2, 1], "it can. it") == ["it", " can", ".", " it"]


def test_text_that_cannot_be_cut_at_tokens_has_none() -> None:
    """A decoder whose text is in another order than the tokens."""

    def decode(ids: list[int]) -> str:
        return "".join(sorted(map(chr, ids)))

    assert TokenTexts(decode).of([98, 97], "ab") is None
    assert TokenTexts(decode).of([97, 98], "ab") == ["a", "b"]


def test_no_tokens_have_no_texts() -> None:
    assert TokenTexts(built_in().decode).of([], "") == []
