"""What a family of instructions is: one rule on the form of an answer, how to ask for it, and how to check
it.

The rule looks at form only, never at whether the answer is true of its topic. So each family guards against
the cheapest ways of meeting its rule: an empty answer is wrong everywhere, and where text is asked for it
must be prose (see `groupwise.tasks.families.text`), so that one word said over and over is wrong too. A
family in full:

    class EndsWithQuestion(Family):
        name = "question"
        wordings = ("Ask one question about {topic}.", "Write a question about {topic} and nothing else.")
        variants = ({},)

        def judge(self, text, parameters):
            if not text.endswith("?"):
                return Verdict(False, "it does not end with a question mark")
            return prose_verdict(text, "ends with a question mark")

        def reference(self, topic, parameters):
            return f"Why is {topic.phrase} so {topic.first}?"

        def corrupted(self, topic, parameters):
            return (f"{topic.phrase} is {topic.first}.",)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple

from groupwise.tasks.families.text import normalise, not_prose, words
from groupwise.tasks.families.topics import Topic


class Verdict(NamedTuple):
    """Whether an answer meets its instruction, and why."""

    correct: bool
    reason: str


class Family(ABC):
    """See the module's docstring. Families hold no state."""

    name: str
    wordings: tuple[str, ...]
    """Ways to ask, with `{topic}` and the names of the parameters as fields."""
    variants: tuple[Mapping[str, Any], ...]
    """The parameters that rows may ask for, the easiest first; JSON values."""

    def instruction(self, topic: Topic, wording: int, parameters: Mapping[str, Any]) -> str:
        """The text of the user's message."""
        shown = {key: _shown(value) for key, value in parameters.items()}
        return self.wordings[wording].format(topic=topic.phrase, **shown)

    def verify(self, text: str, parameters: Mapping[str, Any]) -> Verdict:
        """Whether this answer meets the instruction. Takes any text and never raises for it."""
        text = normalise(text)
        return self.judge(text, parameters) if text else Verdict(False, "the answer is empty")

    def wrong_answers(self, topic: Topic, parameters: Mapping[str, Any]) -> tuple[str, ...]:
        """Answers that must fail: empty and degenerate ones, and the reference answer spoilt in this family's
        ways."""
        reference = self.reference(topic, parameters)
        degenerate = ("", " \n\t", "...", ",", " ".join(words(reference)[-1:] * 6), "!" * 12)
        return degenerate + self.corrupted(topic, parameters)

    @abstractmethod
    def judge(self, text: str, parameters: Mapping[str, Any]) -> Verdict:
        """The rule itself; `text` is normalised and not empty."""

    @abstractmethod
    def reference(self, topic: Topic, parameters: Mapping[str, Any]) -> str:
        """A right answer."""

    @abstractmethod
    def corrupted(self, topic: Topic, parameters: Mapping[str, Any]) -> tuple[str, ...]:
        """Wrong answers that differ little from the reference answer."""


def prose_verdict(text: str, reason: str) -> Verdict:
    """Right for `reason`, unless the text is not prose."""
    fault = not_prose(text)
    return Verdict(not fault, fault or reason)


def _shown(value: Any) -> str:
    """A parameter as the instruction shows it: a list of words stands in quotes, joined by `and`."""
    if not isinstance(value, list):
        return str(value)
    quoted = [f'"{item}"' for item in value]
    return quoted[0] if len(quoted) == 1 else ", ".join(quoted[:-1]) + " and " + quoted[-1]
