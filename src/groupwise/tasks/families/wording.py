"""Families whose rule is on the words of an answer: which ones, and in which case."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from groupwise.tasks.families.contract import Family, Verdict, prose_verdict
from groupwise.tasks.families.text import COMMAS, sentences, words
from groupwise.tasks.families.topics import Topic


class LastWord(Family):
    """Prose whose last word is `word`, in any case; punctuation may follow."""

    name = "last_word"
    wordings = (
        'Write one sentence about {topic}. The last word must be "{word}".',
        'Write a sentence about {topic} that ends with the word "{word}".',
        'Describe {topic} and end your answer with the word "{word}".',
    )
    variants = ({"word": "today"}, {"word": "again"}, {"word": "together"}, {"word": "tomorrow"})

    def judge(self, text: str, parameters: Mapping[str, Any]) -> Verdict:
        last = (words(text) or [""])[-1]
        if last.lower() != parameters["word"]:
            return Verdict(False, f"the last word is {last!r}, {parameters['word']!r} asked")
        return prose_verdict(text, f"the last word is {last!r}")

    def reference(self, topic: Topic, parameters: Mapping[str, Any]) -> str:
        return f"We will think of {topic.phrase} {parameters['word']}."

    def corrupted(self, topic: Topic, parameters: Mapping[str, Any]) -> tuple[str, ...]:
        word = parameters["word"]
        plain = f"We will think of {topic.phrase}"
        return (
            f"{plain}.",
            f"{plain} {word} as well.",
            f"{plain} {word}s.",
            f"{plain}-{word}x",
            word.capitalize() + ".",
        )


class ContainsWords(Family):
    """Prose in which each of `words` stands as a word of its own, in any case."""

    def judge(self, text: str, parameters: Mapping[str, Any]) -> Verdict:
        there = {word.lower() for word in words(text)}
        absent = [word for word in parameters["words"] if word not in there]
        if absent:
            return Verdict(False, f"{', '.join(absent)} not used")
        return prose_verdict(text, f"{', '.join(parameters['words'])} used")

    def reference(self, topic: Topic, parameters: Mapping[str, Any]) -> str:
        asked = " and ".join(parameters["words"])
        return f"{topic.opening} is {topic.first} and {topic.second} and makes me think of {asked}."

    def corrupted(self, topic: Topic, parameters: Mapping[str, Any]) -> tuple[str, ...]:
        reference, last = self.reference(topic, parameters), parameters["words"][-1]
        return (
            reference.replace(last, "nothing"),
            reference.replace(last, f"{last}ish"),
            " ".join(parameters["words"]),
        )


class ContainsWord(ContainsWords):
    """One word is required."""

    name = "contains_word"
    wordings = (
        "Describe {topic} in one sentence that contains the word {words}.",
        "Write one sentence about {topic} using the word {words}.",
        "Tell me about {topic} in one sentence. Use the word {words}.",
    )
    variants = ({"words": ["blue"]}, {"words": ["water"]}, {"words": ["small"]}, {"words": ["morning"]})


class ContainsTwoWords(ContainsWords):
    """Two words are required."""

    name = "contains_two_words"
    wordings = (
        "Describe {topic} in one sentence that contains the words {words}.",
        "Write one sentence about {topic} using the words {words}.",
        "Tell me about {topic} in one sentence. Use the words {words}.",
    )
    variants = ({"words": ["blue", "light"]}, {"words": ["old", "friend"]}, {"words": ["green", "morning"]})


class ForbiddenWords(Family):
    """Prose in which none of `words` stands as a word of its own, in any case."""

    name = "forbidden_words"
    wordings = (
        "Describe {topic} in one sentence without using the word {words}.",
        "Write one sentence about {topic}. Do not use the word {words}.",
        "Tell me about {topic} in one sentence that leaves out the word {words}.",
    )
    variants = ({"words": ["and"]}, {"words": ["is"]}, {"words": ["it"]}, {"words": ["very"]})

    def judge(self, text: str, parameters: Mapping[str, Any]) -> Verdict:
        there = {word.lower() for word in words(text)}
        used = [word for word in parameters["words"] if word in there]
        if used:
            return Verdict(False, f"{', '.join(used)} used")
        return prose_verdict(text, f"{', '.join(parameters['words'])} not used")

    def reference(self, topic: Topic, parameters: Mapping[str, Any]) -> str:
        return f"I find {topic.phrase} {topic.first} yet {topic.second}."

    def corrupted(self, topic: Topic, parameters: Mapping[str, Any]) -> tuple[str, ...]:
        reference = self.reference(topic, parameters)
        forbidden = parameters["words"][0]
        return (
            f"{reference[:-1]} {forbidden} {topic.third}.",
            f"{forbidden.upper()}! {reference}",
            topic.first,
        )


class NoCommas(Family):
    """At least two different finished sentences of three words or more, and no comma anywhere."""

    name = "no_commas"
    wordings = (
        "Write two sentences about {topic} without using any commas.",
        "Write two short sentences about {topic}. Use no commas.",
        "Tell me two simple facts about {topic} in two short sentences. Do not use commas.",
    )
    variants = ({},)

    def judge(self, text: str, parameters: Mapping[str, Any]) -> Verdict:
        if any(comma in text for comma in COMMAS):
            return Verdict(False, "it has a comma")
        long_enough = {sentence.lower() for sentence in sentences(text)[0] if len(words(sentence)) >= 3}
        if len(long_enough) < 2:
            return Verdict(False, f"{len(long_enough)} different sentences of three words or more, two asked")
        return prose_verdict(text, f"{len(long_enough)} sentences, no comma")

    def reference(self, topic: Topic, parameters: Mapping[str, Any]) -> str:
        return f"{topic.opening} is {topic.first} and {topic.second}. It is also {topic.third}."

    def corrupted(self, topic: Topic, parameters: Mapping[str, Any]) -> tuple[str, ...]:
        reference = self.reference(topic, parameters)
        first = reference.split(". ")[0] + "."
        return (
            reference.replace(" and", ","),
            reference.replace(" and", "\uff0c"),
            first,
            f"{first} {first}",
            f"{first} Yes.",
        )


class LowerCase(Family):
    """Prose with no capital letter."""

    name = "lower_case"
    wordings = (
        "Describe {topic} in one sentence using lowercase letters only.",
        "Write one sentence about {topic} in all lowercase. Do not use capital letters.",
        "Tell me about {topic} in one sentence without any capital letters.",
    )
    variants = ({},)

    def judge(self, text: str, parameters: Mapping[str, Any]) -> Verdict:
        return _case_verdict(text, text.lower(), text.upper())

    def reference(self, topic: Topic, parameters: Mapping[str, Any]) -> str:
        return f"{topic.phrase} is {topic.first}, {topic.second} and {topic.third}."

    def corrupted(self, topic: Topic, parameters: Mapping[str, Any]) -> tuple[str, ...]:
        reference = self.reference(topic, parameters)
        return (reference.capitalize(), reference.upper(), reference + " I agree.", topic.first)


class UpperCase(Family):
    """Prose with no small letter."""

    name = "upper_case"
    wordings = (
        "Describe {topic} in one sentence using capital letters only.",
        "Write one sentence about {topic} in all capital letters.",
        "Tell me about {topic} in one sentence without any lowercase letters.",
    )
    variants = ({},)

    def judge(self, text: str, parameters: Mapping[str, Any]) -> Verdict:
        return _case_verdict(text, text.upper(), text.lower())

    def reference(self, topic: Topic, parameters: Mapping[str, Any]) -> str:
        return f"{topic.phrase} is {topic.first}, {topic.second} and {topic.third}.".upper()

    def corrupted(self, topic: Topic, parameters: Mapping[str, Any]) -> tuple[str, ...]:
        reference = self.reference(topic, parameters)
        return (
            reference.capitalize(),
            reference.lower(),
            reference[:-2] + reference[-2:].lower(),
            topic.first.upper(),
        )


def _case_verdict(text: str, wanted: str, other: str) -> Verdict:
    """Right where the text is in the wanted case already and its letters have a case at all."""
    if text != wanted:
        changed = sum(one != two for one, two in zip(text, wanted, strict=False))
        return Verdict(False, f"{max(changed, 1)} letters are in the other case")
    if wanted == other:
        return Verdict(False, "no letter in it has a case")
    return prose_verdict(text, "all letters are in the case asked for")


WORDING_FAMILIES: tuple[Family, ...] = (
    NoCommas(),
    LastWord(),
    ContainsWord(),
    LowerCase(),
    UpperCase(),
    ContainsTwoWords(),
    ForbiddenWords(),
)
