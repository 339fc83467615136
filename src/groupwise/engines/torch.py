"""The in-process engine: samples with the trainer's own weights, so policy and sampler can't drift apart.

The prompt of a group is computed once and its keys and values are shared by all siblings; rows that have stopped
leave the batch at once, and waiting groups take their place. Any decoder that `models.attention` serves works.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from groupwise.engines.contract import Request
from groupwise.engines.draws import stream, uniforms
from groupwise.engines.sampling import draw
from groupwise.models.decode import Decode, Rows
from groupwise.models.packed import Packed
from groupwise.models.policy import Policy
from groupwise.settings import Settings
from groupwise.types import Completion, FinishReason, Segment

PACK_AT = 8
"""The decoding step before which weights are packed (see `models.linear`): by then unpacked ones have cost about as
much as the packing does, so that it never costs more than it saves twice over, however long completions get."""


class TorchEngineSettings(Settings):
    """Sampling in the trainer's process."""

    name: Literal["torch"] = "torch"
    max_rows: int = 64
    """Completions decoded at the same time; waiting groups are admitted as rows finish."""

    def check(self) -> None:
        """Nothing can be missing."""

    def build(self) -> TorchEngine:
        """The engine."""
        return TorchEngine(max_rows=self.max_rows)


@dataclass
class _Row:
    """One completion being sampled."""

    request: Request
    stream: int
    tokens: list[int] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)

    def append(self, token: int, log_prob: float) -> None:
        self.tokens.append(token)
        self.log_probs.append(log_prob)

    def finished(self, stop_ids: frozenset[int]) -> FinishReason | None:
        if self.tokens[-1] in stop_ids:
            return "stop"
        return "length" if len(self.tokens) >= self.request.sampling.max_tokens else None


class TorchEngine:
    """See `engines.contract.Engine`."""

    def __init__(self, *, max_rows: int = 64) -> None:
        self.max_rows = max_rows
        self.waiting: list[Request] = []

    def load(self, policy: Policy, version: int) -> None:
        self.policy, self.version = policy, version
        self.stop_ids = frozenset(policy.stop_ids)

    def submit(self, requests: Sequence[Request]) -> None:
        known = {request.id for request in self.waiting}
        for request in requests:
            assert request.id not in known, f"request {request.id} was submitted twice"
            assert request.prefix and request.sampling.max_tokens > 0
            known.add(request.id)
        self.waiting += requests

    @torch.no_grad()
    def collect(self) -> list[tuple[int, Completion]]:
        with self.policy.forward.packed_weights.holding():
            return self._collect()

    def _collect(self) -> list[tuple[int, Completion]]:
        done: list[tuple[int, Completion]] = []
        groups = iter(self._take_waiting())
        running = _Running(self.policy)
        group = next(groups, None)
        while group is not None or running.rows:
            admitted: list[list[Request]] = []
            rows = len(running.rows)
            while group is not None and (not rows or rows + len(group) <= self.max_rows):
                admitted.append(group)
                rows += len(group)
                group = next(groups, None)
            if admitted:
                running.admit(admitted)
                done += self._retire(running)
            if running.rows:
                running.decode()
                done += self._retire(running)
        return done

    def _take_waiting(self) -> list[list[Request]]:
        """The queue, emptied: requests that share a prefix in order of first appearance, at most `max_rows` each."""
        groups: dict[tuple[int, ...], list[Request]] = {}
        for request in self.waiting:
            groups.setdefault(request.prefix, []).append(request)
        self.waiting = []
        return [
            siblings[start : start + self.max_rows]
            for siblings in groups.values()
            for start in range(0, len(siblings), self.max_rows)
        ]

    def _retire(self, running: _Running) -> list[tuple[int, Completion]]:
        """Take finished rows out of the batch."""
        reasons = [row.finished(self.stop_ids) for row in running.rows]
        done = []
        for row, reason in zip(running.rows, reasons, strict=True):
            if reason is not None:
                segment = Segment(tuple(row.tokens), tuple(row.log_probs), version=self.version)
                done.append((row.request.id, Completion((segment,), reason, row.request.key)))
        if done:
            running.keep([index for index, reason in enumerate(reasons) if reason is None])
        return done


