"""`agent-factory skill`: the folder of the skill for coding agents, and copies."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Annotated, Final

import typer

from agent_factory.cli import console
from agent_factory.cli.console import AsJson, counted
from agent_factory.cli.error_reports import CommandError, installed_version

SKILL: Final = Path(str(files("agent_factory"))) / ".agents" / "skills" / "agent-factory"
"""The folder of the skill. The place in a package and the name are those that tools look for."""

EXAMPLES = """\
agent-factory skill
agent-factory skill --copy .claude/skills
agent-factory skill --copy .agents/skills --overwrite"""


def skill(
    copy: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Copy it into a folder of skills.")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="With --copy: replace files that differ.")
    ] = False,
    json: AsJson = False,
) -> None:
    """Print the folder of the skill for coding agents, or copy the skill, as to .claude/skills.

    The skill says how to build, order, check and test agents with this version. A file with
    other content is not replaced without --overwrite.
    """
    if overwrite and copy is None:
        raise CommandError("--overwrite needs --copy. Add --copy FOLDER.")
    folder = copy / SKILL.name if copy else SKILL
    paths = sorted(SKILL.rglob("*.md")) if copy else []
    names = [path.relative_to(SKILL).as_posix() for path in paths]
    try:
        stored = {n: (folder / n).read_bytes() for n in names if (folder / n).exists()}
        unchanged = [n for n in stored if stored[n] == (SKILL / n).read_bytes()]
        different = [n for n in stored if n not in unchanged]
        if different and not overwrite:
            raise CommandError(
                f"{folder} differs in {', '.join(different)}, and nothing is changed. "
                "Pass --overwrite to replace what differs, or another folder."
            )
        written = [n for n in names if n not in unchanged]
        for name in written:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes((SKILL / name).read_bytes())
    except OSError as error:
        raise CommandError(f"{folder} cannot be written: {error.strerror}.", error) from None
    if json:
        data = {"skill": str(SKILL), "version": installed_version()}
        changes = {"written": written, "unchanged": unchanged}
        console.write_json({**data, "copy": str(folder) if copy else None, **changes})
    elif copy is None:
        console.write(str(SKILL))
        console.note("Copy it: agent-factory skill --copy .claude/skills")
    elif written:
        console.write(f"Wrote {counted(len(written), 'file')} to {folder}: {', '.join(written)}.")
    else:
        console.write(f"{folder} is up to date.")
