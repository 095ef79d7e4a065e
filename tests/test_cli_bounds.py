"""`agent-factory explain --bounds`: what a run can use at most, and what recorded runs used."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("typer", reason="the extra cli is not installed")

from agent_factory import create_agent
from agent_factory.cli import console
from agent_factory.testing import Reply, ScriptedChatModel, record_agent
from agent_factory.testing.recorded_usage import usage_of_runs
from commands import run
from samples import refund
from tables import each

SHOP = """
from agent_factory.middleware import ModelCallLimitMiddleware

def refund(euros: int) -> str:
    "Refund."

stack = [ModelCallLimitMiddleware(run_limit=5)]
"""


def recorded(path: str, calls: int, *inputs: Any) -> None:
    """Record an agent that refunds so often, and is then asked for each further input."""
    step = {"name": "refund", "args": {"euros": 5}}
    replies: list[Any] = [Reply(calls=[step], usage=(100, 10)) for _ in range(calls)]
    replies += [Reply("Done.", usage=(200, 20)) for _ in range(1 + len(inputs))]
    agent = record_agent(create_agent(ScriptedChatModel(replies), [refund]), path)
    result = agent.invoke({"messages": [("user", "Please.")]})
    for text in inputs:
        result = agent.invoke({"messages": [*result["messages"], ("user", text)]})


@pytest.fixture(autouse=True)
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shop, and its recorded runs, in the current folder."""
    monkeypatch.chdir(tmp_path)
    Path("shop.py").write_text(SHOP, encoding="utf-8")
    for number, calls in enumerate((0, 0, 0, 1, 3)):
        recorded(f"runs/{number}.jsonl", calls)


def test_each_bound_is_a_line_with_its_limit() -> None:
    result = run("explain", "shop:stack", "--bounds")
    assert result.exit_code == 0
    assert result.output.splitlines()[0] == (
        "model calls: at most 5, by ModelCallLimitMiddleware: at most 5 model calls a run"
    )


def test_recorded_runs_stand_next_to_the_bounds() -> None:
    lines = run("explain", "shop:stack", "--bounds", "--recordings", "runs").output.splitlines()
    assert lines[0].endswith("a run. Recorded: median 1, 95 % up to 4.")
    assert "Recorded: median 220, 95 % up to 550." in "\n".join(lines)
    assert lines[-1] == "5 recorded runs in runs."


def test_a_run_without_calls_of_a_tool_counts_as_none() -> None:
    Path("agent.py").write_text(
        f"from agent_factory import create_agent\n{SHOP}\n"
        "from agent_factory.testing import ScriptedChatModel\n"
        "agent = create_agent(ScriptedChatModel([]), [refund], middleware=stack)\n",
        encoding="utf-8",
    )
    output = run("explain", "agent:agent", "--bounds", "--recordings", "runs", "--json").output
    rows = {row["what"]: row for row in json.loads(output)["bounds"]}
    assert rows["calls of refund"]["recorded"] == {"median": 0, "p95": 3}


def test_a_call_without_a_result_is_not_counted() -> None:
    def fail(euros: int) -> str:
        """Refund."""
        raise RuntimeError

    reply = Reply(calls=[{"name": "fail", "args": {"euros": 5}}])
    agent = record_agent(create_agent(ScriptedChatModel([reply]), [fail]), "failed.jsonl")
    with pytest.raises(RuntimeError):
        agent.invoke({"messages": "Please."})
    (usage,) = usage_of_runs(Path("failed.jsonl"), lambda name, usage: None)
    assert (usage["model calls"], usage["tool calls"]) == (1, 0)


def test_json_holds_bounds_and_recorded_runs() -> None:
    words = ("explain", "shop:stack", "--bounds", "--json")
    assert "recorded" not in json.loads(run(*words).output)["bounds"][0]
    data = json.loads(run(*words, "--recordings", "runs").output)
    first, second = data["bounds"][:2]
    assert (first["what"], first["most"]) == ("model calls", 5)
    assert first["recorded"] == {"median": 1, "p95": 4}
    assert (second["most"], second["recorded"]) == (None, {"median": 0, "p95": 3})
    assert data["recorded_runs"] == 5


def test_on_a_terminal_they_are_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console, "is_terminal", lambda: True)
    output = run("explain", "shop:stack", "--bounds", "--recordings", "runs").output
    assert "median" in output
    assert "no bound" in output


def test_a_recording_of_several_runs_counts_as_several() -> None:
    recorded("more/one.jsonl", 2, "Thanks.", "Bye.")
    runs = usage_of_runs(Path("more/one.jsonl"), lambda name, usage: 0.5)
    assert [item["model calls"] for item in runs] == [3, 1, 1]
    assert [item.get("calls of refund") for item in runs] == [2, None, None]
    assert [item["USD"] for item in runs] == [1.5, 0.5, 0.5]
    assert "USD" not in usage_of_runs(Path("more/one.jsonl"), lambda name, usage: None)[0]


@each(
    "words, text",
    [
        (("shop:stack", "--recordings", "runs"), "Add --bounds."),
        (("shop:stack", "model", "tools", "--bounds"), "name the agent alone"),
        (("AF204", "--bounds"), "name the agent alone"),
        (("shop:stack", "--bounds", "--recordings", "nowhere"), "does not exist"),
    ],
)
def test_what_does_not_fit_is_refused(words: tuple[str, ...], text: str) -> None:
    result = run("explain", *words)
    assert (result.exit_code, text in " ".join(result.output.split())) == (2, True), result.output
