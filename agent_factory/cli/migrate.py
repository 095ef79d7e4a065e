"""`agent-factory migrate`: sources on `agent_factory`, and what is left to a person."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Group
from rich.padding import Padding
from rich.text import Text

from agent_factory.cli import console as screen
from agent_factory.cli.console import AsJson, each
from agent_factory.cli.error_reports import EXIT_TROUBLE, ShowTraceback, Trouble, complain
from agent_factory.migrate.values import Factory, Finding, Migration

SUFFIXES = (".py", ".pyi")


def python_files(paths: Iterable[Path]) -> list[Path]:
    """The files of some paths, each once.

    A folder stands for its Python files. Hidden folders, virtual environments and symbolic links in
    it are left out.

    Raises:
        Trouble: There is no such path, or it is a notebook.
    """
    found = (file for path in paths for file in _files_of(path))
    return list({file.resolve(): file for file in found}.values())


def _files_of(path: Path) -> Iterable[Path]:
    if path.is_dir():
        return _walked(path)
    if not path.exists():
        raise Trouble(f"There is no file or folder {path}.")
    if path.suffix == ".ipynb":
        raise Trouble(f"{path} is a notebook. Save its code as a .py file, and give that.")
    return [path]


def _walked(folder: Path) -> Iterator[Path]:
    for top, folders, files in os.walk(folder):
        here = Path(top)
        folders[:] = sorted(name for name in folders if not _is_left_out(here / name))
        for name in sorted(files):
            if name.endswith(SUFFIXES) and not (here / name).is_symlink():
                yield here / name


def _is_left_out(folder: Path) -> bool:
    return folder.name.startswith(".") or (folder / "pyvenv.cfg").exists()


def replace_bytes(file: Path, data: bytes) -> None:
    """Write a file at once: whoever reads it sees the old bytes or the new ones.

    Raises:
        OSError: It cannot be written; then it is as it was.
    """
    target = file.resolve()
    with target.open("r+b"):  # a file that is not to be written is not replaced, either
        pass
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with open(handle, "wb") as opened:
            opened.write(data)
        shutil.copymode(target, name)
        os.replace(name, target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


EXAMPLES = """Examples:

agent-factory migrate src

agent-factory migrate src --write

agent-factory migrate desk.py --to create_agent"""

EXIT_LEFT = 1
"""The exit code where something is left to do."""


@dataclass(frozen=True, slots=True)
class Migrated:
    """A file and what became of it.

    Args:
        file: Where it is.
        data: Its new bytes.
        migration: What became of its text.
    """

    file: Path
    data: bytes
    migration: Migration

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What a person has to decide."""
        return self.migration.findings

    @property
    def diff(self) -> list[str]:
        """The unified diff, line by line, as `git apply` and `patch` take it."""
        name = self.file.as_posix().lstrip("/")
        before, after = _lines(self.migration.before), _lines(self.migration.text)
        return [
            line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
            for line in unified_diff(before, after, f"a/{name}", f"b/{name}")
        ]

    def to_data(self) -> dict[str, Any]:
        """The file for JSON."""
        return {
            "file": str(self.file),
            "changed": self.migration.changed,
            "diff": "".join(self.diff),
            "findings": [finding.to_data() for finding in self.findings],
        }


def _lines(text: str) -> list[str]:
    """Lines as diff and patch know them, which end at a line feed and nowhere else."""
    *whole, rest = text.split("\n")
    return [*(f"{line}\n" for line in whole), *([rest] if rest else [])]


@dataclass(frozen=True, slots=True)
class Failure:
    """A file that was left alone, and why."""

    file: Path
    message: str

    def to_data(self) -> dict[str, Any]:
        """The failure for JSON."""
        return {"file": str(self.file), "message": self.message}


