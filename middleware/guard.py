"""Check messages to a model, its answers, and the calls and results of its tools."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from concurrent.futures import Future
from functools import partial, reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NotRequired

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, AnyMessage, ToolMessage
from langchain_core.messages.ai import add_ai_message_chunks, add_usage
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from langgraph.errors import GraphBubbleUp
from langgraph.types import Command

from agent_factory import (
    AgentState,
    Flow,
    Invoke,
    ModelCallResult,
    ModelRequest,
    ModelResponse,
    NextChunk,
    Ordering,
    OutputError,
    PrivateStateAttr,
    Together,
    ToolCallRequest,
    ToolGuard,
    arun,
    run,
    set_reason,
    stream_through,
)
from agent_factory.providers import refusal_text

from ._shared.checked_messages import GuardRecord, RequestCheck, key_of, remember, result_tool
from ._shared.errors import format_error, is_async
from ._shared.invocable import in_thread
from ._shared.judge import ContentJudge
from ._shared.messages import calls_of_results, error_result, messages_of, tool_names
from ._shared.payload_free import PayloadFree
from ._shared.validation import check_choice, check_number, check_string, check_value

if TYPE_CHECKING:
    from langchain_core.decisions import BaseDecisionModel

__all__ = ["DEFAULT_ANSWER", "GuardMiddleware", "GuardState"]

DEFAULT_ANSWER: Final = "I cannot help with that."
"""The text for the user in place of an answer."""

_SOURCE = "guard"

_READS = {
    "messages": ("user_messages", "tool_results"),
    "answer": ("answers", "tool_calls"),
    "call": ("tool_calls",),
    "result": ("tool_results",),
}
"""The part of a conversation to read, by the kind of the check."""

CheckFunction = Callable[[Any], str | None] | Callable[[Any], Awaitable[str | None]]


class GuardState(AgentState):
    """State of an agent with guards.

    Attributes:
        guard_records: The messages checked and blocked by each guard, by its name.
    """

    guard_records: NotRequired[Annotated[dict[str, GuardRecord], or_, PrivateStateAttr]]


class GuardMiddleware(PayloadFree[AgentState]):
    """Checks messages, answers, tool calls or results, and stops them if the check objects.

    The check is a function that returns None, or the reason of an objection; or a model that gives
    one. Its argument, by `on`:

    - "messages": a list of the unchecked messages, in any position. Answers of
      the model are not in the list, unless somebody else has sent or changed them.
    - "answer": the model's answer, an AIMessage, with its tool calls; a refusal's words are text.
    - "call": a tool call, a dict with `name`, `args` and `id`.
    - "result": the result of a tool call, a ToolMessage, and each other message of a tool; for a
      background tool, the message with the result, and its progress. All other results are checked
      before the model reads them.

    With `when="beside"`, messages and calls are checked while the model or the tool works. Nothing
    leaves before the check has decided: no token is streamed, no tool call of the answer starts,
    and nothing enters the thread. If the check objects, the call is cancelled: at once in an async
    run, in a sync run at its next token or its end. With `when="before"` the call begins after the
    check. Answers are always checked before they leave, and results before they enter the thread.

    A tool that works during the check may have had its effect, so check only tools without effects
    in this way. The events and streams of a tool itself are never held back.

    After an objection to messages or an answer, the run ends with `answer`. Its `response_metadata`
    has the `reason`, and the usage of discarded answers in `failed_answers`. The messages stay
    in the thread, and each later request has a notice in their place. After an objection to a call
    or a result, the model reads an error with the reason, and the thread has it, too.

    The guard fails closed: a check that raises, takes too long, or returns anything else than None
    or a reason, objects.

    Args:
        check: A plain or an async function of the checked value; or a chat model, "provider:name"
            or a decision model, which is asked with the `instructions`. A plain function works in
            a thread.
        on: The kind of the checked value.
        when: Whether messages and calls are checked while the call works, or before it. Default:
            "beside" for messages, and "before" for calls.
        tools: For calls and results, the tools in question, as names or BaseTool instances.
            None: all tools.
        instructions: For a model as check: the content to stop, in words.
        threshold: For a model as check: the least probability to stop content, from 0 to 1.
        answer: The text for the user in place of an answer. `{reason}` is replaced.
        timeout: The longest that a check may take, in seconds; None waits without end. Python
            cannot end a thread: a plain function that takes too long works on, and nobody waits.
        name: The name of this instance, if a stack has several.

    Raises:
        ValueError: An argument has an invalid value, or does not fit the other arguments.
        TypeError: An argument has an unusable type.

    >>> from agent_factory import create_agent
    >>> from agent_factory.testing import ScriptedChatModel
    >>> def no_weapons(messages):
    ...     if any("weapon" in message.text for message in messages):
    ...         return "It is about weapons."
    >>> guard = GuardMiddleware(no_weapons)
    >>> agent = create_agent(ScriptedChatModel(["Gladly."] * 2), middleware=[guard])
    >>> agent.invoke({"messages": "Build a weapon"})["messages"][-1].text
    'I cannot help with that.'
    >>> agent.invoke({"messages": "Build a house"})["messages"][-1].text
    'Gladly.'
    """

    state_schema = GuardState
    keyed_by_name = ("guard_records",)
    unused: Collection[str] = ()
    guard_settings = ("check", "on", "when", "tools", "instructions", "threshold")

    def __init__(
        self,
        check: CheckFunction | str | BaseChatModel | BaseDecisionModel,
        *,
        on: Literal["messages", "answer", "call", "result"] = "messages",
        when: Literal["beside", "before"] | None = None,
        tools: Sequence[str | BaseTool] | None = None,
        instructions: str | None = None,
        threshold: float = 0.5,
        answer: str = DEFAULT_ANSWER,
        timeout: float | None = 30.0,
        name: str | None = None,
    ) -> None:
        super().__init__(name=name)
        check_choice("on", on, ("messages", "answer", "call", "result"))
        if when is not None:
            check_choice("when", when, ("beside", "before"))
        if when == "beside" and on in ("answer", "result"):
            raise ValueError(
                f'when="beside" does not go with on={on!r}: it is there only after the call. '
                "Leave `when` out."
            )
        if tools is not None and on in ("messages", "answer"):
            raise ValueError(
                f"tools does not go with on={on!r}. Write on='call' or on='result', or leave "
                "`tools` out."
            )
        check_number("timeout", timeout)
        check_string("answer", answer)
        self.on = on
        self.when = when or ("beside" if on == "messages" else "before")
        self.tool_names = tool_names(tools)
        self.expected_tools = tuple(self.tool_names or ())
        self.instructions, self.threshold = instructions, threshold
        self.answer, self.timeout = answer, timeout
        self._checked: dict[str, None] = {}
        self._check = _Check(_objections(check, instructions, threshold), timeout)
        self.check = check
        is_judge = isinstance(self._check.source, ContentJudge)
        self._action: Literal["judge", "check"] = "judge" if is_judge else "check"
        retries = ("ModelRetryMiddleware", "ModelFallbackMiddleware", "ToolRetryMiddleware")
        # Their result is checked in time, but would be streamed before.
        makers = ("ToolErrorMiddleware", "LLMToolEmulator") if on == "result" else ()
        sent = _READS[on] if is_judge else ()
        self.ordering = Ordering((*retries, *makers), reads=_READS[on], sends_to_model=sent)
        self.unused = {"call": ["around_model"], "result": []}.get(on, ["around_tool"])

    @property
    def guards(self) -> Sequence[ToolGuard]:  # type: ignore[override]
        """The guard's decisions about calls before they run, as the plan shows them."""
        if self.on != "call" or self.when == "beside":
            return ()
        # Sorted: the order of strings in a set differs from process to process.
        names = ("*",) if self.tool_names is None else sorted(self.tool_names)
        # A check during the work of the tool is left out: its decision is too late for the effect.
        return [ToolGuard(name, self._action) for name in names]

    def around_model(self, request: ModelRequest[Any]) -> Flow[ModelCallResult]:
        """Ask the model, if the check objects neither to the messages nor to the answer."""
        if self.on == "answer":
            return (yield from self._answered(request))
        covered = self._covered(request.messages)
        notice = _notice if self.on == "result" else None
        check = RequestCheck(request, self.name, covered, self._checked, notice)
        if self.on == "result":
            for message in check.unchecked:
                if objection := (yield Invoke(self._check, message)):
                    set_reason(f"objected: {objection}")
                check.settle([message], objection)
            return check.noted((yield check.allowed()))
        # A gate for each call: parallel runs of the agent share the middleware.
        new, objection, gate = check.unchecked, check.objection, _Gate()
        response: ModelResponse | None = None
        if objection is None and new:
            try:
                if self.when == "before":
                    yield from self._decided(new)
                else:
                    held = check.allowed().wrapped(partial(stream_through, flow=gate.held))
                    _, response = yield Together(self._decided(new, gate), held)
            except _Objection as error:
                objection = str(error)
            check.settle(new, objection)
        if objection is not None:
            response = self._ended(objection, gate.messages)
        return check.noted(response or (yield check.allowed()))

    def around_tool(self, request: ToolCallRequest) -> Flow[ToolMessage | Command[Any]]:
        """Run the tool, if the check objects neither to the call nor to the result."""
        call: Any = request.tool_call
        names = {call["name"]}
        if self.on == "result":  # the call may be about a background job of the tool
            jobs: Any = request.state.get("background_jobs") or {}
            names.add(jobs.get(str(call["args"].get("id")), {}).get("tool", ""))
        is_covered = self.tool_names is None or not self.tool_names.isdisjoint(names)
        result: ToolMessage | Command[Any]
        try:
            if is_covered and self.on == "call" and self.when == "beside":
                _, result = yield Together(self._decided(call), request)
                return result
            if is_covered and self.on == "call":
                yield from self._decided(call)
        except _Objection as error:
            return self._refused(call, "call", str(error))
        result = yield request
        for message in messages_of(result) if is_covered and self.on == "result" else ():
            if message.type == "remove" or message in request.state.get("messages", ()):
                continue  # a handoff passes on the messages of its thread
            objection = yield Invoke(self._check, message)
            if objection is not None:
                refusal = self._refused(call, "result", objection)
                remember(self._checked, [refusal])
                return refusal
            remember(self._checked, [message])
        return result

    def _covered(self, messages: Sequence[AnyMessage]) -> list[AnyMessage]:
        """Return the messages to check before the model reads them."""
        if self.on == "messages":
            return list(messages)
        calls = calls_of_results(messages)
        covered = []
        for index, message in enumerate(messages):
            if (tool := result_tool(message)) is None:
                continue
            # A result may have another name than its call, or no name.
            names = {tool, calls[index][1]["name"] if index in calls else ""} - {""}
            if self.tool_names is None or not names or names & self.tool_names:
                covered.append(message)
        return covered

    def _decided(self, subject: Any, gate: _Gate | None = None) -> Flow[None]:
        """Check something while a call works; raise the objection, which ends the call."""
        objection: str | None = "the check did not end."
        try:
            objection = yield Invoke(self._check, subject)
        finally:
            if gate is not None:
                gate.settle(objection)
        if objection is not None:
            raise _Objection(objection)

    def _answered(self, request: ModelRequest[Any]) -> Flow[ModelResponse]:
        """Ask the model for an answer that leaves after its check."""
        inspection = _Inspection(self._check, self._text)
        try:
            flow = partial(stream_through, flow=inspection.checked)
            response: ModelResponse = yield request.wrapped(flow)
        except OutputError as error:  # the text in its place has no structure
            if inspection.objection is None or error.ai_message is None:
                raise
            response = ModelResponse([error.ai_message])
        answers = [message for message in response.result if isinstance(message, AIMessage)]
        for message in answers:
            # A layer further in may have answered itself, or changed or joined answers.
            if inspection.objection is None and _content_key(message) not in inspection.passed:
                inspection.objection = yield Invoke(self._check, _readable(message))
        if inspection.objection is None:
            return response
        ended = self._ended(inspection.objection, inspection.messages)
        # The replaced answer has streamed under the id.
        ended.result[0].id = next((message.id for message in answers), None)
        return ended

    def _ended(self, reason: str, thrown_away: Sequence[AIMessage] = ()) -> ModelResponse:
        # The decision log says why, and the user reads the text alone.
        set_reason(f"objected: {reason}")
        metadata: dict[str, Any] = {"reason": reason}
        if thrown_away:
            # The tokens were paid for. Mostly the last chunk names them.
            usage = reduce(add_usage, filter(None, (m.usage_metadata for m in thrown_away)), None)
            record = {"fault": "blocked", "reason": reason, "usage_metadata": usage}
            metadata["failed_answers"] = [record]
        text, kwargs = self._text(reason), {"lc_source": _SOURCE}
        message = AIMessage(text, response_metadata=metadata, additional_kwargs=kwargs)
        return ModelResponse([message])

    def _refused(self, call: Any, what: str, reason: str) -> ToolMessage:
        set_reason(f"objected: {reason}")
        kwargs = {"lc_source": _SOURCE}
        return error_result(call, _error(what, call["name"], reason), additional_kwargs=kwargs)

    def _text(self, reason: str) -> str:
        # Not by `format`: all other braces of the text are the user's.
        return self.answer.replace("{reason}", reason)


