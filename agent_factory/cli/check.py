"""`agent-factory check`: what a build finds, for people and for CI."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import PurePath
from typing import Annotated, Any

import typer
from rich.console import Group
from rich.padding import Padding
from rich.text import Text

from agent_factory.cli import console as screen
from agent_factory.cli.console import AsJson
from agent_factory.cli.error_reports import (
    EXIT_TROUBLE,
    ShowTraceback,
    Trouble,
    complain,
    full_traceback,
)
from agent_factory.cli.loading import NotBuilt, Place, load
from agent_factory.cli.targets import targets_of
from agent_factory.errors import SpecError

_NOTE = re.compile(r"Also found: \[(AF\d+)\] (.+?): (.+)", re.DOTALL)
"""How a refusal notes what it also found."""


@dataclass(frozen=True, slots=True)
class Found:
    """One finding.

    Args:
        target: Of which target.
        code: Its stable code.
        severity: "error" where it kept the agent from being built, else "warning".
        culprit: What is wrong.
        reason: Why.
        remedy: What to write instead; empty where the reason says it.
        place: The line that builds the agent, where it can be found.
    """

    target: str
    code: str
    severity: str
    subject: str
    reason: str
    hint: str
    place: Place | None

    @property
    def words(self) -> str:
        """Culprit, reason and remedy in one line."""
        return " ".join(f"{self.subject}: {self.reason} {self.hint}".split())

    def to_data(self) -> dict[str, Any]:
        """The finding as a plain dict, for machines."""
        return {
            "target": self.target,
            "code": self.code,
            "severity": self.severity,
            "subject": self.subject,
            "reason": self.reason,
            "hint": self.hint,
            "file": self.place.name if self.place else None,
            "line": self.place.line if self.place else None,
        }


@dataclass(frozen=True, slots=True)
class Failed:
    """A target that could not be checked.

    Args:
        target: Which one.
        message: Why not.
        error: What was raised, if anything was.
    """

    target: str
    message: str
    error: BaseException | None

    def to_data(self) -> dict[str, Any]:
        """The same as a plain dict, for machines."""
        return {"target": self.target, "message": self.message}


def examine(text: str) -> Iterator[Found | Failed]:
    """Everything that is found of a target; of a LangGraph configuration, of all its graphs."""
    try:
        for target in targets_of(text):
            yield from _examine(target)
    except Trouble as trouble:
        yield Failed(text, str(trouble), trouble.error)


def _examine(target: str) -> Iterator[Found | Failed]:
    try:
        loaded = load(target)
    except NotBuilt as refused:
        yield from _refused(target, refused)
    except Trouble as trouble:
        yield Failed(target, str(trouble), trouble.error)
    else:
        if loaded.findings is None:
            words = f"{target} is a plan alone: findings are kept with an agent. Give its agent."
            yield Failed(target, words, None)
        for finding in loaded.findings or ():
            yield _found(target, finding, finding.severity, loaded.place)


def _refused(target: str, refused: NotBuilt) -> Iterator[Found]:
    for error in refused.refusal.errors:
        yield _found(target, error, "error", refused.place)
    for note in getattr(refused.refusal, "__notes__", ()):
        if match := _NOTE.fullmatch(note):
            yield Found(target, match[1], "warning", match[2], match[3], "", refused.place)


def _found(target: str, error: SpecError, severity: str, place: Place | None) -> Found:
    return Found(target, error.code, severity, error.subject, error.reason, error.hint, place)


EXAMPLES = """Examples:

agent-factory check shop.desk:agent

agent-factory check langgraph.json --strict --ignore AF211

