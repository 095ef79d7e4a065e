"""Other libraries for agents, as black boxes: a scripted model each, by their documentation.

Pydantic AI: `FunctionModel`, a model that a function controls
(ai.pydantic.dev/api/models/function). OpenAI Agents SDK: the abstract `Model`
(openai.github.io/openai-agents-python/ref/models/interface). Agno: the abstract `Model`
(docs.agno.com/reference/models/model).
"""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from types import new_class
from typing import Any

from benchmarks.contenders import Factory, Kind
from benchmarks.runs import until_done
from benchmarks.savers import Kept, Mode, Saver

PYDANTIC_AI, OPENAI_AGENTS, AGNO = "pydantic-ai", "openai-agents", "agno"

DONE = "Done."
"""The last answer. An empty one would be asked for again."""

PLUGIN = "temporalio-langgraph"
"""Temporal's plugin for LangGraph, which the group `temporal` measures."""

MODULES = {PYDANTIC_AI: "pydantic_ai", OPENAI_AGENTS: "agents", AGNO: "agno"}
"""What to import for each."""

NOT_INSTALLED = "not installed"


def others() -> list[Factory]:
    """Those of them that are installed."""
    return [library for library in libraries() if find_spec(MODULES[library.name])]


def libraries() -> list[Other]:
    """All of them."""
    return [
        Other(
            PYDANTIC_AI,
            PydanticAI,
            form="a `Hooks` capability each",
            lacks={"SQLite": "has no store", "kill": "has no store"},
        ),
        Other(OPENAI_AGENTS, OpenAIAgents, form="`RunHooks`: one object calls them in turn"),
        Other(
            AGNO,
            Agno,
            form="a tool hook each; none at the model",
            lacks={"traced": "has none built in"},
        ),
    ]


@dataclass(frozen=True, slots=True)
class Other(Factory):
    """A library that does not build graphs. Its agents run and stream as those here do."""

    def middleware(self, kind: Kind, number: int) -> list[Any]:
        """As many functions as middleware would be; each agent puts them in its own form."""
        return list(range(number))

    @contextmanager
    def opened(self, saver: Saver, mode: Mode, runner: asyncio.Runner) -> Iterator[Kept]:
        """A store of the library, with a file if it has one."""
        if saver is Saver.NONE:
            yield Kept(None, lambda: None)
            return
        with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            file = str(Path(folder, "threads.db")) if saver is Saver.SQLITE else None
            store: Store = self.create_agent.store(file)  # type: ignore[attr-defined]  # a class of here
            try:
                yield Kept(store, store.begin)
            finally:
                until_done(runner, store.close())


class Store:
    """Where a library keeps a thread: each run of the benchmark gets a new one.

    Args:
        value: The database of the library, or a function that makes the session of a thread.
    """

    def __init__(self, value: Any = None) -> None:
        self.value = value
        self._session: Any = None
        self._numbers = count()
        self.begin()

    def begin(self) -> None:
        """Leave the thread, and take a new one."""
        if self._session is not None:
            self._session.close()
        self._session = None
        self.thread = f"thread {next(self._numbers)}"
        self.messages: Any = None

    @property
    def session(self) -> Any:
        """The session of the thread, where a library has one."""
        if self._session is None:
            self._session = self.value(self.thread)
        return self._session

    async def close(self) -> None:
        """Close its files."""
        self.begin()
        if hasattr(self.value, "close"):
            result = self.value.close()
            if inspect.isawaitable(result):
                await result


