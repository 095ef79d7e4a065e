"""Subclasses of built-ins, and their methods outside of a run: the same in both libraries."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from built_in_cases import CASES
from langchain_core.exceptions import ContextOverflowError
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.runtime import Runtime

from agent_factory.testing import ScriptedChatModel
from samples import THREAD, broken, scripted
from samples import add_tool as add
from tables import each

ADDING = [{"name": "add", "args": {"a": 1, "b": 2}, "id": "1"}]
NOW: Any = {"max_retries": 1, "initial_delay": 0, "jitter": False}


BUILT_INS = [
    *("review, reject", "emulator", "model limit", "fallback", "retry", "private data"),
    *("summaries", "to-dos", "tool limit, end", "tool error", "tool retry"),
]
HOOKS = ("before_agent", "before_model", "after_model", "after_agent")


def overriding(f: Any, name: str, methods: tuple[str, ...], log: list[str]) -> Any:
    """A subclass that overrides methods in both forms, and goes on to those of the built-in."""
    base = getattr(f, name)

    def method(method: str) -> Callable[..., Any]:
        def passed(self: Any, state: Any, runtime: Any) -> Any:
            log.append(method)
            return goes_on(base, method)(self, state, runtime)

        async def apassed(self: Any, state: Any, runtime: Any) -> Any:
            log.append(method)
            return await goes_on(base, method)(self, state, runtime)

        return apassed if method.startswith(("ab", "aa", "aw")) else passed

    body = {form: method(form) for name in methods for form in (name, f"a{name}")}
    return type(f"My{name}", (base,), body)


def goes_on(base: Any, method: str) -> Callable[..., Any]:
    """`super().method`; the handler where langchain's class has no such wrap."""
    if method in HOOKS or method[1:] in HOOKS or has_wrap(base.__name__, method):
        return getattr(base, method)  # type: ignore[no-any-return]
    return lambda self, request, handler: handler(request)


def has_wrap(name: str, method: str) -> bool:
    from langchain.agents import middleware as theirs

    wrap = method.removeprefix("a")
    return getattr(getattr(theirs, name), wrap) is not getattr(theirs.AgentMiddleware, wrap)


class Overriding:
    """A package whose middleware are such subclasses."""

    def __init__(self, f: Any, methods: tuple[str, ...], log: list[str]) -> None:
        self.middleware = f.middleware
        self._arguments = methods, log
        self._f = f

    def __getattr__(self, name: str) -> Any:
        return overriding(self._f, name, *self._arguments)


def played(f: Any, call: Any, name: str, package: Any) -> Any:
    """The kinds of messages, and what a caller can rely on among their texts."""
    stack, steps, inputs = CASES[name]
    model, saver = ScriptedChatModel(list(steps)), InMemorySaver()
    agent = f.create_agent(model, [add, broken], middleware=stack(package), checkpointer=saver)
    for given in inputs:
        done = call(agent, given, THREAD)
    sent = [[message.type for message in request.messages] for request in model.requests]
    own = ("review", "limit", "summaries", "to-dos", "tool retry")  # other words
    texts = [m.text for m in done["messages"]] if not any(part in name for part in own) else []
    return [(m.type, getattr(m, "status", "")) for m in done["messages"]], texts, sent


@each("name", BUILT_INS)
def test_a_builtin_does_its_work_whichever_method_a_subclass_overrides(
    same: Any, name: str
) -> None:
    def every_method(f: Any, call: Any) -> Any:
        plain = played(f, call, name, f)
        jumps = f.agents == "langchain.agents" and name == "model limit"
        hooks = tuple(hook for hook in HOOKS if not (jumps and hook == "before_model"))
        # Where langchain's limit jumps, a subclass has to declare the jump again.
        assert played(f, call, name, Overriding(f, hooks, [])) == plain
        log: list[str] = []
        wraps = Overriding(f, ("wrap_model_call", "wrap_tool_call"), log)
        assert played(f, call, name, wraps) == plain
        return plain, log

    same(every_method)


def request_of(f: Any, *messages: Any, **fields: Any) -> Any:
    history = [*messages] or [HumanMessage("Hi")]
    state = {"messages": history}
    return f.ModelRequest(
        model=scripted(), messages=history, state=state, runtime=Runtime(), **fields
    )


def tool_request(f: Any) -> Any:
    call: Any = {**ADDING[0], "type": "tool_call"}
    return f.ToolCallRequest(tool_call=call, tool=add, state={"messages": []}, runtime=None)


def wrapped(call: Any, member: Any, kind: str, request: Any, handler: Any) -> Any:
    """What a wrap returns outside of a run, sync or async, or what it raises."""

    async def ahandler(request: Any) -> Any:
        return handler(request)

    try:
        if call.__name__ == "sync":
            return getattr(member, f"wrap_{kind}_call")(request, handler)
        return asyncio.run(getattr(member, f"awrap_{kind}_call")(request, ahandler))
    except Exception as error:
        return error


def hooked(call: Any, member: Any, hook: str, state: Any) -> Any:
    if call.__name__ == "sync":
        return getattr(member, hook)(state, Runtime())
    return asyncio.run(getattr(member, f"a{hook}")(state, Runtime()))


