"""A completion against a gold: the pure function that the workers run. It has no time limit of its own.

    grade_here("... so $\\boxed{\\frac{1}{2}}$", "0.5")       # Score(value=1.0, correct=True, reason="'\\\\frac{1}{2}' in the last box ...")

`extraction` says which text is the answer, `reading` what it means, `comparing` whether it is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

from groupwise.rewards.contract import Record
from groupwise.rewards.math.comparing import Comparison
from groupwise.rewards.math.extraction import Found, find, find_answer_line, find_box, find_last
from groupwise.rewards.math.policy import Policy
from groupwise.rewards.math.reading import Reading, is_plain_decimal, read
from groupwise.rewards.math.tree import Node, has
from groupwise.rewards.math.words import points_elsewhere, prose_words, same_words
from groupwise.types import FinishReason, Score

MOST_WORDS = (6, 1)
"""Of an answer outside a box: where it is announced, and where it is the whole text. More are prose."""
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
    if box is not None and box.text is None:
        return None
    text = box.text if box is not None and box.text is not None else gold
    if "####" in text:
        text = text.rpartition("####")[2]
    if not text.strip() or points_elsewhere(text):
        return None
    reading = read(text)
    return reading if reading.understood or reading.text and reading.problem.startswith("an answer of") else None


def grade_here(text: str, gold: Any, finish_reason: FinishReason = "stop", policy: Policy | None = None) -> Score:
    """1 where the answer of `text` is the gold, else 0; not scored where the gold can't be read.

    Runs in this process, and as long as it takes.
    """
    policy = policy or Policy()
    expected = read_gold(gold)
    if expected is None:
        return Score(value=None, reason=f"the gold {_shown(gold)} can't be read as an answer")
    found = find(text, cut_off=finish_reason != "stop")
    if expected.choice and not expected.choice[1] and found.text is not None and found.rule.startswith("in the last"):
        line = find_answer_line(text, cut_off=finish_reason != "stop")  # the box may hold a formula of the working
        if read(found.text).choice is None and line is not None and line.text is not None:
            found = line
    correct, why, taken = _judge(expected, found, policy)
    shown = _shown(taken) + ", " if taken else ""
    return Score(
        value=float(correct), correct=correct, reason=f"{shown}{found.rule}: {why}; the gold is {_shown(expected.text)}"
    )


def _judge(gold: Reading, found: Found, policy: Policy) -> tuple[bool, str, str]:
    """Whether it is the gold, why, and the text that was taken."""
    if found.text is None:
        return False, "there is no answer", ""
    answer = _first_read(found)
    if answer is None:
        return False, f"it can't be read ({read(found.text).problem or 'no mathematics'})", found.text
    comparison = Comparison(policy)
    if same_answer(gold, answer, comparison):
        notes = ", ".join(sorted(comparison.notes))
        return True, "the same" + (f" by the policy {notes}" if notes else ""), answer.text
    return False, "another answer", answer.text


def _first_read(found: Found) -> Reading | None:
    """The longest extent that is an answer; of a text without a marker that isn't one, its last formula or number."""
    for candidate in found.all():
        reading = read(candidate)
        if reading.understood and (
            found.rule.startswith("in the last")
            or prose_words(candidate) <= MOST_WORDS[found.rule == "as the whole text"]
        ):
            return reading
    if found.rule.startswith("in the last"):
        reading = read(found.text or "")
        return reading if reading.understood or reading.problem.startswith("an answer of") else None
    last = find_last(found.all()[0])
    reading = read(last.text) if last.text is not None else None
    return reading if reading is not None and reading.understood else None


def same_answer(gold: Reading, answer: Reading, comparison: Comparison) -> bool:
    """Whether two answers are the same under the policy of the comparison."""
    policy = comparison.policy
    if gold.choice and (decided := _same_choice(gold.choice, answer.choice, policy)) is not None:
        return decided
    if gold.wordy or answer.wordy:
        if same_words(gold.text, answer.text, case=policy.case):
            return True
    if not gold.trees and not gold.wordy:  # too long to be read: only itself
        return gold.text == answer.text
    if any(comparison.same(one, other) for one, other in _pairs(gold, answer)):
        return True
    return _decimal_comma(answer, gold, comparison)


def _same_choice(gold: tuple[str, str], answer: tuple[str, str] | None, policy: Policy) -> bool | None:
    """None where the gold isn't the letter of a choice, or the answer isn't one."""
    if not gold[0].isupper() or answer is None:
        return None
    return gold[0] == answer[0] or not policy.case and gold[0] == answer[0].upper()


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
