"""Order and identity that depend on content alone: the same on every machine, in every process, after every
restart."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

Item = TypeVar("Item")


def digest(*parts: Any) -> str:
    """64 hexadecimal digits that these JSON values (others by their `str`) determine."""
    text = json.dumps(parts, sort_keys=True, ensure_ascii=True, default=str)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def keyed_order(items: Iterable[Item], *key: Any) -> list[Item]:
    """The items in an order that looks random and is determined by the key and the items alone."""
    return sorted(items, key=lambda item: digest(*key, item))


def content_id(row: Mapping[str, Any]) -> str:
    """An id for a row without one, from what it asks: its prompt or its messages."""
    return "row-" + digest(row.get("prompt"), row.get("messages"))[:16]
