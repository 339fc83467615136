"""Families whose rule is on the number of words of an answer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from groupwise.tasks.families.contract import Family, Verdict, prose_verdict
from groupwise.tasks.families.text import words
from groupwise.tasks.families.topics import Topic

LETTERS = "[^\\W\\d_]"
ONE_WORD = re.compile(rf"[\"'\u201c\u201d\u2018\u2019*(\[]*{LETTERS}{{2,16}}[\"'\u201c\u201d\u2018\u2019*)\].!?]*")


class AtMostWords(Family):
    """Prose of no more than `limit` words."""

    name = "at_most_words"
    wordings = (
        "Describe {topic} in at most {limit} words.",
        "Tell me about {topic} in at most {limit} words.",
        "Write about {topic}. Use at most {limit} words.",
    )
    variants = ({"limit": 12}, {"limit": 10}, {"limit": 15}, {"limit": 9})

    def judge(self, text: str, parameters: Mapping[str, Any]) -> Verdict:
        count, limit = len(words(text)), parameters["limit"]
        if count > limit:
            return Verdict(False, f"{count} words, at most {limit} asked")
        return prose_verdict(text, f"{count} words")

    def reference(self, topic: Topic, parameters: Mapping[str, Any]) -> str:
        return f"{topic.opening} is {topic.first}, {topic.second} and {topic.third}."

    def corrupted(self, topic: Topic, parameters: Mapping[str, Any]) -> tuple[str, ...]:
        more = " It was so in the past and it will be so in every year that is yet to come."
        reference = self.reference(topic, parameters)
        return (reference + more, (reference + more).replace(" ", "-"), topic.first)


class ExactWords(Family):
    """Prose of exactly `count` words."""

    name = "exact_words"
    wordings = (
        "Describe {topic} in exactly {count} words.",
        "Write exactly {count} words about {topic}.",
        "Tell me about {topic}. Your answer must have exactly {count} words.",
    )
    variants = ({"count": 8}, {"count": 6}, {"count": 10}, {"count": 7})

    def judge(self, text: str, parameters: Mapping[str, Any]) -> Verdict:
        count, asked = len(words(text)), parameters["count"]
        if count != asked:
            return Verdict(False, f"{count} words, exactly {asked} asked")
        return prose_verdict(text, f"{count} words")

    def reference(self, topic: Topic, parameters: Mapping[str, Any]) -> str:
        start = f"{topic.opening} is {topic.first}"
        ends = (
            "",
            " today",
            f" and {topic.second}",
            f" and {topic.second} today",
            f" and {topic.second} most days",
            f" and {topic.second} almost every day",
            f" and {topic.second} on almost every day",
        )
        return start + ends[parameters["count"] - len(words(start))] + "."

    def corrupted(self, topic: Topic, parameters: Mapping[str, Any]) -> tuple[str, ...]:
        reference = self.reference(topic, parameters)
        return (
            reference + " Yes.",
            reference.rsplit(" ", 1)[0] + ".",
            " ".join([topic.first] * parameters["count"]),
        )


class OneWord(Family):
    """A single word of 2 to 16 letters; quotation marks and a full stop around it are allowed."""

    name = "one_word"
    wordings = (
        "Which word describes {topic}? Answer with one word only.",
        "What comes to mind when you hear about {topic}? Say one word.",
        "What do you think of when you hear about {topic}? Answer with one word.",
    )
    variants = ({},)

    def judge(self, text: str, parameters: Mapping[str, Any]) -> Verdict:
        if ONE_WORD.fullmatch(text):
            return Verdict(True, "one word")
        return Verdict(False, f"{len(words(text))} words, or not a word of 2 to 16 letters")

    def reference(self, topic: Topic, parameters: Mapping[str, Any]) -> str:
        return topic.first.capitalize()

    def corrupted(self, topic: Topic, parameters: Mapping[str, Any]) -> tuple[str, ...]:
        joined = (topic.first + topic.second + topic.third) * 2
        return (
            f"{topic.first} {topic.second}",
            f"{topic.first}-{topic.second}",
            f"It is {topic.first}.",
            joined,
            "a",
            "12",
        )


COUNTING_FAMILIES: tuple[Family, ...] = (AtMostWords(), OneWord(), ExactWords())
