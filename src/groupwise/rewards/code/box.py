"""One sandbox: a process tree under bubblewrap that serves for a single job.

    box = Box(Setup.make(("numpy",)), "program")       # stands ready
    box.send({...})                                             # gets its job
    box.end()                                                   # every process of it is dead and reaped

It ends with the process that made it, too, even where that is killed.

Inside there are: /usr, the interpreter and the named libraries, read-only; an empty /tmp of bounded size, which is the
working folder; /proc of its own; no network, no other user's processes, no environment, no capability, and only the
system calls that `seccomp` lists. Started by root, it runs under a user id that no other sandbox has at the time,
so that its limit of processes counts nobody else's; started by another user, in a user namespace of its own.
"""

from __future__ import annotations

import contextlib
import json
import marshal
import os
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from typing import Any

from groupwise.rewards.code import watch
from groupwise.rewards.code.setup import TMP_BYTES, Setup

START_LIMIT = 60.0
"""Wall-clock seconds that bubblewrap may take to say which process it started, and that process to stand ready."""
FOLDERS = ("/tmp", "/dev/shm")
"""Where a program can write, which takes memory."""
USERS = 256
"""User ids that the sandboxes of one process may have at once."""
_taken: set[int] = set()
_taking = threading.Lock()


class BoxError(Exception):
    """A sandbox that didn't start; the message holds what it printed."""


