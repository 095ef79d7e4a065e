"""`migrate`: the output, the files it writes and skips, and the exit codes."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("typer", reason="the extra cli is not installed")
pytest.importorskip("libcst", reason="the extra cli is not installed")

from rich.console import Console
from typer.testing import CliRunner, Result

import agent_factory.migrate
from agent_factory.cli import console as cli_console
from agent_factory.cli import migrate as command
from agent_factory.cli.app import app
from agent_factory.migrate import migrate_bytes
from agent_factory.migrate.values import Factory, Finding, Migration
from commands import python, run_in_process
from tables import each

OLD = """\
from langgraph.prebuilt import ToolNode, create_react_agent

agent = create_react_agent(model, [], config_schema=Context)
other = create_react_agent(model, [], pre_model_hook=trim)
"""
NEW = """\
from agent_factory import ToolNode
from agent_factory.prebuilt import create_react_agent

agent = create_react_agent(model, [], context_schema=Context)
other = create_react_agent(model, [], pre_model_hook=trim)
"""
DIFF = """\
--- a/desk.py
+++ b/desk.py
@@ -1,4 +1,5 @@
-from langgraph.prebuilt import ToolNode, create_react_agent
+from agent_factory import ToolNode
+from agent_factory.prebuilt import create_react_agent
 
-agent = create_react_agent(model, [], config_schema=Context)
+agent = create_react_agent(model, [], context_schema=Context)
 other = create_react_agent(model, [], pre_model_hook=trim)
"""


@pytest.fixture(autouse=True)
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file in the current folder."""
    monkeypatch.chdir(tmp_path)
    file = Path("desk.py")
    file.write_bytes(OLD.encode())
    return file


def migrate(*words: str) -> Result:
    done = CliRunner().invoke(app, ["migrate", *words])
    assert "Traceback" not in done.output
    return done


