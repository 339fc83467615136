"""The first process of a sandbox: starts one child that does the job, and waits for it.

It is read from a file descriptor by `python -c`, together with the other files here, so that a sandbox needs nothing
of the package on its disk. Arguments: role, and the descriptors of job, report and the two pipes to the other sandbox
(-1: none), folders of libraries, and whether orphans are to be adopted here, as the first process of a namespace does
anyway. The job comes when there is one: until then the sandbox stands ready.
"""

from __future__ import annotations

import marshal
import os
import resource
import sys

TYPE_CHECKING = False  # the module typing takes longer to load than all that is here
if TYPE_CHECKING:
    from types import CodeType

PACKAGE = "groupwise.rewards.code.inside"
"""What these files are outside."""


def main(modules: dict[str, CodeType]) -> None:
    """`modules` holds the code of the files here by name."""
    role = sys.argv[1]
    job, report, reading, writing = map(int, sys.argv[2:6])
    sys.path += sys.argv[6].split(":")
    if sys.argv[7] == "adopt":
        import ctypes

        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
    child = os.fork()
    if child:
        os.closerange(0, 1024)
        reap(child)
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


def reap(child: int) -> None:
    """Wait for every process that ends here, until the child does."""
    while True:
        process, status = os.wait()
        if process == child:
            code = os.waitstatus_to_exitcode(status)
            os._exit(code if code >= 0 else 128 - code)


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
