"""One shell process: started, sent commands one after another, and ended.

The shell reads commands from its input. After each command it prints an end marker, which holds
the exit code and a random token that no output can contain by chance.

A process belongs to a shell if it descends from it, is in its session, or has its cookie in the
environment. A process can leave two of these behind, but hardly all three. They are read from
/proc; without it (macOS) only the process group is known. psutil offers the same, but does not know
sessions and is slower: `is_larger_than` runs every 20 ms while a command runs, and reads one small
file for each process of the shell.
"""

from __future__ import annotations

import os
import secrets
import select
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from io import FileIO
from typing import Literal, NamedTuple, cast

from .output import KEPT_BYTES, Output, decode
from .policies import Launch

POLL = 0.02  # seconds between two checks of the clock, of cancellation and of the process number
# First line a shell reads: errors go to the output, and descriptor 9 is for the end markers.
_SETUP = b"exec 9>&1 2>&1\n"
# The record separator. A shell that echoes its input shows it as "\036", not as this byte.
_CONTROL = b"\x1e"
_CHUNK = 1 << 16  # bytes read at a time
_LAST_BYTES = 1 << 20  # bytes that are still read after a shell was killed
_PAUSE = 0.005  # seconds between two checks whether processes have ended
_COOKIE = "AGENT_FACTORY_SHELL"  # environment variable that marks the processes of a shell
_PROC = "/proc"
_KILL_TIMEOUT = 5.0  # seconds; a process that outlives this hangs in the kernel
_REAP_TIMEOUT = 10.0  # seconds for a killed process to go, and for the cleanup program

Cancelled = Callable[[], bool]  # returns whether the caller has given up
Ending = Literal["finished", "exited", "timeout", "processes", "cancelled"]


@dataclass(frozen=True)
class CommandResult:
    """How a command ended."""

    ending: Ending  # "finished": the shell is still alive; "exited": it exited; else it was killed
    output: Output
    exit_code: int | None = None  # of the command or the shell; None if it was killed


class CannotStart(Exception):
    """A shell does not start; the message says why."""


def new_token() -> str:
    """128 random bits: no output contains them by chance, and no command can guess them."""
    return secrets.token_hex(16)


def encode_command(command: str, token: str, status: int = 0) -> bytes:
    """What makes a shell run a command, with `status` as `$?`, and mark its end."""
    if "\0" in command:
        raise ValueError("the command contains a NUL character, which no shell can read")
    # The space keeps `eval` from reading a command that starts with "-" as an option.
    word = shlex.quote(f" {command}")
    marker = f"""command printf '\\036%s:%d\\036' {token} "$?" >&9"""
    # A single line, because after a syntax error bash misreads the beginning of the next line.
    line = f"eval {word} </dev/null 9>&-; {{ {marker}; }} 2>/dev/null\n"
    try:
        return (f"(exit {status}) 2>/dev/null; {line}" if status else line).encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"the command cannot be encoded as UTF-8: {error.reason}") from None


def split_at_marker(data: bytes, token: str) -> tuple[bytes, bytes, int | None]:
    """What is certainly output, what follows or may begin the end marker, and its code if known."""
    opening = _CONTROL + token.encode() + b":"
    before, found, rest = data.partition(opening)
    if found:
        code, end, after = rest.partition(_CONTROL)
        return (before, after, int(code)) if end else (before, found + rest, None)
    start = data.rfind(_CONTROL, max(0, len(data) - len(opening)))
    if start >= 0 and opening.startswith(data[start:]):
        return data[:start], data[start:], None
    return data, b"", None


class ProcessTree:
    """Processes of a shell, which leads a process group and a session, and has a cookie."""

    def __init__(self, leader: int, cookie: str) -> None:
        self.leader = leader
        self._cookie = f"{_COOKIE}={cookie}".encode()
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
                self._cookie in _read_proc(f"{process.pid}/environ").split(b"\0")
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
            descendants += map(int, _read_proc(f"{pid}/task/{pid}/children").split())
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
    fields = _read_proc(f"{pid}/stat").rpartition(b")")[2].split()
    if not fields or fields[0] in (b"Z", b"X"):  # gone, or a zombie
        return None
    return _Process(pid, int(fields[1]), int(fields[3]), int(fields[19]))


def _count_tasks() -> int:
    """Number of tasks in the whole system; 0 if it is unknown."""
    try:
        return int(_read_proc("loadavg").split()[3].partition(b"/")[2])
    except (IndexError, ValueError):
        return 0


def _read_proc(name: str) -> bytes:
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


