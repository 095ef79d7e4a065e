"""What the model reads of a shell: the tool's description, and the answers to its calls."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from agent_factory import TurnError
from agent_factory.middleware._shared.redaction.rules import PIIDetectionError
from agent_factory.middleware.shell_tool.policies import ExecutionPolicy
from agent_factory.middleware.shell_tool.process import Outcome
from agent_factory.middleware.shell_tool.supervisor import NEW, Cancelled, Keeper, Settings

_LOST: Final = "working directory, variables, functions and background processes"

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


def description(shell: str, policy: ExecutionPolicy) -> str:
    """What the model is told of the tool, unless the user tells it something else."""
    return DESCRIPTION.format(
        shell=shell, seconds=policy.command_timeout, lines=policy.max_output_lines
    )


@dataclass(frozen=True)
class Answer:
    """What a call gives.

    Args:
        text: What the model reads.
        failed: Whether it is told as an error.
        facts: The same for a program: the artifact of the tool message.
    """

    text: str
    failed: bool = False
    facts: dict[str, Any] = field(default_factory=dict)


def carry_out(
    keeper: Keeper,
    cancelled: Cancelled,
    *,
    command: str | None,
    restart: bool,
    seen_before: bool,
) -> Answer:
    """What a call of the tool asks for.

    Args:
        keeper: Keeps the shell.
        cancelled: Whether the caller has given up.
        command: What to run, or None.
        restart: Whether to start a new shell first.
        seen_before: Whether the model has seen results of an earlier shell.

    Raises:
        ShellError: The shell cannot be started.
    """
    wanted = command is not None and bool(command.strip())
    if not wanted and not restart:
        return Answer("Nothing was run: give a command, or restart=true for a new shell.", True)
    if restart:
        keeper.restart(cancelled)
        news = _restarted(keeper.settings)
        keeper.untold = ""
    else:
        news = _news(keeper, cancelled, seen_before)
    if not wanted:
        return Answer(news)
    return _run(keeper, cancelled, str(command), news)


def _run(keeper: Keeper, cancelled: Cancelled, command: str, news: str) -> Answer:
    try:
        outcome = keeper.run(command, cancelled)
    except ValueError as error:
        return Answer(_concat_updates(news, f"Nothing was run: {error}."), True)
    body, cut, withheld = _body(keeper.settings, outcome)
    facts = {
        "exit_code": outcome.exit_code,
        "ending": outcome.ending,
        "lines": outcome.output.lines,
        "bytes": outcome.output.size,
        "cut": cut,
    }
    failed = withheld or outcome.ending != "finished" or outcome.exit_code != 0
    return Answer(_concat_updates(news, body, _ending(keeper.settings, outcome)), failed, facts)


def _news(keeper: Keeper, cancelled: Cancelled, seen_before: bool) -> str:
    """What the model has to know before it reads what its command printed."""
    keeper.ensure(cancelled)
    why, keeper.untold = keeper.untold, ""
    if not why or (why == NEW and not seen_before):
        return ""
    temporary = why == NEW and keeper.settings.root is None
    files = "and so are the files of its temporary folder" if temporary else "files are kept"
    return f"[{why}: {_LOST} of the one before are lost, {files}.{_startup(keeper.settings)}]"


def _restarted(settings: Settings) -> str:
    return f"[The shell was restarted: {_LOST} are lost, files are kept.{_startup(settings)}]"


def _startup(settings: Settings) -> str:
    return " The start-up commands were run again." if settings.startup else ""


def _body(settings: Settings, outcome: Outcome) -> tuple[str, bool, bool]:
    """What may be shown, whether that is less than all, and whether a rule withholds it."""
    try:
        text, cut = settings.shown(outcome)
    except PIIDetectionError as error:
        return f"[The output is withheld: it holds {error.pii_type}.]", True, True
    except TurnError as error:  # such as a regular expression that takes too long
        return f"[The output is withheld: {error.subject} {error.reason}]", True, True
    return text or "[no output]", cut, False


def _ending(settings: Settings, outcome: Outcome) -> str:
    if outcome.ending == "finished":
        return f"[exit code {outcome.exit_code}]"
    policy = settings.policy
    how = {
        "exited": f"The shell exited with code {outcome.exit_code}",
        "timeout": f"The command took longer than {policy.command_timeout:g} seconds and was "
        "killed, and the shell with it",
        "processes": f"The command started more than {policy.max_processes} processes and was "
        "killed, and the shell with it",
        "cancelled": "The command was cancelled and killed, and the shell with it",
    }[outcome.ending]
    again = " The start-up commands will be run again." if settings.startup else ""
    return f"[{how}. The next command runs in a new one: {_LOST} are lost, files are kept.{again}]"


def _concat_updates(*parts: str) -> str:
    """Parts one below the other; the last line of a part may lack its newline."""
    kept = [part for part in parts if part]
    return "".join(p if p.endswith("\n") else f"{p}\n" for p in kept[:-1]) + kept[-1]
