"""`agent-factory check`: the errors and warnings of builds, for people and for CI."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import PurePath
from typing import Annotated, Any

import typer
from rich.console import Group
from rich.padding import Padding
from rich.text import Text

from agent_factory.cli import console
from agent_factory.cli.console import AsJson, counted
from agent_factory.cli.error_reports import (
    EXIT_FAILED,
    CommandError,
    ShowTraceback,
    print_traceback,
    report_error,
)
from agent_factory.cli.loading import BuildFailed, SourceLocation, load
from agent_factory.cli.targets import targets_of
from agent_factory.errors import SpecError

_NOTE = re.compile(r"Also found: \[(AF\d+)\] (.+?): (.+)", re.DOTALL)
"""The note with which a build error carries a warning."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One error or warning of a build; `place` is the line that builds the agent."""

    target: str
    code: str
    severity: str
    subject: str
    reason: str
    hint: str
    place: SourceLocation | None

    @property
    def text(self) -> str:
        """Subject, reason and hint in one line."""
        return " ".join(f"{self.subject}: {self.reason} {self.hint}".split())

    def to_data(self) -> dict[str, Any]:
        """The finding as a plain dict, for JSON."""
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
class Failure:
    """A target that could not be loaded, and the exception behind it."""

    target: str
    message: str
    error: BaseException | None

    def to_data(self) -> dict[str, Any]:
        """The failure as a plain dict, for JSON."""
        return {"target": self.target, "message": self.message}


def diagnose(text: str) -> Iterator[Finding | Failure]:
    """Every finding of a target; of a LangGraph configuration, those of all its graphs."""
    try:
        targets = list(targets_of(text))
    except CommandError as error:
        yield Failure(text, str(error), error.error)
        return
    for target in targets:
        try:
            loaded = load(target)
        except BuildFailed as failed:
            yield from _findings(target, failed.spec_error.errors, failed.place, "error")
            for note in getattr(failed.spec_error, "__notes__", ()):
                if match := _NOTE.fullmatch(note):
                    code, subject, reason = match.groups()
                    yield Finding(target, code, "warning", subject, reason, "", failed.place)
        except CommandError as error:
            yield Failure(target, str(error), error.error)
        else:
            if loaded.findings is None:
                message = f"{target} is a saved plan, which has no findings. Check its agent."
                yield Failure(target, message, None)
            yield from _findings(target, loaded.findings or (), loaded.place)


def _findings(
    target: str, errors: Sequence[SpecError], place: SourceLocation | None, severity: str = ""
) -> Iterator[Finding]:
    for e in errors:
        yield Finding(target, e.code, severity or e.severity, e.subject, e.reason, e.hint, place)


EXAMPLES = """Examples:

agent-factory check shop.desk:agent

agent-factory check langgraph.json --strict --ignore AF211

agent-factory check app.py:build --json"""

EXIT_FOUND = 1
"""The exit code if there are errors."""

_STYLES = {"error": "bold red", "warning": "yellow"}


@dataclass(frozen=True, slots=True)
class Report:
    """The findings that were not ignored, and the targets that could not be loaded."""

    targets: Sequence[str]
    findings: Sequence[Finding]
    failures: Sequence[Failure]

    def count(self, severity: str) -> int:
        """The number of findings of a severity."""
        return sum(finding.severity == severity for finding in self.findings)

    def exit_code(self, strict: bool) -> int:
        """0 without errors, 1 with errors, 2 if a target could not be loaded."""
        if self.failures:
            return EXIT_FAILED
        return EXIT_FOUND if self.count("error") or (strict and self.findings) else 0

    @property
    def summary(self) -> str:
        """The whole report in one line."""
        parts = [counted(self.count(severity), severity) for severity in _STYLES]
        parts.append(f"{len(self.failures)} could not be loaded")
        text = ", ".join(part for part in parts if not part.startswith("0 "))
        return f"{counted(len(self.targets), 'target')}: {text or 'no problems found'}."


