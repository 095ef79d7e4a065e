"""Watched runs: every form of watching, and its events without what differs between any two runs.

Test files import it as `watching`: pytest puts this folder on the path.

A fused run may differ from the run hook by hook in these points, and in no others:

- Its checkpoints are fewer. So the stream modes "checkpoints" and "debug" are not among the forms.
- The steps of a thread are fewer, so `langgraph_step` and the tag `graph:step:N` are counted from
  the first step that a run shows of a graph.
- A hook that calls a graph which interrupts runs once more before the run pauses. So no agent that
  a hook calls interrupts in the tests.
- A sync stream may yield the updates and values of several hooks after all of them have run. So
  only the events are compared, and not what happens between two of them.
- A message that a node writes without an id has one in updates. With full checkpoints it gets that
  later, in place.
- A message that is removed and written again gets another id. Hook by hook, with lean checkpoints,
  it may get the one that it had.
- What a node has written directly, before it pauses, is not in the output of a run that pauses.
  Neither run stores it.
- An update that LangGraph fails to apply, such as the removal of an unknown message, is not shown.
  Hook by hook, some modes show it.
- `runtime.execution_info` is that of a step: runtimes are left out.
- A node that fails, or waits for an answer, in the middle of a step does so in a step that follows,
  as another task. So ids are left out of the note that LangGraph adds to its error, and of the
  interrupt that its span ends with.

Any two runs differ in ids, in times, in the order of parallel tool calls and of their pauses, and
in the frames of the traceback that a tracer keeps with an error.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, fields, is_dataclass
from difflib import ndiff
from itertools import groupby
from pprint import pformat
from typing import Any, Literal

from langchain_core.callbacks import AsyncCallbackHandler, BaseCallbackHandler
from langchain_core.tracers.base import BaseTracer
from langchain_core.tracers.schemas import Run
from langgraph.types import Interrupt
from pydantic import BaseModel

Mode = Literal["sync", "async"]
Event = Any  # JSON: dicts, lists, strings, numbers
AGENT_ENDS = ("on_chain_end", "LangGraph")

# Forms of watching


@dataclass(frozen=True)
class Form:
    """A form of watching: what yields the events of a run, sync and async.

    Args:
        name: The name in reports.
        watch: Runs an agent on an input with a config; None if there is no sync form.
        awatch: The same, async; None if there is no async form.
        queued: Whether its events wait to be read. Messages that wait may get their ids meanwhile.
    """

    name: str
    watch: Callable[[Any, Any, Any], Iterator[Event]] | None
    awatch: Callable[[Any, Any, Any], AsyncIterator[Event]] | None
    queued: bool = False

    def __repr__(self) -> str:
        return self.name


def streams(**options: Any) -> Form:
    """`stream` and `astream` with these options."""

    def watch(agent: Any, input: Any, config: Any) -> Iterator[Event]:
        yield from map(simple, agent.stream(input, config, **options))

    async def awatch(agent: Any, input: Any, config: Any) -> AsyncIterator[Event]:
        async with aclosing(agent.astream(input, config, **options)) as stream:
            async for chunk in stream:
                yield simple(chunk)

    return Form(", ".join(f"{key}={value!r}" for key, value in options.items()), watch, awatch)


def events(version: str) -> Form:
    """`astream_events` with version "v1" or "v2"."""

    async def awatch(agent: Any, input: Any, config: Any) -> AsyncIterator[Event]:
        async with aclosing(agent.astream_events(input, config, version=version)) as stream:
            async for event in stream:
                if version == "v1" and (event["event"], event["name"]) == AGENT_ENDS:
                    event["data"].pop("output")  # the last event, which may be any parallel call's
                yield simple(event)

    return Form(f"astream_events {version}", None, awatch, queued=True)


def _protocol(agent: Any, input: Any, config: Any) -> Iterator[Event]:
    stream = agent.stream_events(input, config, version="v3")
    yield from map(simple, stream)
    yield {"output": simple(stream.output)}


async def _aprotocol(agent: Any, input: Any, config: Any) -> AsyncIterator[Event]:
    stream = await agent.astream_events(input, config, version="v3")
    async for event in stream:
        yield simple(event)
    yield {"output": simple(await stream.output())}


PROTOCOL = Form("stream_events v3", _protocol, _aprotocol, queued=True)


def listens(name: str, make: Callable[[], Any], **options: Any) -> Form:
    """`invoke` and `ainvoke`, or a stream with these options, with a callback handler.

    The handler keeps what it got in `seen`; what a stream yields is another watcher's.
    """

    def watch(agent: Any, input: Any, config: Any) -> Iterator[Event]:
        handler = make()
        config = {**config, "callbacks": [handler]}
        try:
            if options:
                for _ in agent.stream(input, config, **options):
                    pass
            else:
                agent.invoke(input, config)
        finally:
            yield from handler.seen

    async def awatch(agent: Any, input: Any, config: Any) -> AsyncIterator[Event]:
        handler = make()
        config = {**config, "callbacks": [handler]}
        try:
            if options:
                async for _ in agent.astream(input, config, **options):
                    pass
            else:
                await agent.ainvoke(input, config)
        finally:
            for event in handler.seen:
                yield event

    return Form(", ".join([name, *(f"{k}={v!r}" for k, v in options.items())]), watch, awatch)


class Tracer(BaseTracer):
    """Keeps the start and the end of each run of a trace, in their order."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Event] = []

    def _persist_run(self, run: Run) -> None:
        pass

    def _on_run_create(self, run: Run) -> None:
        about = {"name": run.name, "type": run.run_type, "parent": run.parent_run_id}
        self._keep("start", run, {**about, "inputs": run.inputs, "serialized": run.serialized})

    def _on_run_update(self, run: Run) -> None:
        # After the error follows the traceback, whose frames are those of the way it was run.
        error = run.error and run.error.partition("Traceback (most recent call last)")[0]
        error = error and re.sub(r"(Interrupt\(value=.*?), id='[^']*'", r"\1", error)
        happened = [event["name"] for event in run.events]
        inside = sorted(child.name for child in run.child_runs)
        more = {"outputs": run.outputs, "error": error, "events": happened, "inside": inside}
        self._keep("end", run, {"name": run.name, **more})

    def _keep(self, what: str, run: Run, about: dict[str, Any]) -> None:
        extra = {key: value for key, value in run.extra.items() if key != "metadata"}
        known = {"tags": run.tags or [], "metadata": run.metadata, "extra": extra}
        self.seen.append(simple({"event": what, "run_id": run.id, **about, **known}))


