"""Errors: each has a subject, a reason, a code, and a hint or a note that says what to write."""

from __future__ import annotations

import asyncio
import inspect
import pickle
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolRuntime
from stack_agents import agent_of, kept_agent

from agent_factory import (
    AgentFactoryError,
    AgentMiddleware,
    HistoryError,
    OutputError,
    SpecError,
    TurnError,
    after_agent,
    before_model,
    create_agent,
    dynamic_prompt,
    errors,
    hook_config,
    wrap_model_call,
    wrap_tool_call,
)
from agent_factory import structured_output as output
from agent_factory.errors import (
    ArgumentError,
    BadReturn,
    BuildWarning,
    PathNotSupported,
    SpecErrors,
    describe,
    raise_all,
)
from agent_factory.middleware import ToolErrorMiddleware, ToolRetryMiddleware
from agent_factory.testing import ScriptedChatModel
from samples import THREAD, User, add, tool_results
from tables import each


def _all_classes() -> list[type[AgentFactoryError]]:
    found = {
        value
        for module in (errors, output)
        for value in vars(module).values()
        if inspect.isclass(value) and issubclass(value, AgentFactoryError)
    }
    return sorted(found, key=lambda cls: cls.__name__)


ALL = _all_classes()


@each("cls", ALL, ids=lambda cls: cls.__name__)
def test_every_mistake_is_of_the_build_or_of_the_run_by_type_and_code(
    cls: type[AgentFactoryError],
) -> None:
    assert (cls.__doc__ or "").strip().endswith((".", ")"))
    if cls is AgentFactoryError:
        return
    assert cls.__doc__ != AgentFactoryError.__doc__
    of_build = issubclass(cls, SpecError)
    assert of_build != issubclass(cls, TurnError)
    assert issubclass(cls, ValueError if of_build else RuntimeError)
    assert len(cls.code) == 5
    assert cls.code[2] == ("2" if issubclass(cls, BuildWarning) else "1" if of_build else "3")
    assert cls.code.startswith("AF")


def test_every_error_class_has_its_own_code() -> None:
    """Only a report of several, and a closer name for one, share the code of their parent."""
    own = {cls.__name__: cls.code for cls in ALL if "code" in vars(cls)}
    assert len(set(own.values())) == len(own)
    assert {cls.__name__ for cls in ALL} - own.keys() == {"SpecErrors", "HookPathNotSupported"}


@each(
    "reason, text",
    [
        ("cannot be read: no such file", "cannot be read: no such file. Write it."),
        ("cannot be read: no such file..", "cannot be read: no such file. Write it."),
        ("cannot be read: and so on...", "cannot be read: and so on... Write it."),
        ("cannot be read: why?", "cannot be read: why? Write it."),
    ],
)
def test_a_reason_is_a_sentence_also_before_a_hint(reason: str, text: str) -> None:
    """It often ends with the text of another exception, with or without a full stop."""
    assert str(TurnError("it", reason, "Write it.")) == f"[AF300] it: {text}"
    alone = TurnError("it", reason)
    assert f"{alone} Write it." == f"[AF300] it: {text}"


def test_mistakes_of_a_build_arrive_together_and_one_as_itself() -> None:
    raise_all([])
    one, other = SpecError("one", "is wrong."), SpecError("other", "is wrong too.")
    with pytest.raises(SpecError) as alone:
        raise_all([one])
    assert alone.value is one
    assert one.errors == (one,)
    with pytest.raises(SpecErrors) as caught:
        raise_all([one, other])
    assert caught.value.errors == (one, other)
    assert "2 mistakes" in str(caught.value)
    assert all(f"- {error}" in str(caught.value) for error in (one, other))


def test_structured_output_errors_keep_the_contracts_arguments() -> None:
    """The arguments of LangChain: MultipleStructuredOutputsError(tool_names, ai_message)."""
    message = AIMessage("both")
    several = output.MultipleStructuredOutputsError(["One", "Two"], message)
    assert several.tool_names == ["One", "Two"]
    source = ValueError("age: too young")
    invalid = output.StructuredOutputValidationError("Person", source, message)
    assert (invalid.tool_name, invalid.source) == ("Person", source)
    assert "age: too young" in str(invalid)
    retried = OutputError("the model", "would not.", ai_message=message, retries=3)
    assert (retried.ai_message, retried.retries) == (message, 3)
    for error in (several, invalid):
        assert isinstance(error, output.StructuredOutputError)
        assert isinstance(error, OutputError)
        assert error.ai_message is message


class BrokenRepr:
    def __repr__(self) -> str:
        raise RuntimeError("no")


def test_a_value_is_described_by_its_type_and_a_short_look_at_it() -> None:
    assert [*map(describe, (3, "x", None))] == ["int (3)", "str ('x')", "NoneType (None)"]
    shown = describe("x" * 1000)
    assert len(shown) <= 90
    assert shown.endswith("...)")
    assert "BrokenRepr" in describe(BrokenRepr())


