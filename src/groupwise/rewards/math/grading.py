"""A completion against a gold: the pure function that the workers run. It has no time limit of its own.

    grade_here("... so it is $\\boxed{\\frac{1}{2}}$", "0.5")       # Score(value=1.0, correct=True, reason=...)

`extraction` says which text is the answer, `reading` what it means, `comparing` whether it is the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

from groupwise.rewards.contract import Record
from groupwise.rewards.math.characters import tidy
from groupwise.rewards.math.comparing import Comparison
from groupwise.rewards.math.extraction import MATHS, Found, find, find_announced, find_box, find_last
from groupwise.rewards.math.policy import Policy
from groupwise.rewards.math.reading import Reading, is_plain_decimal, read
from groupwise.rewards.math.tree import Node, has
from groupwise.rewards.math.words import begins_as_prose, points_elsewhere, prose_words, same_words
from groupwise.types import FinishReason, Score

MOST_WORDS = 6
"""Of an answer that is announced. More are prose."""
_BROKEN = re.compile(r"[\\^_{}&]")
"""What isn't in prose: a formula that can't be read is not searched for a number."""
_ANNOUNCED = re.compile(r"[A-Za-z ]*:\s*\$([^$]+)\$\s*\.?")
"""A gold such as `Solution is: $k=4$`."""
LONGEST_SHOWN = 80
"""Characters of a text that a reason shows."""


def grader(column: str, **choices: Any) -> Callable[[Record], Score]:
    """What worker processes call: the function that grades by a column, under the policy of these choices."""
    policy = Policy(**choices)

    def grade(record: Record) -> Score:
        return grade_here(record.clean_text, record.columns.get(column), record.finish_reason, policy)

    grade_here("\\boxed{\\sqrt{2}}", "\\sqrt{8}/2")  # loads what the first answer would otherwise pay for
    return grade


def read_gold(gold: Any) -> Reading | None:
    """The gold as an answer: a text that is one, or a solution that ends in a box or in `#### answer`; None where it
    can't be read, or only says where the answer is to be found."""
    return None if gold is None or isinstance(gold, bool) else _read_gold(str(gold))


@lru_cache(maxsize=4096)
def _read_gold(gold: str) -> Reading | None:
    box = find_box(gold)
    if box is not None and not box.texts:
        return None
    text = gold if box is None else box.texts[0]
    if "####" in text:
        text = text.rpartition("####")[2]
    if (announced := _ANNOUNCED.fullmatch(text)) is not None:
        text = announced[1]
    if not text.strip() or points_elsewhere(text):
        return None
    reading = read(text)
    return reading if reading.understood or reading.too_long else None


def grade_here(text: str, gold: Any, finish_reason: FinishReason = "stop", policy: Policy | None = None) -> Score:
    """1 where the answer of `text` is the gold, else 0; not scored where the gold can't be read.

    Runs in this process, and as long as it takes.
    """
    policy = policy or Policy()
    expected = read_gold(gold)
    if expected is None:
        return Score(value=None, reason=f"the gold {_shown(gold)} can't be read as an answer")
    found = _found(text, expected, finish_reason != "stop")
    correct, why, taken = _judge(expected, found, policy)
    shown = f"{_shown(taken)}, {found.rule}" if taken else found.rule
    reason = f"{shown}: {why}; the gold is {_shown(expected.text)}"
    return Score(value=float(correct), correct=correct, reason=reason)


def _found(text: str, gold: Reading, cut_off: bool) -> Found:
    found = find(text, cut_off=cut_off)
    if gold.choice and not gold.choice[1] and found.boxed and read(found.texts[0]).choice is None:
        announced = find_announced(text, cut_off)  # the box holds a formula of the working
        if announced is not None and announced.texts:
            return announced
    return found


def _judge(gold: Reading, found: Found, policy: Policy) -> tuple[bool, str, str]:
    """Whether it is the gold, why, and the text that was taken."""
    if not found.texts:
        return False, "there is no answer", ""
    answer = _first_read(found)
    if answer is None and gold.wordy:
        said = next((text for text in found.texts if same_words(gold.text, tidy(text), case=policy.case)), None)
        if said is not None:
            return True, "the same words", said
    if answer is None:
        return False, f"it can't be read ({read(found.texts[0]).problem or 'no mathematics'})", found.texts[0]
    comparison = Comparison(policy)
    if same_answer(gold, answer, comparison):
        notes = ", ".join(sorted(comparison.notes))
        return True, "the same" + (f" by the policy {notes}" if notes else ""), answer.text
    return False, "another answer", answer.text


def _first_read(found: Found) -> Reading | None:
    """The first text that is an answer and not prose; of prose, its last formula or number."""
    for text in found.texts:
        reading = read(text)
        is_prose = begins_as_prose(text) if found.rule == "as the whole text" else prose_words(text) > MOST_WORDS
        if reading.understood and (found.boxed or not is_prose) or reading.too_long:
            return reading
    if found.boxed or _BROKEN.search(MATHS.sub("", found.texts[0])):
        return None
    last = find_last(found.texts[0])
    part = read(last.texts[0]) if last.texts else None
    return part if part is not None and part.understood else None


def same_answer(gold: Reading, answer: Reading, comparison: Comparison) -> bool:
    """Whether two answers are the same under the policy of the comparison."""
    policy = comparison.policy
    if gold.text == answer.text:
        return True
    if gold.choice and (decided := _same_choice(gold.choice, answer.choice, policy)) is not None:
        return decided
    if gold.choice and gold.choice[1]:  # (D) 12 may be met by either
        return same_answer(read(gold.choice[1]), answer, comparison)
    if (gold.wordy or answer.wordy) and same_words(gold.text, answer.text, case=policy.case):
        return True
    if gold.too_long or answer.too_long:
        return gold.text == answer.text
    if any(comparison.same(one, other) for one, other in _pairs(gold, answer)):
        return True
    return _decimal_comma(answer, gold, comparison)


def _same_choice(gold: tuple[str, str], answer: tuple[str, str] | None, policy: Policy) -> bool | None:
    """None where the gold isn't the letter of a choice, or the answer isn't one."""
    if not gold[0].isupper() or answer is None:
        return None
    if gold[0] != answer[0] and (policy.case or gold[0] != answer[0].upper()):
        return False
    return not (gold[1] and answer[1]) or same_answer(read(gold[1]), read(answer[1]), Comparison(policy))


def _pairs(gold: Reading, answer: Reading) -> Iterator[tuple[Node, Node]]:
    """Readings of both that were made in the same way; where one has fewer, its last one."""
    for place in range(max(len(gold.trees), len(answer.trees))):
        if gold.trees and answer.trees:
            yield gold.trees[min(place, len(gold.trees) - 1)], answer.trees[min(place, len(answer.trees) - 1)]


def _decimal_comma(one: Reading, other: Reading, comparison: Comparison) -> bool:
    if not comparison.policy.decimal_comma or one.comma is None or not is_plain_decimal(other.text) or not other.trees:
        return False
    tree = Node("num", number=one.comma)
    if has(other.trees[0], "list") or not comparison.same(tree, other.trees[0]):
        return False
    comparison.notes.add("decimal_comma")
    return True


def _shown(text: Any) -> str:
    shown = repr(str(text)[: 2 * LONGEST_SHOWN])
    return shown if len(shown) <= LONGEST_SHOWN else f"{shown[: LONGEST_SHOWN // 2]}...{shown[-LONGEST_SHOWN // 2 :]}"
