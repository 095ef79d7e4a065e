"""The desk's middleware: alone, held to laws, and in a recorded conversation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from desk.agent import support_agent
from desk.middleware import Manners, Patience, RefundLimit

from agent_factory.testing import (
    LAWS,
    assert_trajectory,
    assert_valid_history,
    check_middleware,
    each_recording,
    replay,
    replay_recording,
)

CASSETTES = Path(__file__).parent / "cassettes"


@pytest.mark.parametrize(("euros", "answer"), [(100, "Done."), (101, "Refused: at most 100")])
def test_refunds_have_a_limit(sync_or_async: Any, euros: int, answer: str) -> None:
    call = {"name": "refund", "args": {"order": "A1", "euros": euros}}
    run = sync_or_async.run_layer(RefundLimit(euros=100), call)
    assert run.text.startswith(answer)
    assert len(run.asked) == (euros <= 100)


def test_manners_are_told_to_the_model(sync_or_async: Any) -> None:
    assert "help desk" in sync_or_async.run_layer(Manners(), "Hi").asked[0].system_prompt


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("make", [Manners, RefundLimit, Patience])
def test_laws(make: Any, law: str) -> None:
    check_middleware(make, laws=[law], tools=["find_order", "refund"], max_examples=2)


def test_a_recorded_conversation(sync_or_async: Any) -> None:
    with replay(CASSETTES / "refund.jsonl") as model:
        asked = {"messages": [("user", "My lamp A1 is broken. I want my 120 euros back.")]}
        result = sync_or_async.invoke(support_agent(model), asked)
    assert_trajectory(result, "only refund(euros>100) -> error < answer")
    assert_valid_history(result["messages"])
    assert result["messages"][-1].text == "I may pay 100 euros at most. Shall I?"


@each_recording(CASSETTES)
def test_recorded_runs(recording: Path) -> None:
    replay_recording(support_agent, recording).assert_passed()
