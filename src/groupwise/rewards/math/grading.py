"""A completion against a gold: the pure function that the workers run. It has no time limit of its own.

    grade_here("... so it is $\\boxed{\\frac{1}{2}}$", "0.5")       # Score(value=1.0, correct=True, reason=...)

`extraction` says which text is the answer, `reading` what it means, `comparing` whether it is the same.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

from groupwise.rewards.contract import Record
from groupwise.rewards.math.characters import tidy
from groupwise.rewards.math.comparing import Comparison
from groupwise.rewards.math.extraction import MATHS, Found, find, find_announced, find_box, find_last
from groupwise.rewards.math.policy import LENIENT, STRICT, Policy
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
QUICK = 0.1
"""CPU seconds of comparing within which it is asked which policies decided: no slow case becomes much slower."""


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
    correct, why, taken, rule = _judge(expected, found, policy)
    shown = f"{_shown(taken)}, {rule}" if taken else rule
    reason = f"{shown}: {why}; the gold is {_shown(expected.text)}"
    return Score(value=float(correct), correct=correct, reason=reason)


def _found(text: str, gold: Reading, cut_off: bool) -> Found:
    found = find(text, cut_off=cut_off)
    if gold.choice and not gold.choice[1] and found.boxed and read(found.texts[0]).choice is None:
        announced = find_announced(text, cut_off)  # the box holds a formula of the working
        if announced is not None and announced.texts:
            return announced
    return found


def _judge(gold: Reading, found: Found, policy: Policy) -> tuple[bool, str, str, str]:
    """Whether it is the gold, why, the text that was taken, and by which rule."""
    if not found.texts:
        return False, "there is no answer", "", found.rule
    answer, rule = _first_read(found)
    if answer is not None:
        known = answer
        correct, by = _decided(lambda policy: same_answer(gold, known, policy), policy)
        return correct, f"{'the same' if correct else 'another answer'}{by}", answer.text, rule
    said = next((text for text in found.texts if gold.wordy and same_words(gold.text, tidy(text), case=False)), None)
    if said is not None:
        words = tidy(said)
        correct, by = _decided(lambda policy: same_words(gold.text, words, case=policy.case), policy)
        return correct, f"{'the same' if correct else 'other'} words{by}", said, rule
    return False, f"it can't be read ({read(found.texts[0]).problem or 'no mathematics'})", found.texts[0], rule


def _decided(accepts: Callable[[Policy], bool], policy: Policy) -> tuple[bool, str]:
    """Whether the answer is accepted, and in words which choices decided that, alone or else together; maybe none."""
    start = time.thread_time()

    def quick() -> bool:
        return time.thread_time() - start < QUICK

    correct = accepts(policy)
    for extreme in STRICT if correct else LENIENT:
        if quick() and accepts(extreme) != correct and quick():
            names = _turning(accepts, policy, extreme, not correct) or _turning(accepts, extreme, policy, correct)
            shown = ", ".join(f"{name} = {_value(policy, name)}" for name in names)
            return correct, f" by the policy {shown}" if names else ""
    return correct, ""


def _turning(accepts: Callable[[Policy], bool], one: Policy, other: Policy, verdict: bool) -> list[str]:
    """The settings with which `one` gives this verdict, where that setting alone is as in `other`."""
    changes = {name: getattr(other, name) for name in Policy.model_fields if getattr(one, name) != getattr(other, name)}
    return [name for name, value in changes.items() if accepts(one.model_copy(update={name: value})) == verdict]


def _value(policy: Policy, name: str) -> str:
    """As a run file has it."""
    value = getattr(policy, name)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _first_read(found: Found) -> tuple[Reading | None, str]:
    """The first text that is an answer and not prose; of prose, its last formula or number. With the rule it is by."""
    whole = found.rule == "as the whole text"
    for text in found.texts:
        reading = read(text)
        is_prose = begins_as_prose(text) if whole else prose_words(text) > MOST_WORDS
        if reading.understood and (found.boxed or not is_prose) or reading.too_long:
            return reading, found.rule
    if found.boxed or _BROKEN.search(MATHS.sub("", found.texts[0])):
        return None, found.rule
    last = find_last(found.texts[0])
    part = read(last.texts[0]) if last.texts else None
    if part is None or not part.understood:
        return None, found.rule
    return part, last.rule if whole else f"{last.rule} {found.rule}"


def same_answer(gold: Reading, answer: Reading, policy: Policy) -> bool:
    """Whether two answers are the same under a policy."""
    if gold.text == answer.text:
        return True
    if gold.choice and (decided := _same_choice(gold.choice, answer.choice, policy)) is not None:
        return decided
    if gold.choice and gold.choice[1]:  # (D) 12 may be met by either
        return same_answer(read(gold.choice[1]), answer, policy)
    if (gold.wordy or answer.wordy) and same_words(gold.text, answer.text, case=policy.case):
        return True
    if gold.too_long or answer.too_long:
        return gold.text == answer.text
    comparison = Comparison(policy)
    if any(comparison.same(one, other) for one, other in _pairs(gold, answer)):
        return True
    return _decimal_comma(answer, gold, comparison)


def _same_choice(gold: tuple[str, str], answer: tuple[str, str] | None, policy: Policy) -> bool | None:
    """None where the gold isn't the letter of a choice, or the answer isn't one."""
    if not gold[0].isupper() or answer is None:
        return None
    if gold[0] != answer[0] and (policy.case or gold[0] != answer[0].upper()):
        return False
    return not (gold[1] and answer[1]) or same_answer(read(gold[1]), read(answer[1]), policy)


def _pairs(gold: Reading, answer: Reading) -> Iterator[tuple[Node, Node]]:
    """Readings of both that were made in the same way; where one has fewer, its last one."""
    for place in range(max(len(gold.trees), len(answer.trees))):
        if gold.trees and answer.trees:
            yield gold.trees[min(place, len(gold.trees) - 1)], answer.trees[min(place, len(answer.trees) - 1)]


def _decimal_comma(one: Reading, other: Reading, comparison: Comparison) -> bool:
    if not comparison.policy.decimal_comma or one.comma is None or not is_plain_decimal(other.text) or not other.trees:
        return False
    return not has(other.trees[0], "list") and comparison.same(Node("num", number=one.comma), other.trees[0])


def _shown(text: Any) -> str:
    shown = repr(str(text)[: 2 * LONGEST_SHOWN])
    return shown if len(shown) <= LONGEST_SHOWN else f"{shown[: LONGEST_SHOWN // 2]}...{shown[-LONGEST_SHOWN // 2 :]}"