@dataclass(frozen=True, slots=True)
class Report:
    """What became of all files.

    Args:
        looked_at: How many files there are.
        files: Those that change, or where a person has something to decide.
        failures: Those that were left alone.
        written: Whether the changes were written.
    """

    looked_at: int
    files: Sequence[Migrated]
    failures: Sequence[Failure]
    written: bool

    @property
    def changed(self) -> list[Migrated]:
        """The files that change."""
        return [file for file in self.files if file.migration.changed]

    @property
    def decisions(self) -> int:
        """How much is left to a person."""
        return sum(len(file.findings) for file in self.files)

    @property
    def exit_code(self) -> int:
        """0 for nothing left to do, 1 for something, 2 where a file was left alone."""
        if self.failures:
            return EXIT_TROUBLE
        return EXIT_LEFT if self.decisions or (self.changed and not self.written) else 0

    @property
    def summary(self) -> str:
        """The whole in one line."""
        change = "changed" if self.written else "to change"
        parts = [
            f"{_counted(len(self.changed), 'file')} {change}",
            f"{_counted(self.decisions, 'decision')} left to you",
            f"{_counted(len(self.failures), 'file')} left alone",
        ]
        said = ", ".join(part for part in parts if not part.startswith("0 "))
        return f"{_counted(self.looked_at, 'file')}: {said or 'nothing to do'}."


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def migrate(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="PATH...", help="Files, or folders with all their Python files."),
    ],
    write: Annotated[
        bool, typer.Option("--write", help="Change the files, rather than show what would change.")
    ] = False,
    to: Annotated[
        Factory,
        typer.Option(metavar="NAME", help="create_react_agent or create_agent: what calls become."),
    ] = Factory.REACT,
    json: AsJson = False,
    traceback: ShowTraceback = False,
) -> None:
    """Move sources from create_react_agent and LangChain's create_agent to agent_factory.

    Imports and parameters with a counterpart are rewritten, everything else stays byte for byte;
    what a person must decide is listed. Hidden folders and virtual environments are left out.

    Exit codes: 0 nothing is left to do, 1 something is (a change that was not written, or a
    decision), 2 a file could not be read, parsed or written, and is as it was.
    """
    report = _report(python_files(paths), to, write)
    if json:
        _write_json(report, paths, to)
    elif screen.is_terminal():
        screen.show(_for_people(report))
    else:
        screen.write("".join(_plain(report)))
    for failure in () if json else report.failures:
        complain(failure.message)
    raise typer.Exit(report.exit_code)


def _report(files: Sequence[Path], to: Factory, write: bool) -> Report:
    done = [_migrated(file, to) for file in each(files, "Reading")]
    if write:
        done = [_written(entry, to) for entry in done]
    told = [e for e in done if isinstance(e, Migrated) and (e.migration.changed or e.findings)]
    return Report(len(files), told, [e for e in done if isinstance(e, Failure)], write)


def _migrated(file: Path, to: Factory) -> Migrated | Failure:
    migrate_bytes, unreadable = _core()
    try:
        return Migrated(file, *migrate_bytes(file.read_bytes(), to))
    except unreadable as error:
        return Failure(file, f"{file} cannot be parsed: {error}. It is left as it is.")
    except OSError as error:
        return Failure(file, f"{file} cannot be read: {error.strerror}.")


def _core() -> Any:
    try:
        from agent_factory.migrate import UnreadableSource, migrate_bytes
    except ImportError as error:
        hint = "Install it with: pip install 'agent-factory[cli]'"
        raise Trouble(f"libcst, which reads Python, is missing. {hint}", error) from None
    return migrate_bytes, UnreadableSource


def _written(entry: Migrated | Failure, to: Factory) -> Migrated | Failure:
    if isinstance(entry, Failure) or not entry.migration.changed:
        return entry
    try:
        replace_bytes(entry.file, entry.data)
    except OSError as error:
        message = f"{entry.file} cannot be written: {error.strerror}. It is left as it is."
        return Failure(entry.file, message)
    return _told_in_new_lines(entry, to)


def _told_in_new_lines(entry: Migrated, to: Factory) -> Migrated:
    """The findings where a person finds them now."""
    migrate_bytes, _ = _core()
    found = migrate_bytes(entry.data, to)[1].findings
    return Migrated(
        entry.file, entry.data, Migration(entry.migration.before, entry.migration.text, found)
    )


def _write_json(report: Report, paths: Iterable[Path], to: Factory) -> None:
    screen.write_json(
        {
            "paths": [str(path) for path in paths],
            "to": str(to),
            "written": report.written,
            "files": [file.to_data() for file in report.files],
            "failures": [failure.to_data() for failure in report.failures],
            "looked_at": report.looked_at,
            "changed": len(report.changed),
            "decisions": report.decisions,
        }
    )


def _plain(report: Report) -> Iterator[str]:
    if not report.written:
        for file in report.files:
            yield from file.diff
    for file in report.files:
        for finding in file.findings:
            yield f"{file.file}:{finding.line}: {finding.what}: {finding.why}. "
            yield f"Write: {finding.write}.\n"
    yield report.summary


_STYLES = {"+": "green", "-": "red", "@": "cyan"}


def _for_people(report: Report) -> Group:
    parts: list[Text | Padding] = []
    for file in report.files:
        lines = () if report.written else file.diff
        parts += [_coloured(line) for line in lines]
    for file in report.files:
        parts += [_block(file.file, finding) for finding in file.findings]
    style = "bold" if report.exit_code else "green"
    return Group(*parts, Text(report.summary, style=style))


def _coloured(line: str) -> Text:
    heading = line.startswith(("+++", "---"))
    return Text(line.rstrip("\r\n"), style="bold" if heading else _STYLES.get(line[0], ""))


def _block(file: Path, finding: Finding) -> Padding:
    text = Text.assemble(
        (f"{file}:{finding.line}", "bold"),
        ("  decide", "yellow"),
        (f"  {finding.what}\n", "cyan"),
        f"{finding.why}\n",
        (f"write: {finding.write}", "green"),
        overflow="fold",
    )
    return Padding(text, (0, 0, 1, 0))