def check(
    targets: Annotated[
        list[str], typer.Argument(metavar="TARGET...", help="Agents, as for `show`.")
    ],
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 1 for warnings, too.")
    ] = False,
    ignore: Annotated[
        list[str] | None,
        typer.Option(metavar="CODE", help="Suppress a warning, such as AF204; repeatable."),
    ] = None,
    json: AsJson = False,
    github: Annotated[
        bool, typer.Option("--github", help="Annotate lines; the default in GitHub Actions.")
    ] = False,
    traceback: ShowTraceback = False,
) -> None:
    """Check agents: errors that keep them from being built, and warnings.

    Exit codes: 0 no errors, 1 errors, 2 a target could not be loaded. Errors cannot be ignored.
    """
    from agent_factory.factory.arguments import unknown_codes

    ignored = [code.strip() for text in ignore or () for code in text.split(",")]
    if wrong := list(unknown_codes(ignored)):
        reasons = " ".join(f"{error.reason} {error.hint}".strip() for error in wrong)
        raise CommandError(f"--ignore: {reasons}")
    entries = [entry for target in targets for entry in diagnose(target)]
    failures = [entry for entry in entries if isinstance(entry, Failure)]
    findings = [
        entry
        for entry in entries
        if isinstance(entry, Finding) and (entry.severity == "error" or entry.code not in ignored)
    ]
    report = Report(targets, findings, failures)
    if traceback:
        for failure in failures:
            if failure.error is not None:
                print_traceback(failure.error)
    annotate = github or os.environ.get("GITHUB_ACTIONS") == "true"
    if json:
        console.write_json(
            {
                "targets": list(targets),
                "findings": [finding.to_data() for finding in findings],
                "failures": [failure.to_data() for failure in failures],
                "errors": report.count("error"),
                "warnings": report.count("warning"),
            }
        )
        if annotate:
            typer.echo("\n".join(_annotations(report)), err=True)
    elif annotate:
        console.write("\n".join([*_annotations(report), report.summary]))
    else:
        if console.is_terminal():
            console.show(_styled(report))
        else:
            for finding in findings:
                where = f"{finding.place}: " if finding.place else ""
                line = f"{finding.severity} {finding.code} {finding.text} ({finding.target})"
                console.write(where + line)
            console.write(report.summary)
        for failure in failures:
            report_error(failure.message)
    raise typer.Exit(report.exit_code(strict))


def _styled(report: Report) -> Group:
    parts: list[Text | Padding] = []
    for (target, place), findings in groupby(report.findings, lambda f: (f.target, f.place)):
        where = f"  {place}" if place else ""
        parts.append(Text.assemble((target, "bold"), (where, "dim"), overflow="fold"))
        for finding in findings:
            text = Text.assemble(
                (finding.severity, _STYLES[finding.severity]),
                f" {finding.code} ",
                (finding.subject, "cyan"),
                f"\n{finding.reason}",
                (f"\n{finding.hint}" if finding.hint else "", "green"),
            )
            parts.append(Padding(text, (0, 0, 1, 2)))
    style = "green" if not report.findings and not report.failures else "bold"
    return Group(*parts, Text(report.summary, style=style))


def _annotations(report: Report) -> Iterator[str]:
    """The findings as workflow commands, with which GitHub marks lines of a change."""

    def escaped(text: str, more: str = "") -> str:
        for sign in f"%\r\n{more}":  # the percent sign first: it begins each escape
            text = text.replace(sign, f"%{ord(sign):02X}")
        return text

    def annotation(kind: str, properties: dict[str, str], message: str) -> str:
        fields = ",".join(f"{key}={escaped(text, ':,')}" for key, text in properties.items())
        return f"::{kind} {fields}::{escaped(message)}"

    for finding in report.findings:
        place = finding.place
        where = {"file": PurePath(place.name).as_posix(), "line": str(place.line)} if place else {}
        properties = {**where, "title": finding.code}
        yield annotation(finding.severity, properties, f"{finding.text} ({finding.target})")
    for failure in report.failures:
        yield annotation("error", {"title": failure.target}, failure.message)