class _Objection(Exception):
    """The check has objected, so the call ends. The text is the reason."""


class _Gate:
    """Holds answers back until the check has decided."""

    def __init__(self) -> None:
        self._decision: Future[str | None] = Future()
        self.messages: list[AIMessage] = []
        """The model's answer so far."""

    def settle(self, objection: str | None) -> None:
        if not self._decision.done():
            self._decision.set_result(objection)

    def held(self) -> Flow[None]:
        held: list[AIMessage] = []
        while (message := (yield NextChunk())) is not None:
            held.append(message)
            # With the verdict there is nothing to wait for: tokens pass as they come.
            if self._decision.done():
                yield from self._released(held)
            else:
                self.messages.append(message)
        # As an effect of the flow, so that an async run does not block the event loop.
        yield Invoke(self, None)
        yield from self._released(held)

    def _released(self, held: list[AIMessage]) -> Flow[None]:
        # A thread cannot be cancelled, so the call ends itself, like a cancelled task.
        if self._decision.result() is not None:
            raise asyncio.CancelledError("The check has objected.")
        yield from held
        held.clear()

    def invoke(self, input: object, config: object = None) -> None:
        self._decision.result()

    async def ainvoke(self, input: object, config: object = None) -> None:
        # A cancellation of the call must not cancel the future, which the check is about to settle.
        await asyncio.shield(asyncio.wrap_future(self._decision))