class ShellProcess:
    """Running shell that takes one command at a time, all from the thread that started it."""

    def __init__(
        self, launch: Launch, timeout: float, cancelled: Cancelled, keep: int = KEPT_BYTES
    ) -> None:
        cookie = new_token()
        program = shutil.which(launch.argv[0], path=launch.env.get("PATH"))
        if program is None:
            raise CannotStart(f"the program {launch.argv[0]!r} is not in the PATH")
        try:
            # The thread must live on: bubblewrap's `--die-with-parent` ends the sandbox with it.
            self._process = subprocess.Popen(
                launch.argv,
                executable=program,
                env={**launch.env, _COOKIE: cookie},
                cwd=launch.folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                bufsize=0,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise CannotStart(str(error)) from error
        self._launch = launch
        self._keep = keep
        self.process_tree = ProcessTree(self._process.pid, cookie)
        # Unbuffered and non-blocking: `read` and `write` return None if they would have to wait.
        self._stdin = cast("FileIO", self._process.stdin)
        self._stdout = cast("FileIO", self._process.stdout)
        for pipe in (self._stdin, self._stdout):
            os.set_blocking(pipe.fileno(), False)
        self._to_write = memoryview(_SETUP)
        self._unread = b""
        self._output_closed = False
        self._last_count = 0.0
        self._status = 0

        # The first command sets the limits; its end marker shows that the shell answers.
        outcome = self.run(launch.limits or ":", timeout, cancelled)
        if outcome.ending == "finished" and outcome.exit_code == 0:
            return
        if outcome.ending == "finished":
            self.kill()
        output = decode(outcome.output.ends()[0]).strip() or "no output"
        reasons: dict[str, str] = {
            "timeout": f"it did not answer within {timeout:g} seconds",
            "exited": f"it ended with exit code {outcome.exit_code}",
            "finished": f"it refused its limits ({launch.limits})",
        }
        raise CannotStart(f"{reasons.get(outcome.ending, outcome.ending)}: {output[-2000:]}")

    @property
    def alive(self) -> bool:
        """Whether the shell can take a command. If not, `kill()` it at once."""
        # Reaps a shell that has ended; from then on its process id may be reused.
        return self._process.poll() is None

    def run(self, command: str, timeout: float, cancelled: Cancelled) -> CommandResult:
        """Run a command until it ends or has to be ended; in the latter case the shell is gone."""
        token = new_token()
        encoded = encode_command(command, token, self._status)
        self._to_write = memoryview(bytes(self._to_write) + encoded)
        output, deadline = Output(self._keep), time.monotonic() + timeout
        ending: Ending | None = None
        while ending is None:
            printed, self._unread, code = split_at_marker(self._unread, token)
            output.add(printed)
            if code is not None:
                self._status = code
                return CommandResult("finished", output, code)
            if cancelled():
                ending = "cancelled"
            elif time.monotonic() > deadline:
                ending = "timeout"
            elif self.exceeds_max_processes():
                ending = "processes"
            elif not self._exchange() and not self.alive:
                ending = "exited"

        code = self._process.poll()
        self.process_tree.kill()
        while len(self._unread) < _LAST_BYTES and (data := self._read()):
            self._unread += data
        self._reap()
        printed, _, marked_code = split_at_marker(self._unread, token)
        output.add(self._unread if marked_code is None else printed)
        if marked_code is not None and ending == "exited":  # right after its end marker
            return CommandResult("finished", output, marked_code)
        # As shells report it: 128 plus the signal's number for a process that was killed.
        return CommandResult(ending, output, 128 - code if code is not None and code < 0 else code)

    def exceeds_max_processes(self) -> bool:
        """Return whether there are too many processes; counts at most once every `POLL` seconds."""
        limit, now = self._launch.max_processes, time.monotonic()
        if limit is None or now - self._last_count < POLL:
            return False
        self._last_count = now
        return self.process_tree.is_larger_than(limit)

    def kill(self) -> None:
        """Kill the shell and everything it started, at once."""
        self.process_tree.kill()
        self._reap()

    def close(self, grace: float, cancelled: Cancelled) -> None:
        """End the shell, then its background processes; after `grace` seconds kill what is left."""
        deadline = time.monotonic() + grace

        def wait_until(ended: Callable[[], bool]) -> None:
            while not (cancelled() or ended()) and time.monotonic() < deadline:
                if not self._read():  # a process that waits for a reader would not end
                    time.sleep(_PAUSE)

        with suppress(OSError):
            self._stdin.close()  # a shell exits at the end of its input
        wait_until(lambda: not self.alive)
        if self.process_tree.pids():
            self.process_tree.send_signal(signal.SIGTERM)
            wait_until(lambda: not self.process_tree.pids())
            self.process_tree.kill()
        self._reap()

    def _exchange(self) -> bool:
        """Write and read what is possible now; return whether anything was read."""
        if self._output_closed:
            time.sleep(POLL)
            return False
        poller = select.poll()
        poller.register(self._stdout, select.POLLIN)
        if self._to_write:
            poller.register(self._stdin, select.POLLOUT)
        poller.poll(POLL * 1000)
        if self._to_write:
            try:
                written = self._stdin.write(self._to_write)
                self._to_write = self._to_write[written or 0 :]
            except OSError:  # the shell reads no more; that it has ended is noticed elsewhere
                self._to_write = memoryview(b"")
        data = self._read()
        self._unread += data
        return bool(data)

    def _read(self) -> bytes:
        data = self._stdout.read(_CHUNK)
        if data is None:
            return b""
        self._output_closed = not data
        return data

    def _reap(self) -> None:
        """Wait for the killed process, close its pipes, and run the cleanup program."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_REAP_TIMEOUT)
        for pipe in (self._stdin, self._stdout):
            with suppress(OSError):
                pipe.close()
        if self._launch.cleanup:
            with suppress(OSError, subprocess.TimeoutExpired):
                subprocess.run(
                    self._launch.cleanup,
                    env=self._launch.env,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    timeout=_REAP_TIMEOUT,
                )