agent-factory check app.py:build --json"""

EXIT_FOUND = 1
"""The exit code where something was found that is an error."""

_STYLES = {"error": "bold red", "warning": "yellow"}


@dataclass(frozen=True, slots=True)
class Report:
    """What was found of all targets.

    Args:
        targets: The targets, as they were written.
        found: The findings that were not ignored.
        failed: The targets that could not be checked.
    """

    targets: Sequence[str]
    found: Sequence[Found]
    failed: Sequence[Failed]

    def count(self, severity: str) -> int:
        """How many findings have a severity."""
        return sum(finding.severity == severity for finding in self.found)

    def exit_code(self, strict: bool) -> int:
        """0 for nothing wrong, 1 for findings, 2 where a target could not be checked."""
        if self.failed:
            return EXIT_TROUBLE
        wrong = self.found if strict else [f for f in self.found if f.severity == "error"]
        return EXIT_FOUND if wrong else 0

    @property
    def summary(self) -> str:
        """The whole in one line."""
        parts = [_counted(self.count(severity), severity) for severity in _STYLES]
        parts += [_counted(len(self.failed), "target") + " not checked"] if self.failed else []
        said = ", ".join(part for part in parts if not part.startswith("0 ")) or "nothing found"
        return f"{_counted(len(self.targets), 'target')}: {said}."


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def check(
    targets: Annotated[
        list[str], typer.Argument(metavar="TARGET...", help="Agents, as `show` takes them.")
    ],
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 1 for what is only likely wrong, too.")
    ] = False,
    ignore: Annotated[
        list[str] | None,
        typer.Option(metavar="CODE", help="Leave a warning unsaid, such as AF204; repeatable."),
    ] = None,
    json: AsJson = False,
    github: Annotated[
        bool, typer.Option("--github", help="Annotate lines, as GITHUB_ACTIONS does by itself.")
    ] = False,
    traceback: ShowTraceback = False,
) -> None:
    """Check agents: what cannot be built, and what can be and is likely wrong.

    Exit codes: 0 nothing is wrong, 1 something is, 2 a target could not be checked. What keeps an
    agent from being built cannot be ignored.
    """
    codes = _codes(ignore or [])
    every = [entry for target in targets for entry in examine(target)]
    found = [e for e in every if isinstance(e, Found)]
    failed = [e for e in every if isinstance(e, Failed)]
    kept = [f for f in found if f.severity == "error" or f.code not in codes]
    report = Report(targets, kept, failed)
    annotate = github or os.environ.get("GITHUB_ACTIONS") == "true"
    if traceback:
        _show_tracebacks(failed)
    if json:
        _write_json(report, annotate)
    elif annotate:
        screen.write("\n".join([*_annotations(report), report.summary]))
    else:
        _write(report)
    raise typer.Exit(report.exit_code(strict))


def _codes(ignore: Iterable[str]) -> list[str]:
    """The codes to ignore, also several in one text.

    Raises:
        Trouble: One is no code, or not one that can be ignored.
    """
    from agent_factory.factory.arguments import unknown_codes

    codes = [code.strip() for text in ignore for code in text.split(",")]
    if wrong := list(unknown_codes(codes)):
        raise Trouble(f"--ignore: {' '.join(f'{w.reason} {w.hint}'.strip() for w in wrong)}")
    return codes


def _show_tracebacks(failed: Iterable[Failed]) -> None:
    for failure in failed:
        if failure.error is not None:
            print("".join(full_traceback(failure.error)), end="", file=sys.stderr)


def _write_json(report: Report, annotate: bool) -> None:
    screen.write_json(
        {
            "targets": list(report.targets),
            "findings": [finding.to_data() for finding in report.found],
            "failures": [failure.to_data() for failure in report.failed],
            "errors": report.count("error"),
            "warnings": report.count("warning"),
        }
    )
    if annotate:
        print("\n".join(_annotations(report)), file=sys.stderr)


def _write(report: Report) -> None:
    if screen.is_terminal():
        screen.show(_for_people(report))
    else:
        screen.write("\n".join([*map(_line, report.found), report.summary]))
    for failure in report.failed:
        complain(failure.message)


def _line(finding: Found) -> str:
    where = f"{finding.place}: " if finding.place else ""
    return f"{where}{finding.severity} {finding.code} {finding.words} ({finding.target})"


def _for_people(report: Report) -> Group:
    parts: list[Text | Padding] = []
    for (target, place), findings in groupby(report.found, lambda f: (f.target, f.place)):
        where = f"  {place}" if place else ""
        parts.append(Text.assemble((target, "bold"), (where, "dim"), overflow="fold"))
        parts += [Padding(_block(finding), (0, 0, 1, 2)) for finding in findings]
    style = "green" if not report.found and not report.failed else "bold"
    return Group(*parts, Text(report.summary, style=style))


def _block(finding: Found) -> Text:
    text = Text.assemble(
        (finding.severity, _STYLES[finding.severity]),
        f" {finding.code} ",
        (finding.subject, "cyan"),
        f"\n{finding.reason}",
    )
    return text.append(f"\n{finding.hint}", style="green") if finding.hint else text


def _annotations(report: Report) -> Iterator[str]:
    """The findings in the words with which GitHub marks lines of a change."""
    for finding in report.found:
        place = finding.place
        where = {"file": PurePath(place.name).as_posix(), "line": str(place.line)} if place else {}
        properties = {**where, "title": finding.code}
        yield _annotation(finding.severity, properties, f"{finding.words} ({finding.target})")
    for failure in report.failed:
        yield _annotation("error", {"title": failure.target}, failure.message)


def _annotation(kind: str, properties: dict[str, str], message: str) -> str:
    said = ",".join(f"{key}={_escaped(text, ':,')}" for key, text in properties.items())
    return f"::{kind} {said}::{_escaped(message)}"


def _escaped(text: str, more: str = "") -> str:
    for sign in f"%\r\n{more}":  # the percent sign first: it begins each escape
        text = text.replace(sign, f"%{ord(sign):02X}")
    return text