class Box:
    """See the module's docstring. Not for several threads at once."""

    def __init__(self, setup: Setup, role: str, reading: int = -1, writing: int = -1) -> None:
        """`reading` and `writing` are pipes to the other sandbox, closed here once it has them."""
        self._setup = setup
        job, self._job = os.pipe()
        self.report, report = os.pipe()
        self._info, info = _own_pipe()
        self._life, life = (end.detach() for end in socket.socketpair())  # `inside/start.py` says what for
        code = os.dup(setup.code)
        seccomp = os.open(f"/proc/self/fd/{setup.filter}", os.O_RDONLY) if setup.isolated else -1
        self._folder = None if setup.isolated else tempfile.mkdtemp(prefix="groupwise-code-")
        inside = (job, report, reading, writing, life)
        given = [descriptor for descriptor in (*inside, code, seccomp, info) if descriptor >= 0]
        self._user: int | None = None
        try:
            self._user = user = _take_user(setup.users) if setup.users is not None else None
            self._process = subprocess.Popen(
                setup.command(role, inside, code=code, seccomp=seccomp, info=info, user=user),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=given,
                start_new_session=True,  # what ends it is `life`, not a signal to our group that hits it half started
                bufsize=0,
                env=setup.environment | {name: self._folder for name in ("HOME", "TMPDIR") if self._folder},
                cwd=self._folder,
            )
        except (OSError, BoxError) as error:
            for descriptor in (self._job, self.report, self._info, self._life):
                os.close(descriptor)
            self._release()
            raise BoxError(f"no process can be started: {error}") from error
        finally:
            for descriptor in given:
                os.close(descriptor)
        self._root = self._pidfd = -1
        self._exit: tuple[int, float] | None = None
        self._watch: watch.Watch | None = None
        streams = (self._process.stdin, self._process.stdout, self._process.stderr)
        self.stdin, self.stdout, self.stderr = (stream.fileno() for stream in streams if stream is not None)
        for descriptor in (self.stdin, self.stdout, self.stderr, self.report):
            os.set_blocking(descriptor, False)
            if user is not None:
                os.fchown(descriptor, user, user)  # so that /dev/stdin can be opened by name

    @property
    def alive(self) -> bool:
        """Whether it stands ready."""
        return self._exit is None and self._process.poll() is None

    @property
    def ended(self) -> int:
        """A descriptor that polls as readable when the first process inside has ended."""
        return self._pidfd

    def send(self, task: dict[str, Any]) -> None:
        """Give it its job, and note what it has used so far. Raises `BoxError` where it doesn't start; whatever
        happens after this is the doing of what runs in it, not the machine's."""
        self._find_root()
        self._watch = watch.Watch(self._root, FOLDERS if self._setup.isolated else (), TMP_BYTES)
        job, self._job = self._job, -1
        try:
            with open(job, "wb") as file:
                file.write(marshal.dumps(task))
        except BrokenPipeError:
            raise BoxError(self._printed()) from None
        ready, _, _ = select.select([self.report], [], [], START_LIMIT)
        if not ready or not os.read(self.report, 1):
            raise BoxError(self._printed())

    def close_stdin(self) -> None:
        """The end of its input."""
        if self._process.stdin is not None:
            self._process.stdin.close()

    def measure(self) -> watch.Usage:
        """What the job uses: CPU time since it was given, memory and state now."""
        return self._watch.look() if self._watch is not None else watch.Usage()

    def over(self, limit: int, usage: watch.Usage) -> bool:
        """Whether the tree holds more than `limit` bytes, shared pages counted once."""
        return usage.memory > limit and usage.files + watch.proportional(self._root) > limit

    def end(self) -> tuple[int, float]:
        """Kill what is left and reap it: exit status of the first process (128 + n: killed by signal n), and the CPU
        seconds of the job."""
        if self._exit is not None:
            return self._exit
        with contextlib.suppress(BoxError):
            self._find_root()
        seen = self.measure().cpu_seconds  # the kernel doesn't count what a killed namespace leaves
        if not self._setup.isolated:
            _kill_descendants(self._root)
        if self._pidfd >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
        else:
            self._process.kill()
        counted = 0.0
        if self._process.returncode is None:
            _, status, used = os.wait4(self._process.pid, 0)
            self._process.returncode = os.waitstatus_to_exitcode(status)
            counted = used.ru_utime + used.ru_stime - (self._watch.before if self._watch is not None else 0.0)
        code = self._process.returncode
        self._exit = code if code >= 0 else 128 - code, max(0.0, seen, counted)
        for descriptor in (self.report, self._info, self._job, self._life, self._pidfd):
            if descriptor >= 0:
                os.close(descriptor)
        self._release()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            assert stream is not None
            stream.close()
        return self._exit

    def _release(self) -> None:
        """What others can have when every process is gone: the user id; or the folder, which nobody else wants."""
        if self._user is not None:
            _taken.discard(self._user)
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _find_root(self) -> None:
        if self._root >= 0:
            return
        self._root = self._told_root() if self._setup.isolated else self._process.pid
        try:
            self._pidfd = os.pidfd_open(self._root)
        except ProcessLookupError:
            self._root = -1
            raise BoxError(self._printed()) from None

    def _told_root(self) -> int:
        """What bubblewrap says it started."""
        data, end = b"", time.monotonic() + START_LIMIT
        while not data.rstrip().endswith(b"}"):
            ready, _, _ = select.select([self._info], [], [], max(0.0, end - time.monotonic()))
            part = os.read(self._info, 4096) if ready else b""
            if not part:
                raise BoxError(self._printed())
            data += part
        return int(json.loads(data)["child-pid"])

    def _printed(self) -> str:
        """What it wrote to standard error, of a sandbox that ends."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
        with contextlib.suppress(BlockingIOError):
            return os.read(self.stderr, 1000).decode("utf-8", "replace").strip() or "it ended without a word"
        return "it doesn't start"


def _own_pipe() -> tuple[int, int]:
    """A pipe whose writing end reads, too, so that who has it can write to it when the reader is gone. Bubblewrap would
    end there, and leave behind the process that it starts."""
    reading, writing = os.pipe()
    os.close(writing)
    return reading, os.open(f"/proc/self/fd/{reading}", os.O_RDWR)


def _take_user(users: tuple[int, int]) -> int:
    """A user id that no sandbox of this process has at the time, nor any of another process; `users` are the first and
    how many there are."""
    first, count = users
    ours = [first + (os.getpid() * USERS + number) % count for number in range(USERS)]
    with _taking:
        user = next((user for user in ours if user not in _taken), None)
        if user is None:
            raise BoxError(f"this process has {USERS} sandboxes, and no user id for one more")
        _taken.add(user)
    return user


def _kill_descendants(root: int) -> None:
    """All below `root`, which is their reaper, until there are none."""
    for _ in range(100):
        below = [process for process in watch.tree(root) if process != root]
        if not below:
            return
        for process in below:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        time.sleep(0.005)
