"""Evaluators of others judge runs of our agents as they judge langchain's: agentevals and ragas."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from agentevals.graph_trajectory.strict import graph_trajectory_strict_match
from agentevals.graph_trajectory.utils import extract_langgraph_trajectory_from_thread
from agentevals.trajectory.match import create_trajectory_match_evaluator
from langchain_core.messages import BaseMessage, convert_to_openai_messages
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import BaseModel
from ragas import MultiTurnSample
from ragas.integrations.langgraph import convert_to_ragas_messages
from ragas.messages import ToolCall
from ragas.metrics.collections import ToolCallAccuracy, ToolCallF1

from foreign.stories import THREAD, Build, Library, RecordingModel, calls, libraries, lookup
from samples import decisions

TEA = calls(("lookup", {"topic": "tea"}))
BOTH = calls(("lookup", {"topic": "tea"}), ("lookup", {"topic": "milk"}))
APPROVED = decisions({"type": "approve"})
HOOK = "HumanInTheLoopMiddleware.after_model"


class Place(BaseModel):
    """A place."""

    city: str


def plain(library: Library, script: Any) -> Any:
    return library.create_agent(script(TEA, "Tea."), [lookup], checkpointer=InMemorySaver())


def coffee(library: Library, script: Any) -> Any:
    call = calls(("lookup", {"topic": "coffee"}))
    return library.create_agent(script(call, "No."), [lookup], checkpointer=InMemorySaver())


def parallel(library: Library, script: Any) -> Any:
    return library.create_agent(script(BOTH, "Both."), [lookup], checkpointer=InMemorySaver())


def reviewed(library: Library, script: Any) -> Any:
    review = library.middleware.HumanInTheLoopMiddleware({"lookup": True})
    model, saver = script(TEA, "Tea."), InMemorySaver()
    return library.create_agent(model, [lookup], middleware=[review], checkpointer=saver)


def structured(library: Library, script: Any) -> Any:
    answer = library.structured_output.ToolStrategy(Place)
    model, saver = script(TEA, calls(("Place", {"city": "Delft"}))), InMemorySaver()
    return library.create_agent(model, [lookup], response_format=answer, checkpointer=saver)


def inside(library: Library, script: Any) -> Any:
    clerk = library.create_agent(script(TEA, "Tea."), [lookup], name="clerk")

    @tool
    def ask(request: str) -> str:
        """Ask the clerk."""
        return str(clerk.invoke({"messages": [("user", request)]})["messages"][-1].text)

    model, saver = script(calls(("ask", {"request": "Tea?"})), "Tea."), InMemorySaver()
    return library.create_agent(model, [ask], checkpointer=saver)


@dataclass
class Judged:
    """A run as evaluators take it."""

    messages: list[BaseMessage]
    graph: Any
    """The trajectory of the thread, of agentevals."""


def run(build: Build, library: Library, inputs: Sequence[Any]) -> Judged:
    """Run the inputs on one thread."""
    agent = build(library, lambda *steps: RecordingModel(steps=list(steps)))
    for given in inputs:
        result = agent.invoke(given, THREAD)
    outputs = extract_langgraph_trajectory_from_thread(agent, THREAD)["outputs"]
    return Judged(result["messages"], outputs)


def scores(messages: Sequence[BaseMessage], reference: Sequence[BaseMessage]) -> list[float]:
    """Accuracy and F1 of the tool calls of a run, by ragas."""
    given = [in_wire_form(message) for message in messages]
    expected = [
        ToolCall(name=call["name"], args=call["args"])
        for message in reference
        for call in getattr(message, "tool_calls", ())
    ]
    sample = MultiTurnSample(
        user_input=convert_to_ragas_messages(given), reference_tool_calls=expected
    )
    metrics = (ToolCallAccuracy(), ToolCallF1())
    return [
        metric.score(user_input=sample.user_input, reference_tool_calls=expected).value
        for metric in metrics
    ]


def in_wire_form(message: BaseMessage) -> BaseMessage:
    """A message whose calls ragas finds: it reads those of OpenAI's API alone."""
    if not getattr(message, "tool_calls", ()):
        return message
    wire: Any = convert_to_openai_messages(message)
    return message.model_copy(update={"additional_kwargs": {"tool_calls": wire["tool_calls"]}})


START = {"messages": [("user", "Tea?")]}
RUNS = {
    "plain": (plain, [START]),
    "parallel": (parallel, [START]),
    "reviewed": (reviewed, [START, APPROVED]),
    "structured": (structured, [START]),
    "inside": (inside, [START]),
}


@pytest.mark.filterwarnings("ignore::UserWarning:ragas")  # about calls that differ
@pytest.mark.parametrize(("build", "inputs"), RUNS.values(), ids=RUNS)
def test_runs_of_both_are_judged_alike(build: Build, inputs: Sequence[Any]) -> None:
    theirs, ours, by_hook = (run(build, library, inputs) for library in libraries())
    wrong = run(coffee, libraries()[1], [START])
    for mode in ("strict", "unordered", "subset", "superset"):
        match = create_trajectory_match_evaluator(trajectory_match_mode=mode)
        for judged in (ours, by_hook):
            assert match(outputs=judged.messages, reference_outputs=theirs.messages)["score"]
        assert not match(outputs=wrong.messages, reference_outputs=theirs.messages)["score"]
    for judged in (theirs, ours, by_hook):
        assert scores(judged.messages, theirs.messages) == [1.0, 1.0]
    assert scores(wrong.messages, theirs.messages) == [0.0, 0.0]
    assert not any(getattr(m, "tool_calls", ()) for m in convert_to_ragas_messages(theirs.messages))
    same = graph_trajectory_strict_match(outputs=by_hook.graph, reference_outputs=theirs.graph)
    assert same["score"]
    # A fused run stores no checkpoint at a hook that changes nothing.
    assert ours.graph["results"] == theirs.graph["results"]
    *paused, last = theirs.graph["steps"]
    assert ours.graph["steps"] == [*paused, [node for node in last if node != HOOK]]


def test_the_code_of_the_page_runs() -> None:
    page = (Path(__file__).parents[2] / "docs" / "testing.md").read_text()
    section = page.partition("### Other evaluators")[2].partition("\n## ")[0]
    agent = plain(libraries()[1], lambda *steps: RecordingModel(steps=list(steps)))
    names = {"result": agent.invoke(START, THREAD), "agent": agent, "config": THREAD}
    blocks = re.findall(r"```python no-run: .*\n((?:.*\n)*?)```", section)
    assert len(blocks) == 2
    for block in blocks:
        exec(block, names)
