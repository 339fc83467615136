"""How the program and the tests talk: messages over two pipes.

Each side is one process. A message is a length and a body. A request asks the other side to do something to one of its
objects and is answered by one reply; while it waits, a side serves the requests of the other (a callback, for
instance).

Containers that can change keep their identity within a request and its reply, so a call that changes its argument
changes the caller's; those read from an attribute keep it from then on (`live`), on both sides in the same order.
"""

from __future__ import annotations

import os
import struct

from groupwise.rewards.code.inside.values import Reader, WireError, Writer

TYPE_CHECKING = False  # the module typing takes longer to load than all that is here
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

LARGEST = 1 << 26
"""Bytes of one message."""
MOST_LIVE = 1000
"""Containers that both sides go on sharing."""


class Ended(WireError):
    """The other side is gone."""


class Wire:
    """One end. Subclasses say how their objects are written and what a handle of the other side becomes."""

    def __init__(self, reading: int, writing: int) -> None:
        self.reading = os.fdopen(reading, "rb")
        self.writing = os.fdopen(writing, "wb", buffering=0)
        self.mine: list[Any] = []
        self.numbers: dict[int, int] = {}
        self.live: list[Any] = []
        self.seen: list[Any] = []

    # -- what subclasses give -------------------------------------------------------------------------------------

    def write_object(self, writer: Writer, value: Any) -> None:
        """Append a value that does not cross as plain data."""
        raise NotImplementedError

    def read_object(self, reader: Reader) -> None:
        """What a handle of the other side becomes here."""
        raise NotImplementedError

    def serve(self, words: tuple[Any, ...]) -> tuple[Any, ...]:
        """Do what the other side asks; the answer's words. Never raises."""
        raise NotImplementedError

    def raised(self, error: BaseException) -> tuple[Any, ...]:
        """An exception as the words of an answer."""
        raise NotImplementedError

    # -- handles --------------------------------------------------------------------------------------------------

    def handle(self, value: Any) -> int:
        """The number under which the other side knows a value of this one, which is kept for good."""
        number = self.numbers.get(id(value))
        if number is None:
            number = self.numbers[id(value)] = len(self.mine)
            self.mine.append(value)
        return number

    def own(self, number: int) -> Any:
        """The value of this side that has the number."""
        if not 0 <= number < len(self.mine):
            raise WireError("no such handle")
        return self.mine[number]

    # -- messages -------------------------------------------------------------------------------------------------

    def request(self, *words: Any, keep: bool = False) -> Any:
        """Ask the other side, and serve it meanwhile. With `keep` the containers of the answer become live."""
        writer = self.message(b"?", self.live, words, keep, self.seen)
        self.send(writer.body)
        while True:
            kind, keeps, words, reader = self.receive(writer.containers)
            if kind == b"!":
                self.remember(writer.containers, reader.containers, keep)
                return words
            self.answer(words, keeps, reader)

    def answer(self, words: tuple[Any, ...], keeps: bool, reader: Reader) -> None:
        """Serve one request."""
        known = reader.containers
        before = [shallow(container) for container in known]
        answer = self.serve(words)
        try:
            writer = self.message(b"!", known, answer, keeps, before)
        except Exception as error:  # what can't be told (too deep, for instance) is an exception, too
            writer = self.message(b"!", known, self.raised(error), keeps, before)
        self.send(writer.body)
        self.remember(known, writer.containers, keeps)

    def remember(self, known: list[Any], containers: list[Any], keep: bool) -> None:
        """After a reply: keep what both sides go on sharing."""
        if keep:
            self.live = (self.live + containers[len(known) :])[:MOST_LIVE]
        self.seen = [shallow(container) for container in self.live]

    def message(self, kind: Any, known: list[Any], words: tuple[Any, ...], keep: bool, snapshots: list[Any]) -> Writer:
        """Kind, keep, the known containers that have changed since their snapshots, and the words."""
        writer = Writer(self, known)
        writer.body += kind + (b"k" if keep else b"-")
        changed = [n for n, old in enumerate(snapshots) if not same(old, known[n])]
        writer.number(len(changed))
        for number in changed:
            writer.number(number)
            writer.content(known[number])
        writer.value(tuple(words))
        return writer

    def send(self, body: bytearray | memoryview) -> None:
        """Write one message. Raises `Ended`."""
        if len(body) > LARGEST:
            raise WireError(f"{len(body)} bytes in one message")
        view = memoryview(struct.pack("<q", len(body)) + body)
        try:
            while view:
                view = view[self.writing.write(view) :]
        except OSError:
            raise Ended("the other side is gone") from None

    def receive(self, containers: Sequence[Any]) -> tuple[bytes, bool, tuple[Any, ...], Reader]:
        """Kind, keep, words and the reader of the next message."""
        size = self.exactly(8)
        length = struct.unpack("<q", size)[0]
        if not 0 < length <= LARGEST:
            raise WireError(f"a message of {length} bytes")
        reader = Reader(self, memoryview(self.exactly(length)), ())
        kind, keep = bytes(reader.take(1)), bytes(reader.take(1)) == b"k"
        if kind not in (b"?", b"!"):
            raise WireError("neither a request nor a reply")
        reader.containers = list(containers if kind == b"!" else self.live)
        try:
            for _ in range(reader.number()):
                reader.fill(reader.reference())
            words = reader.value()
        except Exception as error:  # whatever is wrong with it is no exception of the program
            raise WireError(f"a message that can't be read: {error}") from None
        if type(words) is not tuple or not words:
            raise WireError("a message without words")
        return kind, keep, words, reader

    def exactly(self, size: int) -> bytes:
        """So many bytes of what the other side writes. Raises `Ended`."""
        data = self.reading.read(size)
        if len(data) < size:
            raise Ended("the other side is gone")
        return data


def shallow(container: Any) -> Any:
    """A copy to compare with later."""
    if isinstance(container, dict):
        return list(container.items())
    return bytes(container) if isinstance(container, bytearray) else list(container)


def same(old: Any, container: Any) -> bool:
    """Whether a container still holds the very objects that it held."""
    now = shallow(container)
    if isinstance(container, bytearray):
        return now == old
    if len(now) != len(old):
        return False
    if isinstance(container, dict):
        return all(a[0] is b[0] and a[1] is b[1] for a, b in zip(now, old, strict=True))
    return all(a is b for a, b in zip(now, old, strict=True))