class _Running:
    """The rows being decoded: their keys and values, and which group each belongs to."""

    def __init__(self, policy: Policy) -> None:
        self.forward = policy.forward
        self.steps = 0
        self.device = policy.device
        self.rows: list[_Row] = []
        self.group_of_row: list[int] = []
        self.prompt_lengths: list[int] = []
        self.layers: dict[int, Rows] = {}
        self.layout: Decode | None = None

    def admit(self, groups: list[list[Request]]) -> None:
        """Prefill the groups' prompts in one forward, draw every sibling's first token, and join them to the batch."""
        prompts = [group[0].prefix for group in groups]
        spans, start = [], 0
        for prompt in prompts:
            spans.append((start, start + len(prompt)))
            start += len(prompt)
        layout = Packed(spans, [[] for _ in spans], self.device, keep=True)
        token_ids = torch.tensor([token for prompt in prompts for token in prompt], device=self.device)
        positions = torch.cat([torch.arange(len(prompt), device=self.device) for prompt in prompts])
        hidden = self.forward.hidden(token_ids, positions, layout)
        last = hidden[torch.tensor([end - 1 for _, end in spans], device=self.device)]
        group_of_row = [index for index, group in enumerate(groups) for _ in group]
        rows = [_Row(request, stream(request.key)) for group in groups for request in group]
        self._draw(rows, self.forward.head.logits(last)[torch.tensor(group_of_row, device=self.device)])
        assert layout.kept is not None
        self._join(rows, group_of_row, [len(prompt) for prompt in prompts], layout.kept)

    def decode(self) -> None:
        """One more token for every row."""
        self.steps += 1
        if self.steps == PACK_AT:
            self.forward.packed_weights.pack(len(self.rows))
        if self.layout is None:
            self.layout = Decode(self.layers, self.group_of_row, self.prompt_lengths)
        lengths = torch.tensor([len(row.tokens) - 1 for row in self.rows], device=self.device)
        self.layout.step(lengths)
        tokens = torch.tensor([row.tokens[-1] for row in self.rows], device=self.device)
        hidden = self.forward.hidden(tokens, self.layout.row_prompt + lengths, self.layout)
        self._draw(self.rows, self.forward.head.logits(hidden))

    def keep(self, rows: list[int]) -> None:
        """Drop all other rows, and the prompts of groups that have none left."""
        groups = sorted({self.group_of_row[row] for row in rows})
        renumbered = {group: index for index, group in enumerate(groups)}
        chosen, prompts = (torch.tensor(indices, dtype=torch.int64, device=self.device) for indices in (rows, groups))
        self.rows = [self.rows[row] for row in rows]
        self.group_of_row = [renumbered[self.group_of_row[row]] for row in rows]
        self.prompt_lengths = [self.prompt_lengths[group] for group in groups]
        longest = max(self.prompt_lengths, default=0)
        self.layers = {
            layer: Rows(
                held.prompt_key[prompts, :, :longest],
                held.prompt_value[prompts, :, :longest],
                held.key[chosen],
                held.value[chosen],
            )
            for layer, held in self.layers.items()
        }
        self.layout = None

    def _join(
        self,
        rows: list[_Row],
        group_of_row: list[int],
        prompt_lengths: list[int],
        kept: dict[int, list[tuple[Tensor, Tensor]]],
    ) -> None:
        longest = max(prompt_lengths + self.prompt_lengths)
        capacity = max(row.request.sampling.max_tokens for row in self.rows + rows)
        for layer, prompts in kept.items():
            key, value = (_stacked([pair[side] for pair in prompts], longest) for side in (0, 1))
            own_key, own_value = (x.new_zeros(len(rows), x.shape[1], capacity, x.shape[3]) for x in (key, value))
            held = self.layers.get(layer)
            if held is not None and self.rows:
                key = torch.cat([_grown(held.prompt_key, longest), key])
                value = torch.cat([_grown(held.prompt_value, longest), value])
                own_key = torch.cat([_grown(held.key, capacity), own_key])
                own_value = torch.cat([_grown(held.value, capacity), own_value])
            self.layers[layer] = Rows(key, value, own_key, own_value)
        offset = len(self.prompt_lengths)
        self.rows = self.rows + rows
        self.group_of_row = self.group_of_row + [offset + group for group in group_of_row]
        self.prompt_lengths = self.prompt_lengths + prompt_lengths
        self.layout = None

    def _draw(self, rows: list[_Row], logits: Tensor) -> None:
        """Append to each row a token drawn from its logits [R, V]."""
        numbers = uniforms([row.stream for row in rows], [len(row.tokens) for row in rows])
        temperatures = torch.tensor([row.request.sampling.temperature for row in rows], device=self.device)
        tokens, log_probs = draw(logits, temperatures, torch.from_numpy(numbers).to(self.device))
        for row, token, log_prob in zip(rows, tokens.tolist(), log_probs.tolist(), strict=True):
            row.append(token, log_prob)


def _grown(x: Tensor, length: int) -> Tensor:
    """[n, KV, l, D] -> [n, KV, length, D], zero-padded."""
    return torch.nn.functional.pad(x, (0, 0, 0, length - x.shape[2]))


def _stacked(prompts: list[Tensor], length: int) -> Tensor:
    """[KV, P, D] per prompt -> [g, KV, length, D], zero-padded."""
    return torch.stack([_grown(prompt[None], length)[0] for prompt in prompts])
