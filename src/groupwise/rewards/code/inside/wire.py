"""How the program and the tests talk: messages over two pipes, plain data by value, everything else by handle.

Each side is one process. A message is a length and a body. A request asks the other side to do something to one of its
objects and is answered by one reply; while it waits, a side serves the requests of the other (a callback, for
instance). Both sides decode with bounds checks only: no pickle, nothing is imported by name but what is listed here.

By value, with the exact type: None, bool, int, float, complex, str, bytes, tuple, list, dict, set, frozenset,
bytearray, range, slice, Ellipsis, NotImplemented, builtin types; Counter, OrderedDict, defaultdict and deque; Decimal,
Fraction, dates and times without zone; arrays of numpy. Subclasses of numbers and texts cross as the plain value that
they hold. All else crosses as a handle.

Containers that can change keep their identity within a request and its reply, so a call that changes its argument
changes the caller's; those read from an attribute keep it from then on (`live`), on both sides in the same order.
"""

import struct
import sys

LARGEST = 1 << 26
"""Bytes of one message."""
MOST_LIVE = 1000

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
_VIEW_TYPES = (type({}.keys()), type({}.values()), type({}.items()))
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


class Ended(WireError):
    """The other side is gone."""


class Writer:
    """Encodes one message; `containers` are those that both sides know already, and then those of this message."""

    def __init__(self, wire, containers):
        self.wire, self.body = wire, bytearray()
        self.containers = list(containers)
        self.index = {id(container): number for number, container in enumerate(self.containers)}

    def number(self, value):
        self.body += struct.pack("<q", value)

    def text(self, tag, value):
        encoded = value if isinstance(value, bytes) else value.encode("utf-8", _TEXT)
        self.body += tag
        self.number(len(encoded))
        self.body += encoded

    def value(self, value):
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

    def integer(self, value):
        if -(1 << 63) <= value < 1 << 63:
            self.body += b"i" + struct.pack("<q", value)
        else:
            self.text(b"I", value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True))

    def items(self, tag, values):
        self.body += tag
        self.number(len(values))
        for value in values:
            self.value(value)

    def container(self, code, value):
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

    def content(self, value):
        """The items of a container."""
        if isinstance(value, dict):
            self.items(b"t", [part for pair in value.items() for part in pair])
        elif isinstance(value, bytearray):
            self.text(b"b", bytes(value))
        else:
            kinds = set(map(type, value)) if type(value) is list and len(value) > 8 else ()
            if kinds == {float} or (kinds == {int} and -(1 << 63) <= min(value) and max(value) < 1 << 63):
                self.body += b"Q" if kinds == {int} else b"D"
                self.number(len(value))
                self.body += struct.pack(f"<{len(value)}{'q' if kinds == {int} else 'd'}", *value)
            else:
                self.items(b"t", list(value))

    def numpy(self, value):
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

    def __init__(self, wire, body, containers):
        self.wire, self.body, self.at = wire, body, 0
        self.containers = list(containers)

    def take(self, size):
        if size < 0 or self.at + size > len(self.body):
            raise WireError("a message ends too early")
        self.at += size
        return self.body[self.at - size : self.at]

    def number(self):
        return struct.unpack("<q", self.take(8))[0]

    def bytes(self):
        return bytes(self.take(self.number()))

    def text(self):
        return self.bytes().decode("utf-8", _TEXT)

    def value(self):
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

    def items(self):
        count = self.number()
        if not 0 <= count <= len(self.body) - self.at:
            raise WireError("a message has fewer items than it says")
        return [self.value() for _ in range(count)]

    def container(self):
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

    def fill(self, container):
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

    def packed(self, letter):
        count = self.number()
        return list(struct.unpack(f"<{count}{letter}", self.take(8 * count)))

    def reference(self):
        number = self.number()
        if not 0 <= number < len(self.containers):
            raise WireError("a reference leads nowhere")
        return self.containers[number]

    def standard(self):
        name, arguments = self.text(), self.value()
        if name not in STANDARD or type(arguments) is not tuple:
            raise WireError("no such type")
        return getattr(imported(STANDARD[name][0]), name)(*arguments)

    def array(self):
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