class _Inspection:
    """Holds an answer back until the check decides, and replaces the answer after an objection."""

    def __init__(self, check: _Check, text: Callable[[str], str]) -> None:
        self._check, self._text = check, text
        self.messages: list[AIMessage] = []  # of all attempts
        self.passed: set[str] = set()
        self.objection: str | None = None

    def checked(self) -> Flow[None]:
        held: list[AIMessage] = []
        while (message := (yield NextChunk())) is not None:
            held.append(message)
        self.messages += held
        if not held:  # LangChain raises an error for an answer without chunks
            return
        # Whole answers are not chunks, and chunks add up: the check always gets one message.
        chunks = [message for message in held if isinstance(message, AIMessageChunk)]
        whole = add_ai_message_chunks(*chunks) if chunks else held[0]
        self.objection = yield Invoke(self._check, _readable(whole))
        if self.objection is None:
            self.passed.add(_content_key(whole))
            yield from held
        else:
            # Without the position, LangChain adds an empty chunk under another id.
            last = {"chunk_position": "last"} if chunks else {}
            yield type(whole)(content=self._text(self.objection), id=whole.id, **last)


class _Check:
    """A check in the form that `Invoke` takes: the reason of an objection, or None."""

    def __init__(self, source: Any, timeout: float | None) -> None:
        self.source, self._timeout = source, timeout

    def invoke(self, input: object, config: object = None) -> str | None:
        def call() -> object:
            if isinstance(self.source, ContentJudge):
                return run(self.source.objection_to(input))
            result = self.source(input)
            # This thread has no event loop, so an async check serves sync runs as well.
            return asyncio.run(result) if asyncio.iscoroutine(result) else result

        # In a thread also where nothing else works, so that the timeout holds there, too.
        # Nobody waits for its end: a check that takes too long may never end.
        try:
            return _objection(in_thread(call, _SOURCE).result(self._timeout))
        except Exception as error:
            return self._failed(error)

    async def ainvoke(self, input: object, config: object = None) -> str | None:
        try:
            async with asyncio.timeout(self._timeout):
                if isinstance(self.source, ContentJudge):
                    return _objection(await arun(self.source.objection_to(input)))
                if is_async(self.source):
                    return _objection(await self.source(input))
                # Not by `to_thread`: the end of an event loop waits for its threads.
                work = in_thread(partial(self.source, input), _SOURCE)
                return _objection(await asyncio.wrap_future(work))
        except Exception as error:
            return self._failed(error)

    def _failed(self, error: Exception) -> str:
        if isinstance(error, GraphBubbleUp):  # an interrupt, which no check can answer
            raise error
        if isinstance(error, TimeoutError):
            return f"the check took longer than {self._timeout:g} seconds."
        return f"it could not be checked ({format_error(error)})."


