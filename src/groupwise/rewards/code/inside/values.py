"""Values as bytes: plain data by value and with its exact type, everything else by handle.

By value: None, bool, int, float, complex, str, bytes, tuple, list, dict, set, frozenset, bytearray, range, slice,
Ellipsis, NotImplemented, builtin types; Counter, OrderedDict, defaultdict and deque; views of dictionaries; Decimal,
Fraction, dates and times without zone; arrays of numpy. Subclasses of numbers and texts cross as the plain value that
they hold. Decoding checks bounds, and imports nothing by name but what is listed here; there is no pickle.

A container that can change is written once in a message and referred to by number after that.
"""

from __future__ import annotations

import struct
import sys

TYPE_CHECKING = False  # the module typing takes longer to load than all that is here
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from typing import Any

    from groupwise.rewards.code.inside.wire import Wire

CONTAINERS = (
    ("builtins", "list"),
    ("builtins", "dict"),
    ("builtins", "set"),
    ("builtins", "bytearray"),
    ("collections", "deque"),
    ("collections", "Counter"),
    ("collections", "OrderedDict"),
    ("collections", "defaultdict"),
)
STANDARD = {
    "Decimal": ("decimal", lambda v: (str(v),)),
    "Fraction": ("fractions", lambda v: (v.numerator, v.denominator)),
    "date": ("datetime", lambda v: (v.year, v.month, v.day)),
    "time": ("datetime", lambda v: (v.hour, v.minute, v.second, v.microsecond)),
    "datetime": ("datetime", lambda v: (v.year, v.month, v.day, v.hour, v.minute, v.second, v.microsecond)),
    "timedelta": ("datetime", lambda v: (v.days, v.seconds, v.microseconds)),
    "range": ("builtins", lambda v: (v.start, v.stop, v.step)),
    "slice": ("builtins", lambda v: (v.start, v.stop, v.step)),
    "complex": ("builtins", lambda v: (v.real, v.imag)),
}
VIEWS = {
    "dict_keys": lambda items: dict.fromkeys(items).keys(),
    "dict_values": lambda items: dict(enumerate(items)).values(),
    "dict_items": lambda items: dict(items).items(),
}
_VIEW_TYPES: tuple[type, ...] = (type({}.keys()), type({}.values()), type({}.items()))
BUILTIN_TYPES = {
    kind.__name__: kind
    for kind in vars(sys.modules["builtins"]).values()
    if isinstance(kind, type) and kind.__module__ == "builtins"
}
_CONTAINER_CODE = {name: code for code, (_, name) in enumerate(CONTAINERS)}
_CONSTANTS = {b"N": None, b"T": True, b"F": False, b"E": Ellipsis, b"J": NotImplemented}
_CONSTANT_TAG = {id(value): tag for tag, value in _CONSTANTS.items()}
_NUMPY_KINDS = "biufcU"
_TEXT = "surrogatepass"  # a program may hold texts that no encoding knows


class WireError(BaseException):
    """The other side sent what is no message, or is gone: nothing that the tests could take for an exception of the
    program."""


