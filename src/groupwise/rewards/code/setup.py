"""What sandboxes of one kind share, found out once: bubblewrap, the interpreter, what is mounted, the command line."""

from __future__ import annotations

import importlib.util
import marshal
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from groupwise.errors import RewardError
from groupwise.rewards.code.seccomp import filter_program

Isolation = Literal["sandbox", "process"]
"""`sandbox`: bubblewrap, namespaces, seccomp. `process`: a child process with limits of its own, and nothing that
keeps it from reading what the user can read, or from the network; for programs that you trust."""

PREFIX = "/python"
"""Where the interpreter is mounted that isn't the system's."""
OLDEST = (0, 8)
"""The first bubblewrap with all the options used here."""
DIGITS = "int_max_str_digits=20000"
"""The longest integer that can be printed, which takes time that grows with the square of its length."""
TMP_BYTES = 64 << 20
"""What the working folder can hold."""
WHY_NOT = 'or, for programs that you trust, set isolation = "process", which hides neither files nor network from them'
_making = threading.Lock()  # two threads would make two, and the descriptors of one would stay open
_LOADER = (
    "import marshal,os;m=marshal.loads(os.pread({0},1<<24,0));os.close({0});n={{}};exec(m['start'],n);n['main'](m)"
)


@dataclass(frozen=True, slots=True)
class Setup:
    """See the module's docstring."""

    interpreter: str
    mounts: tuple[str, ...]
    """Arguments for bubblewrap; empty without isolation."""
    libraries: str
    """Folders of the libraries that programs may import, separated by colons."""
    code: int
    """A descriptor of the files of `inside`, compiled."""
    filter: int
    """A descriptor of the seccomp filter, -1 without isolation."""
    users: tuple[int, int] | None
    """The first of the user ids for sandboxes, and how many there are; None where this user can't choose."""
    environment: dict[str, str]

    @property
    def isolated(self) -> bool:
        """Whether bubblewrap is used."""
        return self.filter >= 0

    @staticmethod
    def make(libraries: tuple[str, ...] = ("numpy",), isolation: Isolation = "sandbox") -> Setup:
        """The one of its kind. Raises `RewardError` where bubblewrap or a library is missing."""
        with _making:
            return Setup._made(libraries, isolation)

    @staticmethod
    @cache
    def _made(libraries: tuple[str, ...], isolation: Isolation) -> Setup:
        interpreter = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
        folders = _libraries(libraries)
        if isolation == "process":
            paths = dict.fromkeys(os.path.dirname(path) for path in folders)
            return Setup(interpreter, (), ":".join(paths), _compiled(), -1, None, _environment())
        program = _bubblewrap()
        filter_fd = _memory("filter", filter_program())
        users = _user_ids() if os.geteuid() == 0 else None
        mounts = (program, *_options(users is not None), *_mounts(folders))
        interpreter = _moved(interpreter)
        return Setup(interpreter, mounts, "/libraries", _compiled(), filter_fd, users, _environment())

    def command(
        self, role: str, inside: Sequence[int], *, code: int, seccomp: int, info: int, user: int | None
    ) -> list[str]:
        """The command line of one sandbox; numbers are descriptors that it inherits, or -1."""
        words = [self.interpreter, "-s", "-S", "-P", "-B", "-X", "utf8", "-X", DIGITS, "-c", _LOADER.format(code), role]
        words += [*map(str, inside), self.libraries, "alone" if self.isolated else ""]
        if not self.isolated:
            return words
        if user is not None:
            drop = [f"--reuid={user}", f"--regid={user}", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all"]
            words = ["/usr/bin/setpriv", *drop, "--", *words]
        return [*self.mounts, "--seccomp", str(seccomp), "--info-fd", str(info), "--", *words]


def weaker_notes(isolation: Isolation, who: str) -> tuple[str, ...]:
    """What a user should know of programs that run without a sandbox; `who` runs them."""
    if isolation == "sandbox":
        return ()
    return (
        f'{who} runs programs WITHOUT a sandbox (isolation = "process"): they can read and change your files and use '
        "the network, and can forge their verdicts; only for programs that you trust",
    )


def _options(root: bool) -> list[str]:
    """Namespaces and rights. Root's sandbox needs two capabilities to give itself another user id.

    Without --die-with-parent: it kills only the first of bubblewrap's two processes while it starts, and the second
    waits for that one for ever. `inside/start.py` ends a sandbox whose maker is gone.
    """
    user = (
        ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID", "--cap-add", "CAP_SETPCAP"]
        if root
        else ["--unshare-user", "--disable-userns"]
    )
    kinds = "--unshare-pid --unshare-net --unshare-ipc --unshare-uts --unshare-cgroup-try"
    return [*kinds.split(), *["--as-pid-1", "--new-session", "--cap-drop", "ALL"], *user]


def _mounts(libraries: Sequence[str]) -> list[str]:
    words = ["--ro-bind", "/usr", "/usr"]
    for path in ("/bin", "/sbin", "/lib", "/lib32", "/lib64"):
        if os.path.islink(path):
            words += ["--symlink", os.readlink(path), path]
        elif os.path.isdir(path):
            words += ["--ro-bind", path, path]
    prefix = os.path.realpath(sys.base_prefix)
    if not Path(prefix).is_relative_to("/usr"):
        words += ["--ro-bind", prefix, PREFIX]  # its own path may lead through the home folder of a user
    words += ["--perms", "0755", "--dir", "/libraries"]
    for path in libraries:
        words += ["--ro-bind", path, f"/libraries/{os.path.basename(path)}"]
    words += ["--proc", "/proc", "--dev", "/dev", "--size", str(TMP_BYTES), "--perms", "1777", "--tmpfs", "/dev/shm"]
    words += ["--size", str(TMP_BYTES), "--perms", "1777", "--tmpfs", "/tmp", "--chdir", "/tmp"]
    return [*words, "--remount-ro", "/dev", "--remount-ro", "/"]


def _environment() -> dict[str, str]:
    """All that a program finds. One thread for numerical libraries, because runs go on beside each other."""
    threads = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}
    return {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": "/tmp",
        "TMPDIR": "/tmp",
        "LANG": "C.UTF-8",
        "PYTHONHASHSEED": "0",
        **threads,
    }


