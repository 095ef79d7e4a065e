"""Results of tools in recordings: written while an agent runs, and given again in replays."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, cast

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import ToolMessage, convert_to_messages
from langgraph.errors import GraphBubbleUp
from langgraph.graph.state import CompiledStateGraph
from langgraph.prebuilt.tool_node import ToolCallRequest

from agent_factory.errors import ArgumentError
from agent_factory.factory.agent import model_of, rewired, topology_of, with_model
from agent_factory.hooks.base import AgentMiddleware
from agent_factory.hooks.flows import Flow
from agent_factory.hooks.introspection import layers_of
from agent_factory.runtime.run_layers.pauses import with_handler
from agent_factory.testing.harness import Middleware
from agent_factory.testing.recorded_reviews import PauseRecorder
from agent_factory.testing.recordings import (
    Cassette,
    RecordingChatModel,
    record,
    recorded_error,
)
from agent_factory.testing.redaction import Redact, Redaction
from agent_factory.testing.trajectory_patterns import parse
from agent_factory.testing.trajectory_steps import StepKind, TrajectoryStep, calls_with_results
from agent_factory.types import Graph


class EndOfReplay(GraphBubbleUp):
    """A recording does not say how the run goes on. No layer handles it."""


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
    """Return a copy of an agent whose runs are recorded: answers of its model, results of tools.

    What its runs wait for is recorded, too, and what people decide.

    `replay_folder` and `replay_recording` replay the file, and `replay` takes the answers from it.
    A recording of `record` lacks the results of tools, so that replays have to take them from the
    requests, where layers may have changed them.

    Args:
        agent: What `create_agent` returned; or a function that builds it from a model, which also
            records what middleware ask that model.
        path: The recording. Missing folders are made; the file is replaced at the first answer.
        model: The model that the function gets.
        inputs: What the agent will get, run by run of one thread: states, or
            `Command(resume=...)`. Without any, replays begin with what users write in the
            requests, and go on with the decisions that were recorded.
        expect: The pattern that the run is to match: see `assert_trajectory`.
        redact: A function that rewrites every text that is written; replays need the same one.
        redact_keys: Patterns of further keys whose values are not written.

    Raises:
        ArgumentError: `agent` was not built by `create_agent`, it is a function and `model` is
            missing, or an input is neither of both.
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
    build: Any = agent if builds else partial(with_model, cast("Graph", agent))
    recording = record(
        model or model_of(cast("Graph", agent)),
        path,
        redact=redact,
        redact_keys=redact_keys,
        inputs=inputs,
        expect=expect,
    )
    recording.keep_results()
    copy = build(recording)
    topology_of(copy)  # raises for what create_agent did not build
    copy = with_innermost(copy, _ToolRecorder(recording))
    copy.config = with_handler(None, copy.config, PauseRecorder(recording))
    return copy


def with_innermost(agent: Graph, layer: Middleware, **options: Any) -> Graph:
    """Return a copy of an agent with one more layer, right around its tools; it is not in the plan.

    Args:
        agent: What `create_agent` returned.
        layer: A middleware with `around_tool` alone.
        **options: As for `rewired`.
    """
    layers = (*agent.builder.spec.tool_layers, *layers_of(layer))  # type: ignore[attr-defined]
    return rewired(agent, tool_layers=layers, **options)


class _ToolRecorder(AgentMiddleware):
    """Layer that writes what tools return and raise."""

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
        # A command holds objects of LangGraph: its message is in the next request.
        self.model.write_result(request.tool_call, result if is_message else None)
        return result


class RecordedTools(AgentMiddleware):
    """Layer that answers tool calls from a recording, except for those of tools in `run`."""

    def __init__(self, run: Collection[str]) -> None:
        self.run = run
        self.missing = ""
        # The calls of one turn run in several threads.
        self._lock = Lock()

    def load(self, cassette: Cassette, redact: Redact | None) -> None:
        """Answer from a recording from now on."""
        self.missing = ""
        self._redaction = Redaction(cassette.header.get("redacted_keys", ()), redact)
        self._has_results = cassette.header["version"] > 1
        self._positions: Counter[tuple[bool, str]] = Counter()
        self._last: dict[str, Any] = {}  # by the id of a call
        self._results: dict[str, list[object]] = defaultdict(list)
        for line in cassette.results:
            key = _key(line["tool"], line["args"], line["id"])
            self._results[key].append(line["result"])
        self._visible_results: dict[str, list[object]] = defaultdict(list)
        for entry in cassette.entries:
            counts: Counter[str] = Counter()
            request = convert_to_messages(entry["request"].get("messages", ()))
            for call, result in calls_with_results(request):
                key = _key(call["name"], call["args"])
                counts[key] += 1
                # The first request with a result has it whole: later ones may have it cleared.
                if counts[key] > len(self._visible_results[key]):
                    self._visible_results[key].append(
                        {"content": result.content, "status": result.status}
                    )
        calls: Counter[str] = Counter()
        self._numbers: dict[str, int] = {}  # of a call among those that equal it, by its id
        for entry in cassette.entries:
            for call in entry["answer"].get("tool_calls", ()):
                key = _key(call["name"], call["args"])
                self._numbers[call["id"]] = calls[key]
                calls[key] += 1
                self._visible_results.setdefault(key, [])  # no request has those of the last turn

    def around_tool(self, request: ToolCallRequest) -> Flow[Any]:
        """Return the recorded result of a call."""
        call = request.tool_call
        # The tools node reports an unknown tool to the model, now as it did then.
        if request.tool is None or call["name"] in self.run:
            return (yield request)
        id_, args = str(call["id"]), self._redaction(call["args"])
        with self._lock:
            # A call that a layer repeats gets its next result, or the last one again.
            if self._has_results:
                # A call whose id was changed while it was recorded has none in the file.
                keys = [_key(call["name"], args, id_), _key(call["name"], args)]
                results = next(filter(None, (self._next(self._results, key) for key in keys)), None)
                if results == [None]:  # the tool returned a command
                    results = self._visible(id_, keys[1])
            else:
                key = _key(call["name"], args)
                results = None if id_ in self._last else self._visible(id_, key)
                if results is None and key in self._visible_results:
                    results = [self._last.get(id_, {"content": "(not recorded)"})]
            if results is None and id_ not in self._last:
                step = TrajectoryStep(StepKind.TOOL, call["name"], 0, call["args"])
                self.missing = self.missing or f"{step.call} was not recorded."
                raise EndOfReplay(self.missing)
            result = self._last[id_] = results[0] if results else self._last[id_]
        if "error" in result:
            raise recorded_error(result)
        # With the id of this run: those of the recording are others.
        return ToolMessage(**{**result, "tool_call_id": call["id"], "name": call["name"]})

    def _visible(self, id_: str, key: str) -> list[Any] | None:
        """The result of a call in the requests, in a list; None if they have none."""
        if id_ not in self._numbers:  # a layer has changed the id
            return self._next(self._visible_results, key)
        # Not the next one: equal calls of one turn come from their threads in any order.
        number = self._numbers[id_]
        return self._visible_results.get(key, [])[number : number + 1] or None

    def _next(self, results: Mapping[str, list[object]], key: str) -> list[Any] | None:
        """The next result of such a call, in a list; None if all are taken."""
        place = results is self._visible_results, key
        number = self._positions[place]
        if number >= len(results.get(key, ())):
            return None
        self._positions[place] += 1
        return results[key][number : number + 1]


def _key(name: str, args: object, id_: str | None = None) -> str:
    return json.dumps([name, args, id_], sort_keys=True, default=str)
