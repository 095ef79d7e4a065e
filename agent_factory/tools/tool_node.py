"""LangGraph's ToolNode where it can be relied upon: what it leaves to chance is settled here.

It is a ToolNode, through its constructor and its call alone: nothing of it is repeated. Each
difference stands with its reason; docs/tools.md lists them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar, Token
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, Literal

from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.prebuilt import ToolNode as LangGraphToolNode
from langgraph.prebuilt import tools_condition as langgraph_tools_condition
from langgraph.types import Command, Send

from agent_factory.errors import (
    AgentFactoryError,
    ArgumentError,
    PathNotSupported,
    describe,
    raise_all,
)
from agent_factory.hooks.flows import then
from agent_factory.tools.error_handling import (
    DEFAULT_ERRORS,
    Answer,
    handle_once,
    handler_for,
    mark_unhandled,
)
from agent_factory.tools.injection import copy_containers, takes_state
from agent_factory.tools.inline_call import (
    Execute,
    Sample,
    can_run_inline,
    execution_of,
    run_inline,
)
from agent_factory.tools.registry import ToolLike, sort_tools


class ToolCallRecorder:
    """Takes down the names of the agent's tools that start within a `with` block.

    It hears of those in the tasks and threads that the block leads to as well, and so does who
    listens around it. A call of a name that is not known, or that a layer answers, starts none;
    tools that a tool itself calls are not told.

    >>> with ToolCallRecorder() as starts:
    ...     pass  # `result = yield request`, in a flow around a tool
    >>> starts.names
    []
    """

    def __init__(self) -> None:
        self.names: list[str] = []
        self._outer = _listening.get()

    def __enter__(self) -> ToolCallRecorder:
        self._token: Token[ToolCallRecorder | None] = _listening.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        _listening.reset(self._token)

    def heard(self, name: str) -> None:
        """A tool has started."""
        self.names.append(name)
        if self._outer is not None:
            self._outer.heard(name)


_listening: ContextVar[ToolCallRecorder | None] = ContextVar("tool_starts", default=None)


def starts(name: str) -> None:
    """Tell whoever listens that a tool is about to run."""
    if (listener := _listening.get()) is not None:
        listener.heard(name)


Call = Callable[[Any], Any]
ErrorHandling = bool | str | type[Exception] | tuple[type[Exception], ...] | Callable[..., str]


class ToolNode(LangGraphToolNode):
    """Runs the tool calls of the last AI message: LangGraph's ToolNode, and a drop-in for it.

    What is unlike there: mistakes are found when it is made and not when a tool fails, a tool
    cannot change the state it is given, a handler is asked about the errors it names alone, and
    about what really happened, and what tools tell a parent graph is kept.

    Args:
        tools: Functions with a docstring, or tools.
        name: The name of the node.
        tags: For the callbacks of a run.
        handle_tool_errors: What a failing tool leads to: True, a text, exception types, a
            function of the exception, or False. Default: bad arguments are told to the model, and
            what a tool raises ends the run.
        messages_key: The key of the state that holds the messages.
        wrap_tool_call: `(request, execute) -> ToolMessage | Command` around each call.
        awrap_tool_call: The same for asynchronous runs. Default: `wrap_tool_call`.

    Raises:
        SpecError: A tool or the handler could not work; with several such tools, all of them are
            in `.errors`.

    >>> from langchain_core.messages import AIMessage
    >>> from langgraph.graph import MessagesState, StateGraph
    >>> def add(a: int, b: int) -> int:
    ...     "Add two numbers."
    ...     return a + b
    >>> graph = StateGraph(MessagesState).add_node("tools", ToolNode([add]))
    >>> asked = {"name": "add", "args": {"a": 1, "b": 2}, "id": "1"}
    >>> result = graph.set_entry_point("tools").compile().invoke(
    ...     {"messages": [AIMessage("", tool_calls=[asked])]}
    ... )
    >>> result["messages"][-1].text
    '3'
    """

    def __init__(
        self,
        tools: Sequence[ToolLike],
        *,
        name: str = "tools",
        tags: list[str] | None = None,
        handle_tool_errors: ErrorHandling = DEFAULT_ERRORS,
        messages_key: str = "messages",
        wrap_tool_call: Callable[[Any, Call], Any] | None = None,
        awrap_tool_call: Callable[[Any, Call], Any] | None = None,
    ) -> None:
        known = _checked(tools)
        self._answer = answer = handle_once(handler_for(handle_tool_errors))
        stateless = frozenset(tool.name for tool in known if not takes_state(tool))
        settled = partial(_SafeWrapper, answer=answer, stateless=stateless)
        self._settled = settled(wrap_tool_call or _execute)
        self._key = messages_key
        self._asynchronous_only = wrap_tool_call is None and awrap_tool_call is not None
        unwrapped = wrap_tool_call is None and awrap_tool_call is None
        super().__init__(
            known,
            name=name,
            tags=tags,
            handle_tool_errors=answer,
            messages_key=messages_key,
            wrap_tool_call=self._settled,
            # Where there is only the other one, ToolNode calls that, in both kinds of run.
            awrap_tool_call=settled(awrap_tool_call or _execute)
            if awrap_tool_call or unwrapped
            else None,
        )

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Run the calls in a synchronous run.

        Raises:
            PathNotSupported: Only `awrap_tool_call` was given, which would be passed over.
            ValueError: There is no message, or no AI message, to take calls from.
        """
        if self._asynchronous_only:
            raise PathNotSupported(
                f"ToolNode {self.name}",
                "has awrap_tool_call alone, which a synchronous run would pass over.",
                "Give wrap_tool_call as well, or use ainvoke.",
            )
        if kwargs or not can_run_inline(input):
            return _merged(super().invoke(_normalize_input(input), config, **kwargs))
        run = partial(run_inline, self._settled, self._execution, self._answer, self.tools_by_name)
        return self._combined(run(input, config))

    @cached_property
    def _execution(self) -> Execute:
        return execution_of(self)

    def _combined(self, parts: list[Any]) -> Any:
        """What comes of one call, as ToolNode gives it."""
        if not any(isinstance(part, Command) for part in parts):
            return {self._key: parts}
        told = (part if isinstance(part, Command) else {self._key: [part]} for part in parts)
        return _merged(list(told))

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Run the calls in an asynchronous run.

        Raises:
            ValueError: There is no message, or no AI message, to take calls from.
        """
        return _merged(await super().ainvoke(_normalize_input(input), config, **kwargs))


def _checked(tools: Iterable[ToolLike]) -> list[BaseTool]:
    toolbox, mistakes = sort_tools((None, tool) for tool in tools)
    refused = [
        ArgumentError(
            "tools",
            f"{describe(tool)} is run by the provider.",
            "Bind it to the model.",
            code="AF112",
        )
        for tool in toolbox.provider
    ]
    raise_all([*mistakes, *refused])
    return list(toolbox.client.values())


def _execute(request: Any, execute: Call) -> Any:
    return execute(request)


class _SafeWrapper:
    """A wrapper, or none, between ToolNode and its own execution of a call, in either colour.

    Args:
        wrap: The wrapper.
        answer: The handler of errors.
        stateless: The names of tools that are given nothing of the state.
    """

    __slots__ = ("_answer", "_stateless", "_wrap")

    def __init__(
        self, wrap: Callable[[Any, Call], Any], answer: Answer, stateless: frozenset[str]
    ) -> None:
        self._wrap = wrap
        self._answer = answer
        self._stateless = stateless

    def __call__(self, request: Any, execute: Call) -> Any:
        if isinstance(request.tool_call, Sample):
            return request.tool_call.taken(execute)
        # ToolNode has asked the handler about what a tool raises; it would ask again out here.
        inner = partial(mark_unhandled, partial(self._inward, execute, request.state), self._answer)
        result = mark_unhandled(
            partial(self._outward, inner), self._answer, request, AgentFactoryError
        )
        return then(result, _kept)

    def _outward(self, inner: Call, request: Any) -> Any:
        return self._wrap(request, inner)

    def _inward(self, execute: Call, original: Any, request: Any) -> Any:
        runtime = request.runtime
        if request.tool is not None:
            starts(request.tool_call["name"])
        # ToolNode injects the runtime's state, and a wrapper overrides the request's.
        state = runtime.state if request.state is original else request.state
        # A tool of a name that is not known was brought by a wrapper.
        if request.tool_call["name"] not in self._stateless:
            state = copy_containers(state)
        if state is runtime.state:
            return execute(request)
        return execute(replace(request, runtime=replace(runtime, state=state)))


def _kept(result: Any) -> Any:
    """A result that outlives ToolNode's own merge, which takes commands with a list of Sends."""
    if isinstance(result, list):
        return [_kept(part) for part in result]
    if _sends_to_parent(result, list):
        return replace(result, goto=tuple(result.goto))
    return result