@each("cls", ALL, ids=lambda cls: cls.__name__)
def test_every_mistake_travels_between_processes(cls: type[AgentFactoryError]) -> None:
    """A worker's error must arrive at its parent as what it is."""
    made: dict[str, Any] = {
        "SpecErrors": lambda: SpecErrors([SpecError("a", "b."), HistoryErrorLike]),
        "StructuredOutputError": lambda: output.StructuredOutputError("a", "b.", AIMessage("c")),
        "MultipleStructuredOutputsError": lambda: output.MultipleStructuredOutputsError(
            ["a"], AIMessage("c")
        ),
        "StructuredOutputValidationError": lambda: output.StructuredOutputValidationError(
            "a", ValueError("b"), AIMessage("c")
        ),
        "MissingStructuredOutputError": lambda: output.MissingStructuredOutputError(
            ["a"], AIMessage("c"), "d"
        ),
    }
    error = made.get(cls.__name__, lambda: cls("a", "b.", "c"))()
    back = pickle.loads(pickle.dumps(error))
    assert type(back) is cls
    assert str(back) == str(error)


HistoryErrorLike = SpecError("a", "b.")


def test_a_key_error_shows_its_message_without_quotes() -> None:
    """KeyError alone would show it in quotes."""
    assert str(errors.UnknownStateKey("A", "wrote.")) == "[AF309] A: wrote."
    assert issubclass(HistoryError, TurnError)


def notes(*mistakes: SpecError) -> list[str]:
    with pytest.raises(SpecError) as error:
        raise_all(mistakes)
    copy = pickle.loads(pickle.dumps(error.value))
    found: list[str] = getattr(error.value, "__notes__", [])
    assert getattr(copy, "__notes__", []) == found
    return found


def test_an_error_of_a_build_names_the_command_that_explains_its_code() -> None:
    jump, order = SpecError("A", "is wrong.", code="AF110"), BuildWarning("B", "is.", code="AF204")
    assert notes(jump) == ["An example: agent-factory explain AF110"]
    assert notes(jump, order, jump) == [
        "An example: agent-factory explain AF110",
        "An example: agent-factory explain AF204",
    ]
    assert notes(errors.ArgumentError("`name`", "must be a string.")) == []


GO: Any = {"messages": "Go"}
CALL = [{"name": "add", "args": {"a": 1, "b": 2}}]


def run(methods: dict[str, Any], call: Any, **options: Any) -> Any:
    middleware = type("Slip", (AgentMiddleware,), methods)()
    tools = options.pop("tools", [add])
    model = ScriptedChatModel([CALL, "Done"])
    stack = [middleware] if methods else []
    return call(create_agent(model, tools, middleware=stack, **options), GO)


def start(agent: Any, given: Any) -> Any:
    return asyncio.run(agent.ainvoke(given))


def flow(self: Any, request: Any) -> Any:
    yield request


def wrap(self: Any, request: Any, handler: Any) -> None:
    handler(request)


@each("kind", ["model", "tool"])
@each("method", [flow, wrap])
def test_a_layer_without_return_should_return(kind: str, method: Any) -> None:
    name = f"around_{kind}" if method is flow else f"wrap_{kind}_call"
    with pytest.raises(BadReturn) as caught:
        run({name: method}, lambda agent, given: agent.invoke(given))
    assert "return response" in caught.value.hint
    assert caught.value.subject == f"Slip.{name}"


DROPPED: list[Any] = []


@pytest.fixture
def dropped() -> Iterator[None]:
    """Await what the layers forgot to await, so that Python does not warn about it."""
    yield
    for coroutine in DROPPED:
        with suppress(Exception):
            asyncio.run(coroutine)
    DROPPED.clear()


async def returns_coroutine(self: Any, request: Any, handler: Any) -> Any:
    DROPPED.append(handler(request))
    return DROPPED[-1]


async def reads_coroutine(self: Any, request: Any, handler: Any) -> Any:
    DROPPED.append(handler(request))
    return DROPPED[-1].result


async def hook_returns_coroutine(self: Any, state: Any, runtime: Any) -> Any:
    DROPPED.append(asyncio.sleep(0))
    return DROPPED[-1]


@pytest.mark.usefixtures("dropped")
@each(
    "methods, hint",
    [
        ({"awrap_model_call": returns_coroutine}, "await handler(request)"),
        ({"awrap_tool_call": returns_coroutine}, "await handler(request)"),
        ({"abefore_model": hook_returns_coroutine}, "`await`"),
    ],
)
def test_a_layer_or_a_hook_that_returns_a_coroutine_should_await(methods: Any, hint: str) -> None:
    with pytest.raises(BadReturn) as caught:
        run(methods, start)
    assert hint in caught.value.hint


