"""What rewards by a frozen model share: it is loaded once, reads what can be read, and scores in batches."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from groupwise.rewards.contract import Record
from groupwise.rewards.learned.frozen import Frozen, FrozenSettings, batches, load_frozen
from groupwise.rewards.learned.reading import Unreadable, check_chats
from groupwise.types import Score


class Row(NamedTuple):
    """What the model reads of one completion."""

    record: Record
    ids: list[int]
    places: tuple[int, ...] = ()
    """For each step the place among the ids where its reward is read."""


class ModelReward(ABC):
    """A `Reward` around a model, which is loaded by `check` or when first asked."""

    auto_class: str
    """The auto class of transformers that it is loaded with."""

    def __init__(self, settings: FrozenSettings, base: Path) -> None:
        self.asked, self.base, self.name = settings, base, settings.shown
        self._frozen: Frozen | None = None
        self._lock = threading.Lock()  # two threads must not load it twice

    def check(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Load the model. Raises `ModelError` and `DataError`."""
        check_chats(rows, self._loaded(), self.asked.input, self.name)

    def score(self, records: Sequence[Record]) -> list[Score]:
        frozen = self._loaded()
        scores: dict[int, Score] = {}
        rows: dict[int, Row] = {}
        for place, record in enumerate(records):
            try:
                rows[place] = self._read(record, frozen)
            except Unreadable as error:
                scores[place] = self._failed(record, str(error))
        readable = list(rows)
        for chosen in batches([len(rows[place].ids) for place in readable], self.asked.batch_tokens):
            places = [readable[number] for number in chosen]
            scores |= zip(places, self._scores([rows[place] for place in places], frozen), strict=True)
        return [scores[place] for place in range(len(records))]

    def close(self) -> None:
        """Let go of the model."""
        with self._lock:
            self._frozen = None

    def _loaded(self) -> Frozen:
        with self._lock:
            if self._frozen is None:
                frozen = load_frozen(self.asked, self.base, self.auto_class)
                self._check_model(frozen)
                self._frozen = frozen
            return self._frozen

    @abstractmethod
    def _check_model(self, frozen: Frozen) -> None:
        """Raise `ModelError` for a model that can't score so."""

    @abstractmethod
    def _read(self, record: Record, frozen: Frozen) -> Row:
        """What the model is to read. Raises `Unreadable`."""

    @abstractmethod
    def _failed(self, record: Record, reason: str) -> Score:
        """The score of a record that the model can't be given, or of which it says no number."""

    @abstractmethod
    def _scores(self, rows: Sequence[Row], frozen: Frozen) -> list[Score]:
        """One score per row of a batch."""
