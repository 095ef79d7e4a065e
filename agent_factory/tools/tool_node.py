"""Run tool calls: a drop-in for LangGraph's ToolNode that runs the calls itself.

`ToolNode._run` and `ToolNode._arun` run the calls of one input, `_run_call` one call with its
wrapper, `_execute` the tool itself. docs/tools.md lists the differences to LangGraph's ToolNode.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar, Token, copy_context
from copy import copy
from dataclasses import replace
from typing import Any, Literal, Self

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    RemoveMessage,
    ToolCall,
    ToolMessage,
    convert_to_messages,
)
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import get_config_list, get_executor_for_config
from langchain_core.tools import BaseTool, StructuredTool, Tool
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.prebuilt import ToolNode as LangGraphToolNode
from langgraph.prebuilt import ToolRuntime
from langgraph.prebuilt import tools_condition as langgraph_tools_condition
from langgraph.prebuilt.tool_node import (
    INVALID_TOOL_NAME_ERROR_TEMPLATE,
    ToolCallRequest,
    msg_content_output,
)
from langgraph.runtime import Runtime
from langgraph.types import Command, Send
from pydantic import ValidationError

from agent_factory.errors import (
    AgentFactoryError,
    ArgumentError,
    BadReturn,
    PathNotSupported,
    WrongToolCallId,
    describe,
    raise_all,
)
from agent_factory.hooks.flows import is_awaitable, is_signal
from agent_factory.state.history import error_result
from agent_factory.state.schema import ENGINE_KEYS
from agent_factory.tools.error_handling import DEFAULT_ERRORS, handler_for, invocation_error
from agent_factory.tools.injection import CONTAINERS, injection_of
from agent_factory.tools.registry import ToolLike, sort_tools
from agent_factory.tools.results import bad_request, check_results, named_by_tool
from agent_factory.upstream import read_channels, run_without_graph

Execute = Callable[[Any], Any]
"""Takes a ToolCallRequest and returns a result, or an awaitable of one."""

Compose = Callable[[Execute], Execute]
"""Puts layers around the execution of a tool."""

ToolWrapper = Callable[[Any, Execute], Any]

ErrorHandling = bool | str | type[Exception] | tuple[type[Exception], ...] | Callable[..., str]

WITH_CONTEXT = "tool_call_with_context"
"""The `__type` of an input with one call and the state for its tool."""

DECLINED_BY = "__declined_by_agent_factory__"
"""Attribute of an exception that a node has decided to raise; holds the node. A wrapper lets the
exception pass, and the error handler must not be called again. Another node may still handle it: an
agent can be a tool of another agent."""


class ToolCallRecorder:
    """Collects the names of the agent's tools that start within a `with` block.

    Tools that start in tasks and threads of the block count too. An outer recorder also receives
    the names. Calls of unknown tools, calls that a layer answers itself, and tools called by a tool
    are not recorded.

    >>> with ToolCallRecorder() as starts:
    ...     pass  # `result = yield request`, in a flow around a tool
    >>> starts.names
    []
    """

    def __init__(self) -> None:
        self.names: list[str] = []
        self._outer = _recorder.get()

    def __enter__(self) -> Self:
        self._token: Token[ToolCallRecorder | None] = _recorder.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        _recorder.reset(self._token)

    def record(self, request: ToolCallRequest) -> None:
        """Add the tool that starts, here and in the outer recorder.

        A subclass that raises here keeps the tool from running.
        """
        if self._outer is not None:
            self._outer.record(request)
        self.names.append(request.tool_call["name"])


_recorder: ContextVar[ToolCallRecorder | None] = ContextVar("tool_call_recorder", default=None)


class CallsWithState(list[Any]):
    """Tool calls, and the state for their tools; for any ToolNode, a list of calls."""

    def __init__(self, calls: Iterable[Mapping[str, object]], state: Mapping[str, object]) -> None:
        super().__init__(calls)
        self.state = state

    def __reduce__(self) -> tuple[object, ...]:
        return list, (list(self),)  # a checkpoint holds the calls alone


def with_state(
    calls: list[Any], state: Mapping[str, object], keys: Collection[str]
) -> CallsWithState:
    """Return calls with the part of the state that their tools would read again."""
    return CallsWithState(calls, {key: state[key] for key in keys if key in state})


def with_context(call: Mapping[str, object], state: object) -> dict[str, Any]:
    """Return one call and the state for its tool, in the form that any ToolNode takes."""
    return {"__type": WITH_CONTEXT, "tool_call": call, "state": state}


class ToolNode(LangGraphToolNode):
    """Node that runs the tool calls of the last AI message: a drop-in for LangGraph's ToolNode.

    Unlike LangGraph's, this ToolNode finds mistakes in its constructor and not when a tool fails,
    passes tools a copy of the state, calls an error handler only for the errors that the handler
    names, once, and with the original exception, and keeps the updates of commands to a parent
    graph.

    Args:
        tools: Functions with a docstring, or tools.
        name: Name of the node.
        tags: Tags for the callbacks of a run.
        handle_tool_errors: The reaction to the failure of a tool: True, a message, exception types,
            a function of the exception, or False. By default, invalid arguments are reported to the
            model, and exceptions of tools end the run.
        messages_key: Key of the state with the messages.
        wrap_tool_call: `(request, execute) -> ToolMessage | Command` around each call.
        awrap_tool_call: The same for async runs. Default: `wrap_tool_call`.

    Raises:
        SpecError: A tool or the handler cannot work; with several such tools, all errors are in
            `.errors`.

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
        wrap_tool_call: ToolWrapper | None = None,
        awrap_tool_call: ToolWrapper | None = None,
    ) -> None:
        toolbox, mistakes = sort_tools((None, tool) for tool in tools)
        for tool in toolbox.provider:
            reason = f"{describe(tool)} runs at the provider."
            mistakes.append(ArgumentError("tools", reason, "Bind it to the model.", code="AF112"))
        raise_all(mistakes)
        super().__init__(
            list(toolbox.client.values()), name=name, tags=tags, messages_key=messages_key
        )
        # langgraph 1.2 runs `self.func(input, config=..., runtime=...)` in `invoke`, and `afunc` in
        # `ainvoke`. From there on nothing of LangGraph's ToolNode is used.
        self.func, self.afunc = self._run, self._arun
        run_without_graph(self)
        self._injections = {name: injection_of(tool) for name, tool in self.tools_by_name.items()}
        self._key = messages_key
        self._innermost = ""  # the layer next to the execution
        # Around the execution. In an agent, models called by the tool stream again.
        self._scope: Callable[[], AbstractContextManager[object]] = nullcontext
        self._is_in_agent = False  # LangGraph's ToolNode passes results of other calls on
        self._errors = handler_for(handle_tool_errors)
        self._call: Execute = self._execute
        self._acall: Execute = self._aexecute
        if wrap_tool_call is not None:
            self._call = lambda request: wrap_tool_call(request, self._execute)
            self._acall = self._call
        if awrap_tool_call is not None:
            self._acall = lambda request: awrap_tool_call(request, self._aexecute)
            if wrap_tool_call is None:

                def refuse_sync(_: object) -> object:
                    raise PathNotSupported(
                        f"ToolNode {name}",
                        "has awrap_tool_call alone, which a sync run would skip.",
                        "Pass `wrap_tool_call` as well, or use `ainvoke`.",
                    )

                self._call = refuse_sync

    # One input

    def _run(self, input: object, config: RunnableConfig, runtime: Runtime[Any]) -> object:
        requests, as_list = self._requests(input, config, runtime)
        if len(requests) == 1 and can_run_inline():
            # In a copy of the context, as in a thread: settings of a tool end with the tool.
            context = copy_context()
            try:  # as `_run_call`, without a frame in each traceback
                result = context.run(self._call, requests[0])
            except Exception as error:
                if (result := context.run(self._reply_to_wrapper, requests[0], error)) is None:
                    raise
            return self._output([result], as_list)
        with get_executor_for_config(config) as executor:
            return self._output(list(executor.map(self._run_call, requests)), as_list)

    async def _arun(self, input: object, config: RunnableConfig, runtime: Runtime[Any]) -> object:
        requests, as_list = self._requests(input, config, runtime)
        return self._output(await asyncio.gather(*map(self._arun_call, requests)), as_list)

    def _requests(
        self, input: object, config: RunnableConfig, runtime: Runtime[Any]
    ) -> tuple[list[ToolCallRequest], bool]:
        """Return a request for each call of an input; True if the input is a list of messages."""
        calls, state, as_list = self._read(input, config)
        if type(metadata := config.get("metadata")) is not dict:
            # Outside of a graph the metadata are LangGraph's ChainMap, of which pydantic warns in a
            # tool's runtime.
            config = {**config, "metadata": dict(metadata or {})}
        tools = list(self.tools_by_name.values())
        copy_state = own_containers if self._innermost else dict.copy
        kind = ToolCallRequest if as_list or not isinstance(state, list) else _RequestInContext
        requests = []
        for call, own_config in zip(calls, get_config_list(config, len(calls)), strict=True):
            tool_runtime = ToolRuntime(
                # Parallel layers must not share values that they may change in place.
                state=copy_state(state) if type(state) is dict else state,
                tool_call_id=call["id"],
                config=own_config,
                context=runtime.context,
                store=runtime.store,
                stream_writer=runtime.stream_writer,
                tools=tools,
                execution_info=runtime.execution_info,
                server_info=runtime.server_info,
            )
            tool = self.tools_by_name.get(call["name"])
            requests.append(kind(call, tool, tool_runtime.state, tool_runtime))
        return requests, as_list

    def _read(self, input: Any, config: RunnableConfig) -> tuple[list[ToolCall], Any, bool]:
        """Return the calls of an input, the state, and whether the input is a list of messages."""
        as_list = isinstance(input, list)
        if isinstance(input, dict) and input.get("__type") == WITH_CONTEXT:
            return [input["tool_call"]], input["state"], False
        if isinstance(input, CallsWithState):
            return input, input.state, False
        last = input[-1] if as_list and input else None
        if isinstance(last, dict) and last.get("type") == "tool_call":
            # Calls by `Send` bring no state: LangGraph's ToolNode reads the channels, too.
            state = read_channels(config)
            # Not the keys of the engine: tools see the state that the user has declared.
            return input, {k: v for k, v in state.items() if k not in ENGINE_KEYS}, False
        if as_list:
            messages = input
        elif isinstance(input, dict):
            messages = input.get(self._key)
        else:
            messages = getattr(input, self._key, None)
        if not messages:
            raise ValueError("No message found in input")
        # Not only the last message: results of other calls of the turn may follow.
        for message in reversed(messages):
            if isinstance(message, AIMessage):
                return list(message.tool_calls), input, as_list
        raise ValueError("No AIMessage found in input")

    def _output(self, results: Sequence[object], as_list: bool) -> object:
        """Return results in the form of the input.

        Commands to nodes of the parent graph are merged, at the end: LangGraph lets only the first
        pass, and its ToolNode drops their updates.
        """
        parts: list[Any] = []
        for result in results:
            parts += result if isinstance(result, list) else [result]
        if not any(isinstance(part, Command) for part in parts):
            return parts if as_list else {self._key: parts}
        output: list[Any] = []
        to_parent: list[Any] = []
        for part in parts:
            if not isinstance(part, Command):
                output.append([part] if as_list else {self._key: [part]})
            # LangGraph's ToolNode merges only these, too: each Send has the input of its node.
            elif (
                part.graph == Command.PARENT
                and isinstance(part.goto, list | tuple)
                and part.goto
                and all(isinstance(target, Send) for target in part.goto)
            ):
                to_parent.append(part)
            else:
                output.append(part)
        if to_parent:
            updates: list[Any] = [command.update for command in to_parent if command.update]
            pairs = [
                pair
                for update in updates
                for pair in (update.items() if isinstance(update, Mapping) else update)
            ]
            output.append(
                Command(
                    graph=Command.PARENT,
                    update=updates[0] if len(updates) == 1 else pairs or None,
                    goto=[send for command in to_parent for send in command.goto],
                )
            )
        return output

    # One call, with its wrapper

    def _run_call(self, request: ToolCallRequest) -> object:
        try:
            return self._call(request)
        except Exception as error:
            if (message := self._reply_to_wrapper(request, error)) is None:
                raise
            return message

    async def _arun_call(self, request: ToolCallRequest) -> object:
        try:
            result = self._acall(request)
            return await result if is_awaitable(result) else result
        except Exception as error:
            if (message := self._reply_to_wrapper(request, error)) is None:
                raise
            return message

    def _reply_to_wrapper(self, request: ToolCallRequest, error: Exception) -> ToolMessage | None:
        """Return the message for an error of a wrapper, or None if the error is to be raised.

        Errors of this package are for the author of the wrapper, not for the model.
        """
        # DECLINED_BY: the execution inside has asked the handler about this error already.
        if isinstance(error, AgentFactoryError) or getattr(error, DECLINED_BY, None) is self:
            return None
        return self._reply(request.tool_call, error)

    def _reply(self, call: ToolCall, error: Exception) -> ToolMessage | None:
        # The model cannot choose between a sync and an async run, and must not repeat a call after
        # a wrong id in the author's code.
        if isinstance(error, PathNotSupported | WrongToolCallId) or is_signal(error):
            return None
        if not isinstance(error, self._errors.kinds):
            return None
        return error_result(call, self._errors.respond(error))

    # The tool itself

    def _execute(self, request: ToolCallRequest) -> object:
        with self._scope(), _Execution(self, request) as execution:
            if (tool := execution.prepare()) is not None:
                # The error handler would report langchain-core's NotImplementedError to the model.
                if isinstance(tool, StructuredTool | Tool) and tool.func is None:
                    raise PathNotSupported(
                        tool.name,
                        "does not support sync invocation, as it has only a coroutine function.",
                        "Run the agent with ainvoke or astream, or give it a sync function.",
                    )
                response = tool.invoke(execution.call, request.runtime.config)
                execution.result = execution.checked(response)
        return execution.result

    async def _aexecute(self, request: ToolCallRequest) -> object:
        with self._scope(), _Execution(self, request) as execution:
            if (tool := execution.prepare()) is not None:
                response = await tool.ainvoke(execution.call, request.runtime.config)
                execution.result = execution.checked(response)
        return execution.result