class Wire:
    """One end. Subclasses say how their objects are written and what a handle of the other side becomes."""

    def __init__(self, reading, writing):
        self.reading, self.writing = open(reading, "rb"), open(writing, "wb", buffering=0)
        self.mine, self.numbers = [], {}
        self.live, self.seen = [], []

    # -- what subclasses give -------------------------------------------------------------------------------------

    def write_object(self, writer, value):
        """Append a value that does not cross as plain data."""
        raise NotImplementedError

    def read_object(self, reader):
        """What a handle of the other side becomes here."""
        raise NotImplementedError

    def serve(self, words):
        """Do what the other side asks; the answer's words. Never raises."""
        raise NotImplementedError

    def raised(self, error):
        """An exception as the words of an answer."""
        raise NotImplementedError

    # -- handles --------------------------------------------------------------------------------------------------

    def handle(self, value):
        """The number under which the other side knows a value of this one, which is kept for good."""
        number = self.numbers.get(id(value))
        if number is None:
            number = self.numbers[id(value)] = len(self.mine)
            self.mine.append(value)
        return number

    def own(self, number):
        """The value of this side that has the number."""
        if not 0 <= number < len(self.mine):
            raise WireError("no such handle")
        return self.mine[number]

    # -- messages -------------------------------------------------------------------------------------------------

    def request(self, *words, keep=False):
        """Ask the other side, and serve it meanwhile. With `keep` the containers of the answer become live."""
        writer = self.message(b"?", self.live, words, keep, self.seen)
        self.send(writer.body)
        while True:
            kind, keeps, words, reader = self.receive(writer.containers)
            if kind == b"!":
                self.remember(writer.containers, reader.containers, keep)
                return words
            self.answer(words, keeps, reader)

    def answer(self, words, keeps, reader):
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

    def remember(self, known, containers, keep):
        if keep:
            self.live = (self.live + containers[len(known) :])[:MOST_LIVE]
        self.seen = [shallow(container) for container in self.live]

    def message(self, kind, known, words, keep, snapshots):
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

    def send(self, body):
        if len(body) > LARGEST:
            raise WireError(f"{len(body)} bytes in one message")
        view = memoryview(struct.pack("<q", len(body)) + body)
        try:
            while view:
                view = view[self.writing.write(view) :]
        except OSError:
            raise Ended("the other side is gone") from None

    def receive(self, containers):
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
        for _ in range(reader.number()):
            reader.fill(reader.reference())
        words = reader.value()
        if type(words) is not tuple or not words:
            raise WireError("a message without words")
        return kind, keep, words, reader

    def exactly(self, size):
        data = self.reading.read(size)
        if len(data) < size:
            raise Ended("the other side is gone")
        return data


def container_code(kind):
    """The code of a type of containers, or None where it is none of ours."""
    code = _CONTAINER_CODE.get(kind.__name__)
    if code is None:
        return None
    module = sys.modules.get(CONTAINERS[code][0])
    return code if getattr(module, CONTAINERS[code][1], None) is kind else None


def is_standard(value):
    """Whether it is exactly of one of the standard types, and without a time zone."""
    kind = type(value)
    module = sys.modules.get(STANDARD[kind.__name__][0])
    return getattr(module, kind.__name__, None) is kind and getattr(value, "tzinfo", None) is None


def shallow(container):
    """A copy to compare with later."""
    if isinstance(container, dict):
        return list(container.items())
    return bytes(container) if isinstance(container, bytearray) else list(container)


def same(old, container):
    """Whether a container still holds the very objects that it held."""
    now = shallow(container)
    if isinstance(container, bytearray):
        return now == old
    if len(now) != len(old):
        return False
    if isinstance(container, dict):
        return all(a[0] is b[0] and a[1] is b[1] for a, b in zip(now, old, strict=True))
    return all(a is b for a, b in zip(now, old, strict=True))


def imported(name):
    """A module of the standard library, or numpy."""
    return __import__(name)
