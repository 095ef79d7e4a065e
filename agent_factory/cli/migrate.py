"""`agent-factory migrate`: rewrite sources for `agent_factory`, and list open decisions."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from io import StringIO
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group
from rich.padding import Padding
from rich.text import Text

from agent_factory.cli import console
from agent_factory.cli.console import AsJson, counted
from agent_factory.cli.error_reports import (
    EXIT_FAILED,
    EXIT_FOUND,
    CommandError,
    bug_report,
    report_error,
)
from agent_factory.migrate.values import Factory, Migration


def python_files(paths: Iterable[Path]) -> list[Path]:
    """The Python files of some paths, each once.

    A folder stands for its Python files, without those in hidden folders, virtual environments and
    symbolic links.
    """
    files = []
    for path in paths:
        if not path.exists():
            raise CommandError(f"{path} does not exist.")
        if path.suffix == ".ipynb":
            raise CommandError(f"{path} is a notebook. Save its code as a .py file, and use that.")
        if not path.is_dir():
            files.append(path)
        # os.walk yields nothing for a file.
        for top, folders, names in os.walk(path):
            here = Path(top)
            # Changed in place: os.walk goes only into the remaining folders.
            folders[:] = sorted(
                name
                for name in folders
                if not name.startswith(".") and not (here / name / "pyvenv.cfg").exists()
            )
            sources = [here / name for name in sorted(names) if name.endswith((".py", ".pyi"))]
            files += [file for file in sources if not file.is_symlink()]
    # Paths may overlap, or lead to the same file by a symbolic link.
    return list({file.resolve(): file for file in files}.values())


def replace_bytes(file: Path, data: bytes) -> None:
    """Replace the content of a file atomically: readers see old bytes or new bytes."""
    target = file.resolve()
    with target.open("r+b"):  # fails for a read-only file, which os.replace would replace
        pass
    # In the same folder, because os.replace is atomic only within a file system.
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with open(handle, "wb") as stream:
            stream.write(data)
        # Only the owner can read a file of mkstemp.
        shutil.copymode(target, name)
        os.replace(name, target)
    # BaseException: Ctrl-C must not leave the temporary file behind.
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


EXAMPLES = """\
agent-factory migrate src
agent-factory migrate src --write
agent-factory migrate desk.py --to create_agent"""

NEXT = (
    "Next: agent-factory check MODULE:AGENT lists what cannot be built here, and what is likely "
    "wrong, such as a review without a checkpointer."
)


@dataclass(frozen=True, slots=True)
class Migrated:
    """File with its new bytes and its migration."""

    file: Path
    data: bytes
    migration: Migration

    @property
    def diff(self) -> list[str]:
        """The unified diff, line by line, for `git apply` and `patch`."""
        name = self.file.as_posix().lstrip("/")
        # StringIO ends lines at line feeds only, as diff and patch do; splitlines() does not.
        before, after = map(list, map(StringIO, (self.migration.before, self.migration.text)))
        return [
            line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
            for line in unified_diff(before, after, f"a/{name}", f"b/{name}")
        ]


@dataclass(frozen=True, slots=True)
class Failure:
    """Skipped file, and the reason."""

    file: Path
    message: str


def migrate(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="PATH...", help="Files, or folders with all their Python files."),
    ],
    write: Annotated[
        bool, typer.Option("--write", help="Change the files, instead of showing the changes.")
    ] = False,
    to: Annotated[
        Factory,
        typer.Option(
            metavar="NAME",
            help="What calls of create_react_agent become: create_react_agent or create_agent. "
            "Calls of create_agent stay what they are.",
        ),
    ] = Factory.REACT,
    json: AsJson = False,
) -> None:
    """Migrate sources from create_react_agent and LangChain's create_agent to agent_factory.

    Imports and parameters with a counterpart are rewritten, everything else stays byte for byte;
    open decisions are listed. Hidden folders and virtual environments are left out.

    The sources are read, and none of their code is executed.

    Exit codes: 0 nothing is left to do, 1 something is left (an unwritten change, or a
    decision), 2 a file could not be read, parsed, migrated or written, and is unchanged.
    """
    files = python_files(paths)
    results = [_migrated(file, to) for file in console.with_progress(files, "Reading")]
    if write:
        results = [_written(result, to) for result in results]
    failures = [result for result in results if isinstance(result, Failure)]
    migrations = [result for result in results if isinstance(result, Migrated)]
    entries = [file for file in migrations if file.migration.changed or file.migration.findings]
    changed = sum(file.migration.changed for file in entries)
    decisions = sum(len(file.migration.findings) for file in entries)
    left = failures or decisions or (changed and not write)
    summary = console.summary(
        counted(len(files), "file"),
        f"{counted(changed, 'file')} {'changed' if write else 'to change'}",
        f"{counted(decisions, 'decision')} left to you",
        f"{counted(len(failures), 'file')} skipped",
        default="nothing to do",
    )
    if write and changed:
        summary += f"\n{NEXT}"
    if json:
        data = {
            "paths": list(map(str, paths)),
            "to": str(to),
            "written": write,
            "files": [
                {
                    "file": str(file.file),
                    "changed": file.migration.changed,
                    "diff": "".join(file.diff),
                    "findings": [finding.to_data() for finding in file.migration.findings],
                }
                for file in entries
            ],
            "failures": [{"file": str(f.file), "message": f.message} for f in failures],
            "looked_at": len(files),
            "changed": changed,
            "decisions": decisions,
        }
        console.write_json(data)
    elif console.is_terminal():
        style = "bold" if left else "green"
        console.show(Group(*styled(entries, with_diff=not write), Text(summary, style=style)))
    else:
        lines = [] if write else [line for file in entries for line in file.diff]
        for file in entries:
            for finding in file.migration.findings:
                lines.append(f"{file.file}:{finding.line}: {finding.what}: {finding.why}. ")
                lines.append(f"Write: {finding.write}.\n")
        console.write("".join([*lines, summary]))
    for failure in () if json else failures:
        report_error(failure.message)
    if left:
        raise typer.Exit(EXIT_FAILED if failures else EXIT_FOUND)


def _migrated(file: Path, to: Factory, data: bytes | None = None) -> Migrated | Failure:
    """The migration of a file, or of other bytes in its place."""
    from agent_factory.migrate import UnreadableSource, migrate_bytes

    try:
        return Migrated(file, *migrate_bytes(file.read_bytes() if data is None else data, to))
    except OSError as error:
        return Failure(file, f"{file} cannot be read: {error.strerror}.")
    except UnreadableSource as error:
        return Failure(file, f"{file} cannot be parsed: {error}. It is unchanged.")
    # The other files of a folder are migrated all the same.
    except Exception as error:
        return Failure(file, f"{file} cannot be migrated. It is unchanged. {bug_report(error)}")


def _written(result: Migrated | Failure, to: Factory) -> Migrated | Failure:
    """Write a migrated file, and return decisions with the lines of the new text."""
    if isinstance(result, Failure) or not result.migration.changed:
        return result
    file, migration = result.file, result.migration
    # Before the file is written: a failure leaves the file unchanged.
    again = _migrated(file, to, result.data)
    if isinstance(again, Failure):
        return again
    try:
        replace_bytes(file, result.data)
    except OSError as error:
        return Failure(file, f"{file} cannot be written: {error.strerror}. It is unchanged.")
    findings = again.migration.findings
    return Migrated(file, result.data, Migration(migration.before, migration.text, findings))


_STYLES = {"+": "green", "-": "red", "@": "cyan"}


def styled(files: Sequence[Migrated], with_diff: bool) -> Iterator[Text | Padding]:
    """The files for a terminal: the diff, then a paragraph for each decision."""
    for file in files if with_diff else ():
        for line in file.diff:
            heading = line.startswith(("+++", "---"))
            style = "bold" if heading else _STYLES.get(line[0], "")
            yield Text(line.rstrip("\r\n"), style=style)
    for file in files:
        for finding in file.migration.findings:
            text = Text.assemble(
                (f"{file.file}:{finding.line}", "bold"),
                ("  decide", "yellow"),
                (f"  {finding.what}\n", "cyan"),
                f"{finding.why}\n",
                (f"write: {finding.write}", "green"),
                overflow="fold",
            )
            yield Padding(text, (0, 0, 1, 0))
