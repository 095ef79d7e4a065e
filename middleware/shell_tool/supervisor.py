"""The shell of one run: started when it is needed, started anew when it was lost, ended at last."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from agent_factory import TurnError
from agent_factory.middleware._shared.redaction.rules import RedactionRule
from agent_factory.middleware.shell_tool.output import KEPT_BYTES, shown
from agent_factory.middleware.shell_tool.policies import ExecutionPolicy
from agent_factory.middleware.shell_tool.process import CannotStart, Outcome, Shell, new_token

_log = logging.getLogger(__name__)

NEW: Final = "A new shell was started"
"""Why a shell is new that is the first of its session; news to a model that has seen another."""

Cancelled = Callable[[], bool]
"""Whether the caller has given up."""


class ShellError(TurnError):
    """The shell of a run cannot be started, or a start-up command failed.

    What a command does that the model gave is never such an error: the model is told of it.

    Attributes:
        command: The start-up command, or None where the shell itself does not start.
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
class Settings:
    """What every shell of a middleware has in common.

    Args:
        policy: Where it runs, and its limits.
        root: The folder it works in; None for a temporary one of each run.
        shell: The program and its arguments.
        env: Variables of the user's own.
        startup: Commands to run in a new shell.
        shutdown: Commands to run at the end.
        rules: What to redact in outputs.
    """

    policy: ExecutionPolicy
    root: Path | None
    shell: tuple[str, ...]
    env: Mapping[str, str]
    startup: tuple[str, ...]
    shutdown: tuple[str, ...]
    rules: tuple[RedactionRule, ...]

    @property
    def keep(self) -> int:
        """Bytes to keep of each end of an output."""
        return max(KEPT_BYTES, self.policy.max_output_bytes or 0)

    def shown(self, outcome: Outcome) -> tuple[str, bool]:
        """What may be seen of an output, and whether that is less than all.

        Raises:
            TurnError: A rule blocks it, or cannot be applied.
        """
        policy, redact = self.policy, [rule.apply for rule in self.rules]
        return shown(outcome.output, policy.max_output_lines, policy.max_output_bytes, redact)


class Keeper:
    """Keeps a shell. It is used by one thread alone.

    Attributes:
        untold: Why there is a new shell, as long as the model has not been told.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.untold = NEW
        self._shell: Shell | None = None
        self._folder: TemporaryDirectory[str] | None = None
        self._has_company: bool | None = None

    def ensure(self, cancelled: Cancelled) -> Shell:
        """The shell; a new one where there is none, or none any more.

        Raises:
            ShellError: It cannot be started, or a start-up command failed.
        """
        if self._shell is not None and not self._shell.alive:
            self._lose("The shell had ended, so a new one was started")
        if self._shell is None:
            self._shell = self._start(cancelled)
        self._has_company = None
        return self._shell

    def run(self, command: str, cancelled: Cancelled) -> Outcome:
        """Run a command of the model.

        Raises:
            ShellError: As `ensure`.
            ValueError: No shell can read it.
        """
        outcome = self.ensure(cancelled).run(
            command, self.settings.policy.command_timeout, cancelled
        )
        if outcome.ending != "finished":
            self._shell = None  # how it ended is in the outcome
        return outcome

    def restart(self, cancelled: Cancelled) -> None:
        """End the shell and start another.

        Raises:
            ShellError: As `ensure`.
        """
        if self._shell is not None:
            self._lose("")
        self.ensure(cancelled)

    @property
    def limited(self) -> bool:
        """Whether there is a shell, and a number of processes that it may not exceed."""
        return self._shell is not None and self.settings.policy.max_processes is not None

    def watch(self) -> bool:
        """End the shell if there are too many processes; whether it has to be watched on.

        Without a process in the background, nothing can multiply before the next command.
        """
        if self._shell is None:
            return False
        if self._shell.crowded():
            limit = self.settings.policy.max_processes
            self._lose(
                f"More than {limit} processes were running in the background, so all were killed, "
                "with the shell, and a new one was started"
            )
            return False
        if self._has_company is None:
            self._has_company = self._shell.has_company
        return self._has_company

    def close(self, cancelled: Cancelled) -> None:
        """Run the shutdown commands and end well; what fails here is logged, the run is over."""
        try:
            for command in self.settings.shutdown:
                self._shut_down(command, cancelled)
            if self._shell is not None:
                self._shell.close(self.settings.policy.termination_timeout, cancelled)
                self._shell = None
        except ShellError as error:
            _log.warning("The shutdown commands were not run: %s", error)
        finally:
            self.kill()

    def kill(self) -> None:
        """End all that there is, at once."""
        if self._shell is not None:
            self._shell.kill()
            self._shell = None
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def _lose(self, why: str) -> None:
        assert self._shell is not None
        self._shell.kill()
        self._shell, self.untold = None, why

    def _start(self, cancelled: Cancelled) -> Shell:
        settings, token = self.settings, new_token()
        timeout = settings.policy.startup_timeout
        launch = settings.policy.launch(settings.shell, self._workspace(), settings.env, token)
        try:
            shell = Shell(launch, token, timeout, cancelled, settings.keep)
        except CannotStart as error:
            raise ShellError(
                f"{' '.join(launch.argv[:1])} cannot be started: {error}.",
                "Install what it needs, or choose another execution_policy or shell_command.",
            ) from error
        for command in settings.startup:
            outcome = shell.run(command, timeout, cancelled)
            if outcome.ending != "finished" or outcome.exit_code:
                shell.kill()
                raise self._failed(command, outcome)
        return shell

    def _failed(self, command: str, outcome: Outcome) -> ShellError:
        try:
            output = self.settings.shown(outcome)[0].strip()
        except TurnError:
            output = "(withheld)"
        timeout = self.settings.policy.startup_timeout
        how = {
            "finished": f"failed with exit code {outcome.exit_code}",
            "exited": f"ended the shell with exit code {outcome.exit_code}",
            "timeout": f"took longer than {timeout:g} seconds",
            "processes": "started too many processes",
        }.get(outcome.ending, outcome.ending)
        return ShellError(
            f"{how}: {output or 'it printed nothing'}.",
            "Mend the command, or raise startup_timeout in the execution_policy.",
            command=command,
            exit_code=outcome.exit_code,
            output=output,
        )

    def _workspace(self) -> Path:
        root = self.settings.root
        if root is not None:
            if not root.is_dir():
                raise ShellError(f"its folder {str(root)!r} is gone.", "Create it again.")
            return root
        if self._folder is None:
            self._folder = TemporaryDirectory(
                prefix="agent-factory-shell-", ignore_cleanup_errors=True
            )
        return Path(self._folder.name)

    def _shut_down(self, command: str, cancelled: Cancelled) -> None:
        outcome = self.run(command, cancelled)
        if outcome.ending != "finished" or outcome.exit_code:
            how = outcome.exit_code if outcome.ending == "finished" else outcome.ending
            _log.warning("The shutdown command %r failed: %s", command, how)
