r"""The reward `format`: the completion follows a template.

    from groupwise.rewards.text import format
    format.grade("<think>7 + 8</think><answer>15</answer>")                     # Score(value=1.0, correct=True, ...)
    format.grade("7 + 8</think><answer>15</answer>", prompt="7 + 8?\n<think>")  # 1: the prompt opened the block
    format.grade(r"It is \boxed{15}.", r"\boxed{}")                             # 1

`groupwise.rewards.text.template` has the grammar. Special tokens are seen, since tags may be such; a template that
asks for nothing after its last tag refuses text there. The verdict is about the form alone: `weight`, or
`role = "gate"`, says what it is worth beside the answer.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal, Self

from pydantic import model_validator

from groupwise.rewards.contract import Record
from groupwise.rewards.text.base import TextReward
from groupwise.rewards.text.template import parse
from groupwise.types import FinishReason, Score

THINK_ANSWER = "<think>{}</think><answer>{}</answer>"
"""The template of DeepSeek-R1-Zero (arXiv:2501.12948)."""

_parsed = lru_cache(maxsize=64)(parse)


def grade(text: str, template: str = THINK_ANSWER, *, prompt: str = "", finish_reason: FinishReason = "stop") -> Score:
    """1 where the text, together with the end of the prompt, follows the template, else 0.

    Raises `ValueError` for a template that can't be one.
    """
    parsed = _parsed(template)
    opened = parsed.opened_by(prompt)
    fault = parsed.fault(text, opened, cut_off=finish_reason != "stop")
    given = f" after {' '.join(parsed.literals[:opened])} of the prompt" if opened else ""
    return Score(value=float(not fault), correct=not fault, reason=(fault or "follows the template") + given)


class Format(TextReward):
    """1 where the completion follows a template, such as `<think>{}</think><answer>{}</answer>`, else 0."""

    name: Literal["format"] = "format"
    template: str = THINK_ANSWER
    """Literals and holes. `{}` is a hole that must be filled, `{?}` one that may be empty; `\\boxed{}` stands for any
    text with a box that holds something."""
    example: str | None = None
    """The example that the prompt shows of the format. It must follow the template: so prompt and reward can't ask for
    different things."""

    @model_validator(mode="after")
    def _example_follows(self) -> Self:
        template = _parsed(self.template)
        if self.example is not None and (fault := template.fault(self.example)):
            raise ValueError(f"the example doesn't follow template = {self.template!r}: {fault}; mend either")
        return self

    def score_one(self, record: Record) -> Score:
        return grade(record.text, self.template, prompt=record.prompt, finish_reason=record.finish_reason)
