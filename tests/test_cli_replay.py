"""`agent-factory replay`: recorded runs as a table, as data, as a page, and an exit code."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("typer", reason="the extra cli is not installed")

from typer.testing import CliRunner, Result

from agent_factory import create_agent
from agent_factory.cli import console
from agent_factory.cli.app import app
from agent_factory.testing import Reply, ScriptedChatModel, record_agent
from tables import each

SHOP = """
from agent_factory import create_agent
from agent_factory.middleware import ToolCallLimitMiddleware
from agent_factory.testing import ScriptedChatModel

def refund(euros: int) -> str:
    "Refund."
    raise RuntimeError("The tool ran.")

def build(model):
    return create_agent(model, [refund])

def build_kindly(model):
    return create_agent(model, [refund], system_prompt="Be kind.")

def build_wrongly(model):
    return create_agent(model, [refund], middleware=[5])

def build_later():
    return build(ScriptedChatModel([]))

agent = build_later()
number = 5
"""

ASK: Any = {"messages": [("user", "Please.")]}


def refund(euros: int) -> str:
    """Refund."""
    return f"{euros} euros were paid."


@pytest.fixture(autouse=True)
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shop, and its recorded runs, in the current folder."""
    monkeypatch.chdir(tmp_path)
    Path("shop.py").write_text(SHOP, encoding="utf-8")
    for name, expect in (("small", "refund(euros<=50)"), ("large", "refund")):
        steps = [
            Reply(calls=[{"name": "refund", "args": {"euros": 50}}], usage=(1_000_000, 0)),
            "Done.",
        ]
        agent = create_agent(ScriptedChatModel(steps), [refund])
        record_agent(agent, f"runs/{name}.jsonl", expect=expect).invoke(ASK)


def replayed(*words: str) -> Result:
    return CliRunner().invoke(app, ["replay", *words], env={"COLUMNS": "200"})


@pytest.mark.parametrize("name", ["build", "build_later", "agent"])
def test_runs_that_pass_end_with_0(name: str) -> None:
    done = replayed(f"shop.py:{name}", "runs")
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[-1] == "2 runs: 2 passed"


def test_runs_that_have_changed_end_with_1_unless_they_may() -> None:
    done = replayed("shop.py:build_kindly", "runs")
    assert done.exit_code == 1
    assert "request 1 differs: messages[0].content: 'Please.' was recorded" in done.stdout
    assert done.stdout.splitlines()[-1] == "2 runs: 2 changed"
    assert replayed("shop.py:build_kindly", "runs", "--allow-changes").exit_code == 0
    Path("runs/small.trajectory").write_text("never refund")
    done = replayed("shop.py:build_kindly", "runs", "--allow-changes")
    assert done.exit_code == 1
    assert "2 runs: 1 failed, 1 changed" in done.stdout


def test_tools_run_on_request() -> None:
    done = replayed("shop.py:build", "runs", "--run-tools")
    assert done.exit_code == 1
    assert "raised RuntimeError: The tool ran." in done.stdout


def test_json_has_all_fields() -> None:
    done = replayed("shop.py:build_kindly", "runs", "--json")
    data = json.loads(done.stdout)
    assert done.exit_code == 1
    assert list(data) == ["agent", "folder", "runs", "passed", "changed", "failed", "error"]
    assert (data["agent"], data["folder"]) == ("shop.py:build_kindly", "runs")
    assert [run["name"] for run in data["runs"]] == ["large", "small"]
    assert set(data["runs"][0]) == {
        "name", "verdict", "reason", "request", "step", "tool", "recorded", "replayed", "seconds",
        "trajectory",
    }  # fmt: skip


def test_a_page_is_written() -> None:
    assert replayed("shop.py:build", "runs", "-o", "report.html").exit_code == 0
    page = Path("report.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert "2 runs: 2 passed" in page


def test_a_terminal_gets_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console, "is_terminal", lambda: True)
    done = replayed("shop.py:build_kindly", "runs")
    text = re.sub(r"[┃│]", "|", done.stdout)
    assert re.search(r"\| large +\| changed +\| +2 \| +1 \|", text)
    assert re.search(r"request 1 differs", text)
    assert re.search(r"\| all +\| +\| +4 \| +2 \|", text)


def test_models_that_the_price_list_knows_have_a_cost() -> None:
    pytest.importorskip("genai_prices", reason="the extra cost is not installed")
    path = Path("runs/small.jsonl")
    text = path.read_text().replace('"model_name": null', '"model_name": "gpt-4o-mini"')
    path.write_text(text)
    data = json.loads(replayed("shop.py:build", "runs", "--json").stdout)
    assert [run["recorded"]["usd"] for run in data["runs"]] == [None, pytest.approx(0.15, 0.5)]


@each(
    "words, said",
    [
        (["shop.py:build", "nowhere"], "folder nowhere does not exist."),
        (["shop.py:build", "."], "2 runs"),
        (["shop.py:number", "runs"], "must be an agent, got int (5)"),
        (["shop.py:bild", "runs"], "Did you mean build?"),
        (["plan.json", "runs"], "does not exist"),
        (["shop.py:build", "runs", "-o", "report.pdf"], "Write -o report.html."),
        (["shop.py:build_wrongly", "runs"], "shop.py:build_wrongly cannot be built"),
    ],
)
def test_what_cannot_be_loaded_ends_with_2(words: list[str], said: str) -> None:
    done = replayed(*words)
    assert said in " ".join(done.output.split())
    assert (done.exit_code == 2) == ("." not in words[1:])
