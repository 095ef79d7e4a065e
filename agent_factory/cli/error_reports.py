"""What a command says instead of a traceback, and how it ends."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from functools import wraps
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from rich.text import Text

from agent_factory.demo.interrupt import STOPPED

EXIT_TROUBLE: Final = 2
"""The exit code of a command that could not do its work."""

OURS: Final = Path(__file__).resolve().parent.parent

ShowTraceback = Annotated[
    bool, typer.Option("--traceback", help="Show the whole traceback of what was raised.")
]


class Trouble(Exception):
    """What keeps a command from its work, in words for whoever typed it.

    Args:
        words: What is wrong, and what to write instead.
        error: What was raised, where `--traceback` has something to show.
    """

    def __init__(self, words: str, error: BaseException | None = None) -> None:
        self.error = error
        super().__init__(words)


def reported(command: Callable[..., Any]) -> Callable[..., Any]:
    """A command that ends in a sentence and an exit code, whatever is raised in it."""

    @wraps(command)
    def run(**options: Any) -> Any:
        try:
            return command(**options)
        except Trouble as trouble:
            _show(trouble.error, wanted=options.get("traceback", False))
            complain(str(trouble))
            raise typer.Exit(EXIT_TROUBLE) from None
        except KeyboardInterrupt:
            Console(stderr=True).print(Text("\nStopped."))
            raise typer.Exit(STOPPED) from None
        except (typer.Exit, typer.Abort, typer.BadParameter, BrokenPipeError):
            raise
        except OSError as error:  # nothing can be printed, or read
            _show(error, wanted=options.get("traceback", False))
            complain(f"{error}.")
            raise typer.Exit(EXIT_TROUBLE) from None
        except Exception as bug:
            _show(bug, wanted=options.get("traceback", False))
            complain(_bug_report(bug))
            raise typer.Exit(EXIT_TROUBLE) from None

    return run


def complain(words: str) -> None:
    """Say on the error output what is wrong."""
    console = Console(stderr=True)
    text = Text(f"agent-factory: {words}", style="red")
    console.print(text, soft_wrap=not console.is_terminal)


def installed_version() -> str:
    """The version of the package, or that it runs from its sources."""
    try:
        return version("agent-factory")
    except PackageNotFoundError:
        return "(from its sources)"


def _bug_report(bug: Exception) -> str:
    place = traceback.extract_tb(bug.__traceback__)[-1]
    where = f"{Path(place.filename).name}:{place.lineno}"
    return (
        f"This is a mistake of agent-factory itself: {type(bug).__name__}: {bug} ({where}). "
        f"Please report it, with the version ({installed_version()}) and with what --traceback "
        "shows."
    )


def _show(error: BaseException | None, wanted: bool) -> None:
    if error is not None and wanted:
        print("".join(full_traceback(error)), end="", file=sys.stderr)


def full_traceback(error: BaseException) -> list[str]:
    """The traceback of an error, without the way from the command line to the user's code."""
    frames = traceback.TracebackException.from_exception(error)
    first = [n for n, frame in enumerate(frames.stack) if not _is_on_the_way(frame.filename)]
    if first:
        frames.stack = traceback.StackSummary.from_list(list(frames.stack[first[0] :]))
    return list(frames.format())


def _is_on_the_way(filename: str) -> bool:
    importer = filename.startswith("<frozen importlib") or Path(filename).parent.name == "importlib"
    return importer or OURS / "cli" in Path(filename).parents