def data_of(*words: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(migrate(*words, "--json").stdout)
    return found


def test_without_write_the_change_is_shown_and_nothing_is_written(desk: Path) -> None:
    done = migrate("desk.py")
    assert done.exit_code == 1
    assert done.stdout == f"{DIFF}1 file: 1 file to change.\n"
    assert desk.read_bytes() == OLD.encode()


def test_with_write_the_file_is_changed_and_a_second_time_it_is_not(desk: Path) -> None:
    done = migrate("desk.py", "--write")
    summary, advice = done.stdout.splitlines()
    assert (done.exit_code, summary) == (0, "1 file: 1 file changed.")
    assert advice.startswith("Next: agent-factory check MODULE:AGENT lists what cannot be built")
    assert desk.read_bytes() == NEW.encode()
    done = migrate("desk.py", "--write")
    assert (done.exit_code, done.stdout) == (0, "1 file: nothing to do.\n")


def test_open_decisions_are_listed_with_their_new_lines(desk: Path) -> None:
    done = migrate("desk.py", "--to", "create_agent", "--write")
    assert done.exit_code == 1
    line, summary, _ = done.stdout.splitlines()
    place = "desk.py:5: create_react_agent(pre_model_hook=...): "
    assert line.startswith(place)
    assert "Write: middleware=[...] with a @before_model" in line
    assert summary == "1 file: 1 file changed, 1 decision left to you."
    assert desk.read_text().splitlines()[4].startswith("other = create_react_agent")
    again = migrate("desk.py", "--to", "create_agent")
    assert (again.exit_code, again.stdout.splitlines()[0]) == (1, line)


def test_the_diff_is_one_that_git_applies(desk: Path) -> None:
    desk.write_bytes(OLD.replace("\n", "\r\n").removesuffix("\r\n").encode())
    shown = migrate("desk.py", "--to", "create_agent").stdout_bytes
    assert b"\\ No newline at end of file\n" in shown
    assert b"decision left to you" in shown
    subprocess.run(["git", "init", "-q"], check=True, timeout=60)
    apply = ["git", "apply", "--whitespace=nowarn", "-"]
    subprocess.run(apply, input=shown, check=True, timeout=60)
    applied = desk.read_bytes()
    desk.write_bytes(OLD.replace("\n", "\r\n").removesuffix("\r\n").encode())
    migrate("desk.py", "--to", "create_agent", "--write")
    assert desk.read_bytes() == applied


def test_hidden_folders_environments_and_links_are_left_out(tmp_path: Path) -> None:
    kept = [".venv/a.py", ".git/b.py", "env/lib/c.py", "notes.txt"]
    changed = ["shop/__init__.py", "shop/types.pyi", "shop/deep/d.py"]
    for name in (*kept, *changed):
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(OLD, encoding="utf-8")
    Path("env/pyvenv.cfg").touch()
    outside = tmp_path.parent / f"{tmp_path.name}_outside.py"
    outside.write_text(OLD, encoding="utf-8")
    Path("link.py").symlink_to(outside)
    Path("loop").symlink_to(tmp_path, target_is_directory=True)
    data = data_of(".", "desk.py", "--write")
    assert [file["file"] for file in data["files"]] == ["desk.py", *changed]
    assert data["looked_at"] == 4
    assert all(Path(name).read_text(encoding="utf-8") == OLD for name in kept)
    assert outside.read_text(encoding="utf-8") == OLD


def test_what_is_named_is_changed_in_a_hidden_folder_and_a_link_stays_one(desk: Path) -> None:
    hidden = Path(".hidden/script")
    hidden.parent.mkdir()
    hidden.write_text(OLD, encoding="utf-8")
    desk.chmod(0o750)
    Path("link.py").symlink_to(desk)
    assert migrate("link.py", str(hidden), "--write").exit_code == 0
    assert Path("link.py").is_symlink()
    assert desk.read_text(encoding="utf-8") == hidden.read_text(encoding="utf-8") == NEW
    assert stat.S_IMODE(desk.stat().st_mode) == 0o750
    assert sorted(path.name for path in Path().iterdir()) == [".hidden", "desk.py", "link.py"]


def test_a_file_that_cannot_be_written_is_unchanged(
    desk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(source: object, target: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    done = migrate("desk.py", "--write")
    assert done.exit_code == 2
    assert "desk.py cannot be written: No space left on device" in done.stderr
    assert desk.read_text(encoding="utf-8") == OLD
    assert [path.name for path in Path().iterdir()] == ["desk.py"]


@each(
    "words, said",
    [
        (["nowhere"], "nowhere does not exist."),
        (["notes.ipynb"], "is a notebook"),
        (["desk.py", "--to", "react"], "Invalid value for '--to'"),
        ([], "Missing argument"),
    ],
)
def test_wrong_arguments_are_reported(words: list[str], said: str) -> None:
    Path("notes.ipynb").write_text("{}", encoding="utf-8")
    done = migrate(*words)
    assert done.exit_code == 2
    assert said in done.stderr


def test_json_has_the_same_keys_always() -> None:
    data = data_of("desk.py", "--to", "create_agent")
    keys = ["paths", "to", "written", "files", "failures", "looked_at", "changed", "decisions"]
    assert list(data) == keys
    (file,) = data["files"]
    assert list(file) == ["file", "changed", "diff", "findings"]
    assert file["diff"].startswith("--- a/desk.py\n")
    (finding,) = file["findings"]
    assert list(finding) == ["line", "column", "kind", "what", "why", "write"]
    assert (finding["line"], finding["kind"]) == (4, "argument")
    assert (data["changed"], data["decisions"], data["written"]) == (1, 1, False)
    assert list(data_of("desk.py", "--write")) == keys


def test_a_terminal_shows_a_styled_diff_and_a_paragraph_for_each_decision() -> None:
    finding = Finding(4, 9, "argument", "f(a=...)", "it has another meaning", "b=...")
    file = command.Migrated(Path("desk.py"), b"", Migration("a\r\n", "[b]\r\n", (finding,)))
    console = Console(record=True, width=60, force_terminal=True, file=StringIO())
    console.print(*command.styled([file], with_diff=True), sep="\n")
    text = console.export_text(styles=True)
    assert "\x1b[32m+[b]" in text
    assert "\x1b[31m-a\x1b[0m" in text
    assert "desk.py:4" in text
    assert "write: b=..." in text


def test_long_work_has_a_progress_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(StringIO):
        """An error output that is a terminal."""

        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "xterm")
    quick, slow = Terminal(), Terminal()
    monkeypatch.setattr(sys, "stderr", quick)
    assert list(cli_console.with_progress("abc", "Reading")) == ["a", "b", "c"]
    assert quick.getvalue() == ""
    monkeypatch.setattr(sys, "stderr", slow)
    assert list(cli_console.with_progress("abc", "Reading", delay=0)) == ["a", "b", "c"]
    assert "Reading" in slow.getvalue()


def test_without_libcst_it_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['libcst'] = None; sys.argv[1:] = ['migrate', 'desk.py']\n"
        "from agent_factory.cli import main; main()"
    )
    done = python("-c", code)
    assert done.returncode == 1
    assert "the extra `cli`" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.long
def test_letters_that_the_output_lacks_are_escaped(desk: Path) -> None:
    desk.write_text("# é\n" + OLD, encoding="utf-8")
    done = run_in_process("migrate", "desk.py", PYTHONIOENCODING="ascii")
    assert done.returncode == 1
    assert r" # \xe9" in done.stdout


def test_a_file_that_cannot_be_parsed_or_migrated_is_skipped_and_the_others_are_migrated(
    desk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(data: bytes, to: Factory) -> tuple[bytes, Migration]:
        if b"bad" in data:
            raise ZeroDivisionError("by zero")
        return migrate_bytes(data, to)

    monkeypatch.setattr(agent_factory.migrate, "migrate_bytes", broken)
    bad = Path("bad.py")
    bad.write_text(f"{OLD}# bad\n", encoding="utf-8")
    Path("cut.py").write_text("from langgraph.prebuilt import (\n", encoding="utf-8")
    done = migrate(".", "--write")
    assert done.exit_code == 2
    assert "bad.py cannot be migrated. It is unchanged. This is a bug" in done.stderr
    assert "ZeroDivisionError: by zero" in done.stderr
    assert "cut.py cannot be parsed: line 1" in done.stderr
    assert done.stdout.startswith("3 files: 1 file changed, 2 files skipped.\n")
    assert desk.read_text(encoding="utf-8") == NEW
    assert bad.read_text(encoding="utf-8") == f"{OLD}# bad\n"
    assert [failure["file"] for failure in data_of(".")["failures"]] == ["bad.py", "cut.py"]