def failing(times: int, result: Any, error: type[Exception] = ValueError) -> Any:
    """A handler that fails so many times; `len(handler.calls)` counts."""

    def handler(request: Any) -> Any:
        handler.calls.append(request)  # type: ignore[attr-defined]
        if len(handler.calls) <= times:  # type: ignore[attr-defined]
            raise error("no")
        return result

    handler.calls = []  # type: ignore[attr-defined]
    return handler


@each(
    "times, error, options",
    [
        (1, ValueError, {}),
        (9, ValueError, {"on_failure": lambda error: "failed"}),
        (9, ValueError, {"on_failure": "error"}),
        (9, ValueError, {"retry_on": (KeyError,)}),
        (9, ValueError, {"retry_on": lambda error: False}),
        (9, ContextOverflowError, {}),
    ],
)
def test_retries_outside_of_a_run(same: Any, times: int, error: Any, options: Any) -> None:
    def retried(f: Any, call: Any) -> Any:
        model = failing(times, f.ModelResponse([AIMessage("done")]), error)
        response = wrapped(
            call, f.ModelRetryMiddleware(**NOW, **options), "model", request_of(f), model
        )
        text = [m.text for m in response.result] if hasattr(response, "result") else []
        run = failing(times, ToolMessage("done", tool_call_id="1"), error)
        found = wrapped(call, f.ToolRetryMiddleware(**NOW, **options), "tool", tool_request(f), run)
        counts = len(model.calls), len(run.calls)
        return type(response), text, type(found), getattr(found, "status", ""), counts

    same(retried)


@each("answer", ["text", None, [{"type": "text", "text": "blocks"}]])
def test_what_an_error_handler_may_return(same: Any, answer: Any) -> None:
    async def aon_error(error: Exception, request: Any) -> Any:
        return answer

    def handled(f: Any, call: Any) -> Any:
        middleware = f.ToolErrorMiddleware(lambda error, request: answer, aon_error=aon_error)
        found = [wrapped(call, middleware, "tool", tool_request(f), failing(9, None))]
        middleware.on_error, middleware.aon_error = (lambda error, request: "later"), None
        found.append(wrapped(call, middleware, "tool", tool_request(f), failing(9, None)))
        return found

    same(handled)


def test_settings_may_be_changed_after_an_instance_is_made(same: Any) -> None:
    def changed(f: Any, call: Any) -> Any:
        retry = f.ModelRetryMiddleware(max_retries=0, initial_delay=0, jitter=False)
        retry.max_retries, retry.retry_on = 2, (KeyError,)
        model = failing(2, f.ModelResponse([AIMessage("done")]), KeyError)
        wrapped(call, retry, "model", request_of(f), model)
        limit = f.ModelCallLimitMiddleware(run_limit=9)
        limit.run_limit = 1
        counts = {"messages": [], "run_model_call_count": 1, "thread_model_call_count": 1}
        todo = f.TodoListMiddleware()
        todo.system_prompt = "Plan."
        prompts = failing(0, f.ModelResponse([AIMessage("done")]))
        wrapped(call, todo, "model", request_of(f, system_prompt="Base."), prompts)
        prompt = prompts.calls[0].system_prompt.split()
        return len(model.calls), hooked(call, limit, "before_model", counts)["jump_to"], prompt

    same(changed)


def test_personal_data_is_redacted_outside_of_a_run(same: Any) -> None:
    texts = {
        "email": "mail ada@example.com",
        "credit_card": "card 4111 1111 1111 1111",
        "ip": "ip 192.168.1.1",
        "mac_address": "mac 00:1A:2B:3C:4D:5E",
        "url": "see https://a.example/path?q=1",
    }

    def redacted(f: Any, call: Any) -> Any:
        found: list[Any] = []
        for kind, text in texts.items():
            detector = f.PIIMiddleware(kind).detector
            state = {"messages": [HumanMessage(text, id="1")]}
            update = hooked(call, f.PIIMiddleware(kind), "before_model", state)
            found += [detector(text), update["messages"][0].text]
        with pytest.raises(f.PIIDetectionError) as caught:
            hooked(call, f.PIIMiddleware("url", strategy="block"), "before_model", state)
        return found, caught.value.pii_type, caught.value.matches

    same(redacted)


def test_context_is_edited_outside_of_a_run(same: Any) -> None:
    class Last:
        def apply(self, messages: list[Any], *, count_tokens: Any) -> None:
            messages[:] = messages[-1:]

    def edited(f: Any, call: Any) -> Any:
        called = AIMessage("", tool_calls=[{**ADDING[0], "type": "tool_call"}])
        result = ToolMessage("r" * 900, tool_call_id="1", name="add")
        history = [HumanMessage("q"), called, result, AIMessage("a"), HumanMessage("z")]
        found = []
        for edits in ((f.ClearToolUsesEdit(trigger=100, keep=0) for _ in range(1)), [Last()]):
            handler = failing(0, f.ModelResponse([AIMessage("done")]))
            editing = f.ContextEditingMiddleware(edits=edits)
            response = wrapped(call, editing, "model", request_of(f, *history), handler)
            found += [response.result, response.structured_response, handler.calls[0].messages]
        return found

    same(edited)