class Writer:
    """Encodes one message; `containers` are those that both sides know already, and then those of this message."""

    def __init__(self, wire: Wire, containers: Sequence[Any]) -> None:
        self.wire, self.body = wire, bytearray()
        self.containers = list(containers)
        self.index = {id(container): number for number, container in enumerate(self.containers)}

    def number(self, value: int) -> None:
        """64 bits with a sign."""
        self.body += struct.pack("<q", value)

    def text(self, tag: bytes, value: str | bytes) -> None:
        """A text or bytes, with its length."""
        encoded = value if isinstance(value, bytes) else value.encode("utf-8", _TEXT)
        self.body += tag
        self.number(len(encoded))
        self.body += encoded

    def value(self, value: Any) -> None:
        """Append any value."""
        kind, body = type(value), self.body
        if id(value) in _CONSTANT_TAG:
            body += _CONSTANT_TAG[id(value)]
        elif issubclass(kind, int):
            self.integer(int.__int__(value))
        elif issubclass(kind, float):
            body += b"d" + struct.pack("<d", value)
        elif issubclass(kind, str):
            self.text(b"s", str.__str__(value))
        elif issubclass(kind, bytes):
            self.text(b"b", bytes.__getitem__(value, slice(None)))
        elif kind is tuple or kind is frozenset:
            self.items(b"t" if kind is tuple else b"z", value)
        elif (code := container_code(kind)) is not None:
            self.container(code, value)
        elif kind is type and value.__module__ == "builtins" and value.__name__ in BUILTIN_TYPES:
            self.text(b"o", value.__name__)
        elif kind.__name__ in STANDARD and is_standard(value):
            self.text(b"x", kind.__name__)
            self.items(b"t", STANDARD[kind.__name__][1](value))
        elif kind in _VIEW_TYPES:
            self.text(b"v", kind.__name__)
            self.items(b"t", list(value))
        elif kind.__module__ == "numpy" and self.numpy(value):
            pass
        else:
            self.wire.write_object(self, value)

    def integer(self, value: int) -> None:
        """An integer of any size."""
        if -(1 << 63) <= value < 1 << 63:
            self.body += b"i" + struct.pack("<q", value)
        else:
            self.text(b"I", value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True))

    def items(self, tag: bytes, values: Collection[Any]) -> None:
        """Values, with their number."""
        self.body += tag
        self.number(len(values))
        for value in values:
            self.value(value)

    def container(self, code: int, value: Any) -> None:
        """A container that can change, or a reference to it."""
        number = self.index.get(id(value))
        if number is not None:
            self.body += b"r"
            self.number(number)
            return
        self.index[id(value)] = len(self.containers)
        self.containers.append(value)
        self.body += b"c" + bytes([code])
        name = CONTAINERS[code][1]
        if name == "deque":
            self.value(value.maxlen)
        elif name == "defaultdict":
            factory = value.default_factory
            self.value(factory if isinstance(factory, type) and factory.__module__ == "builtins" else None)
        self.content(value)

    def content(self, value: Any) -> None:
        """The items of a container."""
        if isinstance(value, dict):
            self.items(b"t", [part for pair in value.items() for part in pair])
        elif isinstance(value, bytearray):
            self.text(b"b", bytes(value))
        else:
            kinds = set(map(type, value)) if type(value) is list and len(value) > 8 else ()
            if kinds == {float} or (kinds == {int} and min(value) >= -(1 << 63) and max(value) < 1 << 63):
                self.body += b"Q" if kinds == {int} else b"D"
                self.number(len(value))
                self.body += struct.pack(f"<{len(value)}{'q' if kinds == {int} else 'd'}", *value)
            else:
                self.items(b"t", list(value))

    def numpy(self, value: Any) -> bool:
        """Append an array or a scalar of numpy; False where it is something else."""
        numpy = sys.modules["numpy"]
        if isinstance(value, numpy.generic):
            self.value(value.item())
        elif type(value) is numpy.ndarray and value.dtype.kind in _NUMPY_KINDS:
            self.text(b"a", value.dtype.str)
            self.items(b"t", value.shape)
            self.text(b"b", value.tobytes())
        else:
            return False
        return True


