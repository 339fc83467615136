"""Families whose rule is on the shape of an answer: sentences, lists, brackets, JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from groupwise.tasks.families.contract import Family, Verdict, prose_verdict
from groupwise.tasks.families.text import sentences, words
from groupwise.tasks.families.topics import Topic

LIST_LINE = re.compile(r"(\d{1,3})[.)]\s+(\S.*)")
EXTRA_ADJECTIVES = ("familiar", "real")


class ExactSentences(Family):
    """Exactly `count` finished sentences, all different, and no unfinished one after them."""

    name = "exact_sentences"
    wordings = (
        "Describe {topic} in exactly {count} sentences.",
        "Write exactly {count} short sentences about {topic}.",
        "Tell me about {topic}. Your answer must have exactly {count} sentences.",
    )
    variants = ({"count": 2}, {"count": 3}, {"count": 4})

    def judge(self, text: str, parameters: Mapping[str, Any]) -> Verdict:
        finished, rest = sentences(text)
        if rest:
            return Verdict(False, f"the last sentence is not finished: {rest[:40]!r}")
        if len(finished) != parameters["count"]:
            return Verdict(False, f"{len(finished)} sentences, exactly {parameters['count']} asked")
        if len({sentence.lower() for sentence in finished}) < len(finished):
            return Verdict(False, "a sentence is repeated")
        return prose_verdict(text, f"{len(finished)} sentences")

    def reference(self, topic: Topic, parameters: Mapping[str, Any]) -> str:
        first = f"{topic.opening} is {topic.first}."
        others = (f"It looks {topic.second}.", f"Some call it {topic.third}.", "Most people know that well.")
        return " ".join((first, *others)[: parameters["count"]])

    def corrupted(self, topic: Topic, parameters: Mapping[str, Any]) -> tuple[str, ...]:
        reference = self.reference(topic, parameters)
        repeated = " ".join([f"{topic.opening} is {topic.first}."] * parameters["count"])
        return (reference + " That is all.", reference[:-1], reference[:-1] + ", because", repeated)


class ListItems(Family):
    """`count` different single words, separated by commas, with nothing else but a full stop."""

    name = "list_items"
    wordings = (
        "List exactly {count} words that describe {topic}, separated by commas. Write nothing else.",
        "Describe {topic} with exactly {count} words separated by commas and nothing else.",
        "Name {count} adjectives for {topic}. Separate them with commas and add nothing else.",
    )
    variants = ({"count": 3}, {"count": 4}, {"count": 5})

    def judge(self, text: str, parameters: Mapping[str, Any]) -> Verdict:
        items = [item.strip() for item in text.removesuffix(".").split(",")]
        odd = [item for item in items if not re.fullmatch(r"[^\W\d_]{2,30}", item)]
        if odd:
            return Verdict(False, f"{odd[0][:40]!r} is not a single word")
        if len(items) != parameters["count"]:
            return Verdict(False, f"{len(items)} items, exactly {parameters['count']} asked")
        if len({item.lower() for item in items}) < len(items):
            return Verdict(False, "an item is repeated")
        return Verdict(True, f"{len(items)} items")

    def reference(self, topic: Topic, parameters: Mapping[str, Any]) -> str:
        return ", ".join((topic.first, topic.second, topic.third, *EXTRA_ADJECTIVES)[: parameters["count"]])

    def corrupted(self, topic: Topic, parameters: Mapping[str, Any]) -> tuple[str, ...]:
        reference = self.reference(topic, parameters)
        repeated = ", ".join([topic.first] * parameters["count"])
        return (
            reference + ", old",
            reference + ",",
            "Words: " + reference,
            reference.replace(",", ""),
            repeated,
        )


class Brackets(Family):
    """Prose between one pair of square brackets, with nothing outside and no other square bracket inside."""

    name = "brackets"
    wordings = (
        "Describe {topic} in one sentence. Wrap your whole answer in square brackets.",
        "Write one sentence about {topic} inside square brackets, with nothing outside them.",
        "Tell me about {topic} in one sentence. Begin with [ and end with ].",
    )
    variants = ({},)

    def judge(self, text: str, parameters: Mapping[str, Any]) -> Verdict:
        if not (text.startswith("[") and text.endswith("]") and len(text) > 2):
            return Verdict(False, "it is not wrapped in square brackets")
        if "[" in text[1:-1] or "]" in text[1:-1]:
            return Verdict(False, "there is another square bracket inside")
        return prose_verdict(text, "wrapped in square brackets")

    def reference(self, topic: Topic, parameters: Mapping[str, Any]) -> str:
        return f"[{topic.opening} is {topic.first} and {topic.second}.]"

    def corrupted(self, topic: Topic, parameters: Mapping[str, Any]) -> tuple[str, ...]:
        reference = self.reference(topic, parameters)
        inner = reference[1:-1]
        return (
            inner,
            f"[{inner}",
            f"{inner}]",
            f"{reference} Yes.",
            f"({inner})",
            f"[{reference}]",
            "[]",
            "[a]",
        )


class JsonKeys(Family):
    """One JSON object with exactly the keys `keys`, each with a text of its own, and nothing around it."""

    name = "json_keys"
    wordings = (
        "Describe {topic} as a JSON object with exactly the keys {keys} and text values. Write nothing else.",
        "Answer with JSON only: one object about {topic} with the keys {keys}. Every value must be text.",
        "Write a JSON object about {topic}. Its only keys are {keys} and its values are strings.",
    )
    variants = ({"keys": ["name", "color"]}, {"keys": ["topic", "mood"]}, {"keys": ["name", "size", "place"]})

    def judge(self, text: str, parameters: Mapping[str, Any]) -> Verdict:
        try:
            pairs = json.loads(text, object_pairs_hook=_Pairs)
        except (ValueError, RecursionError) as error:
            return Verdict(False, f"not JSON: {type(error).__name__}")
        if not isinstance(pairs, _Pairs):
            return Verdict(False, "JSON, but not an object")
        keys = [key for key, _ in pairs]
        if sorted(keys) != sorted(parameters["keys"]):
            return Verdict(False, f"the keys are {keys}, {parameters['keys']} asked"[:200])
        values = [value for _, value in pairs]
        if not all(isinstance(value, str) and words(value) for value in values):
            return Verdict(False, "a value is not text")
        if len({value.lower() for value in values}) < len(values):
            return Verdict(False, "a value is repeated")
        return Verdict(True, "a JSON object with the keys asked for")

    def reference(self, topic: Topic, parameters: Mapping[str, Any]) -> str:
        values = (topic.phrase, topic.first, topic.second)
        return json.dumps(dict(zip(parameters["keys"], values, strict=False)))

    def corrupted(self, topic: Topic, parameters: Mapping[str, Any]) -> tuple[str, ...]:
        reference, keys = self.reference(topic, parameters), parameters["keys"]
        return (
            reference[:-1],
            f"Here it is: {reference}",
            f"[{reference}]",
            reference.replace(f'"{keys[0]}"', '"other"'),
            json.dumps(dict.fromkeys(keys, "")),
            json.dumps(dict.fromkeys(keys, "same")),
            json.dumps(dict.fromkeys(keys, 1)),
            reference[:-1] + f', "{keys[0]}": "twice"' + "}",
            "[" * 100_000,
        )


class _Pairs(list[tuple[str, Any]]):
    """A JSON object as its pairs, so that a key given twice is seen."""


class NumberedList(Family):
    """`count` lines `1. item` in order, all different, of two words or more, with nothing else but blank
    lines."""

    name = "numbered_list"
    wordings = (
        "Write a numbered list of exactly {count} short facts about {topic} and nothing else.",
        "Give {count} facts about {topic} as a numbered list. Write only the list.",
        "List {count} things to know about {topic}. Number them from 1 to {count} and write nothing else.",
    )
    variants = ({"count": 3}, {"count": 2}, {"count": 4})

    def judge(self, text: str, parameters: Mapping[str, Any]) -> Verdict:
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        if len(lines) != parameters["count"]:
            return Verdict(False, f"{len(lines)} lines, exactly {parameters['count']} asked")
        items = set()
        for number, line in enumerate(lines, start=1):
            match = LIST_LINE.fullmatch(line)
            if match is None or int(match[1]) != number:
                return Verdict(False, f"line {number} does not begin with its number: {line[:40]!r}")
            if len(words(match[2])) < 2:
                return Verdict(False, f"item {number} has fewer than two words")
            items.add(match[2].lower())
        if len(items) < len(lines):
            return Verdict(False, "an item is repeated")
        return Verdict(True, f"{len(lines)} numbered items")

    def reference(self, topic: Topic, parameters: Mapping[str, Any]) -> str:
        adjectives = (topic.first, topic.second, topic.third, *EXTRA_ADJECTIVES)[: parameters["count"]]
        return "\n".join(f"{number}. It is {word}." for number, word in enumerate(adjectives, start=1))

    def corrupted(self, topic: Topic, parameters: Mapping[str, Any]) -> tuple[str, ...]:
        reference = self.reference(topic, parameters)
        count = parameters["count"]
        return (
            "Here is the list:\n" + reference,
            reference + f"\n{count + 1}. It is old.",
            reference.replace("1.", "2."),
            reference.replace("\n", " "),
            "\n".join(f"{number}. It is old." for number in range(1, count + 1)),
            "\n".join(f"{number}. {number}" for number in range(1, count + 1)),
        )


LAYOUT_FAMILIES: tuple[Family, ...] = (ExactSentences(), ListItems(), Brackets(), JsonKeys(), NumberedList())
