"""Shell of one run: started when needed, replaced when lost, and described to the model."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from langchain_core.messages import ToolMessage

from agent_factory import TurnError
from agent_factory.middleware._shared.redaction import PIIDetectionError, RedactionRule

from .output import KEPT_BYTES, truncate_output
from .policies import ExecutionPolicy
from .process import Cancelled, CannotStart, CommandResult, ShellProcess, new_token

DESCRIPTION: Final = """\
Run commands in a {shell} shell. It is one session: working directory, variables and functions \
stay from one command to the next. Output and errors come back together, with the exit code.

- A command may take {seconds:g} seconds; then it is killed, and the session is lost with it. \
Start what takes longer in the background, `command >log 2>&1 &`, and look at the log later.
- Nothing can be typed in: give answers as arguments (`--yes`), write files with `cat <<'EOF'`.
- No more than {lines} lines of an output are shown, the first and the last half. Narrow it with \
head, tail or grep.
- `exit`, and a failure under `set -e`, end the session. A new one starts with the next command; \
restart=true starts one now.
- Calls made side by side run one after another in any order: put steps that need each other into \
one command."""

_LOSSES: Final = "working directory, variables, functions and background processes"
# Reason for the first shell of a session, for a model with results of an earlier shell.
_FIRST_SHELL: Final = "A new shell was started"

_log = logging.getLogger(__name__)


class ShellError(TurnError):
    """The shell of a run cannot be started, or a start-up command failed.

    A failed command of the model never raises this error: the model reads the failure.

    Attributes:
        command: The start-up command; None if the shell itself does not start.
        exit_code: The exit code, or None.
        output: The output, redacted.
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
        self.command, self.exit_code, self.output = command, exit_code, output
        subject = "the shell" if command is None else f"start-up command {command!r}"
        super().__init__(subject, reason, hint)


@dataclass(frozen=True)
class ShellSettings:
    """Settings of all shells of a middleware."""

    policy: ExecutionPolicy
    root: Path | None  # None: a temporary folder for each run
    shell: tuple[str, ...]  # the program and its arguments
    env: Mapping[str, str]  # in addition to the variables of the policy
    startup: tuple[str, ...]
    shutdown: tuple[str, ...]
    rules: tuple[RedactionRule, ...]


def folder_at(path: Path) -> Path:
    """Return the absolute path of a folder, which need not exist yet."""
    folder = path.resolve()
    # No folder can be made below a file.
    nearest = next(place for place in (folder, *folder.parents) if place.exists())
    if not nearest.is_dir():
        raise ValueError(
            f"workspace_root must be the path of a folder, got {str(path)!r}, and {str(nearest)!r} "
            "is a file. Pass another path, or leave it out for a temporary one."
        )
    return folder


