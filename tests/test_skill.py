"""The skill for coding agents: it is up to date, teaches what ten tasks need, and is copied."""

from __future__ import annotations

import ast
import json
import re
from functools import cache
from pathlib import Path
from threading import Event
from typing import Any

import pytest

pytest.importorskip("typer", reason="the extra cli is not installed")

import skill_pages
import yaml
from reference_pages import public_names
from site_pages import FENCE

from agent_factory import AgentMiddleware, Ordering
from agent_factory.cli.codes import ERROR_CODES
from agent_factory.cli.skill import SKILL
from agent_factory.errors import BUILD_CODES
from commands import run
from tables import each

PAGES = sorted(SKILL.rglob("*.md"))
GENERATED = skill_pages.generated()
WRITTEN = [page for page in PAGES if page.relative_to(SKILL).as_posix() not in GENERATED]
TASKS = sorted((Path(__file__).parent / "fixtures" / "skill").glob("test_*.py"))


def stem(path: Path) -> str:
    return path.stem


def read(page: Path) -> str:
    return page.read_text(encoding="utf-8")


@each("name", GENERATED)
def test_what_comes_from_the_code_is_up_to_date(name: str) -> None:
    assert read(SKILL / name) == GENERATED[name], "Run: python scripts/skill_pages.py"


def test_the_front_matter_is_that_of_the_format() -> None:
    _, front, body = read(SKILL / "SKILL.md").split("---\n", 2)
    fields = yaml.safe_load(front)
    assert fields["name"] == SKILL.name
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", fields["name"])
    assert 100 < len(fields["description"]) <= 1024
    assert set(fields) <= {"name", "description", "license", "compatibility", "metadata"}
    # What the format recommends; references are read only when a task needs them.
    assert len(body.splitlines()) < 500
    assert len(body) // 4 < 5_000


def test_the_first_page_leads_to_each_other_page_and_none_out_of_the_skill() -> None:
    links = set(re.findall(r"\]\(([\w/]+\.md)", read(SKILL / "SKILL.md")))
    assert links == {page.relative_to(SKILL).as_posix() for page in PAGES} - {"SKILL.md"}
    for page in PAGES:
        for link in re.findall(r"\]\(([^)#\s]+)", FENCE.sub("", read(page))):
            assert (page.parent / link).resolve().is_relative_to(SKILL.resolve()), link


def test_every_built_in_has_a_place_in_the_order_that_it_declares() -> None:
    places, names = skill_pages.places(), public_names("agent_factory.middleware")
    built_ins = {
        name: value
        for name, value in names.items()
        if isinstance(value, type) and issubclass(value, AgentMiddleware)
    }
    del built_ins["AgentMiddleware"]
    assert set(places) == set(built_ins)
    pairs = []
    for name, built_in in built_ins.items():
        if isinstance(ordering := built_in.ordering, Ordering):
            pairs += [(name, inner) for inner in ordering.before if inner in places]
            pairs += [(outer, name) for outer in ordering.after if outer in places]
    assert len(pairs) > 30
    assert [pair for pair in pairs if places[pair[0]] > places[pair[1]]] == []


@each("page", WRITTEN, ids=stem)
def test_codes_and_commands_that_a_page_names_exist(page: Path) -> None:
    assert set(re.findall(r"AF\d+", read(page))) <= BUILD_CODES.keys() | ERROR_CODES.keys()
    for command in re.findall(r"agent-factory ((?:new )?[a-z]+)\b(?= )", read(page)):
        assert run(*command.split(), "--help").exit_code == 0, command


@pytest.mark.parametrize("task", TASKS, ids=stem)
def test_a_task_is_solved_by_an_agent_without_findings(task: Path, tmp_path: Path) -> None:
    """Its own tests, which run it and compare its plan, are in its file."""
    module = ast.parse(read(task))
    assert len(ast.get_docstring(module) or "") > 100
    guarantees = tmp_path / "guarantees.txt"
    guarantees.write_text("\n".join(guarantees_of(module)))
    words = ["--guarantees", str(guarantees)] if guarantees_of(module) else []
    process = run("check", f"{task}:offline_agent", "--strict", "--json", *words)
    report = json.loads(process.stdout)
    assert (report["findings"], report["failures"], process.exit_code) == ([], [], 0)
    snapshot = task.parent / "__snapshots__" / task.stem / "test_the_plan.topology"
    assert snapshot.is_file()


def guarantees_of(module: ast.Module) -> list[str]:
    """The sentences of a module, as its source has them."""
    for node in module.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "GUARANTEES":
            return list(ast.literal_eval(node.value))
    return []


PYTHON = {name for kind in (str, list, dict, Event) for name in dir(kind)} | {"parametrize"}
"""Attributes that nobody has to teach."""


