"""Objects of the program as the tests see them."""

import sys

import wire

_CLASSES = {}  # mirrored exception classes, by themselves: (examiner, number)
_ENDINGS = (SystemExit, KeyboardInterrupt, GeneratorExit)


def number_of(value):
    """The handle of something that is the program's, else None."""
    if isinstance(value, Remote):
        return value._number
    if isinstance(value, type):
        return _CLASSES[value][1] if value in _CLASSES else None
    return getattr(value, "_number", None) if type(value) in _CLASSES else None


class Remote:
    """An object of the program. Attributes that start with an underscore and one word are this side's own."""

    __slots__ = ("_examiner", "_flags", "_kind", "_number")

    def __init__(self, examiner, number, flags, kind):
        object.__setattr__(self, "_examiner", examiner)
        object.__setattr__(self, "_number", number)
        object.__setattr__(self, "_flags", flags)
        object.__setattr__(self, "_kind", kind)

    def __getattr__(self, name):
        return self._examiner.ask("get", self, name, keep=True)

    def __setattr__(self, name, value):
        self._examiner.ask("set", self, name, value)

    def __delattr__(self, name):
        self._examiner.ask("delete", self, name)

    def __eq__(self, other):
        return equal(self, other)

    def __hash__(self):
        return self._examiner.ask("operator", "hash", self)

    def __iter__(self):
        iterator = self._examiner.ask("operator", "iter", self)
        return iterate(self._examiner, iterator) if isinstance(iterator, Remote) else iter(iterator)

    def __next__(self):
        return self._examiner.ask("operator", "next", self)

    def __contains__(self, value):
        if self._examiner.named(self._kind):
            return bool(self._examiner.ask("operator", "contains", self, value))
        return any(item is value or item == value for item in self)

    def __enter__(self):
        return self._examiner.ask("call", self.__getattr__("__enter__"), (), {})

    def __exit__(self, kind, error, trace):
        arguments = (None, None, None) if kind is None else (kind, error, None)
        return self._examiner.ask("call", self.__getattr__("__exit__"), arguments, {})

    def __copy__(self):
        return self._examiner.ask("copy", self, False)

    def __deepcopy__(self, memo):
        return self._examiner.ask("copy", self, True)

    def __dir__(self):
        return self._examiner.ask("operator", "dir", self)

    def __mro_entries__(self, bases):
        raise TypeError("the tests can't subclass a class of the program")


class RemoteFunction(Remote):
    """One that can be called."""

    __slots__ = ()

    def __call__(self, *arguments, **keywords):
        return self._examiner.ask("call", self, arguments, keywords)


class RemoteClass(RemoteFunction):
    """A class of the program."""

    __slots__ = ()

    def __instancecheck__(self, value):
        return number_of(value) is not None and bool(self._examiner.ask("operator", "isinstance", value, self))

    def __subclasscheck__(self, value):
        return number_of(value) is not None and bool(self._examiner.ask("operator", "issubclass", value, self))


def iterate(examiner, iterator):
    """The values of an iterator of the program."""
    while True:
        try:
            yield examiner.ask("operator", "next", iterator)
        except StopIteration:
            return


async def coroutine(examiner, owner):
    """A coroutine of the program, awaited where it lives."""
    return examiner.ask("await", owner)


def equal(left, right):
    """Whether something of the program equals a value.

    With plain data: where it is of a subclass of a plain type and that content is equal. With another object of the
    program: where both are one object, or the program says that they are equal and their states are. Where it says so
    of different states nobody can tell, and the test fails.
    """
    if left is right:
        return True
    if number_of(right) is None:
        if "p" not in left._flags:
            return False
        return left._examiner.ask("content", left) == right
    said, one, other = left._examiner.ask("equal", left, right)
    if said is None or not said:
        return False
    if one == other:
        return True
    raise TypeError("the program says that two of its objects are equal, but what they hold is not")


def mirror_class(examiner, number, about):
    """An exception class of the program as one of this side, so that `except` can name it."""
    module, name, *bases = about
    top = module.partition(".")[0]
    if top in sys.stdlib_module_names and top not in ("builtins", "unittest", "doctest"):
        found = getattr(__import__(module, fromlist=["_"]), name, None)
        if isinstance(found, type) and issubclass(found, Exception):
            return found
    parents = tuple(wire.BUILTIN_TYPES.get(base, Exception) if isinstance(base, str) else base for base in bases)
    parents = tuple(Exception if base in (BaseException, *_ENDINGS) else base for base in parents) or (Exception,)
    body = {
        "__init__": lambda self, *arguments, **keywords: None,
        "__new__": lambda kind, *arguments, **keywords: new_exception(examiner, kind, arguments, keywords),
        "__getattr__": lambda self, word: attribute(examiner, self, word),
        "__module__": "program",
    }
    kind = type(name, parents, body)
    _CLASSES[kind] = (examiner, number)
    return kind


def new_exception(examiner, kind, arguments, keywords):
    """An exception of the program made by the tests."""
    error = BaseException.__new__(kind)
    error.args = arguments
    if kind in _CLASSES:
        made = examiner.ask("object", kind, arguments, keywords)
        error.__dict__["_number"] = made._number
    return error


def attribute(examiner, error, name):
    """An attribute of an exception of the program."""
    number = error.__dict__.get("_number")
    if number is None or name.startswith("_"):
        raise AttributeError(name)
    return examiner.ask("get", error, name, keep=True)


def mirror(kind, arguments, value, text, number):
    """An exception of the program, to be raised here."""
    if not (isinstance(kind, type) and issubclass(kind, BaseException) and type(arguments) is tuple):
        raise wire.WireError("an exception that is none")
    name = kind.__name__
    if issubclass(kind, _ENDINGS):
        kind = RuntimeError
    if kind in _CLASSES:
        error = BaseException.__new__(kind)
        error.__dict__["_number"] = number_of(value)
    else:
        try:
            error = kind(*arguments)
        except TypeError:
            error = kind.__new__(kind)
    error.args = arguments
    error._told = (name, number, str(text))
    return error


def _forward(name, *, mixed):
    """An operator. With `mixed` the other operand may be a value of the tests only where they name the class."""

    def operator(self, *operands):
        foreign = any(number_of(operand) is None for operand in operands)
        if mixed and foreign and not self._examiner.named(self._kind):
            return NotImplemented
        return self._examiner.ask("operator", name, self, *operands)

    return operator


def _forward_reflected(name):
    def operator(self, operand):
        if not self._examiner.named(self._kind):
            return NotImplemented
        return self._examiner.ask("operator", name, operand, self)

    return operator


for _name in "len str repr bool int float complex index neg pos abs invert round reversed bytes format".split():
    setattr(Remote, f"__{_name}__", _forward(_name, mixed=False))
for _name in "getitem setitem delitem".split():
    setattr(Remote, f"__{_name}__", _forward(_name, mixed=False))
for _name in "add sub mul truediv floordiv mod pow lshift rshift matmul and or xor divmod".split():
    _word = f"{_name}_" if _name in ("and", "or") else _name
    setattr(Remote, f"__{_name}__", _forward(_word, mixed=True))
    setattr(Remote, f"__r{_name}__", _forward_reflected(_word))
for _name in "iadd isub imul itruediv ifloordiv imod ipow imatmul iand ior ixor lt le gt ge".split():
    setattr(Remote, f"__{_name}__", _forward(_name, mixed=True))
