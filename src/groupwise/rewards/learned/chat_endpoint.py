"""A chat server with OpenAI's interface, asked within bounds of time and size.

What may pass (no connection, no answer in time, status 408, 425, 429, 500 and above) is tried again after 0.5, 1, 2,
... seconds, or after what the server asks for in `Retry-After`, as long as patience lasts. Then, and at once where the
server refuses us (a wrong key, address or model), the machine is to blame: `Unavailable`. Status 400, 413 and 422 are
about the request, too long a completion for instance: `Refused`. Redirections are not followed.
"""

from __future__ import annotations

import http.client
import json
import random
import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from groupwise.rewards.contract import Unavailable

PASSING = {408, 425, 429}
"""Statuses below 500 that another try may not meet."""

ABOUT_THE_REQUEST = {400, 413, 422}

LARGEST_REPLY = 2**20
"""Bytes. A judge's reply takes a few thousand."""


class Refused(Exception):
    """The server can't take this request, or answers it with something that is no reply; the message says which."""


@dataclass(frozen=True)
class ChatEndpoint:
    """Where to ask, and how patiently."""

    url: str
    """Up to the version, `https://host/v1`."""
    key: str | None
    """Sent as a bearer token."""
    timeout: float
    """Seconds that one try may take."""
    tries: int
    patience: float
    """Seconds that all tries together may take, with the pauses between them."""

    def ask(self, body: dict[str, Any]) -> str:
        """The text of the first choice. Raises `Refused`, `Unavailable`."""
        payload = json.dumps(body).encode()
        end = time.monotonic() + self.patience
        for number in range(1, self.tries + 1):
            pause = 2 ** (number - 2) * random.uniform(0.8, 1.2)  # so that many workers don't come back together
            try:
                status, wait, reply = self._post(payload, min(time.monotonic() + self.timeout, end))
            except (OSError, http.client.HTTPException) as error:
                cause = " ".join(str(error).split())[:200] or type(error).__name__
            else:
                if status == 200:
                    return _content(reply)
                cause = f"status {status}: {' '.join(reply[:200].decode(errors='replace').split())}"
                if status in ABOUT_THE_REQUEST:
                    raise Refused(cause)
                if status not in PASSING and status < 500:
                    raise Unavailable(f"{self.url} refuses to answer ({cause})")
                pause = max(pause, wait)
            if number == self.tries or time.monotonic() + pause >= end:
                break
            time.sleep(pause)
        raise Unavailable(f"{self.url} gave no answer; tried {number} times, the last time: {cause}")

    def _post(self, payload: bytes, end: float) -> tuple[int, float, bytes]:
        """Status, seconds that the server asks us to wait, and body, by the deadline. Raises OSError, HTTPException."""
        parts = urlsplit(self.url)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        connection = kind(str(parts.hostname), parts.port, timeout=_left(end))
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {self.key}"} if self.key else {})
        try:
            connection.connect()
            socket = connection.sock
            socket.settimeout(_left(end))
            connection.request("POST", f"{parts.path.rstrip('/')}/chat/completions", payload, headers)
            response = connection.getresponse()
            reply = bytearray()
            while len(reply) <= LARGEST_REPLY:
                socket.settimeout(_left(end))
                part = response.read1(2**16)
                if not part:
                    break
                reply += part
            return response.status, _seconds(response.getheader("Retry-After")), bytes(reply)
        finally:
            connection.close()


def _content(reply: bytes) -> str:
    """What the server's model wrote."""
    if len(reply) > LARGEST_REPLY:
        raise Refused(f"the reply has more than {LARGEST_REPLY} bytes")
    try:
        choice = json.loads(reply)["choices"][0]
        content, finish = choice["message"]["content"], choice.get("finish_reason")
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError) as error:
        raise Refused(f"the reply is no chat completion ({reply[:60]!r})") from error
    if finish == "length":
        raise Refused("the reply was cut at its token limit")
    if not isinstance(content, str):
        raise Refused("the reply has no text")
    return content


def _left(end: float) -> float:
    left = end - time.monotonic()
    if left <= 0:
        raise TimeoutError("timed out")
    return left


def _seconds(header: str | None) -> float:
    """A `Retry-After` in seconds; one that is a date is left to our own pauses."""
    return float(header) if header is not None and header.isdecimal() else 0.0
