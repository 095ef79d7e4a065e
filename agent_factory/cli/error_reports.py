"""Failures of commands: a sentence and an exit code, instead of a traceback."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from functools import wraps
from importlib.metadata import PackageNotFoundError, version
from inspect import Parameter, Signature, signature
from itertools import dropwhile
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.text import Text

from agent_factory.demo.interrupt import STOPPED
from agent_factory.errors import AgentFactoryError, MissingExtra
from agent_factory.topology.model import printable

EXIT_FOUND: Final = 1
"""The exit code of a command that has found errors, differences, or work that is left."""

EXIT_FAILED: Final = 2
"""The exit code of a command that could not do its work."""

PACKAGE: Final = Path(__file__).resolve().parent.parent

ShowTraceback = Annotated[
    bool, typer.Option("--traceback", help="Show the whole traceback of an error.")
]


class CommandError(Exception):
    """A command cannot do its work; `--traceback` shows the original error."""

    def __init__(self, message: str, error: BaseException | None = None) -> None:
        self.error = error
        super().__init__(message)


def reporting_errors(command: Callable[..., object]) -> Callable[..., object]:
    """Wrap a command: every exception becomes a sentence and an exit code.

    The command gets the option `--traceback`, as a parameter only if it has one.
    """
    parameters = signature(command, eval_str=True).parameters
    option = Parameter("traceback", Parameter.KEYWORD_ONLY, default=False, annotation=ShowTraceback)

    @wraps(command)
    def run(**options: object) -> object:
        try:
            return command(**{name: options[name] for name in parameters})
        except KeyboardInterrupt:
            Console(stderr=True).print(Text("\nStopped."))
            raise typer.Exit(STOPPED) from None
        # Typer turns these into exit codes. A broken pipe: the reader of the output, such as
        # `head`, has ended.
        except (typer.Exit, typer.Abort, typer.BadParameter, BrokenPipeError):
            raise
        except Exception as raised:
            error: BaseException | None = raised
            if isinstance(raised, CommandError):
                error, message = raised.error, str(raised)
            # Also errors of a service: the database is away, or has another version.
            elif isinstance(raised, AgentFactoryError | MissingExtra):
                message = str(raised)
            elif isinstance(raised, OSError):  # reading or printing failed
                message = f"{raised}."
            else:
                message = f"{bug_report(raised)} Add the output of --traceback."
            if options.get("traceback", False):
                print_traceback(error)
            report_error(message)
            raise typer.Exit(EXIT_FAILED) from None

    # Typer reads the options there.
    declared = {**parameters, option.name: option}
    run.__signature__ = Signature([*declared.values()])  # type: ignore[attr-defined]
    return run


def bug_report(error: Exception) -> str:
    """Sentences about an error of the package itself."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return (
        f"This is a bug in agent-factory itself: {type(error).__name__}: {error} "
        f"({Path(frame.filename).name}:{frame.lineno}). Please report it, with the version "
        f"({installed_version()})."
    )


def report_error(message: str) -> None:
    """Print a message to the error output."""
    console = Console(stderr=True)
    text = Text("\n".join(map(printable, f"agent-factory: {message}".split("\n"))), style="red")
    # In a file, a message stays on a single line, for searches.
    console.print(text, soft_wrap=not console.is_terminal)


def installed_version() -> str:
    """The version of the installed package, or "(from source)"."""
    try:
        return version("agent-factory")
    except PackageNotFoundError:
        return "(from source)"


def print_traceback(error: BaseException | None) -> None:
    """Print the traceback of an error, without the frames from the command to the user's code."""
    if error is None:
        return

    def is_ours(frame: traceback.FrameSummary) -> bool:
        path = Path(frame.filename).resolve()  # an editable install is reached by a link
        importer = frame.filename.startswith("<frozen importlib") or path.parent.name == "importlib"
        return importer or PACKAGE / "cli" in path.parents

    frames = traceback.TracebackException.from_exception(error)
    if users := list(dropwhile(is_ours, frames.stack)):
        frames.stack = traceback.StackSummary.from_list(users)
    print("".join(frames.format()), end="", file=sys.stderr)
