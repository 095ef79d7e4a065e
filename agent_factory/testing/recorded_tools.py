"""Results of tools in recordings: written while an agent runs, and given again in replays."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import ToolMessage
from langgraph.errors import GraphBubbleUp
from langgraph.graph.state import CompiledStateGraph
from langgraph.prebuilt.tool_node import ToolCallRequest

from agent_factory.errors import ArgumentError
from agent_factory.factory.agent import model_of, rewired, topology_of, with_model
from agent_factory.hooks.base import AgentMiddleware
from agent_factory.hooks.flows import Flow
from agent_factory.hooks.introspection import layers_of
from agent_factory.runtime.run_layers.pauses import with_handler
from agent_factory.state.history import RAN
from agent_factory.testing.harness import Middleware
from agent_factory.testing.recorded_reviews import PauseRecorder
from agent_factory.testing.recordings import Cassette, RecordingChatModel, record, recorded_error
from agent_factory.testing.redaction import Redact, Redaction
from agent_factory.testing.trajectory_patterns import parse
from agent_factory.testing.trajectory_steps import (
    StepKind,
    TrajectoryStep,
    calls_of,
    recorded_messages,
)
from agent_factory.types import Graph


class EndOfReplay(GraphBubbleUp):
    """The end of a recording, before the run ends. No layer handles the signal."""


def record_agent(
    agent: Graph | Callable[[Any], Any],
    path: str | Path,
    *,
    model: BaseChatModel | None = None,
    inputs: Sequence[object] = (),
    expect: str = "",
    redact: Redact | None = None,
    redact_keys: Sequence[str] = (),
) -> Graph:
    """Return a copy of an agent with recorded runs: answers of the model, results of tools.

    The questions of runs and the decisions of people are recorded, too.

    `replay_folder` and `replay_recording` replay the file, and `replay` takes the answers.
    A recording of `record` lacks the results of tools, so replays take them from the
    requests, where layers may have changed them.

    Args:
        agent: An agent of `create_agent`; or a function of a model that builds an agent, which also
            records the requests of middleware to the model.
        path: The recording. Missing folders are made; the file is replaced at the first answer.
        model: The model for the function.
        inputs: Inputs of the agent, run by run of one thread: states, or
            `Command(resume=...)`. Without inputs, replays begin with the user's messages in the
            requests, and go on with the recorded decisions.
        expect: The expected pattern of the run: see `assert_trajectory`.
        redact: A function to rewrite every written text; replays need the same function.
        redact_keys: Patterns of further keys whose values are not written.

    Raises:
        ArgumentError: `create_agent` did not build `agent`, a function comes without
            `model`, or an input is of another kind.
        PatternError: `expect` cannot be read.

    >>> import tempfile
    >>> from agent_factory import create_agent
    >>> from agent_factory.testing import ScriptedChatModel, replay_recording
    >>> def today() -> str:
    ...     '''Get the date.'''
    ...     return "2026-05-04"
    >>> agent = create_agent(ScriptedChatModel([[{"name": "today"}], "It is May."]), [today])
    >>> folder = tempfile.TemporaryDirectory()
    >>> copy = record_agent(agent, f"{folder.name}/date.jsonl", expect="today < answer")
    >>> _ = copy.invoke({"messages": [("user", "What month is it?")]})
    >>> print(replay_recording(agent, f"{folder.name}/date.jsonl").verdict)
    passed
    >>> folder.cleanup()
    """
    if expect:
        parse(expect)
    builds = not isinstance(agent, CompiledStateGraph) and callable(agent)
    if builds is (model is None):
        problem = "is required if `agent` is a function." if builds else "must be left out."
        hint = "Write record_agent(agent, path), or record_agent(build, path, model=model)."
        raise ArgumentError("model", problem, hint)
    source: Any = agent
    recording = record(
        model or model_of(source),
        path,
        redact=redact,
        redact_keys=redact_keys,
        inputs=inputs,
        expect=expect,
    )
    recording.keep_results()
    copy = source(recording) if builds else with_model(source, recording)
    topology_of(copy)  # raises for other agents than those of create_agent
    copy = with_innermost(copy, _ToolRecorder(recording))
    copy.config = with_handler(None, copy.config, PauseRecorder(recording))
    return copy


def with_innermost(agent: Graph, layer: Middleware, **options: Any) -> Graph:
    """Return a copy of an agent with a layer right around the tools, outside of the plan."""
    layers = (*agent.builder.spec.tool_layers, *layers_of(layer))  # type: ignore[attr-defined]
    return rewired(agent, tool_layers=layers, **options)


class _ToolRecorder(AgentMiddleware):
    """Layer that writes results and errors of tools."""

    def __init__(self, model: RecordingChatModel) -> None:
        self.model = model

    def around_tool(self, request: ToolCallRequest) -> Flow[Any]:
        """Run the tool."""
        try:
            result = yield request
        except Exception as error:
            self.model.write_result(request.tool_call, error)
            raise
        is_message = isinstance(result, ToolMessage)
        # A command holds objects of LangGraph: the next request has the message.
        self.model.write_result(request.tool_call, result if is_message else None)
        return result


class RecordedCall(NamedTuple):
    """A tool call of a recording, with the arguments of the tool, and the result."""

    id: str | None  # None where a layer had changed the id
    key: str
    result: Mapping[str, Any]


class RecordedTools(AgentMiddleware):
    """Layer that answers tool calls from a recording, apart from the tools in `run`."""

    def __init__(self, run: Collection[str]) -> None:
        self.run = run
        self.missing = ""
        # The calls of a turn run in several threads.
        self._lock = Lock()

    def load(self, cassette: Cassette, redact: Redact | None) -> None:
        """Answer from a recording from now on."""
        self.missing = ""
        self._redaction = Redaction(cassette.header.get("redacted_keys", ()), redact)
        self._left = list(_recorded_calls(cassette))
        self._ids = {call.id for call in self._left}
        self._last: dict[str, Mapping[str, Any]] = {}  # by the id of a call

    def around_tool(self, request: ToolCallRequest) -> Flow[Any]:
        """Return the recorded result of a call."""
        call = request.tool_call
        # The tools node reports an unknown tool to the model, now as it did then.
        if request.tool is None or call["name"] in self.run:
            return (yield request)
        id_ = str(call["id"])
        key = _key(call["name"], self._redaction(call["args"]))
        with self._lock:
            equal_calls = [recorded for recorded in self._left if recorded.key == key]
            # By the id first: equal calls of a turn come from their threads in any order.
            fitting = [recorded for recorded in equal_calls if recorded.id == id_] or [
                recorded for recorded in equal_calls if recorded.id is None or id_ not in self._ids
            ]
            if fitting:
                self._left.remove(fitting[0])
                self._last[id_] = fitting[0].result
            elif id_ not in self._last:
                step = TrajectoryStep(StepKind.TOOL, call["name"], 0, call["args"])
                self.missing = self.missing or f"{step.call} was not recorded."
                raise EndOfReplay(self.missing)
            # A call with more repetitions than before gets the last result again.
            result = self._last[id_]
        if "error" in result:
            raise recorded_error(result)
        # With the id of this run, which differs from the recorded id.
        return ToolMessage(**{**result, "tool_call_id": call["id"], "name": call["name"]})


def _recorded_calls(cassette: Cassette) -> Iterator[RecordedCall]:
    """The tool calls of a recording in order; calls without a known result are left out."""
    messages = recorded_messages(cassette.entries)
    answers = {m.tool_call_id: m for m in messages if isinstance(m, ToolMessage)}
    visible = {id_: {"content": m.content, "status": m.status} for id_, m in answers.items()}
    if cassette.header["version"] > 1:
        for line in cassette.results:
            # The tool returned a command, which the next request has as a message.
            if result := line["result"] or visible.get(line["id"]):
                yield RecordedCall(line["id"], _key(line["tool"], line["args"]), result)
        return
    for call in calls_of(messages):
        answer = answers.get(call["id"])
        ran = call if answer is None else answer.response_metadata.get(RAN, call)
        # No request has the results of the last turn.
        result = visible.get(call["id"], {"content": "(not recorded)"})
        yield RecordedCall(call["id"], _key(ran["name"], ran["args"]), result)


def _key(name: str, args: object) -> str:
    return json.dumps([name, args], sort_keys=True, default=str)