class _RequestInContext(ToolCallRequest):
    """Request of a call whose state is a list of messages, in an input that is not one."""


def own_containers(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of a state, in which each dict, list and set of the state is a copy too."""
    return {key: v.copy() if type(v) in CONTAINERS else v for key, v in state.items()}


def _with_own_messages(command: Command[Any], key: str) -> Command[Any]:
    """Return a command with copies of its messages, which get a name and an id.

    A tool may return the same command each time. A message may be in the update and in the state of
    a Send. All other values pass unchanged: a value may be a connection.
    """
    copies: dict[int, BaseMessage] = {}

    def copied(value: object) -> object:
        if isinstance(value, BaseMessage):
            return copies.setdefault(id(value), value.model_copy())
        if isinstance(value, list):
            return [copied(part) if isinstance(part, BaseMessage) else part for part in value]
        if isinstance(value, dict) and key in value:
            return {**value, key: copied(value[key])}
        return value

    def sent(target: object) -> object:
        if not isinstance(target, Send):
            return target
        target_copy = copy(target)
        target_copy.arg = copied(target.arg)
        return target_copy

    goto = command.goto
    targets = type(goto)(map(sent, goto)) if isinstance(goto, list | tuple) else sent(goto)
    return replace(command, update=copied(command.update), goto=targets)


def _answers(message: object, call: ToolCall) -> bool:
    return isinstance(message, ToolMessage) and message.tool_call_id == call["id"]


_EXPECTED = (
    "Return a string, a list of content blocks, a ToolMessage, a Command, or a list of these two."
)


def _is_content(value: object) -> bool:
    """Return True if a value can be the content of a message: a text, or a list of blocks."""
    if not isinstance(value, list):
        return isinstance(value, str)
    return bool(value) and all(
        isinstance(block, str) or (isinstance(block, dict) and isinstance(block.get("type"), str))
        for block in value
    )


class _Execution:
    """One execution of a tool: prepares its call, checks its result, and handles its errors.

    A context manager, so that an unhandled error passes without another frame.
    """

    __slots__ = ("_injection", "_node", "_request", "call", "result")

    def __init__(self, node: ToolNode, request: ToolCallRequest) -> None:
        self._node = node
        self._request = request
        self.call: Any = None  # with injected arguments
        self.result: Any = None

    def __enter__(self) -> _Execution:
        if not isinstance(self._request, ToolCallRequest):
            raise bad_request(self._node._innermost, self._request, ToolCallRequest)
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> bool:
        if not isinstance(error, Exception):
            return False
        call, node, failure = self._request.tool_call, self._node, error
        try:
            # An error of `prepare` is never reported to the model, which could not correct it: a
            # key of the state or the store is missing.
            if self.call is not None:
                if isinstance(error, ValidationError) and not is_signal(error):
                    injected = self._injection.names
                    failure = invocation_error(error, call["name"], call["args"], injected)
                self.result = node._reply(call, failure)
        except Exception as failed:  # in the error handler
            setattr(failed, DECLINED_BY, node)
            raise
        if self.result is not None:
            return True
        setattr(failure, DECLINED_BY, node)
        # Returning False lets Python raise the error itself; another error has to be raised here.
        if failure is not error:
            raise failure from error
        return False

    def prepare(self) -> BaseTool | None:
        """Set the call and return its tool; set the result and return None if it cannot run."""
        node, request = self._node, self._request
        call, tool = request.tool_call, request.tool
        if tool is None:
            if call["name"] in node.tools_by_name:
                raise TypeError(f"Tool {call['name']} is not registered with ToolNode")
            text = INVALID_TOOL_NAME_ERROR_TEMPLATE.format(
                requested_tool=call["name"], available_tools=", ".join(node.tools_by_name)
            )
            self.result = error_result(call, text)
            return None
        if tool.name != call["name"] and node._is_in_agent:
            self._request = request = named_by_tool(request)
            call = request.tool_call
        if (recorder := _recorder.get()) is not None:
            recorder.record(request)
        is_registered = tool is node.tools_by_name.get(call["name"])
        injection = node._injections[call["name"]] if is_registered else injection_of(tool)
        self._injection = injection
        if injection.schema and (problems := injection.schema.errors(call["args"])):
            text = f"Error: the arguments do not fit {call['name']}: {'; '.join(problems)}."
            self.result = error_result(call, f"{text}\n Please fix your mistakes.")
            return None
        if injection.hidden or injection.runtime:
            # The state of the request, which a wrapper may override, not the state of the runtime.
            call = injection.inject(call, request.runtime, request.state, node._key)
        self.call = {**call, "type": "tool_call"}
        return tool

    def checked(self, response: Any, *, is_answered: bool = False) -> object:
        """Return the result of the tool, normalized; a command is copied."""
        call, key = self._request.tool_call, self._node._key
        checks = self._node._is_in_agent and not is_answered
        if checks and getattr(response, "tool_call_id", None) != call["id"]:
            check_results("", [call], response, self._request.state)
        # As LangGraph's ToolNode: providers take text or blocks, and tools return any object.
        if not isinstance(response, ToolMessage | Command) and _is_content(response):
            # Of a class that overrides `invoke`, which gives a result its form in BaseTool.
            response = ToolMessage(response, name=call["name"], tool_call_id=call["id"])
        if isinstance(response, ToolMessage):
            response.content = msg_content_output(response.content)  # type: ignore[assignment]
            return response
        if isinstance(response, list):
            self._check_list(response)
            return [self.checked(part, is_answered=True) for part in response]
        if not isinstance(response, Command):
            raise TypeError(
                f"Tool {call['name']} returned unexpected type: {type(response)}. {_EXPECTED}"
            )
        command, in_context = response, isinstance(self._request, _RequestInContext)
        as_list = isinstance(self._request.runtime.state, list) and not in_context
        if not isinstance(command.update, dict | list):
            return command
        if isinstance(command.update, dict) and as_list:
            raise ValueError(
                "Tools can provide a dict in Command.update only when using dict with "
                f"'{key}' key as ToolNode input, got: {command.update} for tool "
                f"'{call['name']}'"
            )
        if isinstance(command.update, list) and not as_list:
            raise ValueError(
                "Tools can provide a list of messages in Command.update only when using list of "
                f"messages as ToolNode input, got: {command.update} for tool '{call['name']}'"
            )
        command = _with_own_messages(command, key)
        update: Any = command.update
        messages = self._messages_in(update if as_list else update.get(key, []))
        # The whole history goes, with the call: nothing is left to answer.
        if messages == [RemoveMessage(id=REMOVE_ALL_MESSAGES)]:
            return command
        for message in messages:
            if _answers(message, call):
                message.name = call["name"]
                is_answered = True
        # A command to another graph may leave the answer to that graph.
        if not is_answered and command.graph is None:
            answer = '[ToolMessage("Success", tool_call_id=tool_call_id), ...]'
            example = answer if as_list else f'{{"{key}": {answer}}}'
            raise ValueError(
                "Expected to have a matching ToolMessage in Command.update for tool "
                f"'{call['name']}', got: {messages}. Every tool call (LLM requesting to call a "
                "tool) in the message history MUST have a corresponding ToolMessage. You can fix "
                f"it by modifying the tool to return `Command(update={example}, ...)`."
            )
        return command

    def _messages_in(self, value: object) -> list[BaseMessage]:
        """Return the messages that a command writes; a single message may stand alone."""
        parts: Any = value if isinstance(value, list | tuple) else [value]
        try:
            return convert_to_messages(parts)
        except (NotImplementedError, TypeError, ValueError) as error:
            name, key = self._request.tool_call["name"], self._node._key
            problem = str(error).partition("\n")[0]  # a link to a page follows
            raise BadReturn(
                name,
                f"returned a Command in which {key!r} must be a list of messages, got "
                f"{describe(value)}: {problem.removesuffix('.')}.",
                f'Write Command(update={{"{key}": [ToolMessage("The result.", '
                "tool_call_id=tool_call_id)]}).",
            ) from error

    def _check_list(self, response: list[Any]) -> None:
        """Check that messages and commands answer the call once."""
        call = self._request.tool_call
        messages: list[Any] = []
        for part in response:
            if isinstance(part, ToolMessage):
                messages.append(part)
            elif not isinstance(part, Command):
                raise TypeError(
                    f"Tool {call['name']} returned a list with invalid element types: expected all "
                    f"Command or ToolMessage, got {describe(part)}. {_EXPECTED}"
                )
            elif isinstance(part.update, dict):
                messages += self._messages_in(part.update.get(self._node._key, []))
        answers = sum(_answers(message, call) for message in messages)
        if answers != 1:
            raise ValueError(
                f"Tool {call['name']} returned a list with {answers} messages bound to "
                f"tool_call_id {call['id']!r}; expected exactly one terminating ToolMessage."
            )


def layered_tool_node(
    tools: Sequence[ToolLike],
    handle_tool_errors: Any,
    compose: Compose | None,
    acompose: Compose | None,
    innermost: str,
    scope: Callable[[], AbstractContextManager[object]],
) -> ToolNode:
    """Return a node with layers that are composed once, around its own execution of a tool.

    A `wrap_tool_call` gets `execute` with each call, so that its layers could only be composed
    again for each call. None leaves the tools without layers.
    """
    node = ToolNode(tools, handle_tool_errors=handle_tool_errors)
    node._innermost, node._scope = innermost, scope
    node._is_in_agent = True
    if compose is not None:
        node._call = compose(node._execute)
    if acompose is not None:
        node._acall = acompose(node._aexecute)
    return node


def can_run_inline() -> bool:
    """Return True if a tool may run in this thread.

    In the thread of an event loop, a tool could not start an event loop itself.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return True
    return False


def tools_condition(state: Any, messages_key: str = "messages") -> Literal["tools", "__end__"]:
    """Route a turn to the tools if the last message calls some, else to the end.

    LangGraph's `tools_condition`, except that an empty list raises a ValueError, like an empty
    dict, and not an IndexError.

    Args:
        state: A list of messages, or a state with messages.
        messages_key: Key or attribute of the messages.

    Raises:
        ValueError: The state holds no messages.

    >>> from langchain_core.messages import AIMessage
    >>> tools_condition([AIMessage("Done.")])
    '__end__'
    """
    if isinstance(state, list) and not state:
        raise ValueError(f"No messages found in input state to tool_edge: {state}")
    return langgraph_tools_condition(state, messages_key)
