"""The action for pull requests and the hooks for commits: what their commands write."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import action
import pytest

pytest.importorskip("typer", reason="the extra cli is not installed")

from agent_factory import create_agent
from agent_factory.testing import ScriptedChatModel, record_agent
from commands import run as run_command
from environments import ROOT, ok, run, yaml_of

DESK = """
from langgraph.checkpoint.memory import InMemorySaver
from agent_factory import create_agent
from agent_factory.middleware import HumanInTheLoopMiddleware, ModelCallLimitMiddleware
from agent_factory.testing import ScriptedChatModel

def refund(euros: int) -> str:
    "Refund."
    return f"{euros} euros were paid."

agent = create_agent(
    ScriptedChatModel([]),
    [refund],
    middleware=[HumanInTheLoopMiddleware({"refund": True}), ModelCallLimitMiddleware(run_limit=5)],
    checkpointer=InMemorySaver(),
)
"""


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A repository whose first commit has an agent, in a folder, and whose files have another."""
    folder = tmp_path / "repository" / "shop"
    folder.mkdir(parents=True)
    (folder / "desk.py").write_text(DESK, encoding="utf-8")
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@example.com")
    for words in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", "A desk")):
        ok(run(*git, *words, cwd=folder))
    changed = DESK.replace("run_limit=5", "run_limit=500")
    changed = changed.replace('HumanInTheLoopMiddleware({"refund": True}), ', "")
    (folder / "desk.py").write_text(changed, encoding="utf-8")
    return folder


def report(shop: Path, **inputs: str) -> tuple[subprocess.CompletedProcess[str], str]:
    """The result of the shell of action.yml, and the summary of the job."""
    step, _ = yaml_of("action.yml")["runs"]["steps"]
    summary = shop.parent.parent / "summary.md"
    variables = dict.fromkeys(step["env"], "") | {
        "TARGETS": "desk.py:agent",
        "PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
        "ACTION": str(ROOT),
        "REPORT": str(shop.parent.parent / "report.md"),
        "GITHUB_STEP_SUMMARY": str(summary),
        "GITHUB_REPOSITORY": "ann/shop",
    }
    assert inputs.keys() <= variables.keys() | {"PATH"}
    done = run("bash", "-e", "-c", step["run"], cwd=shop, **{**variables, **inputs})
    return done, summary.read_text(encoding="utf-8") if summary.exists() else ""


@pytest.mark.long
def test_the_summary_shows_what_a_pull_request_changes(shop: Path) -> None:
    done, text = report(shop, BASE="HEAD")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "No problems in 1 targets." in text
    assert "| `removed` | `node` | `HumanInTheLoopMiddleware.after_model` |" in text
    assert "run_limit" in text
    assert "5 -> 500" in text
    assert ok(run("git", "worktree", "list", cwd=shop)).count("\n") == 1


@pytest.mark.long
def test_errors_of_a_check_fail_the_job_and_are_annotations_and_rows(shop: Path) -> None:
    text = DESK.replace('"refund": True', '"refnd": True')
    (shop / "desk.py").write_text(text, encoding="utf-8")
    done, summary = report(shop, CHECK="--strict")
    assert done.returncode == 1
    assert "::error" in done.stdout
    assert "`AF124`" in summary


@pytest.mark.long
def test_an_agent_that_the_base_lacks_is_new(shop: Path) -> None:
    (shop / "other.py").write_text(DESK, encoding="utf-8")
    done, text = report(shop, TARGETS="other.py:agent", BASE="HEAD")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "It cannot be loaded on the base, so all of it is new." in text


@pytest.mark.long
def test_the_base_may_be_a_saved_plan_and_another_word_is_an_error(shop: Path) -> None:
    plan = run_command("show", f"{shop}/desk.py:agent", "--json")
    (shop / "plan.json").write_text(plan.stdout, encoding="utf-8")
    done, text = report(shop, BASE="plan.json")
    assert (done.returncode, text.count("No changes.")) == (0, 1), done.stderr
    done, _ = report(shop, BASE="no-such-commit")
    assert done.returncode == 1
    assert "base must be a saved plan or a commit, got 'no-such-commit'" in done.stderr


@pytest.mark.long
def test_a_run_that_has_changed_fails_the_job_unless_it_may(shop: Path) -> None:
    def refund(euros: int) -> str:
        """Refund."""
        return f"{euros} euros were paid."

    steps: list[Any] = [[{"name": "refund", "args": {"euros": 5}}], "Done."]
    recorded = record_agent(create_agent(ScriptedChatModel(steps), [refund]), shop / "runs/a.jsonl")
    recorded.invoke({"messages": [("user", "Please.")]})
    kind = DESK.replace("    checkpointer=InMemorySaver(),\n", '    system_prompt="Be kind.",\n')
    (shop / "desk.py").write_text(
        kind.replace('HumanInTheLoopMiddleware({"refund": True}), ', ""), encoding="utf-8"
    )
    done, text = report(shop, RECORDINGS="runs")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "1 changed" in text
    assert "| `a` | `changed` |" in text
    done, _ = report(shop, RECORDINGS="runs", REPLAY="--allow-changes")
    assert done.returncode == 0