@cache
def taught() -> set[str]:
    """The words of the code in what people wrote, and the parameters of the built-ins."""
    code: list[str] = []
    for page in WRITTEN:
        code += [block[2] for block in FENCE.finditer(read(page))]
        code += re.findall(r"`([^`\n]+)`", FENCE.sub("", read(page)))
    parameters = re.findall(r"(\w+): ", GENERATED["references/middleware.md"])
    return {word for text in code for word in re.findall(r"\w+", text)} | set(parameters)


@cache
def blocks() -> list[ast.Module]:
    """The blocks of Python in what people wrote."""
    matches = [match for page in WRITTEN for match in FENCE.finditer(read(page))]
    return [ast.parse(match[2]) for match in matches if match[1].startswith("python")]


def imports_of(module: ast.Module) -> set[tuple[str, str]]:
    """The names of the library that a module imports, with where from."""
    nodes = [node for node in module.body if isinstance(node, ast.ImportFrom)]
    names = {(node.module or "", alias.name) for node in nodes for alias in node.names}
    return {pair for pair in names if pair[0].startswith("agent_factory")}


def names_in(module: ast.Module) -> set[str]:
    """The names of the library in a module: attributes, arguments, hooks and fixtures."""
    names: set[str] = set()
    own = {node.name for node in ast.walk(module) if isinstance(node, ast.FunctionDef)}
    for node in ast.walk(module):
        if isinstance(node, ast.Attribute):
            names.add(node.attr)
        elif isinstance(node, ast.Call) and ast.unparse(node.func) not in own:
            names |= {keyword.arg for keyword in node.keywords if keyword.arg}
        elif isinstance(node, ast.ClassDef):
            names |= {item.name for item in node.body if isinstance(item, ast.FunctionDef)}
        elif isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            names |= {argument.arg for argument in node.args.args}
    own_fields = {ast.unparse(n.target) for n in ast.walk(module) if isinstance(n, ast.AnnAssign)}
    return names - PYTHON - own_fields - {"__init__"}


def test_each_name_that_an_answer_to_one_of_ten_tasks_uses_is_taught() -> None:
    assert len(TASKS) == 10
    for task in TASKS:
        module = ast.parse(read(task))
        assert imports_of(module) - set().union(*map(imports_of, blocks())) == set(), task
        assert names_in(module) - taught() == set(), task
    names = names_in(ast.parse("agent.hover(height=3)\nlayer(upside=1)")) - taught()
    assert names == {"hover", "height", "upside"}  # a name that is not taught is found


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a copy in an empty project."""
    monkeypatch.chdir(tmp_path)
    return Path(".claude") / "skills"


def copy(folder: Path, *words: str) -> Any:
    return run("skill", "--copy", str(folder), *words)


def test_the_command_prints_the_folder() -> None:
    process = run("skill")
    assert (process.exit_code, process.stdout) == (0, f"{SKILL}\n")
    data = json.loads(run("skill", "--json").stdout)
    assert list(data) == ["skill", "version", "copy", "written", "unchanged"]
    assert list(data.values())[2:] == [None, [], []]
    assert data["skill"] == str(SKILL)


def test_a_copy_has_every_file_and_is_made_once(folder: Path) -> None:
    assert copy(folder).stdout.startswith(f"Wrote {len(PAGES)} files to {folder}/agent-factory: ")
    for page in PAGES:
        copied = folder / "agent-factory" / page.relative_to(SKILL)
        assert copied.read_bytes() == page.read_bytes()
    assert copy(folder).stdout == f"{folder}/agent-factory is up to date.\n"
    data = json.loads(copy(folder, "--json").stdout)
    assert (data["copy"], data["written"]) == (f"{folder}/agent-factory", [])
    assert len(data["unchanged"]) == len(PAGES)


def test_a_file_that_differs_is_named_and_kept_unless_it_may_be_replaced(folder: Path) -> None:
    copy(folder)
    page = folder / "agent-factory" / "references" / "own.md"
    page.write_text("Our own notes.")
    (folder / "agent-factory" / "SKILL.md").unlink()
    process = copy(folder)
    assert process.exit_code == 2
    assert "differs in references/own.md, and nothing is changed" in process.stderr
    assert page.read_text() == "Our own notes."
    assert not (folder / "agent-factory" / "SKILL.md").exists()
    process = copy(folder, "--overwrite")
    assert process.stdout.endswith("/agent-factory: SKILL.md, references/own.md.\n")
    assert page.read_bytes() == (SKILL / "references" / "own.md").read_bytes()


def test_a_folder_that_cannot_be_written_and_overwrite_without_a_copy_are_errors(
    folder: Path,
) -> None:
    folder.parent.write_text("a file")
    overwrite = run("skill", "--overwrite")
    for process, words in (
        (copy(folder), "cannot be written"),
        (overwrite, "--overwrite needs --copy"),
    ):
        assert process.exit_code == 2
        assert words in process.stderr
