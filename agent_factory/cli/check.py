"""`agent-factory check`: the errors and warnings of builds, for people and for CI."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path, PurePath
from typing import Annotated

import typer
from rich.console import Group
from rich.padding import Padding
from rich.text import Text as RichText

from agent_factory.cli import console
from agent_factory.cli.console import AsJson, Text, counted
from agent_factory.cli.error_reports import (
    EXIT_FAILED,
    EXIT_FOUND,
    CommandError,
    ShowTraceback,
    print_traceback,
    report_error,
)
from agent_factory.cli.loading import BuildFailed, load, load_saver
from agent_factory.cli.targets import targets_of
from agent_factory.errors import SpecError
from agent_factory.guarantees import Guarantee, GuaranteeSyntaxError, parse
from agent_factory.topology.model import printable

_NOTE = re.compile(r"Also found: \[(AF\d+)\] (.+?): (.+)", re.DOTALL)
"""The note with which a build error carries a warning."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Error or warning of a build; `file` and `line` are where the agent is built."""

    target: str
    code: str
    severity: str
    subject: str
    reason: str
    hint: str
    file: str | None
    line: int | None

    @property
    def place(self) -> str:
        """The file and the line; empty if they are unknown."""
        return f"{self.file}:{self.line}" if self.file else ""

    @property
    def text(self) -> str:
        """Subject, reason and hint on a single line."""
        return printable(" ".join(f"{self.subject}: {self.reason} {self.hint}".split()))

    def __str__(self) -> str:
        where = f"{self.place}: " if self.place else ""
        return f"{where}{self.severity} {self.code} {self.text} ({self.target})"


@dataclass(frozen=True, slots=True)
class Failure:
    """Target that could not be loaded, and the exception behind the failure."""

    target: str
    message: str
    error: BaseException | None


def diagnose(text: str, guarantees: Sequence[Guarantee] = ()) -> Iterator[Finding | Failure]:
    """Every finding of a target; of a LangGraph configuration, the findings of all graphs.

    Guarantees are checked as well, also for a saved plan, which has no other findings.
    """
    from agent_factory.factory.arguments import broken_guarantees

    try:
        targets = targets_of(text)
    except CommandError as error:
        yield Failure(text, str(error), error.error)
        return
    for target in targets:
        try:
            result = load(target)
            if result.findings is None and not guarantees:
                message = (
                    f"{target} is a saved plan, which has no findings. Check its agent, or pass "
                    "--guarantees."
                )
                raise CommandError(message)
            broken = broken_guarantees(result.plan, guarantees)
            errors = [(error, error.severity) for error in (*(result.findings or ()), *broken)]
            place = result.place
        except BuildFailed as failed:
            errors = [(error, "error") for error in failed.spec_error.errors]
            # An exception has `__notes__` only once a note was added.
            for note in getattr(failed.spec_error, "__notes__", ()):
                if match := _NOTE.fullmatch(note):
                    code, subject, reason = match.groups()
                    # A failed build emits no warnings: the error has notes with them.
                    errors.append((SpecError(subject, reason, code=code), "warning"))
            place = failed.place
        except CommandError as error:
            yield Failure(target, str(error), error.error)
            continue
        file, line = (place.name, place.line) if place else (None, None)
        for e, severity in errors:
            yield Finding(target, e.code, severity, e.subject, e.reason, e.hint, file, line)


EXAMPLES = """\
agent-factory check shop.desk:agent
agent-factory check langgraph.json --strict --ignore AF211
agent-factory check app.py:build --guarantees guarantees.txt
agent-factory check app.py:build --json
agent-factory check --saver sqlite:///threads.db"""


def read_guarantees(files: Sequence[str]) -> list[Guarantee]:
    """The sentences of files, line by line, without comments, which begin with `#`."""
    sentences = []
    for name in files:
        try:
            lines = Path(name).read_text(encoding="utf-8-sig").splitlines()
        except (OSError, UnicodeError) as error:
            raise CommandError(f"--guarantees: {name} cannot be read: {error}.", error) from None
        for number, line in enumerate(lines, 1):
            if (text := line.strip()) and not text.startswith("#"):
                try:
                    sentences.append(parse(text))
                except GuaranteeSyntaxError as error:
                    raise CommandError(f"{name}:{number}: {error}", error) from None
    if files and not sentences:
        raise CommandError(f"--guarantees: {', '.join(files)} has no sentence.")
    return sentences


_STYLES = {"error": "bold red", "warning": "yellow"}