@tool("add")
async def tool_reads_coroutine(a: int, b: int) -> Any:
    """Add."""
    DROPPED.append(asyncio.sleep(0))
    return DROPPED[-1].result


@pytest.mark.usefixtures("dropped")
@each("fused", [False, True])
@each(
    "methods",
    [
        {"awrap_model_call": reads_coroutine},
        {"awrap_tool_call": reads_coroutine},
        {"tools": [tool_reads_coroutine]},
    ],
)
def test_reading_from_a_coroutine_gets_a_note(methods: Any, fused: bool) -> None:
    with pytest.raises(AttributeError) as caught:
        run(methods, start, fused=fused, tools=[] if "tools" in methods else [add])
    (note,) = (n for n in caught.value.__notes__ if "await" in n)
    assert "await handler(request)" in note


def flow_reads(self: Any, request: Any) -> Any:
    return (yield request.override(system_prompt=request.runtime.context.name))


def tool_flow_reads(self: Any, request: Any) -> Any:
    assert request.runtime.context.name
    return (yield request)


@tool("add")
def tool_reads(a: int, b: int, runtime: ToolRuntime[Any, Any]) -> str:
    """Add."""
    return str(runtime.context.name)


def hook_reads(self: Any, state: Any, runtime: Any) -> Any:
    return {"messages": [runtime.context.name]}


def flow_stores(self: Any, request: Any) -> Any:
    request.runtime.store.put(("notes",), "a", {})
    return (yield request)


def tool_flow_stores(self: Any, request: Any) -> Any:
    request.runtime.store.get(("notes",), "a")
    return (yield request)


@tool("add")
def tool_stores(a: int, b: int, runtime: ToolRuntime[Any, Any]) -> str:
    """Add."""
    store: Any = runtime.store
    return str(store.search(("notes",)))


def hook_stores(self: Any, state: Any, runtime: Any) -> Any:
    runtime.store.put(("notes",), "a", {})


async def ahook_stores(self: Any, state: Any, runtime: Any) -> Any:
    await runtime.store.aput(("notes",), "a", {})


def hook_takes_store(self: Any, state: Any, store: Any) -> Any:
    store.put(("notes",), "a", {})


NO_CONTEXT = "This run has no context. Pass one: agent.invoke(..., context=User(...))."
NO_STORE = "This agent has no store. Pass one: create_agent(..., store=InMemoryStore())."


@each("fused", [False, True])
@each(
    "methods, note",
    [
        ({"before_model": hook_reads}, NO_CONTEXT),
        ({"around_model": flow_reads}, NO_CONTEXT),
        ({"around_tool": tool_flow_reads}, NO_CONTEXT),
        ({"tools": [tool_reads]}, NO_CONTEXT),
        ({"before_model": hook_stores}, NO_STORE),
        ({"before_model": hook_stores, "abefore_model": ahook_stores}, NO_STORE),
        ({"after_model": hook_takes_store}, NO_STORE),
        ({"around_model": flow_stores}, NO_STORE),
        ({"around_tool": tool_flow_stores}, NO_STORE),
        ({"tools": [tool_stores]}, NO_STORE),
    ],
)
def test_a_missing_context_or_store_gets_a_note(
    call: Any, methods: Any, note: str, fused: bool
) -> None:
    tools = [] if "tools" in methods else [add]
    for options in [{"context_schema": User}, {}][: 1 + (note == NO_STORE)]:
        with pytest.raises(AttributeError) as caught:
            run(methods, call, fused=fused, tools=tools, **options)
        assert [n for n in caught.value.__notes__ if "Pass one" in n] == [note]


def raises(self: Any, state: Any, runtime: Any) -> Any:
    raise AttributeError("nothing to do with it")


@each(
    "hook, options",
    [
        (lambda self, state, runtime: state.get("missing").get("key"), {}),
        (raises, {"context_schema": User}),
    ],
)
def test_other_errors_get_no_note(call: Any, hook: Any, options: Any) -> None:
    with pytest.raises(AttributeError) as caught:
        run({"before_model": hook}, call, **options)
    notes = "".join(getattr(caught.value, "__notes__", []))
    assert "store=" not in notes
    assert "context=" not in notes


def look(self: Any, state: Any, runtime: Any) -> None: ...


@each("fused", [False, True])
@each("handled", [True, False, "failed", (NotImplementedError,)])
@each("catcher", [None, ToolErrorMiddleware(), ToolRetryMiddleware()])
@pytest.mark.filterwarnings("ignore::agent_factory.AgentFactoryWarning")
def test_a_tool_without_a_sync_function_is_named(fused: bool, handled: Any, catcher: Any) -> None:
    """The model could not do anything about it."""

    @tool("add")
    async def later(a: int, b: int) -> int:
        """Add."""
        return a + b

    model = ScriptedChatModel([CALL] * 3)
    options: Any = {"fused": fused, "handle_tool_errors": handled}
    agent = create_agent(model, [later], middleware=[catcher] if catcher else [], **options)
    with pytest.raises(PathNotSupported) as caught:
        agent.invoke(GO)
    assert caught.value.subject == "add"
    assert "ainvoke" in caught.value.hint


