"""One shell process: started, sent commands one after another, and ended.

After each command the shell prints an end marker with the exit code and a random token. On Linux
its parent process, subreaper.py, adopts its orphans, which /proc lists; otherwise only the process
group is known. psutil offers the same, but is slower: `is_larger_than` runs every 20 ms.
"""

from __future__ import annotations

import os
import secrets
import select
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Literal, cast

from .output import KEPT_BYTES, Output, decode
from .policies import Launch

POLL = 0.02  # seconds between two checks of the clock, of cancellation and of the process number
# First line a shell reads: errors go to the output, and descriptor 9 is for the end markers.
_SETUP = b"exec 9>&1 2>&1\n"
# The record separator. A shell with an echo shows "\036" in place of this byte.
_CONTROL = b"\x1e"
_CHUNK = 1 << 16  # bytes read at a time
_LAST_BYTES = 1 << 20  # bytes to read after a shell was killed
_PAUSE = 0.005  # seconds between two checks whether processes have ended
_PROC = "/proc"
_KILL_TIMEOUT = 5.0  # seconds; a longer-lived process hangs in the kernel
_REAP_TIMEOUT = 10.0  # seconds for a killed process to go, and for the cleanup program

# Command to run a shell below a process that adopts the orphans; empty where there is none.
_SUBREAPER: tuple[str, ...] = ()
if sys.platform == "linux" and sys.executable and not getattr(sys, "frozen", False):
    # -I and -S ignore the environment and site-packages, and save time at the start.
    _SUBREAPER = (sys.executable, "-I", "-S", str(Path(__file__).with_name("subreaper.py")))

Cancelled = Callable[[], bool]  # returns whether the caller has given up
Ending = Literal["finished", "exited", "timeout", "processes", "cancelled"]


@dataclass(frozen=True)
class CommandResult:
    """Result of a command."""

    ending: Ending  # "finished": the shell is still alive; "exited": it exited; else it was killed
    output: Output
    exit_code: int | None = None  # of the command or the shell; None if it was killed


class CannotStart(Exception):
    """A shell does not start; the message says why."""


def new_token() -> str:
    """128 random bits: no output contains them by chance, and no command can guess them."""
    return secrets.token_hex(16)


def encode_command(command: str, token: str, status: int = 0) -> bytes:
    """Encode a command for a shell, with `status` as `$?` before it, and a mark of its end."""
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
    """Return the certain output, the rest with or without the end marker, and the exit code."""
    opening = _CONTROL + token.encode() + b":"
    before, mark, rest = data.partition(opening)
    if mark:
        code, end, after = rest.partition(_CONTROL)
        return (before, after, int(code)) if end else (before, mark + rest, None)
    start = data.rfind(_CONTROL, max(0, len(data) - len(opening)))
    if start >= 0 and opening.startswith(data[start:]):
        return data[:start], data[start:], None
    return data, b"", None


class ProcessTree:
    """Processes of a shell, which leads a process group."""

    def __init__(self, group: int, root: int) -> None:
        self._group = group  # the shell
        self._root = root  # the subreaper, or the shell: its descendants belong to the shell
        self._has_proc = os.path.exists(f"{_PROC}/self/stat")
        self._lists_children = os.path.exists(f"{_PROC}/thread-self/children")

    def pids(self) -> set[int]:
        """Return the ids of all living processes; without /proc the shell's, for its group."""
        if not self._has_proc:
            return {self._group} if self._signal_group(0) else set()
        tree: set[int] = set()
        children: dict[int, list[int]] = {}
        names: list[str] = []
        with suppress(OSError):  # for example too many open files: kill the group
            names = os.listdir(_PROC)
        for pid in (int(name) for name in names if name.isdigit()):
            # The process name in parentheses may contain anything, parentheses too.
            fields = _read_proc(f"{pid}/stat").rpartition(b")")[2].split()
            if not fields or fields[0] in (b"Z", b"X"):  # gone, or a zombie
                continue
            children.setdefault(int(fields[1]), []).append(pid)
            if pid == self._group:
                tree.add(pid)
        todo = [self._root, self._group]
        while todo:
            new = [pid for pid in children.get(todo.pop(), ()) if pid not in tree]
            tree.update(new)
            todo += new
        return tree

    def is_larger_than(self, limit: int) -> bool:
        """Return whether there are more processes than the limit."""
        if not self._lists_children:
            return self._has_proc and len(self.pids()) > limit
        # `pids` also reads other processes than the shell's, and would take too long.
        tree, todo = {self._group}, [self._root, self._group]
        while todo and len(tree) <= limit:
            pid = todo.pop()
            threads: list[str] = []
            with suppress(OSError):  # the process is gone
                threads = os.listdir(f"{_PROC}/{pid}/task")
            for thread in threads:
                children = _read_proc(f"{pid}/task/{thread}/children").split()
                new = set(map(int, children)) - tree
                tree |= new
                todo += new
        return len(tree) > limit

    def send_signal(self, number: int) -> None:
        """Send a signal to all of them."""
        self._signal_group(number)
        _send_signal(self.pids() - {self._group}, number)

    def kill(self) -> None:
        """Kill all of them, repeatedly, until no fork has escaped."""
        deadline = time.monotonic() + _KILL_TIMEOUT
        left = self.pids()  # first, because without a subreaper the shell's orphans are not found
        self._signal_group(signal.SIGKILL)
        while self._has_proc and left and time.monotonic() < deadline:
            _send_signal(left, signal.SIGKILL)
            time.sleep(_PAUSE)
            left = self.pids()

    def _signal_group(self, number: int) -> bool:
        """Send a signal to the process group; return whether there was one."""
        try:
            os.killpg(self._group, number)
        except (ProcessLookupError, PermissionError):
            return False
        return True


