"""What a page holds of a group, and which groups a page in one file holds.

A file that opens in any browser can't hold every group of a long run. It holds a stated choice within stated bounds,
and says of how many; `groupwise watch` serves them all.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

from groupwise.report.ledger_index import SHOWN, Entry, LedgerIndex
from groupwise.report.numbers import shorter

GROUPS = 160
"""The most groups in a file, over all its runs."""
BYTES = 2_500_000
"""The most bytes of them, over all its runs."""
TOKENS = 1000
"""The most tokens of one completion, from its beginning."""
CHARACTERS = 20_000
"""The most characters of a prompt, from its end, or of a completion whose tokens were not recorded one by one."""

KINDS = (*SHOWN[1:], "first", "last", "spread over the run", "evaluation")
"""The kinds that a choice takes one of each of, in turn, until a bound is met."""


def group_of(rows: Sequence[Mapping[str, Any]], entry: Entry, tokens: int | None = None) -> dict[str, Any]:
    """A group as the page shows it, from its rows in the ledger; `tokens` bounds what stands of each completion."""
    first = rows[0]
    prompt = first["prompt"] if tokens is None else first["prompt"][-CHARACTERS:]
    return {
        **entry.to_json(),
        "prompt": prompt,
        "prompt_left_out": len(first["prompt"]) - len(prompt),
        "columns": json.loads(first["columns"]),
        "dropped_because": first["dropped_because"],
        "completions": [_completion(row, tokens) for row in rows],
    }


def choose(index: LedgerIndex, groups: int = GROUPS, size: int = BYTES) -> list[dict[str, Any]]:
    """The groups that a file holds of one run, in order: one of each kind in turn, none twice, within the bounds."""
    taken: dict[tuple[str, int, str], dict[str, Any]] = {}
    room = size
    for entry in _in_turn(_by_kind(index)):
        key = (entry.source, entry.step, entry.id)
        if key in taken:
            continue
        if len(taken) == groups:
            break
        group = group_of(index.rows(entry), entry, TOKENS)
        room -= len(json.dumps(group, ensure_ascii=False).encode("utf-8", "surrogatepass"))
        if room < 0 and taken:
            break
        taken[key] = group
    keys = ((entry.source, entry.step, entry.id) for entry in index.entries())
    return [taken[key] for key in keys if key in taken]


def _by_kind(index: LedgerIndex) -> list[list[Entry]]:
    """The groups of each of `KINDS`; those with an order of their own from its start, the others spread evenly."""
    training = index.entries("training")
    kinds = []
    for kind in SHOWN[1:]:
        found = index.find(kind, source="training")
        kinds.append(found if kind in ("surprising", "longest") else _spread(found))
    first = [entry for entry in training if entry.step == training[0].step]
    last = [entry for entry in training if entry.step == training[-1].step]
    return [*kinds, first, last, _spread(training), _spread(index.entries("evaluation"))]


def _spread(entries: Sequence[Entry], most: int = GROUPS) -> list[Entry]:
    """At most so many, evenly over the whole, those far from each other first."""
    if len(entries) > most:
        entries = [entries[place * (len(entries) - 1) // (most - 1)] for place in range(most)]
    stride = 1 << max(len(entries) - 1, 0).bit_length()
    order = [0] if entries else []
    while stride > 1:
        stride //= 2
        order += range(stride, len(entries), 2 * stride)
    return [entries[place] for place in order]


def _in_turn(kinds: Sequence[Sequence[Entry]]) -> list[Entry]:
    return [entry for turn in zip_longest(*kinds) for entry in turn if entry is not None]


def _completion(row: Mapping[str, Any], most: int | None) -> dict[str, Any]:
    """One completion: its tokens with log-prob and coefficient where the ledger has them one by one, else its text."""
    texts, count = row.get("token_texts"), len(row["token_ids"])
    coefficients = row.get("coefficients")
    shown: dict[str, Any] = {}
    if texts is None:
        text = row["completion"] if most is None else row["completion"][:CHARACTERS]
        shown = {"text": text, "left_out": len(row["completion"]) - len(text)}
    else:
        shown = {"texts": texts[:most], "left_out": count - len(texts[:most])}
    return shown | {
        "sample": row["sample"],
        "tokens": count,
        "log_probs": _numbers(row["sampler_log_probs"], most),
        "coefficients": _numbers(row["advantages"] if coefficients is None else coefficients, most),
        "are_advantages": coefficients is None,
        "advantage": _first(row["advantages"]),
        "same_advantage": len(set(row["advantages"] or ())) < 2,
        "finish_reason": row["finish_reason"],
        "version": row["policy_version"],
        "reward": row["reward"],
        "correct": row["correct"],
        "reason": row["reason"],
        "parts": json.loads(row["parts"]),
        "step_rewards": row.get("step_rewards"),
    }


def _numbers(values: Sequence[float | None] | None, most: int | None) -> list[float | None] | None:
    return None if values is None else [None if value is None else shorter(value) for value in values[:most]]


def _first(values: Sequence[float | None] | None) -> float | None:
    return values[0] if values else None
