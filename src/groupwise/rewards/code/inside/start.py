"""The first process of a sandbox: starts one child that does the job, and waits for it.

It is read from a file descriptor by `python -c`, together with the other files here, so that a sandbox needs nothing
of the package on its disk. Arguments: role, and the descriptors of job, report, the two pipes to the other sandbox
(-1: none) and life, folders of libraries, and `alone` where this is the first process of a namespace, whose end ends
all others in it; elsewhere this process adopts orphans and ends them itself. The job comes when there is one: until
then the sandbox stands ready.

Life is a socket whose other end only the process that made the sandbox holds, and never writes to. It reads as ended
when that process is gone, however it went, and then the sandbox ends. Unlike a pipe's, its other end can't be had by
opening /proc/1/fd, and nothing in the sandbox can reach into this process, which is made undumpable for that.
"""

from __future__ import annotations

import marshal
import os
import resource
import sys
from _thread import start_new_thread  # the module threading takes longer to load

TYPE_CHECKING = False  # the module typing takes longer to load than all that is here
if TYPE_CHECKING:
    from types import CodeType

PACKAGE = "groupwise.rewards.code.inside"
"""What these files are outside."""
DUMPABLE, ADOPTS = 4, 36
"""PR_SET_DUMPABLE and PR_SET_CHILD_SUBREAPER."""
SIGKILL = 9
"""The module signal takes longer to load."""


def main(modules: dict[str, CodeType]) -> None:
    """`modules` holds the code of the files here by name."""
    import ctypes

    role = sys.argv[1]
    job, report, reading, writing, life = map(int, sys.argv[2:7])
    sys.path += sys.argv[7].split(":")
    alone = sys.argv[8] == "alone"
    prctl = ctypes.CDLL(None).prctl
    prctl(*((DUMPABLE, 0) if alone else (ADOPTS, 1)), 0, 0, 0)
    child = os.fork()
    if child:
        os.closerange(0, life)
        os.closerange(life + 1, 1024)
        reap(child, life, alone)
    os.close(life)
    prctl(DUMPABLE, 1, 0, 0, 0)
    for descriptor in (job, report, reading, writing):
        if descriptor >= 0:
            os.set_inheritable(descriptor, False)
    for name in ("values", "wire", *(("remote", "examiner") if role == "examiner" else ("foreign", "program"))):
        load(name, modules[name])
    with open(job, "rb") as file:
        data = file.read()
    if not data:
        os._exit(0)
    task = marshal.loads(data)
    limit(task["limits"])
    sys.argv[:] = [""]
    os.write(report, b"+")  # from here on, what goes wrong is the program's or the tests' doing
    sys.modules[f"{PACKAGE}.{role}"].main(task, report, reading, writing)


def reap(child: int, life: int, alone: bool) -> None:
    """Wait for every process that ends here, until the child does; end everything where life does."""
    orphaned: list[bool] = []

    def watch() -> None:
        try:
            os.read(life, 1)
        finally:
            if alone:
                os._exit(1)
            orphaned.append(True)
            os.kill(child, SIGKILL)

    start_new_thread(watch, ())
    process = 0
    while process != child:
        process, status = os.wait()
    if not alone:
        end_orphans()
    if orphaned:
        import shutil

        shutil.rmtree(os.getcwd(), ignore_errors=True)
    code = os.waitstatus_to_exitcode(status)
    os._exit(code if code >= 0 else 128 - code)


def end_orphans() -> None:
    """Kill the children of this process, and those that it adopts meanwhile, until there are none."""
    while True:
        for thread in os.listdir("/proc/self/task"):
            with open(f"/proc/self/task/{thread}/children") as file:
                for process in file.read().split():
                    os.kill(int(process), SIGKILL)
        try:
            os.wait()
        except ChildProcessError:
            return


def load(name: str, code: CodeType) -> None:
    """Make one of the files here a module, under the name that it has in the package."""
    above = sys.modules.get(PACKAGE)
    if above is None:
        parts = PACKAGE.split(".")
        for count in range(1, len(parts) + 1):
            above = sys.modules[".".join(parts[:count])] = type(sys)(".".join(parts[:count]))
            above.__path__ = []
    module = type(sys)(f"{PACKAGE}.{name}")
    sys.modules[module.__name__] = module
    setattr(above, name, module)
    exec(code, module.__dict__)


def limit(limits: list[tuple[str, int]]) -> None:
    """Set the limits of this process and of those that it starts: (name, value) pairs."""
    for name, value in limits:
        which = getattr(resource, f"RLIMIT_{name}")
        hard = resource.getrlimit(which)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(which, (value, value))