def _readable(answer: AIMessage) -> AIMessage:
    """The answer for a check: the words of a refusal, which users read, are its text."""
    words, content = refusal_text(answer), answer.content
    read = f"{content}{words}" if isinstance(content, str) else [*content, words]
    return answer.model_copy(update={"content": read}) if words else answer


def _content_key(answer: AIMessage) -> str:
    # Ids and names are given to an answer later.
    return key_of(answer.model_copy(update={"id": None, "name": None}))


def _notice(message: AnyMessage, reason: str) -> str:
    return _error("result", result_tool(message) or "a tool", reason)


def _error(what: str, tool: str, reason: str) -> str:
    return f"Error: the {what} of {tool} was blocked: {reason} Go on without it."


def _objection(value: object) -> str | None:
    """Read the result of a check; an unreadable result is an objection."""
    if value is None or (isinstance(value, str) and value):
        return value
    return f"the check returned {value!r}, and must return None or a reason."


def _objections(check: Any, instructions: str | None, threshold: float) -> Any:
    if isinstance(check, str | Runnable):
        if instructions is None:
            raise ValueError(
                "instructions must say what a model as check has to stop: write "
                "GuardMiddleware(model, instructions='Stop what ...')."
            )
        return ContentJudge(check, instructions, threshold)
    if instructions is not None:
        raise ValueError("instructions are for a model as check, and this one is a function.")
    is_function = callable(check) and not isinstance(check, type)
    expected = "a function, a chat model, 'provider:name' or a decision model"
    check_value("check", check, is_function, expected, error=TypeError)
    return check
