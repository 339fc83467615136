"""The system calls that a sandboxed program may make: an allow list, as a seccomp filter for the kernel.

What is not on the list is refused with EPERM (sockets, mounts, tracing, keys, new namespaces, kernel modules, ...).
Some calls are allowed for some arguments: `clone` without new namespaces, `socketpair` for AF_UNIX alone (asyncio needs
it), sending and receiving without out-of-band data, `ioctl` for what the standard library asks of files (and not what a
terminal can be told to load), `futex` without priority inheritance. `clone3`, `openat2` and whatever is newer than this
list are answered with ENOSYS, which tells the C library to use the older call.
Anonymous files and shared memory that no process's resident size would show (`memfd_create`, System V) are not on it.

The filter is classic BPF: 8-byte instructions (code, jump if true, jump if false, operand) over `struct seccomp_data`
(number, architecture, instruction pointer, six arguments).
"""

from __future__ import annotations

import errno
import platform
import struct

from groupwise.errors import RewardError

ALLOWED = """
read=0/63 write=1/64 open=2/ close=3/57 stat=4/ fstat=5/80 lstat=6/ poll=7/ lseek=8/62 mmap=9/222 mprotect=10/226
munmap=11/215 brk=12/214 rt_sigaction=13/134 rt_sigprocmask=14/135 rt_sigreturn=15/139 pread64=17/67 pwrite64=18/68
readv=19/65 writev=20/66 access=21/ pipe=22/ select=23/ sched_yield=24/124 mremap=25/216 msync=26/227 mincore=27/232
madvise=28/233 dup=32/23 dup2=33/ pause=34/ nanosleep=35/101 getitimer=36/102 alarm=37/ setitimer=38/103 getpid=39/172
sendfile=40/71 shutdown=48/210 getsockname=51/204 getpeername=52/205 getsockopt=55/209 setsockopt=54/208 fork=57/
vfork=58/ execve=59/221 exit=60/93 wait4=61/260 kill=62/129 uname=63/160 fcntl=72/25 flock=73/32 fsync=74/82
fdatasync=75/83 truncate=76/45 ftruncate=77/46 getdents=78/ getcwd=79/17 chdir=80/49 fchdir=81/50 rename=82/ mkdir=83/
rmdir=84/ creat=85/ link=86/ unlink=87/ symlink=88/ readlink=89/ chmod=90/ fchmod=91/52 chown=92/ fchown=93/55
lchown=94/ umask=95/166 gettimeofday=96/169 getrlimit=97/163 getrusage=98/165 sysinfo=99/179 times=100/153
getuid=102/174 getgid=104/176 geteuid=107/175 getegid=108/177 setuid=105/146 setgid=106/144 setpgid=109/154
getppid=110/173 getpgrp=111/ setsid=112/157 setreuid=113/145 setregid=114/143 getgroups=115/158 setgroups=116/159
setresuid=117/147 getresuid=118/148 setresgid=119/149 getresgid=120/150 getpgid=121/155 getsid=124/156 capget=125/90
capset=126/91 rt_sigpending=127/136 rt_sigtimedwait=128/137 rt_sigsuspend=130/133 sigaltstack=131/132 utime=132/
statfs=137/43 fstatfs=138/44 getpriority=140/141 setpriority=141/140 sched_getparam=143/121 sched_getscheduler=145/120
sched_get_priority_max=146/125 sched_get_priority_min=147/126 sched_rr_get_interval=148/127 prctl=157/167
arch_prctl=158/ setrlimit=160/164 sync=162/81 gettid=186/178 tkill=200/130 time=201/ sched_setaffinity=203/122
sched_getaffinity=204/123 epoll_create=213/ getdents64=217/61 set_tid_address=218/96 restart_syscall=219/128
fadvise64=221/223 clock_gettime=228/113 clock_getres=229/114 clock_nanosleep=230/115 exit_group=231/94 epoll_wait=232/
epoll_ctl=233/21 tgkill=234/131 utimes=235/ waitid=247/95 openat=257/56 mkdirat=258/34 fchownat=260/54 futimesat=261/
newfstatat=262/79 unlinkat=263/35 renameat=264/38 linkat=265/37 symlinkat=266/36 readlinkat=267/78 fchmodat=268/53
faccessat=269/48 pselect6=270/72 ppoll=271/73 set_robust_list=273/99 get_robust_list=274/100 utimensat=280/88
epoll_pwait=281/22 signalfd=282/ timerfd_create=283/85 eventfd=284/ fallocate=285/47 timerfd_settime=286/86
timerfd_gettime=287/87 signalfd4=289/74 eventfd2=290/19 epoll_create1=291/20 dup3=292/24 pipe2=293/59 preadv=295/69
pwritev=296/70 prlimit64=302/261 getcpu=309/168 renameat2=316/276 getrandom=318/278 membarrier=324/283
copy_file_range=326/285 preadv2=327/286 pwritev2=328/287 statx=332/291 rseq=334/293 pidfd_send_signal=424/424
pidfd_open=434/434 close_range=436/436 faccessat2=439/439 epoll_pwait2=441/441
"""
"""`name=x86_64 number/aarch64 number`; a call that an architecture lacks has none."""