def check(
    targets: Annotated[
        list[str] | None, typer.Argument(metavar="TARGET...", help="Agents, as for `show`.")
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 1 for warnings, too.")
    ] = False,
    ignore: Annotated[
        list[str] | None,
        typer.Option(metavar="CODE", help="Suppress a warning, such as AF204; repeatable."),
    ] = None,
    guarantees: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help="Sentences that must hold, one a line; repeatable."),
    ] = None,
    saver: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Compare a saver with that in memory; or module:name."),
    ] = None,
    json: AsJson = False,
    github: Annotated[
        bool, typer.Option("--github", help="Annotate lines; the default in GitHub Actions.")
    ] = False,
    traceback: ShowTraceback = False,
) -> None:
    """Check agents: errors, which keep an agent from being built, and warnings.

    Exit codes: 0 no errors, 1 errors, 2 a target could not be loaded. Errors cannot be ignored.
    """
    if saver:
        from agent_factory.testing import check_saver

        with load_saver(saver) as opened:
            report = check_saver(opened)
        console.report(asdict(report), str(report), json=json)
        raise typer.Exit(EXIT_FOUND if report.differences else 0)
    if not targets:
        raise CommandError("Name a TARGET, or a saver by --saver.")
    ignored_codes = _ignored_codes(ignore or ())
    sentences = read_guarantees(guarantees or ())
    entries = [entry for target in targets for entry in diagnose(target, sentences)]
    failures = [entry for entry in entries if isinstance(entry, Failure)]
    findings = [
        entry
        for entry in entries
        if isinstance(entry, Finding)
        and (entry.severity == "error" or entry.code not in ignored_codes)
    ]
    counts = Counter(finding.severity for finding in findings)
    summary = console.summary(
        counted(len(targets), "target"),
        *(counted(counts[severity], severity) for severity in _STYLES),
        f"{len(failures)} could not be loaded",
        default="no problems found",
    )
    if traceback:
        for failure in failures:
            print_traceback(failure.error)
    annotate = github or os.environ.get("GITHUB_ACTIONS") == "true"
    data = {
        "targets": targets,
        "findings": [asdict(finding) for finding in findings],
        "failures": [{"target": f.target, "message": f.message} for f in failures],
        "errors": counts["error"],
        "warnings": counts["warning"],
    }
    lines = [*_annotations(findings, failures)] if annotate else [*map(str, findings)]
    codes = dict.fromkeys(finding.code for finding in findings)
    examples = (Text(f"An example: agent-factory explain {code}", "dim") for code in codes)
    style = "bold" if findings or failures else "green"
    styled = () if annotate else [*_styled(findings), *examples, Text(summary, style)]
    console.report(data, "\n".join([*lines, summary]), styled, json=json)
    if json and annotate:
        # On the error output, because the output itself must be JSON.
        typer.echo("\n".join(lines), err=True)
    for failure in () if json or annotate else failures:
        report_error(failure.message)
    if failures:
        # First: a target that could not be loaded may have errors, too.
        raise typer.Exit(EXIT_FAILED)
    if counts["error"] or (strict and findings):
        raise typer.Exit(EXIT_FOUND)


def _ignored_codes(texts: Sequence[str]) -> list[str]:
    """The codes of warnings, separated by commas; unknown codes are refused."""
    from agent_factory.factory.arguments import unknown_codes

    codes = [code.strip() for text in texts for code in text.split(",")]
    if wrong := list(unknown_codes(codes)):
        reasons = " ".join(f"{error.reason} {error.hint}".strip() for error in wrong)
        raise CommandError(f"--ignore: {reasons}")
    return codes


def _styled(all_findings: Sequence[Finding]) -> Iterator[RichText | Padding]:
    """The findings for a terminal, under the targets they belong to."""
    for (target, place), findings in groupby(all_findings, lambda f: (f.target, f.place)):
        where = f"  {place}" if place else ""
        yield Text.assemble((target, "bold"), (where, "dim"), overflow="fold")
        for finding in findings:
            severity = finding.severity, _STYLES[finding.severity]
            lines = [Text.assemble(severity, f" {finding.code} ", (finding.subject, "cyan"))]
            lines.append(Text(" ".join(finding.reason.split())))
            lines += [Text(" ".join(finding.hint.split()), "green")] if finding.hint else []
            yield Padding(Group(*lines), (0, 0, 1, 2))


def _annotations(findings: Sequence[Finding], failures: Sequence[Failure]) -> Iterator[str]:
    """The findings as workflow commands, with which GitHub marks lines of a change."""

    # These characters have a meaning in GitHub's workflow commands.
    def escaped(text: str, more: str = "") -> str:
        return text.translate({ord(sign): f"%{ord(sign):02X}" for sign in f"%\r\n{more}"})

    def annotation(kind: str, properties: dict[str, str], message: str) -> str:
        fields = ",".join(f"{key}={escaped(text, ':,')}" for key, text in properties.items())
        return f"::{kind} {fields}::{escaped(message)}"

    for finding in findings:
        properties = {"title": finding.code}
        if finding.file:
            # GitHub finds no file by a path with backslashes.
            file = PurePath(finding.file).as_posix()
            properties = {"file": file, "line": str(finding.line), **properties}
        yield annotation(finding.severity, properties, f"{finding.text} ({finding.target})")
    for failure in failures:
        yield annotation("error", {"title": failure.target}, failure.message)