class Reader:
    """Decodes one message."""

    def __init__(self, wire: Wire, body: memoryview, containers: Sequence[Any]) -> None:
        self.wire, self.body, self.at = wire, body, 0
        self.containers = list(containers)

    def take(self, size: int) -> memoryview:
        """The next bytes. Raises `WireError` where there are too few."""
        if size < 0 or self.at + size > len(self.body):
            raise WireError("a message ends too early")
        self.at += size
        return self.body[self.at - size : self.at]

    def number(self) -> int:
        """64 bits with a sign."""
        return struct.unpack("<q", self.take(8))[0]

    def bytes(self) -> bytes:
        """Bytes, with their length."""
        return bytes(self.take(self.number()))

    def text(self) -> str:
        """A text or bytes, with its length."""
        return self.bytes().decode("utf-8", _TEXT)

    def value(self) -> Any:
        """The next value."""
        tag = bytes(self.take(1))
        if tag in _CONSTANTS:
            return _CONSTANTS[tag]
        if tag == b"i":
            return self.number()
        if tag == b"d":
            return struct.unpack("<d", self.take(8))[0]
        read = self._READ.get(tag)
        if read is None:
            raise WireError(f"no value starts with {tag!r}")
        return read(self)

    def items(self) -> list[Any]:
        """Values, with their number."""
        count = self.number()
        if not 0 <= count <= len(self.body) - self.at:
            raise WireError("a message has fewer items than it says")
        return [self.value() for _ in range(count)]

    def container(self) -> Any:
        """A container that can change, or a reference to it."""
        code = self.take(1)[0]
        if code >= len(CONTAINERS):
            raise WireError("no such container")
        name = CONTAINERS[code][1]
        extra = self.value() if name in ("deque", "defaultdict") else None
        kind = getattr(imported(CONTAINERS[code][0]), name)
        made = kind((), extra) if name == "deque" else kind(extra) if name == "defaultdict" else kind()
        self.containers.append(made)
        self.fill(made)
        return made

    def fill(self, container: Any) -> None:
        """Give a container the content that comes next."""
        content = self.value()
        if isinstance(container, bytearray) and type(content) is bytes:
            container[:] = content
        elif isinstance(container, bytearray) or not isinstance(content, tuple | list):
            raise WireError("a container has no content")
        elif isinstance(container, dict):
            container.clear()
            for key, value in zip(content[::2], content[1::2], strict=True):
                container[key] = value
        else:
            container.clear()
            (container.update if isinstance(container, set) else container.extend)(content)

    def packed(self, letter: str) -> Any:
        """A list of numbers that stand without tags."""
        count = self.number()
        return list(struct.unpack(f"<{count}{letter}", self.take(8 * count)))

    def reference(self) -> Any:
        """A container that came before."""
        number = self.number()
        if not 0 <= number < len(self.containers):
            raise WireError("a reference leads nowhere")
        return self.containers[number]

    def standard(self) -> Any:
        """A value of a standard type."""
        name, arguments = self.text(), self.value()
        if name not in STANDARD or type(arguments) is not tuple:
            raise WireError("no such type")
        return getattr(imported(STANDARD[name][0]), name)(*arguments)

    def array(self) -> Any:
        """An array of numpy."""
        numpy = imported("numpy")
        dtype, shape, data = numpy.dtype(self.text()), self.value(), self.value()
        if dtype.kind not in _NUMPY_KINDS:
            raise WireError("no such array")
        return numpy.frombuffer(data, dtype).reshape(shape).copy()

    _READ = {
        b"I": lambda self: int.from_bytes(self.bytes(), "little", signed=True),
        b"s": text,
        b"b": bytes,
        b"t": lambda self: tuple(self.items()),
        b"z": lambda self: frozenset(self.items()),
        b"c": container,
        b"r": reference,
        b"Q": lambda self: self.packed("q"),
        b"D": lambda self: self.packed("d"),
        b"o": lambda self: BUILTIN_TYPES[self.text()],
        b"x": standard,
        b"v": lambda self: VIEWS[self.text()](self.value()),
        b"a": array,
        b"h": lambda self: self.wire.read_object(self),
        b"H": lambda self: self.wire.own(self.number()),
    }


def container_code(kind: Any) -> int | None:
    """The code of a type of containers, or None where it is none of ours."""
    code = _CONTAINER_CODE.get(kind.__name__)
    if code is None:
        return None
    module = sys.modules.get(CONTAINERS[code][0])
    return code if getattr(module, CONTAINERS[code][1], None) is kind else None


def is_standard(value: Any) -> bool:
    """Whether it is exactly of one of the standard types, and without a time zone."""
    kind = type(value)
    module = sys.modules.get(STANDARD[kind.__name__][0])
    return getattr(module, kind.__name__, None) is kind and getattr(value, "tzinfo", None) is None


def imported(name: str) -> Any:
    """A module of the standard library, or numpy."""
    return __import__(name)