_STARTS = ("on_chat_model_start", "on_llm_start", "on_tool_start", "on_retriever_start")
_REST = (
    "on_llm_new_token", "on_llm_end", "on_llm_error", "on_tool_end", "on_tool_error",
    "on_custom_event", "on_retry", "on_text",
)  # fmt: skip
_CHAINS = ("on_chain_start", "on_chain_end", "on_chain_error")


def _handler(base: type[Any], methods: Sequence[str]) -> Callable[[], Any]:
    """Return a class of handlers that keep the calls of these methods, with their arguments."""
    awaited = issubclass(base, AsyncCallbackHandler)

    def method(name: str) -> Any:
        def listen(self: Any, *args: Any, **kwargs: Any) -> None:
            self.seen.append(_called(self, name, args, kwargs))

        async def alisten(self: Any, *args: Any, **kwargs: Any) -> None:
            await asyncio.sleep(0)
            self.seen.append(_called(self, name, args, kwargs))

        return alisten if awaited else listen

    def init(self: Any) -> None:
        self.seen, self.metadata = [], {}

    return type("Listener", (base,), {"__init__": init, **{m: method(m) for m in methods}})


def _called(listener: Any, name: str, args: Any, kwargs: Any) -> Event:
    # The ends of runs come without metadata; they are kept, to know of the end where it belongs.
    metadata = listener.metadata.setdefault(kwargs["run_id"], kwargs.get("metadata") or {})
    return simple({"event": name, "args": args, **kwargs, "metadata": metadata})


ANY_CALL = (*_STARTS, *_REST)
LISTENER = _handler(BaseCallbackHandler, (*ANY_CALL, *_CHAINS))
ASYNC_LISTENER = _handler(AsyncCallbackHandler, (*ANY_CALL, *_CHAINS))
QUIET_LISTENER = _handler(BaseCallbackHandler, ANY_CALL)
ASYNC_QUIET_LISTENER = _handler(AsyncCallbackHandler, ANY_CALL)

