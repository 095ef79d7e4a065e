"""`agent-factory policy`: the rules for the tools of an agent, as a table and as data."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("typer", reason="the extra cli is not installed")

from typer.testing import CliRunner

from agent_factory.cli.app import app

SHOP = """
from agent_factory import create_agent
from agent_factory.middleware import HumanInTheLoopMiddleware, Rule, ToolPolicy
from agent_factory.testing import ScriptedChatModel

def find(query: str) -> str:
    "Find."
    return ""

def refund(euros: int) -> str:
    "Refund."
    return ""

def mail(to: str) -> str:
    "Mail."
    return ""

policy = ToolPolicy(
    Rule("f*", "deny", reason="Not today."),
    Rule("refund", "allow", when={"euros": {"<": 50}}),
    Rule("refund", "ask", reviewers=["ann"], allowed_decisions=["approve"], remember=90000),
    Rule("mail", "judge", when={"to": "Ann"}, otherwise="deny"),
    judge=ScriptedChatModel([]),
)
middleware = [HumanInTheLoopMiddleware(policy)]
agent = create_agent(ScriptedChatModel([]), [find, refund, mail], middleware=middleware)
plain = create_agent(ScriptedChatModel([]), [find])
bare = create_agent(ScriptedChatModel([]))
"""


@pytest.fixture(autouse=True)
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("shop.py").write_text(SHOP, encoding="utf-8")


def shown(*words: str, code: int = 0) -> list[str]:
    """The lines of the output, without what only aligns them."""
    done = CliRunner().invoke(app, ["policy", *words], env={"COLUMNS": "200"})
    assert done.exit_code == code, done.output
    return [" ".join(line.split()) for line in done.output.splitlines()]


def test_the_table_says_what_happens_to_which_calls() -> None:
    assert shown("shop.py:agent") == [
        "tool calls decision who notes",
        "find all calls deny Not today.; rule f*",
        "refund euros < 50 allow",
        "other calls ask ann only approve; may be remembered for 90000 s",
        'mail to == "Ann" judge, or deny',
        "other calls ask no rule",
        "1 tool is not covered: mail",
    ]


def test_an_agent_without_a_policy_or_without_tools() -> None:
    assert shown("shop.py:plain")[1:] == [
        "find all calls allow no policy",
        "1 tool is not covered: find",
    ]
    assert shown("shop.py:bare") == ["The agent has no tools."]
    (line,) = shown("shop.py:middleware", code=2)
    assert "is not an agent" in line


def test_the_table_as_data() -> None:
    done = CliRunner().invoke(app, ["policy", "shop.py:agent", "--json"])
    rows = json.loads(done.output)
    assert [(row["tool"], row["action"], row["is_covered"]) for row in rows][-1] == (
        "mail",
        "ask",
        False,
    )
    assert rows[2]["reviewers"] == ["ann"]
