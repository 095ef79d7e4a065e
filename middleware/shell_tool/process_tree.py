"""The processes of one shell: all that it started, found, counted and ended.

What belongs to a shell is what descends from it, what is in its session, and what carries its
variable in its environment: a process may leave any two of these behind, hardly all three. They are
read from /proc, where there is one; elsewhere (macOS) the process group alone is known.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

COOKIE = "AGENT_FACTORY_SHELL"
"""The variable by which a process is known to belong to a shell."""

_PROC = "/proc"
_LONGEST_KILL = 5.0  # seconds; one that outlives this hangs in the kernel, and no signal ends it
_PAUSE = 0.005  # seconds between two looks at what is still there


@dataclass(frozen=True, slots=True)
class Process:
    """A line of /proc: a process that is no zombie.

    Args:
        pid: Its number.
        parent: Its parent's number.
        session: The number of its session.
        started: When, in clock ticks since the system's start.
    """

    pid: int
    parent: int
    session: int
    started: int


class Family:
    """The processes of a shell.

    Args:
        leader: The shell's process id; it leads a process group and a session of its own.
        cookie: The value of the variable `COOKIE` that it was started with.
    """

    def __init__(self, leader: int, cookie: str) -> None:
        self.leader = leader
        self._cookie = f"{COOKIE}={cookie}".encode()
        self._sees = os.path.exists(f"{_PROC}/self/stat")
        own = _read(leader)
        self._started = own.started if own else 0
        self._fewest = _tasks()

    def alive(self) -> set[int]:
        """The process ids of all that live; of a group that nobody can look into, its leader's."""
        if not self._sees:
            return {self.leader} if self._send_to_group(0) else set()
        # Only what is younger than the shell can belong to it; the leader's number stays taken.
        young = [p for p in _processes() if p.started >= self._started]
        found = {p.pid for p in young if p.pid == self.leader or p.session == self.leader}
        found |= {p.pid for p in young if p.pid not in found and self._carries_cookie(p.pid)}
        return found | _descendants(young, found)

    def outgrew(self, limit: int) -> bool:
        """Whether there are more processes than the limit.

        Descendants are counted every time: few reads, and in a sandbox, whose first process adopts
        all orphans, they are all there are. Elsewhere orphans are counted too, where the number of
        tasks in the whole system says that it is worth to look at each; the group is stopped
        meanwhile, since looking takes longer than forking.
        """
        if self._has_descendants(limit):
            return True
        tasks = _tasks()
        self._fewest = min(self._fewest, tasks)
        if tasks - self._fewest <= limit // 2:
            return False
        self._send_to_group(signal.SIGSTOP)
        if len(self.alive()) > limit:
            return True
        self._send_to_group(signal.SIGCONT)
        return False

    def _has_descendants(self, count: int) -> bool:
        """Whether there are so many; looks at no more than that, where `alive` looks at all."""
        found = [self.leader]
        for pid in found:
            if len(found) > count:
                return True
            found += _children(pid)
        return False

    def send(self, number: int) -> None:
        """Send all of them a signal."""
        self._send_to_group(number)
        _send(self.alive() - {self.leader}, number)

    def kill(self) -> None:
        """Kill all of them, again and again until none has slipped away by forking."""
        deadline = time.monotonic() + _LONGEST_KILL
        self._send_to_group(signal.SIGKILL)
        while self._sees and (left := self.alive()) and time.monotonic() < deadline:
            _send(left, signal.SIGKILL)
            time.sleep(_PAUSE)

    def _send_to_group(self, number: int) -> bool:
        """Whether there was anybody to send it to."""
        try:
            os.killpg(self.leader, number)
        except (ProcessLookupError, PermissionError):
            return False
        return True

    def _carries_cookie(self, pid: int) -> bool:
        try:
            return self._cookie in _contents(f"{pid}/environ").split(b"\0")
        except OSError:  # gone by now, or another user's
            return False


def _send(pids: set[int], number: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _contents(name: str) -> bytes:
    with open(f"{_PROC}/{name}", "rb", buffering=0) as file:
        return file.read()


def _children(pid: int) -> list[int]:
    try:
        return [int(child) for child in _contents(f"{pid}/task/{pid}/children").split()]
    except OSError:  # gone by now, or the system does not tell
        return []


def _descendants(processes: list[Process], roots: set[int]) -> set[int]:
    children: dict[int, list[int]] = {}
    for process in processes:
        children.setdefault(process.parent, []).append(process.pid)
    found, todo = set(roots), list(roots)
    while todo:
        new = [pid for pid in children.get(todo.pop(), ()) if pid not in found]
        found.update(new)
        todo += new
    return found


def _processes() -> Iterator[Process]:
    with suppress(OSError):
        for name in os.listdir(_PROC):
            if name.isdigit() and (process := _read(int(name))):
                yield process


def _read(pid: int) -> Process | None:
    try:
        text = _contents(f"{pid}/stat")
    except OSError:
        return None
    # The name in parentheses may hold anything, parentheses too.
    fields = text.rpartition(b")")[2].split()
    if fields[0] in (b"Z", b"X"):
        return None
    return Process(pid, int(fields[1]), int(fields[3]), int(fields[19]))


def _tasks() -> int:
    """How many tasks the whole system has; 0 where it does not tell."""
    try:
        return int(_contents("loadavg").split()[3].partition(b"/")[2])
    except (OSError, IndexError, ValueError):
        return 0