def _sends_to_parent(result: Any, kind: type[Any]) -> bool:
    return (
        isinstance(result, Command)
        and result.graph == Command.PARENT
        and isinstance(result.goto, kind)
        and all(isinstance(target, Send) for target in result.goto)
    )


def _merged(output: Any) -> Any:
    """Commands that lead to nodes of the parent graph as one, at the end: only one gets through.

    ToolNode's own merge drops their updates.
    """
    if not isinstance(output, list):
        return output
    commands = [part for part in output if _targets_parent(part)]
    if not commands:
        return output
    merged = Command(
        graph=Command.PARENT,
        update=_concat_updates([command.update for command in commands if command.update]),
        goto=[target for command in commands for target in command.goto],
    )
    return [*(part for part in output if not _targets_parent(part)), merged]


def _targets_parent(part: Any) -> bool:
    return _sends_to_parent(part, tuple) and bool(part.goto)


def _concat_updates(updates: list[Any]) -> Any:
    if len(updates) < 2:
        return updates[0] if updates else None
    return [
        part
        for update in updates
        for part in (update.items() if isinstance(update, Mapping) else update)
    ]


def _normalize_input(input: Any) -> Any:
    """An input without any message in a form that ToolNode refuses, and does not stumble over."""
    return {} if isinstance(input, list) and not input else input


def tools_condition(state: Any, messages_key: str = "messages") -> Literal["tools", "__end__"]:
    """Where a turn goes on: to the tools where the last message calls some, or to its end.

    LangGraph's, except that an empty list is refused as an empty dict is, and not by an IndexError.

    Args:
        state: A list of messages, or a state that holds one.
        messages_key: The key or attribute that holds it.

    Raises:
        ValueError: There is no message.

    >>> from langchain_core.messages import AIMessage
    >>> tools_condition([AIMessage("Done.")])
    '__end__'
    """
    if isinstance(state, list) and not state:
        raise ValueError(f"No messages found in input state to tool_edge: {state}")
    return langgraph_tools_condition(state, messages_key)
