"""Keyed uniform numbers: the draw of a token depends on its key and position, not on what runs beside it.

A key is hashed once to 64 bits; position t of a completion then takes the t-th output of a splitmix64 generator that
starts there, so a draw can be computed for any position, in any order, on any machine, with the same bits.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from groupwise.types import DrawKey

_GAMMA = np.uint64(0x9E3779B97F4A7C15)


def stream(key: DrawKey) -> int:
    """The 64-bit start of a key's stream."""
    text = "\x1f".join(
        str(part) for part in (key.seed, key.purpose, key.stage, key.prompt_id, key.visit, key.sample, key.turn)
    )
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def uniforms(streams: Sequence[int], positions: Sequence[int]) -> np.ndarray:
    """One float64 in [0, 1) for each (stream, position)."""
    with np.errstate(over="ignore"):
        x = np.asarray(streams, dtype=np.uint64) + _GAMMA * (np.asarray(positions, dtype=np.uint64) + np.uint64(1))
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        x = x ^ (x >> np.uint64(31))
    return (x >> np.uint64(11)).astype(np.float64) * 2.0**-53