STREAMS = [
    streams(stream_mode="updates"),
    streams(stream_mode="values"),
    streams(stream_mode="messages"),
    streams(stream_mode="custom"),
    streams(stream_mode="tasks"),
    streams(stream_mode=["updates", "custom"]),
    streams(stream_mode=["values", "messages"]),
    streams(stream_mode=["messages", "updates", "values", "custom"]),
    streams(),
]
NESTED_STREAMS = [
    streams(stream_mode="updates", subgraphs=True),
    streams(stream_mode="values", subgraphs=True),
    streams(stream_mode="messages", subgraphs=True),
    streams(stream_mode="custom", subgraphs=True),
    streams(stream_mode=["messages", "updates", "values", "custom"], subgraphs=True),
]
SECOND_STREAMS = [
    streams(stream_mode="updates", version="v2"),
    streams(stream_mode="values", version="v2"),
    streams(stream_mode="messages", version="v2"),
    streams(stream_mode=["updates", "custom"], version="v2"),
    streams(stream_mode=["messages", "updates", "values", "custom"], version="v2", subgraphs=True),
]
EVENTS = [events("v2"), events("v1")]
TRACES = [listens("tracer", Tracer), listens("tracer", Tracer, stream_mode="updates")]
LISTENERS = [
    listens("handler of chains", LISTENER),
    listens("async handler of chains", ASYNC_LISTENER),
    listens("handler of chains", LISTENER, stream_mode=["messages", "values"]),
]
QUIET_LISTENERS = [
    listens("handler of models and tools", QUIET_LISTENER),
    listens("async handler of models and tools", ASYNC_QUIET_LISTENER),
]
FORMS = {
    "streams": STREAMS,
    "streams with subgraphs": NESTED_STREAMS,
    "streams in version v2": SECOND_STREAMS,
    "events": EVENTS,
    "protocol": [PROTOCOL],
    "traces": TRACES,
    "callbacks": LISTENERS,
    "callbacks of models and tools": QUIET_LISTENERS,
}

# Events without what differs between any two runs

_TIMES = frozenset({"timestamp", "ts", "start_time", "end_time", "time", "seq"})
"""Keys that are left out. `seq` counts the events of the protocol, whose order is compared."""

_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\b[0-9a-f]{32}\b")
_STEP = re.compile(r"graph:step:(\d+)")
_CALL = re.compile(rf"(?:[^|]+\|)*?tools:({_ID.pattern})(\|.*)?")