_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_NEWER = (435, 437)
"""`clone3` and `openat2`, on every architecture."""
_LAST = 450
"""The newest number that the list was made from; and 2**30 marks the x32 calls of x86_64, above it."""

_LOAD, _EQUAL, _GREATER, _ANY_BIT, _RETURN = 0x20, 0x15, 0x25, 0x45, 0x06
_ALLOW, _ERROR, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16

_NEW_NAMESPACES = 0x7E020000
"""The CLONE_NEW* flags."""
_AF_UNIX, _MSG_OOB = 1, 1
_IOCTLS = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
"""TCGETS (is it a terminal?), TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX."""
_FUTEXES = tuple(operation | flags for operation in (0, 1, 3, 4, 5, 9, 10) for flags in (0, 128, 256, 384))
"""WAIT, WAKE, REQUEUE, CMP_REQUEUE, WAKE_OP and both of BITSET, each private or not, by either clock."""
_REFUSED, _UNKNOWN, _NO_TERMINAL = (_ERROR | number for number in (errno.EPERM, errno.ENOSYS, errno.ENOTTY))
_BY_ARGUMENT = (
    ("clone=56/220", 0, _ANY_BIT, (_NEW_NAMESPACES,), _REFUSED, _ALLOW),
    ("socketpair=53/199", 0, _EQUAL, (_AF_UNIX,), _ALLOW, _REFUSED),
    ("sendto=44/206", 3, _ANY_BIT, (_MSG_OOB,), _REFUSED, _ALLOW),
    ("recvfrom=45/207", 3, _ANY_BIT, (_MSG_OOB,), _REFUSED, _ALLOW),
    ("sendmsg=46/211", 2, _ANY_BIT, (_MSG_OOB,), _REFUSED, _ALLOW),
    ("recvmsg=47/212", 2, _ANY_BIT, (_MSG_OOB,), _REFUSED, _ALLOW),
    ("ioctl=16/29", 1, _EQUAL, _IOCTLS, _ALLOW, _NO_TERMINAL),
    ("futex=202/98", 1, _EQUAL, _FUTEXES, _ALLOW, _UNKNOWN),
)
"""Call, which argument decides, the test, its operands, what follows where one of them fits, and where none does."""


def filter_program() -> bytes:
    """The filter for this machine. Raises `RewardError` on an architecture that the list doesn't cover."""
    machine = platform.machine()
    if machine not in _ARCHITECTURES:
        known = " and ".join(_ARCHITECTURES)
        raise RewardError(
            f"the code sandbox has no list of system calls for {machine!r}, only for {known}",
            fix='run it on one of these, or set isolation = "process", which is much weaker',
        )
    column = 0 if machine == "x86_64" else 1
    numbers = [number for entry in ALLOWED.split() if (number := _number(entry, column)) is not None]
    program = [
        _step(_LOAD, _ARCHITECTURE),
        *_when(_EQUAL, _ARCHITECTURES[machine], otherwise=_KILL),
        _step(_LOAD, _NUMBER),
    ]
    for number in numbers:
        program += [_step(_EQUAL, number, 0, 1), _step(_RETURN, _ALLOW)]
    for number in _NEWER:
        program += [_step(_EQUAL, number, 0, 1), _step(_RETURN, _UNKNOWN)]
    program += [_step(_GREATER, _LAST, 0, 1), _step(_RETURN, _UNKNOWN)]
    for entry, argument, test, operands, fits, otherwise in _BY_ARGUMENT:
        rule = [_step(_LOAD, _ARGUMENTS + 8 * argument)]
        for operand in operands:
            rule += [_step(test, operand, 0, 1), _step(_RETURN, fits)]
        rule.append(_step(_RETURN, otherwise))
        program += [_step(_EQUAL, _number(entry, column) or 0, 0, len(rule)), *rule]
    program.append(_step(_RETURN, _REFUSED))
    return b"".join(program)


def _number(entry: str, column: int) -> int | None:
    """Of `name=x86_64 number/aarch64 number`; None where this architecture lacks the call."""
    text = entry.partition("=")[2].split("/")[column]
    return int(text) if text else None


def _step(code: int, operand: int, true: int = 0, false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, true, false, operand)


def _when(code: int, operand: int, *, otherwise: int) -> list[bytes]:
    return [_step(code, operand, 1, 0), _step(_RETURN, otherwise)]
