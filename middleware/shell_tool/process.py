"""One shell process: started, asked to run commands one after another, and ended."""

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
from dataclasses import dataclass, replace
from typing import IO, Literal, cast

from agent_factory.middleware.shell_tool.output import KEPT_BYTES, Output, readable
from agent_factory.middleware.shell_tool.policies import Launch
from agent_factory.middleware.shell_tool.process_tree import COOKIE, Family

_CONTROL = b"\x1e"  # the record separator: what a shell echoes of its input spells it differently

OPENING = b"exec 9>&1 2>&1\n"
"""What a shell is told first: errors belong to the output, and where the marks go."""


def new_token() -> str:
    """A word that no output holds by chance and no command can know: 128 random bits."""
    return secrets.token_hex(16)


def request(command: str, token: str, status: int = 0) -> bytes:
    """What a shell is sent so that it runs a command and then prints the mark.

    Args:
        command: One or more lines.
        token: The word of the mark.
        status: What `$?` is to the command: the exit code of the one before.

    Raises:
        ValueError: The command has a character that no shell can be sent: NUL, or half of a pair
            of surrogates.
    """
    if "\0" in command:
        raise ValueError("the command holds a NUL character, which no shell can read")
    # The space keeps `eval` from taking a command that starts with "-" for an option.
    word = shlex.quote(f" {command}")
    mark = f"""command printf '\\036%s:%d\\036' {token} "$?" >&9"""
    try:
        # One line: after a syntax error bash reads what begins the next one wrongly.
        line = f"eval {word} </dev/null 9>&-; {{ {mark}; }} 2>/dev/null\n"
        return (f"(exit {status}) 2>/dev/null; {line}" if status else line).encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"the command cannot be written as UTF-8: {error.reason}") from None


def split(data: bytes, token: str) -> tuple[bytes, bytes, int | None]:
    """Look for the mark in what was read.

    Returns:
        What is output for certain; the rest, which may be the beginning of the mark or lies behind
        it; and the exit code, once the mark is there.

    >>> split(b"hello", "t")
    (b'hello', b'', None)
    >>> split(b"hello\\x1et:", "t")
    (b'hello', b'\\x1et:', None)
    >>> split(b"hello\\x1et:3\\x1eafter", "t")
    (b'hello', b'after', 3)
    """
    opening = _CONTROL + token.encode() + b":"
    start = data.find(opening)
    if start < 0:
        start = _beginning(data, opening)
        return data[:start], data[start:], None
    end = data.find(_CONTROL, start + len(opening))
    if end < 0:
        return data[:start], data[start:], None
    return data[:start], data[end + 1 :], int(data[start + len(opening) : end])


def _beginning(data: bytes, opening: bytes) -> int:
    """Where at the end of the data a mark may have begun."""
    start = data.rfind(_CONTROL, max(0, len(data) - len(opening)))
    return start if start >= 0 and opening.startswith(data[start:]) else len(data)


POLL = 0.02
"""Seconds between two looks at the clock, at cancellation and at the number of processes."""

_CHUNK = 1 << 16
_LAST_WORDS = 1 << 20  # bytes that are still read of what a shell has left behind
_PAUSE = 0.005  # seconds between two looks at whether something has ended
_PATIENCE = 10.0  # seconds for a process that was killed, and for the program that cleans up

Ending = Literal["finished", "exited", "timeout", "processes", "cancelled"]


@dataclass(frozen=True)
class Outcome:
    """How a command went.

    Args:
        ending: "finished": the shell lives. "exited": it ended by itself. "timeout", "processes",
            "cancelled": it was killed, for the time, the number of processes, or the caller.
        output: What was printed.
        exit_code: The command's, or the shell's; None where it was killed.
    """

    ending: Ending
    output: Output
    exit_code: int | None = None


class CannotStart(Exception):
    """A shell does not start; the text says why."""