def simple(value: Any) -> Any:
    """A value as JSON, at this moment: what comes later may change it in place."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, Mapping):
        pairs = sorted(
            ((str(key), item) for key, item in value.items() if key not in _TIMES), key=_place
        )
        return {key: simple(item) for key, item in pairs}
    if isinstance(value, list | tuple):
        pauses = bool(value) and all(isinstance(item, Interrupt) for item in value)
        ordered = sorted(value, key=lambda item: str(item.value)) if pauses else value
        return [simple(item) for item in ordered]
    if isinstance(value, set | frozenset):
        return sorted(map(str, value))
    if isinstance(value, type):
        return value.__name__
    return _simple_object(value)


def _place(pair: tuple[str, Any]) -> tuple[str, str]:
    """Where a key of a mapping comes; keys that are ids, by their values."""
    key, value = pair
    return ("", str(value)) if _ID.fullmatch(key) else (key, "")


def _simple_object(value: Any) -> Any:
    kind = type(value).__name__
    if isinstance(value, BaseModel):
        parts = {key: getattr(value, key) for key in type(value).model_fields}
        return {"a": kind, **simple({key: part for key, part in parts.items() if part})}
    if isinstance(value, BaseException):
        notes = getattr(value, "__notes__", [])
        text = re.sub(r"(Interrupt\(value=.*?), id='[^']*'", r"\1", str(value))
        return {"a": kind, "text": text, "notes": [note.partition(" and id ")[0] for note in notes]}
    if is_dataclass(value):
        if kind in ("Runtime", "ToolRuntime"):  # they hold the runtime.execution_info of a step
            return {"a": kind}
        parts = {one.name: getattr(value, one.name) for one in fields(value) if one.repr}
        return {"a": kind, **simple(parts)}
    return str(value) if kind == "UUID" else {"a": kind}


def compare(
    form: Form,
    given: Iterable[Event],
    expected: Iterable[Event],
    names: tuple[str, str] = ("fused", "hook by hook"),
) -> str | None:
    """What differs first between a fused run and the one hook by hook; None if nothing does.

    Args:
        form: The form of watching.
        given: The events of the fused run.
        expected: The events of the run hook by hook.
        names: The names of both runs in the report.
    """
    given, expected = list(_sorted_calls(given)), list(_sorted_calls(expected))
    if form.queued or "updates" in form.name:
        _drop_late_ids(given, expected)
    return _difference(_canonical(given), _canonical(expected), *names)


def _drop_late_ids(one: Event, other: Event) -> None:
    """Drop the id of a message that only one of two events shows."""
    if isinstance(one, list) and isinstance(other, list):
        for pair in zip(one, other, strict=False):
            _drop_late_ids(*pair)
    elif isinstance(one, dict) and isinstance(other, dict):
        if "type" in one and one.get("a") == other.get("a") and ("id" in one) != ("id" in other):
            one.pop("id", None)
            other.pop("id", None)
        for key in one.keys() & other.keys():
            _drop_late_ids(one[key], other[key])


def _canonical(seen: Iterable[Event]) -> list[Event]:
    """Events with ids named in the order of their appearance, and steps counted from the first."""
    names: dict[str, str] = {}
    steps: dict[str, int] = {}

    def name(found: re.Match[str]) -> str:
        return names.setdefault(found[0], f"<{len(names)}>")

    def relative(event: Any, base: int | None) -> Any:
        if isinstance(event, str):
            found = _STEP.fullmatch(event)
            if found and base is not None:
                return f"graph:step:+{int(found[1]) - base}"
            return _ID.sub(name, event)
        if isinstance(event, list):
            return [relative(item, base) for item in event]
        if not isinstance(event, dict):
            return event
        metadata = event.get("metadata", event)
        if isinstance(metadata, dict) and "langgraph_step" in metadata:
            graph = metadata.get("langgraph_checkpoint_ns", "").rpartition("|")[0]
            base = steps.setdefault(graph, metadata["langgraph_step"])
        shown = {_ID.sub(name, key): relative(item, base) for key, item in event.items()}
        if isinstance(step := event.get("langgraph_step"), int) and base is not None:
            shown["langgraph_step"] = f"+{step - base}"
        return shown

    return [relative(event, None) for event in seen]


def _sorted_calls(seen: Iterable[Event]) -> Iterator[Event]:
    """Events with those of parallel tool calls sorted by call."""
    marked = [(_call_of(event), event) for event in seen]
    for _, group in groupby(marked, lambda pair: pair[0] is None):
        pairs = list(group)
        branches: dict[Any, list[Event]] = {}
        for branch, event in pairs:
            branches.setdefault(branch, []).append(event)
        kinds = [branch[0] for branch in branches if branch]
        # The task of a call, the update of this call and the pause in it have different keys.
        if len(kinds) > len(set(kinds)) or ("pause" in kinds and len(kinds) > 1):
            yield from (event for part in sorted(branches.values(), key=_blank) for event in part)
        else:
            yield from (event for _, event in pairs)


def _blank(part: list[Event]) -> str:
    return _ID.sub("", json.dumps(part, sort_keys=True))


def _call_of(event: Event) -> tuple[str, str] | None:
    """The task of the tools node that an event belongs to, or the call; None outside of tools."""
    namespaces = _found(event, "langgraph_checkpoint_ns")
    if (namespace := next(namespaces, None)) is not None:
        found = _CALL.fullmatch(namespace)
        return ("task", found[1]) if found else None
    if isinstance(event, dict) and event.get("method") == "tools":
        params = event["params"]
        task = next(_marks(params["namespace"]), None)
        return task or ("call", params["data"]["tool_call_id"])
    return next(_marks(event), None)


def _found(event: Event, key: str) -> Iterator[Any]:
    if isinstance(event, dict):
        if key in event:
            yield event[key]
        event = list(event.values())
    if isinstance(event, list):
        for item in event:
            yield from _found(item, key)


def _marks(event: Event) -> Iterator[tuple[str, str]]:
    if isinstance(event, str):
        if found := _CALL.fullmatch(event):  # in the namespace of an event
            yield "task", found[1]
    elif isinstance(event, list):
        for item in event:
            yield from _marks(item)
    elif isinstance(event, dict):
        if event.get("name") == "tools" and ("triggers" in event or "result" in event):
            yield "task", event["id"]
        if isinstance(call := event.get("call"), str):  # written by a tool or by its layer
            yield "call", call
        if "tools" in event:
            call = next(_found(event["tools"], "tool_call_id"), "")
            yield "call", call
        if pauses := event.get("__interrupt__") or event.get("interrupts"):
            yield "pause", str([pause.get("value") for pause in pauses])
        for item in event.values():
            yield from _marks(item)


# Reports


def _difference(
    given: Sequence[Event], expected: Sequence[Event], this: str, that: str
) -> str | None:
    if given == expected:
        return None
    pairs = zip(given, expected, strict=False)
    shorter = min(len(given), len(expected))
    at = next((at for at, (one, other) in enumerate(pairs) if one != other), shorter)
    before = [f"    {_line(event)}" for event in expected[max(0, at - 3) : at]]
    one, other = ([pformat(e, width=100) for e in part[at : at + 1]] for part in (given, expected))
    lines = ndiff("\n".join(other).splitlines(), "\n".join(one).splitlines())
    return "\n".join(
        [
            f"event {at} differs ({len(expected)} {that}, {len(given)} {this}); before it:",
            *before,
            f"- is {that}, + is {this}:",
            *(line for line in lines if line[0] != "?"),
            f"then {that}:",
            *(f"    {_line(event)}" for event in expected[at + 1 : at + 4]),
            f"then {this}:",
            *(f"    {_line(event)}" for event in given[at + 1 : at + 4]),
        ]
    )


def _line(event: Event) -> str:
    text = json.dumps(event)
    return text if len(text) < 150 else f"{text[:147]}..."
