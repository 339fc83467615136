"""Written completions whose steps are labelled right or wrong, and which token each step ends with.

    {"prompt": "...", "steps": ["S1: a.", "S2: b."], "labels": [1, 0]}             steps stand on lines of their own
    {"prompt": "2+3+4=", "completion": "5+4=9", "step_ends": [3, 5], "labels": [1, 1]}

`step_ends` says of any other form how many characters of the completion are complete with each step, the separator
after it left out. A label is 1
(right), 0 (wrong), a chance between the two, or None or -100 for a step that nobody labelled. A step ends with the last
token that its text takes part in, found in the tokenizer's own account of which characters a token covers: nothing is
cut and tokenised again, and the token that ends the completion belongs to no step.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, TypeGuard

from groupwise.errors import DataError
from groupwise.tasks.chat import ChatSettings
from groupwise.tasks.contract import Row
from groupwise.tasks.rendering import PLAIN, demonstration_tokens

IGNORED = -100
"""The label that other trainers give to what must not count."""
SEPARATOR = "\n"
"""What stands between `steps`."""


def labelled_steps(
    row: Row, tokenizer: Any, chat: ChatSettings = PLAIN
) -> tuple[tuple[int, ...], tuple[float | None, ...], tuple[int, ...]]:
    """Token ids of the completion, its end token included; a label per step, None where there is none; and the index of
    each step's last token.

    Steps that end with one token become one, which has the lowest of their labels. Raises `DataError` for rows that
    don't fit, without any label, or with a step without a token.
    """
    text, ends = _completion(row)
    labels = _labels(row, len(ends))
    ids = demonstration_tokens({**row, "completion": text}, tokenizer, chat)
    if not tokenizer.is_fast:
        raise DataError("the tokenizer doesn't say which characters a token covers", fix="use a fast tokenizer")
    covered = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
    places: list[int] = []
    kept: list[float | None] = []
    for label, start, end in zip(labels, [0, *ends], ends, strict=False):
        own = [place for place, (begin, stop) in enumerate(covered) if begin < end and stop > start]
        if not own:
            raise _unfit(row, f"a step without a token, {text[start:end]!r}", "leave such steps out")
        if places and places[-1] == own[-1]:
            before = kept[-1]
            kept[-1] = label if before is None else before if label is None else min(before, label)
        else:
            places.append(own[-1])
            kept.append(label)
    return ids, tuple(kept), tuple(places)


def _completion(row: Row) -> tuple[str, list[int]]:
    """The text, and how many of its characters are complete with each step."""
    steps, ends = row.get("steps"), row.get("step_ends")
    if (steps is None) == (ends is None):
        there = "neither `steps` nor `step_ends`" if steps is None else "both `steps` and `step_ends`"
        raise _unfit(row, there, "give the texts of the steps, or a `completion` with `step_ends`")
    if steps is not None:
        if not _is_list(steps) or not steps or not all(isinstance(step, str) and step.strip() for step in steps):
            raise _unfit(row, "`steps` that are no list of texts", "write each step as text")
        if broken := next((step for step in steps if SEPARATOR in step.rstrip()), None):
            raise _unfit(row, f"the step {broken!r}, which has lines", "give a `completion` with `step_ends`")
        lines = [step.rstrip() for step in steps]
        ends = list(accumulate(len(line) + len(SEPARATOR) for line in lines))
        return SEPARATOR.join(lines), [end - len(SEPARATOR) for end in ends]
    text = row.get("completion")
    if not isinstance(text, str) or not _is_list(ends) or not ends or any(type(end) is not int for end in ends):
        raise _unfit(row, "no `completion` with whole `step_ends`", "give its text, and numbers of characters")
    if any(later <= earlier for earlier, later in zip([0, *ends], ends, strict=False)) or ends[-1] > len(text):
        told = f"`step_ends` {list(ends)} on a completion of {len(text)} characters"
        raise _unfit(row, told, "let them rise, from above 0 to the length of the completion at most")
    return text, list(ends)


def _labels(row: Row, count: int) -> list[float | None]:
    labels = row.get("labels")
    if not _is_list(labels) or len(labels) != count:
        many = "no `labels`" if not _is_list(labels) else f"{len(labels)} `labels` for {count} steps"
        raise _unfit(row, many, "give one label per step, None where there is none")
    read = [None if label is None or label == IGNORED else _label(row, label) for label in labels]
    if all(label is None for label in read):
        raise _unfit(row, "no step with a label", "leave such rows out")
    return read


def _label(row: Row, label: Any) -> float:
    if not isinstance(label, bool | int | float) or not 0 <= label <= 1:
        raise _unfit(row, f"the label {label!r}", "use 1 for right, 0 for wrong, None for a step without a label")
    return float(label)


def _is_list(value: Any) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _unfit(row: Row, told: str, fix: str) -> DataError:
    return DataError(f"row {row.get('id')!r} has {told}", fix=fix)
