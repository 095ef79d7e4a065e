"""SteeringMiddleware: reads what is sent to an agent while it runs."""

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
    """State of an agent that can be steered.

    Attributes:
        steering_read: Ids of the entries of the mailbox that this thread has read.
    """

    steering_read: NotRequired[Annotated[list[str], PrivateStateAttr]]


@dataclass(frozen=True, slots=True)
class Unread:
    """What was sent to an agent and is not read yet. True if a tool may want to end early for it.

    Attributes:
        messages: Those of `steer`, which the next call of the model reads, in order.
        follow_ups: Those of `follow_up`, which are read when the run would end, in order.
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
    """Lets people say something to an agent while it runs, and stop it, with a saver alone.

    `steer`, `follow_up` and `cancel` send from another thread or process. The agent looks before
    each call of the model, before each tool call, and when it would end:

    - A message of `steer` is read at the next call of the model, after the results of its tools.
      If the model has just given its answer, the model is called again.
    - A message of `follow_up` is read when the run would end; the run goes on with it. Several are
      read one by one, each when the one before it is answered.
    - A cancelled run ends: tools that run are left to end, calls that have not begun are answered,
      and a message says that the run was cancelled. Messages that wait stay for the next run.

    What was read is noted in the state, in the same checkpoint as the messages. So a run that is
    killed and resumed reads each message once. A fork from an earlier checkpoint does not have what
    was sent after that checkpoint, and is not cancelled by it.

    It belongs before all that reads messages of the user, so that these are cleaned and counted.

    Args:
        name: The name of this instance. An agent has one mailbox, so it needs one instance.

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
        """Note what is not for this run as read: earlier cancellations, entries of other branches.

        A message that a fork would not read must not wait in it.
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
        """Add the messages that wait, or end a run that was cancelled."""
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
        # It came while the model gave its last answer. The hook before the model reads it.
        if entries.of("steer"):
            set_reason("a message waits")
            return {"jump_to": "model"}
        # One by one: a person who sends two expects two answers.
        follow_ups = entries.of("follow_up")[:1]
        if not (noted := _noted(state, follow_ups, entries)) or not follow_ups:
            return noted
        set_reason("a follow-up waits")
        return {**noted, "messages": _messages(follow_ups), "jump_to": "model"}

    def around_tool(self, request: ToolCallRequest) -> Flow[ToolMessage | Command[Any]]:
        """Answer the call of a run that was cancelled; its tool does not run."""
        entries = yield from unseen(request.state, request.runtime, "cancel")
        if entries.of("cancel"):
            set_reason("the run was cancelled")
            return error_result(request.tool_call, CANCELLED)
        result: ToolMessage | Command[Any] = yield request
        return result


def unread(runtime: ToolRuntime[Any, Any]) -> Unread:
    """What waits for the agent that has called a tool, so that a long tool can end early.

    It reads nothing: the messages stay for the next call of the model.

    Args:
        runtime: The runtime that the tool gets, as its parameter `runtime: ToolRuntime`.

    Returns:
        What waits. It is false without a saver, and in an agent without SteeringMiddleware nothing
        ever waits.

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
    """An update that notes entries as read, and those of other branches; None without any."""
    ids = [entry.id for entry in (*entries, *unseen.elsewhere)]
    return {STEERING_READ: [*(state.get(STEERING_READ) or ()), *ids]} if ids else None


def _messages(entries: Sequence[Entry]) -> list[HumanMessage]:
    return [entry.message for entry in entries if entry.message is not None]
