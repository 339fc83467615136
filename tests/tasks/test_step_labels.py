"""Labels of steps, and the tokens that steps end with."""

from __future__ import annotations

from typing import Any

import pytest
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from groupwise.errors import DataError
from groupwise.models.tiny_char import tokenizer as characters
from groupwise.models.tiny_char import vocabulary
from groupwise.tasks.step_labels import labelled_steps

CHARACTERS = characters(vocabulary())
EOS = vocabulary()["<eos>"]


def words() -> PreTrainedTokenizerFast:
    """Tokens that don't respect lines: a full stop takes the line break after it along."""
    pieces = ["<eos>", "<unk>", "a", "b", "c", ".", ".\n", ": ", "s1", "s2", "s3"]
    backend = Tokenizer(models.WordLevel({piece: n for n, piece in enumerate(pieces)}, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(r"s\d|: |\.\n|[\s\S]"), "isolated")
    backend.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<eos>", unk_token="<unk>")


def row(**columns: Any) -> dict[str, Any]:
    return {"id": "r", "prompt": "x", **columns}


def test_R096_steps_end_with_the_last_token_of_their_text() -> None:
    steps = ["s1: a.", "s2: b.", "s3: c."]
    ids, labels, ends = labelled_steps(row(steps=steps, labels=[1, 0, None]), CHARACTERS)
    assert CHARACTERS.decode(list(ids)) == "s1: a.\ns2: b.\ns3: c.<eos>"
    assert labels == (1.0, 0.0, None) and ends == (5, 12, 19)
    tokenizer = words()
    ids, labels, ends = labelled_steps(row(steps=steps, labels=[1, 0, 1]), tokenizer)
    assert [tokenizer.convert_ids_to_tokens(ids[place]) for place in ends] == [".\n", ".\n", "."]
    assert ends == (3, 7, 11) and len(ids) == 13


def test_R096_ignored_labels_are_no_labels() -> None:
    _, labels, _ = labelled_steps(row(steps=["a", "b", "c", "d"], labels=[-100, None, True, 0.5]), CHARACTERS)
    assert labels == (None, None, 1.0, 0.5)


def test_other_forms_say_how_many_characters_a_step_takes() -> None:
    ids, labels, ends = labelled_steps(row(completion="5+4=9", step_ends=[3, 5], labels=[1, 0]), CHARACTERS)
    assert CHARACTERS.decode([ids[place] for place in ends]) == "49" and labels == (1.0, 0.0)
    assert ids[-1] == EOS and len(ids) == 6


def test_characters_that_the_tokenizer_does_not_know_move_nothing() -> None:
    _, _, ends = labelled_steps(row(steps=["Ä é", "b"], labels=[1, 1]), CHARACTERS)
    assert ends == (2, 4)


def test_white_space_at_the_end_of_a_step_belongs_to_none() -> None:
    ids, _, ends = labelled_steps(row(steps=["a. ", "b\n"], labels=[1, 1]), CHARACTERS)
    assert CHARACTERS.decode(list(ids)) == "a.\nb<eos>" and ends == (1, 3)


def test_steps_that_end_with_one_token_are_one_with_the_lowest_label() -> None:
    given = row(completion="a.\nb", labels=[1, 0, 1])
    _, labels, ends = labelled_steps({**given, "step_ends": [2, 3, 4]}, words())
    assert ends == (1, 2) and labels == (0.0, 1.0)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"labels": [1]}, "neither `steps` nor `step_ends`"),
        ({"steps": ["a"], "completion": "a", "step_ends": [1], "labels": [1]}, "both `steps` and `step_ends`"),
        ({"steps": "ab", "labels": [1, 1]}, "`steps` that are no list of texts"),
        ({"steps": ["a", " "], "labels": [1, 1]}, "`steps` that are no list of texts"),
        ({"steps": ["a\nb"], "labels": [1]}, r"the step 'a\\nb', which has lines"),
        ({"steps": ["a", "b"]}, "no `labels`"),
        ({"steps": ["a", "b"], "labels": [1]}, "1 `labels` for 2 steps"),
        ({"steps": ["a"], "labels": [-1]}, "the label -1; use 1 for right"),
        ({"steps": ["a"], "labels": ["+"]}, r"the label '\+'"),
        ({"steps": ["a"], "labels": [float("nan")]}, "the label nan"),
        ({"steps": ["a", "b"], "labels": [None, -100]}, "no step with a label"),
        ({"completion": "ab", "step_ends": [2, 1], "labels": [1, 1]}, r"`step_ends` \[2, 1\] on a completion of 2"),
        ({"completion": "ab", "step_ends": [3], "labels": [1]}, r"`step_ends` \[3\]"),
        ({"completion": "ab", "step_ends": [True], "labels": [1]}, "no `completion` with whole `step_ends`"),
        ({"step_ends": [1], "labels": [1]}, "no `completion` with whole `step_ends`"),
    ],
)
def test_rows_that_do_not_fit_are_named(columns: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=f"row 'r' has {message}"):
        labelled_steps(row(**columns), CHARACTERS)
