"""What of a completion reaches the rewards."""

from __future__ import annotations

import re

from tokenizers import Tokenizer
from tokenizers.decoders import Fuse
from tokenizers.models import WordLevel
from transformers import PreTrainedTokenizerFast

from groupwise.rewards.records import record_for
from groupwise.types import Completion, Prompt, Segment

WORDS = {"<unk>": 0, "</s>": 2, "a": 11, "b": 12, "<t>": 90, "</t>": 91}
PROMPT = Prompt("p7", (11,), "a", ({"role": "user", "content": "a"},), {"gold": "b"})


def tokenizer() -> PreTrainedTokenizerFast:
    words = Tokenizer(WordLevel(WORDS, unk_token="<unk>"))
    words.decoder = Fuse()
    return PreTrainedTokenizerFast(tokenizer_object=words, eos_token="</s>", additional_special_tokens=["<t>", "</t>"])


def completion(*ids: int, finish_reason="stop") -> Completion:
    return Completion((Segment(tuple(ids), tuple(-1.0 for _ in ids)),), finish_reason)


def test_R012_the_terminator_goes_and_other_special_tokens_stay():
    record = record_for(PROMPT, completion(90, 11, 91, 12, 2), tokenizer(), [2], "g")
    assert re.search(r"^<t>\s*a\s*</t>\s*b$", record.text)
    assert "</s>" not in record.text
    assert record.clean_text.split() == ["a", "b"] or record.clean_text == "ab"
    assert record.token_ids == (90, 11, 91, 12, 2) and record.finish_reason == "stop"


def test_R012_only_a_stop_token_at_the_very_end_is_the_terminator():
    tok = tokenizer()
    assert record_for(PROMPT, completion(11, 2, 12, finish_reason="length"), tok, [2], "g").text.count("</s>") == 1
    cut = record_for(PROMPT, completion(90, 11, finish_reason="length"), tok, [2], "g")
    assert cut.text.endswith("a") and cut.finish_reason == "length"
    assert record_for(PROMPT, completion(11, 91), tok, [2, 91], "g").text == "a"
    assert record_for(PROMPT, completion(11, 2, 2), tok, [2], "g").text.count("</s>") == 1
    assert record_for(PROMPT, completion(2), tok, [2], "g").text == ""


def test_the_prompt_and_all_columns_come_along():
    record = record_for(PROMPT, completion(12, 2), tokenizer(), [2], "g")
    assert (record.prompt_id, record.prompt, record.messages) == ("p7", "a", PROMPT.messages)
    assert record.columns == {"gold": "b"}