GH = """#!{python}
import json, pathlib, sys
text = sys.stdin.read()
with open({log!r}, "a") as file:
    file.write(json.dumps([sys.argv[1:], text]) + "\\n")
if "--paginate" in sys.argv:
    print({previous!r})
if {fails!r}:
    sys.exit("HTTP 403: Resource not accessible by integration")
"""


@pytest.mark.parametrize(("previous", "method"), [("", "POST"), ("17\n18", "PATCH")])
def test_a_comment_replaces_the_one_of_the_run_before(
    previous: str, method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words, text = written(tmp_path, monkeypatch, previous=previous, fails=False)[-1]
    place = "comments/17" if previous else "7/comments"
    assert words[:4] == ["api", "--method", method, f"repos/ann/shop/issues/{place}"]
    assert text == "The report."


def written(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *, previous: str, fails: bool
) -> list[tuple[list[str], str]]:
    """The calls of a `gh` that answers with these comments."""
    gh, log = folder / "gh", folder / "calls.jsonl"
    gh.write_text(
        GH.format(python=sys.executable, log=str(log), previous=previous, fails=fails),
        encoding="utf-8",
    )
    gh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("GITHUB_REPOSITORY", "ann/shop")
    action.comment("7", "The report.")
    return [tuple(json.loads(line)) for line in log.read_text(encoding="utf-8").splitlines()]


def test_a_comment_that_a_fork_may_not_write_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    written(tmp_path, monkeypatch, previous="", fails=True)
    assert "::warning title=agent-factory::The comment was not written: HTTP 403" in (
        capsys.readouterr().out
    )


def test_names_from_a_pull_request_are_no_markdown_of_the_report() -> None:
    assert action.code("a`|<img src=x>\n| b") == "`a'\\|<img src=x> \\| b`"
    assert "~~~~\n<b>" not in action.block("~~~~\n<b>")


def test_each_input_of_the_action_arrives_as_a_variable() -> None:
    definition = yaml_of("action.yml")
    steps = definition["runs"]["steps"]
    assert not any("${{" in step["run"] for step in steps)
    expressions = " ".join(value for step in steps for value in step["env"].values())
    expressions += " ".join(
        step[key] for step in steps for key in ("if", "working-directory") if key in step
    )
    assert {name for name in definition["inputs"] if f"inputs.{name}" not in expressions} == set()


def test_code_of_a_pull_request_gets_no_token(shop: Path) -> None:
    """The step with the token loads no agent, no package and no file of the pull request."""
    first, second = yaml_of("action.yml")["runs"]["steps"]
    assert "token" not in json.dumps(first["env"]).lower()
    assert "token" in second["env"]["GH_TOKEN"]
    assert not second["env"].keys() & {"TARGETS", "PYTHON", "CHECK", "REPLAY"}
    assert second["working-directory"] == "${{ runner.temp }}"
    folder = shop.parent.parent / "temp"
    folder.mkdir()
    for name in ("argparse", "sitecustomize"):
        (folder / f"{name}.py").write_text("raise SystemExit('of the pull request')\n")
    (folder / "report.md").write_text("The report.")
    log = folder / "calls.jsonl"
    (folder / "gh").write_text(
        GH.format(python=f"{sys.executable} -IS", log=str(log), previous="", fails=False)
    )
    (folder / "gh").chmod(0o755)
    variables = {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(folder)}
    variables |= {"ACTION": str(ROOT), "REPORT": str(folder / "report.md"), "COMMENT": "7"}
    variables["GITHUB_REPOSITORY"] = "ann/shop"
    ok(run("bash", "-e", "-c", second["run"], cwd=folder, **variables))
    assert [json.loads(line)[1] for line in log.read_text().splitlines()] == ["", "The report."]


def test_the_hooks_for_commits_run_commands_that_fail_on_a_difference(shop: Path) -> None:
    hooks = {hook["id"]: hook["entry"].split()[1:] for hook in yaml_of(".pre-commit-hooks.yaml")}
    target = f"{shop}/desk.py:agent"
    plan = str(shop / "plan.topology")
    assert run_command("show", target, "--settings", "--output", plan).exit_code == 0
    assert run_command(*hooks["agent-factory-check"], target).exit_code == 0
    assert run_command(*hooks["agent-factory-diff"], plan, target).exit_code == 0
    (shop / "desk.py").write_text(DESK, encoding="utf-8")
    other = shop / "later.py"
    other.write_text(DESK, encoding="utf-8")
    assert run_command(*hooks["agent-factory-diff"], plan, f"{other}:agent").exit_code == 1