class ShellSupervisor:
    """Owner of a run's shell: starts it when needed, replaces it when lost. For one thread only."""

    def __init__(self, settings: ShellSettings) -> None:
        self.settings = settings
        self._shell: ShellProcess | None = None
        self._folder: TemporaryDirectory[str] | None = None
        self._has_background: bool | None = None
        self._restart_reason = _FIRST_SHELL  # why there is a new shell, until the model has read it

    def execute(
        self,
        cancelled: Cancelled,
        *,
        command: str | None,
        restart: bool,
        seen_before: bool,
        reply: Callable[..., ToolMessage | str],
    ) -> ToolMessage | str:
        """Execute a call of the tool; `seen_before`: the model knows results of another shell."""
        if command is not None and not command.strip():
            command = None
        if command is None and not restart:
            nothing = "Nothing was run: give a command, or restart=true for a new shell."
            return reply(nothing, status="error")

        if restart:
            self._discard_shell()
        self.ensure(cancelled)
        # Once only: the model reads it in the result of this call.
        reason, self._restart_reason = self._restart_reason, ""
        notice = ""
        again = " The start-up commands were run again." if self.settings.startup else ""
        if restart:
            notice = f"[The shell was restarted: {_LOSSES} are lost, files are kept.{again}]"
        elif reason and (reason != _FIRST_SHELL or seen_before):
            files = "files are kept"
            if reason == _FIRST_SHELL and self.settings.root is None:
                files = "and so are the files of its temporary folder"
            notice = f"[{reason}: {_LOSSES} of the one before are lost, {files}.{again}]"
        if command is None:
            return reply(notice)

        try:
            result = self.run(command, cancelled)
        except ValueError as error:
            return reply(_join_lines(notice, f"Nothing was run: {error}."), status="error")
        text, cut, withheld = self._visible_output(result)
        if withheld:
            text = f"[The output is withheld: {withheld}]"
        failed = withheld or result.ending != "finished" or result.exit_code != 0
        return reply(
            _join_lines(notice, text or "[no output]", self._describe_ending(result)),
            status="error" if failed else "success",
            artifact={
                "exit_code": result.exit_code,
                "ending": result.ending,
                "lines": result.output.lines,
                "bytes": result.output.size,
                "cut": cut,
            },
        )

    def ensure(self, cancelled: Cancelled) -> ShellProcess:
        """Return the shell; start a shell if there is none or it has ended."""
        if self._shell is not None and not self._shell.alive:
            self._discard_shell("The shell had ended, so a new one was started")
        if self._shell is None:
            self._shell = self._start(cancelled)
        # Not known any more: the next command may leave some.
        self._has_background = None
        return self._shell

    def run(self, command: str, cancelled: Cancelled) -> CommandResult:
        """Run a command; a ValueError means a command that no shell can read."""
        timeout = self.settings.policy.command_timeout
        result = self.ensure(cancelled).run(command, timeout, cancelled)
        if result.ending != "finished":
            self._shell = None  # the result reports how it ended
        return result

    def check_processes(self) -> bool:
        """Kill the shell if it has too many processes; return whether to check again."""
        if self._shell is None:
            return False
        if self._shell.exceeds_max_processes():
            self._discard_shell(
                f"More than {self.settings.policy.max_processes} processes were running in the "
                "background, so all were killed, with the shell, and a new one was started"
            )
            return False
        # Without a background process nothing can multiply before the next command.
        if self._has_background is None:
            self._has_background = len(self._shell.process_tree.pids()) > 1
        return self._has_background

    def close(self, cancelled: Cancelled) -> None:
        """Run the shutdown commands and end the shell; log failures, since the run is over."""
        try:
            for command in self.settings.shutdown:
                result = self.run(command, cancelled)
                if result.ending != "finished" or result.exit_code:
                    how = result.exit_code if result.ending == "finished" else result.ending
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
        self._discard_shell()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def _discard_shell(self, reason: str = "") -> None:
        if self._shell is not None:
            self._shell.kill()
            self._shell, self._restart_reason = None, reason

    def _start(self, cancelled: Cancelled) -> ShellProcess:
        settings, policy = self.settings, self.settings.policy
        folder = settings.root and settings.root.resolve()
        if folder is None:
            # The next shell of the run gets the same folder, because files are kept. A container
            # may leave files of root there, which this user cannot remove.
            self._folder = self._folder or TemporaryDirectory(
                prefix="agent-factory-shell-", ignore_cleanup_errors=True
            )
            folder = Path(self._folder.name)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ShellError(
                f"its folder {str(folder)!r} cannot be made: {error.strerror}.",
                "Pass a workspace_root that this user may write to.",
            ) from error
        launch = policy.launch(settings.shell, folder, settings.env, new_token())
        # As much as the policy lets the model see.
        keep = max(KEPT_BYTES, policy.max_output_bytes or 0)
        try:
            shell = ShellProcess(launch, policy.startup_timeout, cancelled, keep)
        except CannotStart as error:
            raise ShellError(
                f"{' '.join(launch.argv[:1])} cannot be started: {error}.",
                "Install what it needs, or choose another execution_policy or shell_command.",
            ) from error
        for command in settings.startup:
            result = shell.run(command, policy.startup_timeout, cancelled)
            if result.ending == "finished" and not result.exit_code:
                continue
            shell.kill()
            text, _, withheld = self._visible_output(result)
            output = "(withheld)" if withheld else text.strip()
            reasons: dict[str, str] = {
                "finished": f"failed with exit code {result.exit_code}",
                "exited": f"ended the shell with exit code {result.exit_code}",
                "timeout": f"took longer than {policy.startup_timeout:g} seconds",
                "processes": "started too many processes",
            }
            raise ShellError(
                f"{reasons.get(result.ending, result.ending)}: {output or 'no output'}.",
                "Fix the command, or raise startup_timeout in the execution_policy.",
                command=command,
                exit_code=result.exit_code,
                output=output,
            )
        return shell

    def _visible_output(self, result: CommandResult) -> tuple[str, bool, str]:
        """Return the visible output, whether it is cut, and the reason if it is withheld."""
        policy, redact = self.settings.policy, [rule.apply for rule in self.settings.rules]
        limits = (policy.max_output_lines, policy.max_output_bytes)
        try:
            return *truncate_output(result.output, *limits, redact), ""
        except PIIDetectionError as error:
            return "", True, f"it contains {error.pii_type}."
        except TurnError as error:  # for example a regular expression that takes too long
            return "", True, f"{error.subject} {error.reason}"

    def _describe_ending(self, result: CommandResult) -> str:
        if result.ending == "finished":
            return f"[exit code {result.exit_code}]"
        policy, consequence = self.settings.policy, "killed, and the shell with it"
        reason = {
            "exited": f"The shell exited with code {result.exit_code}",
            "timeout": f"The command took longer than {policy.command_timeout:g} seconds and was "
            f"{consequence}",
            "processes": f"The command started more than {policy.max_processes} processes and was "
            f"{consequence}",
            "cancelled": f"The command was cancelled and {consequence}",
        }[result.ending]
        again = " The start-up commands will be run again." if self.settings.startup else ""
        return (
            f"[{reason}. The next command runs in a new one: {_LOSSES} are lost, files are kept."
            f"{again}]"
        )


def _join_lines(*parts: str) -> str:
    return "\n".join(part.removesuffix("\n") for part in parts if part)