def _bubblewrap() -> str:
    program = shutil.which("bwrap")
    fix = f"install it (Debian, Ubuntu: sudo apt-get install bubblewrap), {WHY_NOT}"
    if program is None:
        raise RewardError("the code sandbox needs the program bubblewrap (bwrap), which isn't installed", fix=fix)
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
    version = tuple(map(int, re.findall(r"\d+", said)[:2]))
    if version < OLDEST:
        raise RewardError(f"the code sandbox needs bubblewrap 0.8 or newer; {program} is {said.strip()!r}", fix=fix)
    return program


def _libraries(names: Sequence[str]) -> list[str]:
    """The folders and files of libraries that programs may import."""
    paths = []
    for name in names:
        found = importlib.util.find_spec(name) if name.isidentifier() else None
        if found is None or not found.origin:
            raise RewardError(f"code: the library {name!r} isn't installed", fix="install it, or take it off the list")
        path = os.path.dirname(found.origin) if found.submodule_search_locations else found.origin
        paths += [path, *(p for p in [os.path.join(os.path.dirname(path), f"{name}.libs")] if os.path.isdir(p))]
    return [os.path.realpath(path) for path in paths]


def _user_ids() -> tuple[int, int]:
    """The upper half of the ids that there are here: nobody's, and out of the way of those of real users."""
    with open("/proc/self/uid_map", encoding="ascii") as file:
        last = max(int(first) + int(count) for first, _, count in map(str.split, file)) - 1
    last = min(last, (1 << 31) - 2)
    return last // 2, last - last // 2


def _moved(interpreter: str) -> str:
    """Its path inside a sandbox."""
    prefix = os.path.realpath(sys.base_prefix)
    if Path(prefix).is_relative_to("/usr"):
        return interpreter
    if not Path(interpreter).is_relative_to(prefix):
        raise RewardError(
            f"the code sandbox can't use the interpreter {interpreter}: it lies outside its prefix {prefix}",
            fix="use another Python",
        )
    return str(PREFIX / Path(interpreter).relative_to(prefix))


def _compiled() -> int:
    folder = Path(__file__).parent / "inside"
    sources = {path.stem: path.read_text(encoding="utf-8") for path in folder.glob("[!_]*.py")}
    codes = {name: compile(text, f"<{name}>", "exec", dont_inherit=True) for name, text in sources.items()}
    return _memory("inside", marshal.dumps(codes))


def _memory(name: str, data: bytes) -> int:
    descriptor = os.memfd_create(f"groupwise-{name}")
    with open(descriptor, "wb", closefd=False) as file:
        file.write(data)
    return descriptor
