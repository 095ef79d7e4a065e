"""Process tree of a shell: find, count and end everything that the shell started.

A process belongs to a shell if it descends from it, is in its session, or has its cookie in the
environment. A process can leave two of these behind, but hardly all three. They are read from
/proc; without it (macOS) only the process group is known.

psutil offers the same, but does not know sessions and is slower: `is_larger_than` runs every 20 ms
while a command runs, and reads one small file for each process of the shell.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from typing import NamedTuple

COOKIE = "AGENT_FACTORY_SHELL"  # environment variable that marks the processes of a shell
_PROC = "/proc"
_KILL_TIMEOUT = 5.0  # seconds; a process that outlives this hangs in the kernel
_PAUSE = 0.005  # seconds between two looks at what is left


class ProcessTree:
    """Processes of a shell, which leads a process group and a session, and has a cookie."""

    def __init__(self, leader: int, cookie: str) -> None:
        self.leader = leader
        self._cookie = f"{COOKIE}={cookie}".encode()
        self._has_proc = os.path.exists(f"{_PROC}/self/stat")
        process = _read_process(leader)
        self._started = process.started if process else 0
        self._fewest_tasks = _count_tasks()

    def pids(self) -> set[int]:
        """Return the ids of all living processes; without /proc the leader's, for its group."""
        if not self._has_proc:
            return {self.leader} if self._signal_group(0) else set()
        found: set[int] = set()
        children: dict[int, list[int]] = {}
        names: list[str] = []
        with suppress(OSError):  # for example too many open files: kill what is in the group
            names = os.listdir(_PROC)
        for name in names:
            process = _read_process(int(name)) if name.isdigit() else None
            # Older processes cannot belong to the shell. The leader's id is not reused as long
            # as nobody waits for it.
            if process is None or process.started < self._started:
                continue
            children.setdefault(process.parent, []).append(process.pid)
            if self.leader in (process.pid, process.session) or (
                self._cookie in _read(f"{process.pid}/environ").split(b"\0")
            ):
                found.add(process.pid)
        todo = list(found)
        while todo:
            new = [pid for pid in children.get(todo.pop(), ()) if pid not in found]
            found.update(new)
            todo += new
        return found

    def is_larger_than(self, limit: int) -> bool:
        """Return whether there are more processes than the limit."""
        # Descendants take few reads, and in a sandbox, whose first process adopts all orphans, that
        # is all. On the host orphans are counted too if the whole system has enough more tasks. The
        # process group is stopped meanwhile, because scanning takes longer than forking.
        descendants = [self.leader]
        for pid in descendants:  # grows while it is read
            if len(descendants) > limit:
                return True
            descendants += map(int, _read(f"{pid}/task/{pid}/children").split())
        tasks = _count_tasks()
        self._fewest_tasks = min(self._fewest_tasks, tasks)
        if tasks - self._fewest_tasks <= limit // 2:
            return False
        self._signal_group(signal.SIGSTOP)
        if len(self.pids()) > limit:
            return True
        self._signal_group(signal.SIGCONT)
        return False

    def send_signal(self, number: int) -> None:
        """Send a signal to all of them."""
        self._signal_group(number)
        _send_signal(self.pids() - {self.leader}, number)

    def kill(self) -> None:
        """Kill all of them, repeatedly, until no fork has escaped."""
        deadline = time.monotonic() + _KILL_TIMEOUT
        self._signal_group(signal.SIGKILL)
        while self._has_proc and (left := self.pids()) and time.monotonic() < deadline:
            _send_signal(left, signal.SIGKILL)
            time.sleep(_PAUSE)

    def _signal_group(self, number: int) -> bool:
        """Send a signal to the process group; return whether there was one."""
        try:
            os.killpg(self.leader, number)
        except (ProcessLookupError, PermissionError):
            return False
        return True


class _Process(NamedTuple):
    """A living process; `started` is in clock ticks since the system's start."""

    pid: int
    parent: int
    session: int
    started: int


def _read_process(pid: int) -> _Process | None:
    # The process name in parentheses may contain anything, parentheses too.
    fields = _read(f"{pid}/stat").rpartition(b")")[2].split()
    if not fields or fields[0] in (b"Z", b"X"):  # gone, or a zombie
        return None
    return _Process(pid, int(fields[1]), int(fields[3]), int(fields[19]))


def _count_tasks() -> int:
    """Number of tasks in the whole system; 0 if it is unknown."""
    try:
        return int(_read("loadavg").split()[3].partition(b"/")[2])
    except (IndexError, ValueError):
        return 0


def _read(name: str) -> bytes:
    """Content of a file in /proc; empty if the process is gone or belongs to another user."""
    try:
        with open(f"{_PROC}/{name}", "rb", buffering=0) as file:
            return file.read()
    except OSError:
        return b""


def _send_signal(pids: set[int], number: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
