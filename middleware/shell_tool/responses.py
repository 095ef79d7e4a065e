"""Text that the model reads: the tool's description, and the results of its calls."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from agent_factory import TurnError
from agent_factory.middleware._shared.redaction.rules import PIIDetectionError
from agent_factory.middleware.shell_tool.process import CommandResult
from agent_factory.middleware.shell_tool.session import (
    FIRST_SHELL,
    Cancelled,
    ShellSettings,
    ShellSupervisor,
)

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

_LOST: Final = "working directory, variables, functions and background processes"


@dataclass(frozen=True)
class Response:
    """Result of a tool call."""

    text: str
    failed: bool = False  # the tool message has status "error"
    details: dict[str, Any] = field(default_factory=dict)  # its artifact


def execute_call(
    supervisor: ShellSupervisor,
    cancelled: Cancelled,
    *,
    command: str | None,
    restart: bool,
    seen_before: bool,
) -> Response:
    """Execute a call of the shell tool; `seen_before`: the model knows results of another shell.

    Raises:
        ShellError: The shell cannot be started.
    """
    if command is not None and not command.strip():
        command = None
    if command is None and not restart:
        return Response("Nothing was run: give a command, or restart=true for a new shell.", True)

    settings, notice = supervisor.settings, ""
    startup = " The start-up commands were run again." if settings.startup else ""
    if restart:
        supervisor.restart(cancelled)
        notice = f"[The shell was restarted: {_LOST} are lost, files are kept.{startup}]"
    else:
        supervisor.ensure(cancelled)
        reason = supervisor.unreported
        if reason and (reason != FIRST_SHELL or seen_before):
            files = "files are kept"
            if reason == FIRST_SHELL and settings.root is None:
                files = "and so are the files of its temporary folder"
            notice = f"[{reason}: {_LOST} of the one before are lost, {files}.{startup}]"
    supervisor.unreported = ""
    if command is None:
        return Response(notice)

    try:
        outcome = supervisor.run(command, cancelled)
    except ValueError as error:
        return Response(_join_lines(notice, f"Nothing was run: {error}."), True)
    withheld = ""
    try:
        text, cut = settings.visible_output(outcome)
    except PIIDetectionError as error:
        withheld = f"it contains {error.pii_type}."
    except TurnError as error:  # for example a regular expression that takes too long
        withheld = f"{error.subject} {error.reason}"
    if withheld:
        text, cut = f"[The output is withheld: {withheld}]", True
    details = {
        "exit_code": outcome.exit_code,
        "ending": outcome.ending,
        "lines": outcome.output.lines,
        "bytes": outcome.output.size,
        "cut": cut,
    }
    failed = bool(withheld) or outcome.ending != "finished" or outcome.exit_code != 0
    text = _join_lines(notice, text or "[no output]", _describe_ending(settings, outcome))
    return Response(text, failed, details)


def _describe_ending(settings: ShellSettings, outcome: CommandResult) -> str:
    if outcome.ending == "finished":
        return f"[exit code {outcome.exit_code}]"
    policy, killed = settings.policy, "killed, and the shell with it"
    reason = {
        "exited": f"The shell exited with code {outcome.exit_code}",
        "timeout": f"The command took longer than {policy.command_timeout:g} seconds and was "
        f"{killed}",
        "processes": f"The command started more than {policy.max_processes} processes and was "
        f"{killed}",
        "cancelled": f"The command was cancelled and {killed}",
    }[outcome.ending]
    again = " The start-up commands will be run again." if settings.startup else ""
    return (
        f"[{reason}. The next command runs in a new one: {_LOST} are lost, files are kept.{again}]"
    )


def _join_lines(*parts: str) -> str:
    """Join the parts that are not empty, each on a new line."""
    kept = [part for part in parts if part]
    return "".join(p if p.endswith("\n") else f"{p}\n" for p in kept[:-1]) + kept[-1]
