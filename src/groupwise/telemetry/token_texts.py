"""Completions cut at their tokens: the text of each token, such that joined they are the completion's text.

A tokenizer has no such function. Decoding every prefix takes a time that grows with the square of the length, and the
name of a token in the vocabulary is not its text. But nearly every token has the same text wherever it stands behind
another one, so that is found once per token of the vocabulary. What is left are the tokens that hold a part of a
character's bytes: a run of these is decoded prefix by prefix, and a character stands at the token that completes it,
with the empty string at the ones before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

LONGEST_RUN = 64
"""Tokens of a run of incomplete bytes that is taken apart; a longer one stands whole at its last token."""
INCOMPLETE = "\ufffd"
"""What a tokenizer gives for bytes that are no character."""


class TokenTexts:
    """The texts of tokens under one tokenizer; it remembers those that it has seen."""

    def __init__(self, decode: Callable[[list[int]], str]) -> None:
        self.decode = decode
        self._known: dict[int, str | None] = {}

    def of(self, token_ids: Sequence[int], text: str) -> list[str] | None:
        """One string per token, which joined are `text`, the decoded completion.

        None where the tokenizer's text can't be cut at tokens: it takes away spaces before punctuation, for instance.
        """
        ids = list(token_ids)
        texts = [self._inside(token) for token in ids]
        found = self._joined(ids, texts, text)
        if found is None and None in texts:
            broken = ids[texts.index(None)]
            texts = [None if self._spoilt(broken, token) else text for token, text in zip(ids, texts, strict=True)]
            found = self._joined(ids, texts, text)
        return found

    def _joined(self, ids: list[int], inside: Sequence[str | None], text: str) -> list[str] | None:
        """The texts with those that are missing filled in; None where they are not `text`."""
        texts = list(inside)
        if ids and texts[0] is not None:
            texts[0] = self.decode(ids[:1])  # many tokenizers take the space away that a first word begins with
        for start, end in _runs(texts):
            texts[start:end] = self._cut(ids[max(start - 1, 0) : start], ids[start:end])
        whole = [part for part in texts if part is not None]
        return whole if "".join(whole) == text else None

    def _spoilt(self, broken: int, token: int) -> bool:
        """Whether a token has another text behind a part of a character: tokenizers that fall back to bytes give up all
        bytes that stand together, letters and line breaks among them, where some are no character."""
        return self.decode([broken, token])[len(self.decode([broken])) :] != self._inside(token)

    def _inside(self, token: int) -> str | None:
        """The text of a token behind another one; None where it holds a part of a character."""
        if token not in self._known:
            once, twice = self.decode([token]), self.decode([token, token])
            self._known[token] = None if INCOMPLETE in twice else twice[len(once) :]
        return self._known[token]

    def _cut(self, before: list[int], run: list[int]) -> list[str]:
        """The texts of tokens that hold parts of characters, behind the token `before` if there is one."""
        skip = len(self.decode(before)) if before else 0
        whole = self.decode(before + run)[skip:]
        if len(run) > LONGEST_RUN:
            return [""] * (len(run) - 1) + [whole]
        ends = [0]
        for count in range(1, len(run)):
            prefix = self.decode(before + run[:count])[skip:]
            ends.append(max(ends[-1], _common(prefix, whole)))
        ends.append(len(whole))
        return [whole[start:end] for start, end in pairwise(ends)]


def _runs(texts: Sequence[str | None]) -> Iterator[tuple[int, int]]:
    """Where None stands, as start and end of each run."""
    start = None
    for place, text in enumerate([*texts, ""]):
        if text is None and start is None:
            start = place
        elif text is not None and start is not None:
            yield start, place
            start = None


def _common(one: str, other: str) -> int:
    """How many characters two strings begin with alike."""
    return next(
        (place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )
