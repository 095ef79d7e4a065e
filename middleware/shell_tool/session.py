"""Shell sessions: one shell for each run, served by one thread.

The thread starts the shell, runs all its commands in order, and ends it. So parallel tool calls
wait for each other, an event loop never waits for a shell, no thread of a shared pool is occupied,
and bubblewrap, which ends with the thread that started it, ends with the session.

A session ends when it is finished or discarded, when its middleware is garbage-collected, when it
has been idle for `idle_timeout`, and with the process.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from tempfile import TemporaryDirectory
from typing import Final, Generic, TypeVar
from weakref import WeakSet, finalize

from agent_factory import TurnError
from agent_factory.middleware._shared.redaction.rules import RedactionRule
from agent_factory.middleware.shell_tool.output import KEPT_BYTES, truncate_output
from agent_factory.middleware.shell_tool.policies import ExecutionPolicy
from agent_factory.middleware.shell_tool.process import (
    POLL,
    CannotStart,
    CommandResult,
    ShellProcess,
    new_token,
)

T = TypeVar("T")

FIRST_SHELL: Final = "A new shell was started"
"""Reason for the first shell of a session. A model that knows an earlier shell has to read it."""

Cancelled = Callable[[], bool]
"""Returns whether the caller has given up."""

_EXIT_TIMEOUT = 2.0  # seconds that the end of the process waits for each session
_log = logging.getLogger(__name__)


class ShellError(TurnError):
    """The shell of a run cannot be started, or a start-up command failed.

    A command of the model never raises this error: the model reads how it failed.

    Attributes:
        command: The start-up command; None if the shell itself does not start.
        exit_code: Its exit code, or None.
        output: What was printed, redacted.
    """

    code = "AF345"

    def __init__(
        self,
        reason: str,
        hint: str = "",
        *,
        command: str | None = None,
        exit_code: int | None = None,
        output: str = "",
    ) -> None:
        self.command = command
        self.exit_code = exit_code
        self.output = output
        subject = "the shell" if command is None else f"start-up command {command!r}"
        super().__init__(subject, reason, hint)


@dataclass(frozen=True)
class ShellSettings:
    """What all shells of a middleware have in common."""

    policy: ExecutionPolicy
    root: Path | None  # None: a temporary folder for each run
    shell: tuple[str, ...]  # the program and its arguments
    env: Mapping[str, str]  # in addition to those of the policy
    startup: tuple[str, ...]
    shutdown: tuple[str, ...]
    rules: tuple[RedactionRule, ...]

    def visible_output(self, outcome: CommandResult) -> tuple[str, bool]:
        """Return what may be seen of an output, and whether that is less than all of it.

        Raises:
            TurnError: A rule blocks it, or cannot be applied.
        """
        policy, redact = self.policy, [rule.apply for rule in self.rules]
        return truncate_output(
            outcome.output, policy.max_output_lines, policy.max_output_bytes, redact
        )


class ShellSupervisor:
    """Owner of a run's shell: starts it when needed, replaces it when lost. For one thread only.

    Attributes:
        unreported: Why there is a new shell, until the model has read it.
    """

    def __init__(self, settings: ShellSettings) -> None:
        self.settings = settings
        self.unreported = FIRST_SHELL
        self._shell: ShellProcess | None = None
        self._folder: TemporaryDirectory[str] | None = None
        self._has_background: bool | None = None

    def ensure(self, cancelled: Cancelled) -> ShellProcess:
        """Return the shell; start one if there is none or it has ended.

        Raises:
            ShellError: The shell cannot be started, or a start-up command failed.
        """
        if self._shell is not None and not self._shell.alive:
            self._discard_shell("The shell had ended, so a new one was started")
        if self._shell is None:
            self._shell = self._start(cancelled)
        self._has_background = None
        return self._shell

    def run(self, command: str, cancelled: Cancelled) -> CommandResult:
        """Run a command.

        Raises:
            ShellError: As for `ensure`.
            ValueError: No shell can read the command.
        """
        timeout = self.settings.policy.command_timeout
        outcome = self.ensure(cancelled).run(command, timeout, cancelled)
        if outcome.ending != "finished":
            self._shell = None  # the outcome reports how it ended
        return outcome

    def restart(self, cancelled: Cancelled) -> None:
        """End the shell and start another.

        Raises:
            ShellError: As for `ensure`.
        """
        if self._shell is not None:
            self._discard_shell("")
        self.ensure(cancelled)

    @property
    def limits_processes(self) -> bool:
        """Whether there is a shell whose number of processes is limited."""
        return self._shell is not None and self.settings.policy.max_processes is not None

    def check_processes(self) -> bool:
        """Kill the shell if it has too many processes; return whether to check again.

        Without a background process nothing can multiply before the next command.
        """
        if self._shell is None:
            return False
        if self._shell.exceeds_max_processes():
            self._discard_shell(
                f"More than {self.settings.policy.max_processes} processes were running in the "
                "background, so all were killed, with the shell, and a new one was started"
            )
            return False
        if self._has_background is None:
            self._has_background = len(self._shell.process_tree.pids()) > 1
        return self._has_background

    def close(self, cancelled: Cancelled) -> None:
        """Run the shutdown commands and end the shell; log failures, since the run is over."""
        try:
            for command in self.settings.shutdown:
                outcome = self.run(command, cancelled)
                if outcome.ending != "finished" or outcome.exit_code:
                    how = outcome.exit_code if outcome.ending == "finished" else outcome.ending
                    _log.warning("The shutdown command %r failed: %s", command, how)
            if self._shell is not None:
                self._shell.close(self.settings.policy.termination_timeout, cancelled)
                self._shell = None
        except ShellError as error:
            _log.warning("The shutdown commands were not run: %s", error)
        finally:
            self.kill()

    def kill(self) -> None:
        """Kill the shell and remove its temporary folder, at once."""
        if self._shell is not None:
            self._shell.kill()
            self._shell = None
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def _discard_shell(self, reason: str) -> None:
        assert self._shell is not None
        self._shell.kill()
        self._shell, self.unreported = None, reason

    def _start(self, cancelled: Cancelled) -> ShellProcess:
        settings, policy, token = self.settings, self.settings.policy, new_token()
        folder = settings.root
        if folder is None:
            if self._folder is None:
                self._folder = TemporaryDirectory(
                    prefix="agent-factory-shell-", ignore_cleanup_errors=True
                )
            folder = Path(self._folder.name)
        elif not folder.is_dir():
            raise ShellError(f"its folder {str(folder)!r} no longer exists.", "Create it again.")
        launch = policy.launch(settings.shell, folder, settings.env, token)
        keep = max(KEPT_BYTES, policy.max_output_bytes or 0)
        try:
            shell = ShellProcess(launch, token, policy.startup_timeout, cancelled, keep)
        except CannotStart as error:
            raise ShellError(
                f"{' '.join(launch.argv[:1])} cannot be started: {error}.",
                "Install what it needs, or choose another execution_policy or shell_command.",
            ) from error
        for command in settings.startup:
            outcome = shell.run(command, policy.startup_timeout, cancelled)
            if outcome.ending == "finished" and not outcome.exit_code:
                continue
            shell.kill()
            try:
                output = settings.visible_output(outcome)[0].strip()
            except TurnError:
                output = "(withheld)"
            reasons: dict[str, str] = {
                "finished": f"failed with exit code {outcome.exit_code}",
                "exited": f"ended the shell with exit code {outcome.exit_code}",
                "timeout": f"took longer than {policy.startup_timeout:g} seconds",
                "processes": "started too many processes",
            }
            raise ShellError(
                f"{reasons.get(outcome.ending, outcome.ending)}: {output or 'no output'}.",
                "Fix the command, or raise startup_timeout in the execution_policy.",
                command=command,
                exit_code=outcome.exit_code,
                output=output,
            )
        return shell


Work = Callable[[ShellSupervisor, Cancelled], T]


class Job(Generic[T]):
    """Work for the thread of a session, whose result can be waited for or awaited."""

    def __init__(self, work: Work[T]) -> None:
        self._work = work
        self._future: Future[T] = Future()
        self._cancelled = False

    def run(self, supervisor: ShellSupervisor, abandoned: Cancelled) -> bool:
        """Do the work, in the session's thread; return whether the session can go on."""
        if not self._future.set_running_or_notify_cancel():
            return True
        try:
            self._future.set_result(self._work(supervisor, lambda: self._cancelled or abandoned()))
        except BaseException as error:
            self._future.set_exception(error)
            return False
        return True

    def fail(self) -> None:
        """Fail because the session has ended."""
        if self._future.set_running_or_notify_cancel():
            self._future.set_exception(ShellError("it was ended with its run."))

    def cancel(self) -> None:
        """Do not start the work, or stop it."""
        self._cancelled = True
        self._future.cancel()

    def result(self) -> T:
        """Wait for the result."""
        try:
            return self._future.result()
        except BaseException:
            self.cancel()
            raise

    async def aresult(self) -> T:
        """Await the result; a cancelled task returns only when its command is dead."""
        waiting = asyncio.wrap_future(self._future)
        try:
            return await asyncio.shield(waiting)
        except asyncio.CancelledError:
            self.cancel()
            await asyncio.wait([waiting])
            # Retrieve the exception: asyncio logs exceptions that nobody has retrieved.
            waiting.cancelled() or waiting.exception()
            raise


class Session:
    """Shell with its thread, which starts with the first job."""

    def __init__(self, supervisor: ShellSupervisor, on_end: Callable[[Session], None]) -> None:
        self._supervisor = supervisor
        self._on_end = on_end
        self._jobs: SimpleQueue[Job[object] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._abandoned = False
        self._over = False

    @property
    def ended(self) -> bool:
        """Whether it takes no more jobs: it is over, or a fork has left its thread behind."""
        return self._over or (self._thread is not None and not self._thread.is_alive())

    def submit(self, job: Job[T]) -> bool:
        """Queue a job; return False if the session has ended."""
        with self._lock:
            if self.ended:
                return False
            self._jobs.put(job)  # type: ignore[arg-type]  # a queue of jobs of any type
            if self._thread is None:
                thread = threading.Thread(target=self._serve, name="agent-factory", daemon=True)
                thread.start()
                self._thread = thread  # only now: `ended` reads it without the lock
                _live_sessions.add(self)
            return True

    def abandon(self) -> None:
        """End soon, even during a command.

        This method takes no lock and does not wait: a finalizer calls it, which may interrupt the
        thread that holds the lock.
        """
        self._abandoned = True
        self.retire()

    def retire(self) -> None:
        """End when all queued jobs are done."""
        self._jobs.put(None)

    def join(self, seconds: float) -> None:
        """Wait for the end of its thread."""
        if self._thread is not None:
            self._thread.join(seconds)

    def _serve(self) -> None:
        while True:
            if (job := self._next_job()) is None:
                with self._lock:
                    self._over = self._abandoned or self._jobs.empty()
                if self._over:
                    break
            # A job that raises ends the run, and so the session.
            elif not job.run(self._supervisor, lambda: self._abandoned):
                self._abandoned = True
            del job  # it holds on to the state of the run; waiting for the next one may take long
        self._supervisor.kill()
        while not self._jobs.empty():
            if (left := self._jobs.get()) is not None:
                left.fail()
        self._on_end(self)

    def _next_job(self) -> Job[object] | None:
        """Wait for the next job; return None if the session is idle, retired or abandoned."""
        deadline = time.monotonic() + self._supervisor.settings.policy.idle_timeout
        watching = self._supervisor.limits_processes
        while not self._abandoned and (left := deadline - time.monotonic()) > 0:
            try:
                return self._jobs.get(timeout=min(left, POLL) if watching else left)
            except Empty:
                watching = watching and self._supervisor.check_processes()
        return None


class Sessions:
    """Sessions of one middleware, by the key of their run."""

    def __init__(self, settings: ShellSettings) -> None:
        self._settings = settings
        self._open: dict[str, Session] = {}
        self._lock = threading.Lock()
        finalize(self, _abandon_all, self._open.values()).atexit = False

    def submit(self, key: str, work: Work[T]) -> Job[T]:
        """Queue work in the session of a run; create the session if it does not exist."""
        job, open_sessions = Job(work), self._open

        # This function must not refer to `self`: a session holds it, and `Sessions` would never be
        # garbage-collected.
        def forget(session: Session) -> None:
            if open_sessions.get(key) is session:
                open_sessions.pop(key, None)

        while True:
            with self._lock:
                session = self._open.get(key)
                if session is None or session.ended:
                    session = self._open[key] = Session(ShellSupervisor(self._settings), forget)
            if session.submit(job):
                return job

    def finish(self, key: str) -> Job[None] | None:
        """Run the shutdown commands and end a session; return None if there is nothing to do."""
        if key not in self._open and not self._settings.shutdown:
            return None
        job = self.submit(key, ShellSupervisor.close)
        if session := self._open.pop(key, None):
            session.retire()
        return job

    def discard(self, key: str) -> None:
        """End a session at once, even during a command."""
        if session := self._open.pop(key, None):
            session.abandon()


_live_sessions: WeakSet[Session] = WeakSet()


def _abandon_all(sessions: Iterable[Session]) -> None:
    for session in list(sessions):  # sessions that end remove themselves meanwhile
        session.abandon()


@atexit.register
def _end_all_with_the_process() -> None:
    sessions = list(_live_sessions)
    _abandon_all(sessions)
    for session in sessions:
        session.join(_EXIT_TIMEOUT)
