"""Sums along each completion, from its last token to its first.

A completion's tokens follow one another on the flat axis, so those that take part are laid into a matrix [N, longest],
one row per completion without gaps, and walked from the right: masked tokens inside a completion are simply not there.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from groupwise.types import Batch


class Rows(NamedTuple):
    """Where the chosen tokens of each completion stand in a matrix [N, longest]."""

    tokens: Tensor  # [M] int64: positions on the flat axis
    owners: Tensor  # [M] int64: their completions
    places: Tensor  # [M] int64: 0, 1, 2 ... within the completion
    lengths: Tensor  # [N] int64

    def lay(self, values: Tensor) -> Tensor:
        """[T] -> [N, longest] float64, 0 behind the end of a row."""
        rows = torch.zeros(self._shape(), dtype=torch.float64, device=values.device)
        rows[self.owners, self.places] = values.detach().double()[self.tokens]
        return rows

    def lift(self, rows: Tensor, size: int) -> Tensor:
        """[N, longest] -> [T], 0 at tokens that were not chosen."""
        values = rows.new_zeros(size)
        values[self.tokens] = rows[self.owners, self.places]
        return values

    def _shape(self) -> tuple[int, int]:
        return len(self.lengths), int(self.lengths.max()) if len(self.lengths) else 0


def rows_of(batch: Batch, chosen: Tensor) -> Rows:
    """The tokens at which `chosen` [T] is True, completion by completion; prompt tokens never are."""
    tokens = (chosen & (batch.completion_index >= 0)).nonzero()[:, 0]
    owners = batch.completion_index[tokens]
    lengths = torch.bincount(owners, minlength=len(batch.completion_spans))
    starts = lengths.cumsum(0) - lengths
    places = torch.arange(len(tokens), device=tokens.device) - starts[owners]
    return Rows(tokens, owners, places, lengths)


def suffix_sums(values: Tensor, batch: Batch, chosen: Tensor, decay: float = 1.0) -> Tensor:
    """[T] float64: sum_k decay^k values_{t+k} over the chosen tokens of the same completion."""
    rows = rows_of(batch, chosen)
    laid = rows.lay(values)
    running = laid.new_zeros(len(laid))
    for place in range(laid.shape[1] - 1, -1, -1):
        running = laid[:, place] + decay * running
        laid[:, place] = running
    return rows.lift(laid, len(batch.token_ids))


def last_tokens(batch: Batch) -> Tensor:
    """[N] int64: the last token of each completion that counts, -1 where none does."""
    places = torch.arange(len(batch.token_ids), device=batch.token_ids.device)
    last = torch.full((len(batch.completion_spans),), -1, device=places.device)
    counted = batch.loss_mask
    return last.scatter_reduce(0, batch.completion_index[counted], places[counted], "amax")
