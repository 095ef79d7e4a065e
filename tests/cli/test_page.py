"""docs/command_line.md shows what the commands print."""

from __future__ import annotations

import io
import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("typer", reason="the extra cli is not installed")

from rich.console import Console
from typer.testing import CliRunner

from agent_factory.cli.app import app
from agent_factory.cli.loading import load
from agent_factory.cli.show import plan_tree

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "command_line.md").read_text("utf-8")
DESK, OLD = re.findall(r"```python.*\n((?:.*\n)*?)```", PAGE)
SHOWN = re.findall(r"```sh\nagent-factory (.*)\n```\n\n```text\n((?:.*\n)*?)```", PAGE)


@pytest.fixture(autouse=True)
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files that the page is about, in the current folder."""
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    monkeypatch.chdir(tmp_path)
    Path("desk.py").write_text(DESK, encoding="utf-8")
    Path("old.py").write_text(OLD, encoding="utf-8")


@pytest.mark.parametrize(("command", "printed"), SHOWN)
def test_a_command_prints_the_output_of_the_page(command: str, printed: str) -> None:
    assert CliRunner().invoke(app, shlex.split(command)).stdout == printed


def test_the_tree_is_the_one_of_the_page() -> None:
    file = io.StringIO()
    console = Console(file=file, width=80, _environ={})
    plan = replace(load("desk:agent").plan, settings=())
    console.print(plan_tree("desk:agent", plan))
    tree = "\n".join(line.rstrip() for line in file.getvalue().splitlines())
    assert f"```text\n{tree}\n```" in PAGE


def test_every_command_is_on_the_page_and_every_option_in_its_help() -> None:
    plain = ("show", "diff", "explain", "check", "replay", "migrate", "demo")
    for command in (*plain, "new middleware", "new agent"):
        assert f"`agent-factory {command}" in PAGE
        done = CliRunner().invoke(app, [*command.split(), "--help"], env={"COLUMNS": "200"})
        assert done.exit_code == 0
        assert "--traceback" in done.stdout
        assert ("Examples:" in done.stdout) == (command != "demo")