class PydanticAI:
    """An agent of Pydantic AI that behaves as a graph does here.

    Args:
        model: Says how many turns a run takes, and how many calls a turn makes.
        tools: Plain functions.
        middleware: Numbers, with a capability for each.
        checkpointer: A store, or None.
        approval: The tools wait for a person.
    """

    store = Store

    def __init__(
        self,
        model: Any,
        tools: Sequence[Any],
        *,
        middleware: Sequence[int] = (),
        checkpointer: Store | None = None,
        approval: bool = False,
    ) -> None:
        self._library: Any = import_module("pydantic_ai")
        self._tracing: Any = None
        library, self._script, self._store = self._library, model, checkpointer
        hooks: Any = import_module("pydantic_ai.capabilities").Hooks

        async def before(context: Any, request_context: Any) -> Any:
            return request_context

        async def after(context: Any, *, request_context: Any, response: Any) -> Any:
            return response

        kind: Any = import_module("pydantic_ai.models.function")
        self._delta: Any = kind.DeltaToolCall
        self._agent: Any = library.Agent(
            kind.FunctionModel(self._answer, stream_function=self._stream),
            tools=[library.Tool(function, requires_approval=approval) for function in tools],
            output_type=[str, library.DeferredToolRequests] if approval else str,
            capabilities=[
                hooks(before_model_request=before, after_model_request=after) for _ in middleware
            ],
        )

    # A coroutine function: a plain one would be called in a thread.
    async def _answer(self, messages: list[Any], info: Any) -> Any:
        library = self._library
        parts = [
            library.ToolCallPart("add", arguments, tool_call_id=call)
            for call, arguments in await _calls_at_gate(self._script, len(messages) // 2)
        ]
        return library.ModelResponse(parts=parts or [library.TextPart(DONE)])

    async def _stream(self, messages: list[Any], info: Any) -> Any:
        calls = await _calls_at_gate(self._script, len(messages) // 2)
        for index, (call, arguments) in enumerate(calls):
            text = json.dumps(arguments)
            yield {index: self._delta(name="add", json_args=text, tool_call_id=call)}
        if not calls:
            yield DONE

    def invoke(self, asked: Any, config: Any = None) -> Any:
        """Run until the model calls no tool."""
        return self._agent.run_sync(_question(asked))

    async def ainvoke(self, asked: Any, config: Any = None, **options: Any) -> Any:
        """Run until the model calls no tool; with a store, after what the thread has."""
        store = self._store
        if store is None:
            return await self._agent.run(_question(asked), **options)
        result = await self._agent.run(_question(asked), message_history=store.messages, **options)
        store.messages = result.all_messages()
        return result

    async def waiting(self, asked: Any) -> Any:
        """What the caller keeps while a run waits for a person."""
        result = await self.ainvoke(asked)
        return result.all_messages(), result.output

    async def streamed(self, asked: Any, config: Any) -> list[Any]:
        """The events of a run."""
        async with self._agent.run_stream_events(_question(asked)) as events:
            return [event async for event in events]

    async def traced(self, asked: Any, config: Any) -> list[Any]:
        """The spans of a run, by OpenTelemetry's SDK."""
        if self._tracing is None:
            self._tracing = self._tracer()
        spans, capability = self._tracing
        await self.ainvoke(asked, capabilities=[capability])
        found: list[Any] = list(spans.get_finished_spans())
        spans.clear()
        return found

    def _tracer(self) -> tuple[Any, Any]:
        sdk: Any = import_module("opentelemetry.sdk.trace")
        export: Any = import_module("opentelemetry.sdk.trace.export")
        memory: Any = import_module("opentelemetry.sdk.trace.export.in_memory_span_exporter")
        capabilities: Any = import_module("pydantic_ai.capabilities")
        settings: Any = import_module("pydantic_ai.models.instrumented").InstrumentationSettings
        spans, provider = memory.InMemorySpanExporter(), sdk.TracerProvider()
        provider.add_span_processor(export.SimpleSpanProcessor(spans))
        tracing = settings(tracer_provider=provider)
        return spans, capabilities.Instrumentation(settings=tracing)


class OpenAIAgents:
    """An agent of the OpenAI Agents SDK that behaves as a graph does here. It sends no traces.

    Args:
        model: Says how many turns a run takes, and how many calls a turn makes.
        tools: Plain functions.
        middleware: Numbers: so many functions are called before and after the model.
        checkpointer: A store, or None.
        approval: The tools wait for a person.
    """

    @staticmethod
    def store(file: str | None) -> Store:
        """A session for each thread, in a file or in SQLite's memory."""
        session: Any = import_module("agents").SQLiteSession
        return Store(lambda thread: session(thread, *([file] if file else [])))

    def __init__(
        self,
        model: Any,
        tools: Sequence[Any],
        *,
        middleware: Sequence[int] = (),
        checkpointer: Store | None = None,
        approval: bool = False,
    ) -> None:
        library: Any = import_module("agents")
        self._library, self._store = library, checkpointer
        functions = [library.function_tool(each, needs_approval=approval) for each in tools]
        scripted = _openai_model(library, model)
        self._agent: Any = library.Agent(name="counter", model=scripted, tools=functions)
        self._runner: Any = library.Runner
        self._how: Any = {
            "max_turns": model.turns + 1,
            "run_config": library.RunConfig(tracing_disabled=True),
        }
        if middleware:
            self._how["hooks"] = _openai_hooks(library, len(middleware))

    def invoke(self, asked: Any, config: Any = None) -> Any:
        """Run until the model calls no tool."""
        return self._runner.run_sync(self._agent, _question(asked), **self._how)

    async def ainvoke(self, asked: Any, config: Any = None, **options: Any) -> Any:
        """Run until the model calls no tool; with a store, after what the thread has."""
        how = {**self._how, **options}
        if self._store is not None:
            how["session"] = self._store.session
        return await self._runner.run(self._agent, _question(asked), **how)

    async def waiting(self, asked: Any) -> Any:
        """What the caller keeps while a run waits for a person."""
        return (await self.ainvoke(asked)).to_state()

    async def items(self) -> list[Any]:
        """What the session of the thread has."""
        found: list[Any] = await self._store.session.get_items() if self._store else []
        return found

    async def streamed(self, asked: Any, config: Any) -> list[Any]:
        """The events of a run."""
        run = self._runner.run_streamed(self._agent, _question(asked), **self._how)
        return [event async for event in run.stream_events()]

    async def traced(self, asked: Any, config: Any) -> list[Any]:
        """The spans of a run, which a processor notes."""
        library, spans = self._library, []

        def note(self: Any, span: Any) -> None:
            spans.append(span)

        names = ("on_trace_start", "on_trace_end", "on_span_start", "force_flush", "shutdown")
        silent = {name: lambda *_: None for name in names}
        processor = type("Notes", (library.TracingProcessor,), {**silent, "on_span_end": note})()
        library.set_trace_processors([processor])
        try:
            await self.ainvoke(asked, run_config=library.RunConfig(tracing_disabled=False))
        finally:
            library.set_trace_processors([])
        return spans


class Agno:
    """An agent of Agno that behaves as a graph does here. It sends no telemetry.

    Args:
        model: Says how many turns a run takes, and how many calls a turn makes.
        tools: Plain functions.
        middleware: Numbers, with a hook around tool calls for each.
        checkpointer: A store, or None.
        approval: The tools wait for a person.
    """

    @staticmethod
    def store(file: str | None) -> Store:
        """A database, in a file or in memory."""
        if file is None:
            return Store(import_module("agno.db.in_memory").InMemoryDb())
        return Store(import_module("agno.db.sqlite").AsyncSqliteDb(db_file=file))

    def __init__(
        self,
        model: Any,
        tools: Sequence[Any],
        *,
        middleware: Sequence[int] = (),
        checkpointer: Store | None = None,
        approval: bool = False,
    ) -> None:
        library: Any = import_module("agno.agent")
        confirmed: Any = import_module("agno.tools").tool(requires_confirmation=True)
        self._store = checkpointer
        saved = {"db": checkpointer.value, "add_history_to_context": True} if checkpointer else {}
        self._agent: Any = library.Agent(
            model=_agno_model(model),
            tools=[confirmed(each) for each in tools] if approval else list(tools),
            tool_hooks=[_agno_hook() for _ in middleware] or None,
            telemetry=False,
            # The whole tool run is in the thread as soon as its batch of calls has ended.
            checkpoint="tool-batch" if checkpointer else None,
            **saved,
        )

    def invoke(self, asked: Any, config: Any = None) -> Any:
        """Run until the model calls no tool."""
        return self._agent.run(_question(asked))

    async def ainvoke(self, asked: Any, config: Any = None, **options: Any) -> Any:
        """Run until the model calls no tool; with a store, after what the thread has."""
        if self._store is not None:
            options["session_id"] = self._store.thread
        return await self._agent.arun(_question(asked), **options)

    async def continued(self, run: str) -> Any:
        """Go on with a run of which a process died."""
        options = {"run_id": run, "session_id": self._store.thread if self._store else None}
        return await self._agent.acontinue_run(**options)

    async def messages(self) -> list[Any]:
        """The messages of the thread."""
        thread = self._store.thread if self._store else None
        found: list[Any] = await self._agent.aget_session_messages(session_id=thread)
        return found

    async def waiting(self, asked: Any) -> Any:
        """A run of a new thread that waits for a person; the store keeps it."""
        if self._store is not None:
            self._store.begin()
        await self.ainvoke(asked)

    async def streamed(self, asked: Any, config: Any) -> list[Any]:
        """The events of a run."""
        events = self._agent.arun(_question(asked), stream=True, stream_events=True)
        return [event async for event in events]


def _openai_model(library: Any, script: Any) -> Any:
    kinds: Any = import_module("openai.types.responses")

    async def items(input: Any) -> list[Any]:
        turn = 0 if isinstance(input, str) else (len(input) - 1) // (2 * script.calls)
        calls = [
            kinds.ResponseFunctionToolCall(
                type="function_call", name="add", arguments=json.dumps(arguments), call_id=call
            )
            for call, arguments in await _calls_at_gate(script, turn)
        ]
        return calls or [_openai_end(kinds)]

    async def get_response(
        self: Any, system_instructions: Any, input: Any, *_: Any, **__: Any
    ) -> Any:
        output = await items(input)
        return library.ModelResponse(output=output, usage=library.Usage(), response_id=None)

    async def stream_response(
        self: Any, system_instructions: Any, input: Any, *_: Any, **__: Any
    ) -> Any:
        response = kinds.Response(
            id="response",
            created_at=0,
            model="scripted",
            object="response",
            output=await items(input),
            parallel_tool_calls=True,
            tool_choice="auto",
            tools=[],
        )
        yield kinds.ResponseCompletedEvent(
            type="response.completed", response=response, sequence_number=0
        )

    methods = {"get_response": get_response, "stream_response": stream_response}
    return type("Scripted", (library.Model,), methods)()


def _openai_end(kinds: Any) -> Any:
    text = kinds.ResponseOutputText(type="output_text", text=DONE, annotations=[])
    return kinds.ResponseOutputMessage(
        id="end", type="message", role="assistant", status="completed", content=[text]
    )


def _openai_hooks(library: Any, number: int) -> Any:
    async def function() -> None:
        return None

    async def in_turn(self: Any, *_: Any) -> None:
        for _number in range(number):
            await function()

    methods = {"on_llm_start": in_turn, "on_llm_end": in_turn}
    # Its base is a generic alias, which `type` does not take.
    return new_class("Hooks", (library.RunHooks,), exec_body=lambda body: body.update(methods))()


def _agno_model(script: Any) -> Any:
    base: Any = import_module("agno.models.base").Model
    response: Any = import_module("agno.models.response").ModelResponse

    def turn(messages: Sequence[Any]) -> int:
        calls: int = script.calls
        return (len(messages) - 1) // (1 + calls)

    def answer(calls: Calls) -> Any:
        if not calls:
            return response(role="assistant", content=DONE)
        functions = [
            {
                "id": call,
                "type": "function",
                "function": {"name": "add", "arguments": json.dumps(arguments)},
            }
            for call, arguments in calls
        ]
        return response(role="assistant", content="", tool_calls=functions)

    def invoke(self: Any, messages: Any, *_: Any, **__: Any) -> Any:
        return answer(_calls(script, turn(messages)))

    async def ainvoke(self: Any, messages: Any, *_: Any, **__: Any) -> Any:
        return answer(await _calls_at_gate(script, turn(messages)))

    def invoke_stream(self: Any, messages: Any, *_: Any, **__: Any) -> Any:
        yield answer(_calls(script, turn(messages)))

    async def ainvoke_stream(self: Any, messages: Any, *_: Any, **__: Any) -> Any:
        yield answer(await _calls_at_gate(script, turn(messages)))

    def parsed(self: Any, response: Any, **_: Any) -> Any:
        return response

    methods = {
        "invoke": invoke,
        "ainvoke": ainvoke,
        "invoke_stream": invoke_stream,
        "ainvoke_stream": ainvoke_stream,
        "_parse_provider_response": parsed,
        "_parse_provider_response_delta": parsed,
    }
    return type("Scripted", (base,), methods)(id="scripted")


def _agno_hook() -> Callable[..., Awaitable[Any]]:
    async def hook(function_name: str, function_call: Any, arguments: dict[str, Any]) -> Any:
        result = function_call(**arguments)
        return await result if inspect.isawaitable(result) else result

    return hook


Calls = list[tuple[str, Mapping[str, int]]]
"""The calls of one answer: their ids and arguments. An answer without calls ends the run."""


def _calls(script: Any, turn: int) -> Calls:
    number = script.calls if turn < script.turns else 0
    return [(f"call_{turn}_{index}", {"a": turn, "b": index}) for index in range(number)]


async def _calls_at_gate(script: Any, turn: int) -> Calls:
    """The same, and the last answer waits until its gate opens, if there is one."""
    if script.gate is not None and turn >= script.turns:
        await script.gate.wait()
    return _calls(script, turn)


def _question(asked: Any) -> str:
    return str(asked["messages"][0][1])