class Shell:
    """A shell that has been started and answers.

    It is used by one thread at a time, and that thread must live as long as the shell:
    bubblewrap ends with the thread that started it.

    Args:
        launch: What to start.
        token: A word that no other shell has.
        timeout: Seconds it may take to answer.
        cancelled: Whether the caller has given up.
        keep: Bytes to keep of each end of an output.

    Raises:
        CannotStart: It is not there, it ended, or it did not answer.
    """

    def __init__(
        self,
        launch: Launch,
        token: str,
        timeout: float,
        cancelled: Callable[[], bool],
        keep: int = KEPT_BYTES,
    ) -> None:
        self._keep = keep
        self._launch = launch
        self._process = _start(launch, token)
        self._family = Family(self._process.pid, token)
        self._in = cast("IO[bytes]", self._process.stdin).fileno()
        self._out = cast("IO[bytes]", self._process.stdout).fileno()
        for end in (self._in, self._out):
            os.set_blocking(end, False)
        self._to_write = memoryview(OPENING)
        self._left = b""
        self._silent = False
        self._looked = 0.0
        self._status = 0
        self._answer(timeout, cancelled)

    def _answer(self, timeout: float, cancelled: Callable[[], bool]) -> None:
        """Wait for a sign of life, its limits set."""
        outcome = self.run(self._launch.limits or ":", timeout, cancelled)
        if outcome.ending == "finished" and outcome.exit_code == 0:
            return
        if outcome.ending == "finished":
            self.kill()
        said = readable(outcome.output.ends()[0]).strip() or "it printed nothing"
        how = {
            "timeout": f"it did not answer within {timeout:g} seconds",
            "exited": f"it ended with exit code {outcome.exit_code}",
            "finished": f"it refused its limits ({self._launch.limits})",
        }
        raise CannotStart(f"{how.get(outcome.ending, outcome.ending)}: {said[-2000:]}")

    @property
    def alive(self) -> bool:
        """Whether it can take a command. One that cannot is to be killed at once.

        Its number may then be another process's; until somebody asks, it is kept for it.
        """
        return self._process.poll() is None

    @property
    def has_company(self) -> bool:
        """Whether there may be processes in the background: more than the shell's own."""
        return len(self._family.alive()) > 1

    def run(self, command: str, timeout: float, cancelled: Callable[[], bool]) -> Outcome:
        """Run a command to its end, or to where it has to be ended; then the shell is gone.

        Args:
            command: One or more lines.
            timeout: Seconds it may take.
            cancelled: Whether the caller has given up.

        Raises:
            ValueError: No shell can read it.
        """
        token = new_token()
        sent = request(command, token, self._status)
        self._to_write = memoryview(bytes(self._to_write) + sent)
        output, deadline = Output(self._keep), time.monotonic() + timeout
        while True:
            certain, self._left, code = split(self._left, token)
            output.add(certain)
            if code is not None:
                self._status = code
                return Outcome("finished", output, code)
            if ending := self._must_end(deadline, cancelled):
                return self._ended(Outcome(ending, output), token)
            if not self._exchange() and not self.alive:
                return self._ended(Outcome("exited", output), token)

    def crowded(self) -> bool:
        """Whether there are too many processes; looked at no more often than `POLL` says."""
        limit, now = self._launch.max_processes, time.monotonic()
        if limit is None or now - self._looked < POLL:
            return False
        self._looked = now
        return self._family.outgrew(limit)

    def kill(self) -> None:
        """End it and all that it started, at once."""
        self._family.kill()
        self._bury()

    def close(self, grace: float, cancelled: Callable[[], bool]) -> None:
        """Let it end, then what it has left in the background; kill what does not.

        Args:
            grace: Seconds they have.
            cancelled: Whether there is no time for that.
        """
        deadline = time.monotonic() + grace
        with suppress(OSError):
            cast("IO[bytes]", self._process.stdin).close()  # a shell ends with its input
        self._wait_until(deadline, lambda: cancelled() or not self.alive)
        if self._family.alive():
            self._family.send(signal.SIGTERM)
            self._wait_until(deadline, lambda: cancelled() or not self._family.alive())
            self._family.kill()
        self._bury()

    def _wait_until(self, deadline: float, done: Callable[[], bool]) -> None:
        while not done() and time.monotonic() < deadline:
            if not self._read():  # who waits for a reader would not end
                time.sleep(_PAUSE)

    def _must_end(self, deadline: float, cancelled: Callable[[], bool]) -> Ending | None:
        if cancelled():
            return "cancelled"
        if time.monotonic() > deadline:
            return "timeout"
        return "processes" if self.crowded() else None

    def _ended(self, outcome: Outcome, token: str) -> Outcome:
        """End what is left of it; what it still had to say belongs to the output."""
        code = self._process.poll()
        self._family.kill()
        while len(self._left) < _LAST_WORDS and (data := self._read()):
            self._left += data
        self._bury()
        said, _, mark = split(self._left, token)
        outcome.output.add(said if mark is not None else self._left)
        if mark is not None and outcome.ending == "exited":  # right behind its mark
            return Outcome("finished", outcome.output, mark)
        return replace(outcome, exit_code=_as_shells_do(code))

    def _exchange(self) -> bool:
        """Write what is to be written, read what is there; whether anything was read."""
        if self._silent:
            time.sleep(POLL)
            return False
        poller = select.poll()
        poller.register(self._out, select.POLLIN)
        if self._to_write:
            poller.register(self._in, select.POLLOUT)
        ready = dict(poller.poll(POLL * 1000))
        if self._in in ready:
            self._write()
        if self._out not in ready:
            return False
        data = self._read()
        self._left += data
        return bool(data)

    def _write(self) -> None:
        try:
            self._to_write = self._to_write[os.write(self._in, self._to_write) :]
        except BlockingIOError:
            return
        except OSError:  # it reads no more; that it has ended is seen elsewhere
            self._to_write = memoryview(b"")

    def _read(self) -> bytes:
        try:
            data = os.read(self._out, _CHUNK)
        except BlockingIOError:
            return b""
        self._silent = not data
        return data

    def _bury(self) -> None:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_PATIENCE)
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):
                cast("IO[bytes]", pipe).close()
        self._clean_up()

    def _clean_up(self) -> None:
        if not self._launch.cleanup:
            return
        with suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(
                self._launch.cleanup,
                env=dict(self._launch.env),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=_PATIENCE,
                check=False,
            )


def _start(launch: Launch, token: str) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            launch.argv,
            executable=_found(launch),
            env={**launch.env, COOKIE: token},
            cwd=launch.folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            bufsize=0,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise CannotStart(str(error)) from error


def _found(launch: Launch) -> str:
    program = launch.argv[0]
    path = shutil.which(program, path=launch.env.get("PATH"))
    if path is None:
        raise CannotStart(f"there is no program {program!r} in the PATH")
    return path


def _as_shells_do(code: int | None) -> int | None:
    """A process's exit code as a shell gives it: 128 and the signal for one that was killed."""
    return 128 - code if code is not None and code < 0 else code
