"""SteeringMiddleware: reads messages to an agent during a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, NotRequired

from langchain_core.messages import HumanMessage, ToolMessage
from langgraph.prebuilt import ToolRuntime
from langgraph.runtime import Runtime
from langgraph.types import Command

from agent_factory import (
    AgentState,
    Flow,
    Ordering,
    PrivateStateAttr,
    ToolCallRequest,
    arun,
    hook_config,
    run,
    set_reason,
)
from agent_factory.middleware._shared.final_answer import final_message
from agent_factory.middleware._shared.invocable import Update, flow_hook
from agent_factory.middleware._shared.mailbox import READERS, STEERING_READ, Entry, Unseen, unseen
from agent_factory.middleware._shared.messages import (
    answers_to_open_calls,
    ends_run,
    error_result,
    last_turn,
    unanswered,
)
from agent_factory.middleware._shared.payload_free import PayloadFree

Kind = Literal["steer", "follow_up", "cancel"]

CANCELLED: Final = "Cancelled: the user stopped the run before this call had a result."


class SteeringState(AgentState):
    """State of an agent under steering.

    Attributes:
        steering_read: Ids of the entries of the mailbox read by this thread.
    """

    steering_read: NotRequired[Annotated[list[str], PrivateStateAttr]]


@dataclass(frozen=True, slots=True)
class Unread:
    """Unread messages to an agent. True if a tool may want to end early for them.

    Attributes:
        messages: Messages of `steer` for the next call of the model, in order.
        follow_ups: Messages of `follow_up` for the end of the run, in order.
        cancelled: Whether the run was cancelled.

    >>> bool(Unread(cancelled=True)), bool(Unread())
    (True, False)
    """

    messages: tuple[HumanMessage, ...] = ()
    follow_ups: tuple[HumanMessage, ...] = ()
    cancelled: bool = False

    def __bool__(self) -> bool:
        return self.cancelled or bool(self.messages)


class SteeringMiddleware(PayloadFree[SteeringState]):
    """Lets people say something to an agent during a run, and stop the run, with a saver alone.

    `steer`, `follow_up` and `cancel` send from another thread or process. The agent looks before
    each call of the model, before each tool call, and at the end of the run:

    - A message of `steer` is read at the next call of the model, after the results of tools.
      After a last answer of the model, the model is called again.
    - A message of `follow_up` is read at the end of the run, which goes on. Several messages are
      read one after the other, each after the answer to the message before.
    - A cancelled run ends: running tools are left to end, calls before their start are answered,
      and a message says that the run was cancelled. Waiting messages stay for the next run.

    Read messages are noted in the state, in the checkpoint with the messages. So a run that is
    killed and resumed reads each message once. A fork from an earlier checkpoint does not have
    messages sent after that checkpoint, nor a later cancellation.

    Put it before all readers of user messages, so that these messages are cleaned and counted.

    Args:
        name: The name of this instance. An agent has a single mailbox, so it needs one instance.

    >>> from agent_factory import create_agent
    >>> from agent_factory.testing import ScriptedChatModel
    >>> from langgraph.checkpoint.memory import InMemorySaver
    >>> model = ScriptedChatModel(["One.", "Two."])
    >>> agent = create_agent(
    ...     model, middleware=[SteeringMiddleware()], checkpointer=InMemorySaver()
    ... )
    >>> thread = {"configurable": {"thread_id": "1"}}
    >>> _ = agent.invoke({"messages": "Count."}, thread)
    >>> from agent_factory.middleware import steer
    >>> _ = steer(agent, thread, "In English.")
    >>> result = agent.invoke({"messages": "Go on."}, thread)
    >>> [message.text for message in result["messages"]]
    ['Count.', 'One.', 'Go on.', 'In English.', 'Two.']
    """

    state_schema = SteeringState
    needs_checkpointer = True
    kept_flows = ("around_tool",)

    ordering = Ordering(after=("ModelCallLimitMiddleware",), before=READERS)

    @flow_hook
    def before_agent(self, state: SteeringState, runtime: Runtime[Any]) -> Flow[Update]:
        """Note entries for other runs as read: earlier cancellations, entries of other branches.

        A message that a fork would not read must not wait there.
        """
        entries = yield from unseen(state, runtime, "steer", "follow_up", "cancel")
        info = runtime.execution_info
        # The first checkpoint of a run holds its input.
        begin = info.checkpoint_id if info else ""
        old = [entry for entry in entries.of("cancel") if entry.after != begin]
        return _noted(state, old, entries)

    @flow_hook
    @hook_config(can_jump_to=["end"])
    def before_model(self, state: SteeringState, runtime: Runtime[Any]) -> Flow[Update]:
        """Add the waiting messages, or end a cancelled run."""
        entries = yield from unseen(state, runtime, "steer", "cancel")
        if cancellations := entries.of("cancel"):
            set_reason("the run was cancelled")
            end = final_message("the run was cancelled", source="steering")
            messages = [*answers_to_open_calls(state["messages"]), end]
            update = {"messages": messages, "jump_to": "end"}
            return {**update, **(_noted(state, cancellations, entries) or {})}
        steers = entries.of("steer")
        # After a jump over the tools, calls may have no results, and these must follow the calls.
        if unanswered(*last_turn(state["messages"])):
            return None
        noted = _noted(state, steers, entries)
        return {**noted, "messages": _messages(steers)} if noted and steers else noted

    @flow_hook
    @hook_config(can_jump_to=["model"])
    def after_model(self, state: SteeringState, runtime: Runtime[Any]) -> Flow[Update]:
        """Call the model again at the end of a run: for a message, or for a follow-up."""
        if not ends_run(state):
            return None
        entries = yield from unseen(state, runtime, "steer", "follow_up", "cancel")
        if entries.of("cancel"):
            return None
        # The message came during the last answer of the model. The hook before the model reads it.
        if entries.of("steer"):
            set_reason("a message waits")
            return {"jump_to": "model"}
        # One after the other: a person who sends two messages expects two answers.
        follow_ups = entries.of("follow_up")[:1]
        if not (noted := _noted(state, follow_ups, entries)) or not follow_ups:
            return noted
        set_reason("a follow-up waits")
        return {**noted, "messages": _messages(follow_ups), "jump_to": "model"}

    def around_tool(self, request: ToolCallRequest) -> Flow[ToolMessage | Command[Any]]:
        """Answer the call of a cancelled run without running the tool."""
        entries = yield from unseen(request.state, request.runtime, "cancel")
        if entries.of("cancel"):
            set_reason("the run was cancelled")
            return error_result(request.tool_call, CANCELLED)
        result: ToolMessage | Command[Any] = yield request
        return result


def unread(runtime: ToolRuntime[Any, Any]) -> Unread:
    """Unread messages to the agent around a tool, so that a long tool can end early.

    Nothing is read: the messages stay for the next call of the model.

    Args:
        runtime: The runtime of the tool, from its parameter `runtime: ToolRuntime`.

    Returns:
        The unread messages. False without a saver, and always false in an agent without
        SteeringMiddleware.

    >>> from langgraph.prebuilt import ToolRuntime
    >>> def crawl(pages: int, runtime: ToolRuntime) -> str:
    ...     "Read pages."
    ...     for page in range(pages):
    ...         if unread(runtime):
    ...             return f"Stopped after {page} pages."
    ...     return "All pages are read."
    """
    return run(_look(runtime))


async def aunread(runtime: ToolRuntime[Any, Any]) -> Unread:
    """Async variant of `unread`."""
    return await arun(_look(runtime))


def _look(runtime: ToolRuntime[Any, Any]) -> Flow[Unread]:
    entries = yield from unseen(runtime.state, runtime, "steer", "follow_up", "cancel")
    return Unread(
        messages=tuple(_messages(entries.of("steer"))),
        follow_ups=tuple(_messages(entries.of("follow_up"))),
        cancelled=bool(entries.of("cancel")),
    )


def _noted(state: SteeringState, entries: Sequence[Entry], unseen: Unseen) -> Update:
    """An update with the read entries, and the entries of other branches; None without any."""
    ids = [entry.id for entry in (*entries, *unseen.elsewhere)]
    return {STEERING_READ: [*(state.get(STEERING_READ) or ()), *ids]} if ids else None


def _messages(entries: Sequence[Entry]) -> list[HumanMessage]:
    return [entry.message for entry in entries if entry.message is not None]
