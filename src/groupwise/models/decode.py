"""The layout of decoding: one new token per row, behind prompts whose keys and values stand once per group."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from groupwise.models.attention import Scoring


@dataclass
class Rows:
    """The keys and values of one layer while decoding R rows that belong to g groups."""

    prompt_key: Tensor  # [g, KV, longest prompt, D], padded at the end
    prompt_value: Tensor
    key: Tensor  # [R, KV, capacity, D]
    value: Tensor


class Decode:
    """One new token for each of R rows; rows of a group share the prompt's keys and values.

    The scores of all siblings against their prompt are one matrix product per group, so the prompt's keys are read
    once per group however many siblings there are.
    """

    def __init__(self, layers: dict[int, Rows], group_of_row: list[int], prompt_lengths: list[int]) -> None:
        """layers: keys and values by layer; group_of_row: R group indices, siblings adjacent; prompt_lengths: g."""
        device = next(iter(layers.values())).key.device
        self.layers = layers
        self.device = device
        self.groups = len(prompt_lengths)
        seen = [0] * self.groups
        slots = []
        for group in group_of_row:
            slots.append((group, seen[group]))
            seen[group] += 1
        self.siblings = max(seen)
        places = [group * self.siblings + place for group, place in slots]
        self.full = places == list(range(self.groups * self.siblings))  # every slot holds the row of its own number
        self.slots = torch.tensor(places, device=device)
        self.row_prompt = torch.tensor([prompt_lengths[group] for group in group_of_row], device=device)
        self.prompt_positions = torch.arange(max(prompt_lengths), device=device)
        self.every_row = torch.arange(len(group_of_row), device=device)

    def step(self, lengths: Tensor) -> None:
        """Prepare for one forward: lengths [R], the number of tokens each row already holds."""
        self.lengths = lengths
        self.held = int(lengths.max()) + 1
        self.masks: dict[int | None, Tensor] = {}

    def mask(self, window: int | None) -> Tensor:
        """[R, 1, 1, longest prompt + held]: what each row's new token may not see."""
        if window not in self.masks:
            position = (self.row_prompt + self.lengths)[:, None]
            own = torch.arange(self.held, device=self.device)[None]
            prompt = self.prompt_positions[None] < self.row_prompt[:, None]
            recent = own <= self.lengths[:, None]
            if window:
                prompt &= self.prompt_positions[None] > position - window
                recent &= own + self.row_prompt[:, None] > position - window
            self.masks[window] = ~torch.cat([prompt, recent], 1)[:, None, None]
        return self.masks[window]

    def __call__(
        self,
        layer: int,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        scoring: Scoring,
    ) -> Tensor:
        state = self.layers[layer]
        _, heads, rows, size = query.shape
        kv = key.shape[1]
        state.key[self.every_row, :, self.lengths] = key[0].transpose(0, 1)
        state.value[self.every_row, :, self.lengths] = value[0].transpose(0, 1)
        own_key, own_value = state.key[:, :, : self.held], state.value[:, :, : self.held]
        queries = query[0].transpose(0, 1).reshape(rows, kv, heads // kv, size)
        queries = scoring.scaled(queries)
        prompt_scores = self._from_slots(self._to_slots(queries) @ state.prompt_key.transpose(-1, -2), heads // kv)
        scores = torch.cat([prompt_scores, queries @ own_key.transpose(-1, -2)], -1)
        weights = (
            scoring.capped(scores).masked_fill(self.mask(scoring.window), float("-inf")).softmax(-1).to(value.dtype)
        )
        longest = self.prompt_positions.numel()
        mixed = weights[..., longest:] @ own_value
        mixed = mixed + self._from_slots(self._to_slots(weights[..., :longest]) @ state.prompt_value, heads // kv)
        return mixed.reshape(rows, heads, -1).transpose(0, 1)[None]

    def _to_slots(self, x: Tensor) -> Tensor:
        """[R, KV, repeats, n] -> [g, KV, siblings * repeats, n]; slots without a row are zero."""
        _, kv, repeats, n = x.shape
        slots = x
        if not self.full:
            slots = x.new_zeros(self.groups * self.siblings, kv, repeats, n)
            slots[self.slots] = x
        return slots.view(self.groups, self.siblings, kv, repeats, n).transpose(1, 2).reshape(self.groups, kv, -1, n)

    def _from_slots(self, x: Tensor, repeats: int) -> Tensor:
        """[g, KV, siblings * repeats, n] -> [R, KV, repeats, n]."""
        groups, kv, _, n = x.shape
        rows = x.view(groups, kv, self.siblings, repeats, n).transpose(1, 2).reshape(-1, kv, repeats, n)
        return rows if self.full else rows[self.slots]