def _read_proc(name: str) -> bytes:
    """Content of a file in /proc; empty if the process is gone or belongs to another user."""
    with suppress(OSError), open(f"{_PROC}/{name}", "rb", buffering=0) as file:
        return file.read()
    return b""


def _send_signal(pids: set[int], number: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


class ShellProcess:
    """Running shell with one command at a time, all from the thread of its start."""

    def __init__(
        self, launch: Launch, timeout: float, cancelled: Cancelled, keep: int = KEPT_BYTES
    ) -> None:
        program = shutil.which(launch.argv[0], path=launch.env.get("PATH"))
        if program is None:
            raise CannotStart(f"the program {launch.argv[0]!r} is not in the PATH")
        reports, report = os.pipe()
        self._reports = FileIO(reports)
        try:
            # The thread must live on: the subreaper, and so bubblewrap's sandbox, ends with it.
            self._process = subprocess.Popen(
                [*_SUBREAPER, str(report), program, *launch.argv] if _SUBREAPER else launch.argv,
                executable=None if _SUBREAPER else program,
                env=launch.env,
                cwd=launch.folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                bufsize=0,
                start_new_session=True,
                pass_fds=(report,) if _SUBREAPER else (),
            )
        except (OSError, ValueError) as error:
            self._reports.close()
            raise CannotStart(str(error)) from error
        finally:
            os.close(report)
        self._launch, self._keep = launch, keep
        root = self._process.pid
        self.process_tree = ProcessTree(int(self._reports.readline() or root), root)
        self._exit_code: int | None = None
        # Unbuffered and non-blocking: `read` and `write` return None if they would have to wait.
        self._stdin = cast("FileIO", self._process.stdin)
        self._stdout = cast("FileIO", self._process.stdout)
        for pipe in (self._stdin, self._stdout, self._reports):
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
        """True if the shell can take a command. If not, `kill()` it at once."""
        return not self._reports.closed and self._poll() is None

    def run(self, command: str, timeout: float, cancelled: Cancelled) -> CommandResult:
        """Run a command until it ends or has to be ended; in the latter case the shell is gone."""
        token = new_token()
        encoded = encode_command(command, token, self._status)
        # After the bytes that the shell has not taken yet: the setup, at the first command.
        self._to_write = memoryview(bytes(self._to_write) + encoded)
        output, deadline = Output(self._keep), time.monotonic() + timeout
        ending: Ending | None = None
        while ending is None:
            text, self._unread, code = split_at_marker(self._unread, token)
            output.add(text)
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

        code = self._poll()
        self.process_tree.kill()
        while len(self._unread) < _LAST_BYTES and (data := self._read()):
            self._unread += data
        self._reap()
        text, _, marked_code = split_at_marker(self._unread, token)
        output.add(self._unread if marked_code is None else text)
        if marked_code is not None and ending == "exited":  # right after its end marker
            return CommandResult("finished", output, marked_code)
        # As shells report a killed process: 128 plus the signal's number.
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
        """End the shell, then its background processes; after `grace` seconds kill the rest."""
        deadline = time.monotonic() + grace

        def wait_until(is_over: Callable[[], bool]) -> None:
            while not (cancelled() or is_over()) and time.monotonic() < deadline:
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
        """Write and read as far as possible now; return whether anything was read."""
        # A pipe that is closed is always ready, so `poll` would not wait.
        if self._output_closed:
            time.sleep(POLL)
            return False
        poller = select.poll()
        poller.register(self._stdout, select.POLLIN)
        if self._to_write:
            poller.register(self._stdin, select.POLLOUT)
        # `poll` takes milliseconds.
        poller.poll(POLL * 1000)
        if self._to_write:
            try:
                count = self._stdin.write(self._to_write)
                self._to_write = self._to_write[count or 0 :]
            except OSError:  # the shell reads no more; its end is noticed elsewhere
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

    def _poll(self) -> int | None:
        """The exit code of the shell if it has ended; minus the signal's number if killed."""
        if self._exit_code is None:
            if not _SUBREAPER:
                # Reaps the shell; from then on its process id may be reused.
                self._exit_code = self._process.poll()
            elif (line := self._reports.read(_CHUNK)) is not None:
                # The end without a line means that a command killed the subreaper.
                self._exit_code = int(line) if line else self._process.wait()
        return self._exit_code

    def _reap(self) -> None:
        """Wait for the killed process, close its pipes, and run the cleanup program."""
        self._process.kill()  # the subreaper; a shell without one is dead
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_REAP_TIMEOUT)
        for pipe in (self._stdin, self._stdout, self._reports):
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