@each("fused", [False, True])
def test_an_async_tool_may_raise_what_a_missing_function_raises(fused: bool) -> None:
    @tool("add")
    async def later(a: int, b: int) -> int:
        """Add."""
        raise NotImplementedError("one day")

    agent = agent_of([CALL, "Done"], tools=[later], handle_tool_errors=True, fused=fused)
    assert "one day" in tool_results(start(agent, GO))[0][0]


@each("fused", [False, True])
@each("streamed", [False, True])
@each("config, kind", [(None, ValueError), ({"configurable": {"user": "1"}}, KeyError)])
def test_a_missing_thread_id_gets_a_note(
    call: Any, collect: Any, config: Any, kind: Any, streamed: bool, fused: bool
) -> None:
    agent = create_agent(ScriptedChatModel(["Hi"]), checkpointer=InMemorySaver(), fused=fused)
    with pytest.raises(kind, match="thread_id") as caught:
        (collect if streamed else call)(agent, GO, config)
    (note,) = caught.value.__notes__
    assert note == (
        "The agent has a checkpointer, so each run needs the name of its thread. Write "
        'agent.invoke(..., {"configurable": {"thread_id": "1"}}).'
    )


@each("fused", [False, True])
def test_a_thread_id_may_come_from_where_langgraph_takes_it(call: Any, fused: bool) -> None:
    agent: Any = kept_agent(ScriptedChatModel(["Hi"] * 5), fused=fused)
    assert call(agent, GO, THREAD)
    assert call(agent, GO, {"thread_id": "1"})
    assert call(agent.with_config(THREAD), GO)

    def parent(**options: Any) -> Any:
        graph: Any = StateGraph(MessagesState)
        graph.add_node("agent", agent)
        graph.add_edge(START, "agent")
        return graph.compile(**options)

    assert call(parent(checkpointer=InMemorySaver()), GO, THREAD)
    assert call(parent(), GO)  # the agent runs without a thread there


@each("service", ["checkpointer", "store"])
@each(
    "made, write",
    [
        (SqliteSaver.from_conn_string("x"), "with SqliteSaver.from_conn_string(...) as {}:"),
        (
            AsyncSqliteSaver.from_conn_string("x"),
            "async with AsyncSqliteSaver.from_conn_string(...) as {}:",
        ),
        (nullcontext(), "with ... as {}:"),
    ],
)
def test_a_service_that_has_to_be_entered_is_explained(service: str, made: Any, write: str) -> None:
    with pytest.raises(ArgumentError, match="got a context manager") as caught:
        create_agent(ScriptedChatModel([]), **{service: made})
    assert caught.value.subject == service
    assert caught.value.hint == f"Write `{write.format(service)}`, and build the agent inside."


@each(
    "decorator, given, write",
    [
        (before_model, "end", "@before_model(can_jump_to=['end'])"),
        (after_agent, ["model", "end"], "@after_agent(can_jump_to=['model', 'end'])"),
        (hook_config, "end", "@hook_config(can_jump_to=['end'])"),
        (hook_config, ("end",), "@hook_config(can_jump_to=['end'])"),
        (hook_config, look, "@hook_config(can_jump_to=['end'])"),
        (before_model, "guard", "@before_model(name='guard')"),
        (wrap_model_call, "end", "@wrap_model_call(name='end')"),
        (wrap_tool_call, ["end"], "@wrap_tool_call` above a `def"),
        (dynamic_prompt, "end", "@dynamic_prompt` above a `def"),
    ],
)
def test_an_option_given_without_its_name_is_explained(
    decorator: Any, given: Any, write: str
) -> None:
    with pytest.raises(ArgumentError) as caught:
        decorator(given)
    assert caught.value.hint == f"Write `{write}`."
    assert isinstance(caught.value, TypeError)


def test_an_error_of_an_agent_in_a_tool_gets_a_note_once(call: Any) -> None:
    model = ScriptedChatModel(["Hi"])
    slip = type("Slip", (AgentMiddleware,), {"before_model": hook_reads})()
    inner: Any = create_agent(model, middleware=[slip], context_schema=User)

    @tool("add")
    def ask(a: int, b: int) -> str:
        """Add."""
        return str(inner.invoke(GO))

    with pytest.raises(AttributeError) as caught:
        run({"before_model": look}, call, tools=[ask], context_schema=User)
    assert len([n for n in caught.value.__notes__ if "context=" in n]) == 1
