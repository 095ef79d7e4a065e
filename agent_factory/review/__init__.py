"""Decide about the tool calls of a paused thread, and keep the history of the thread valid.

>>> from agent_factory.review import approve, edit, pending, reject

The functions work on a run that was stopped by `interrupt_before` or `interrupt_after`, by
HumanInTheLoopMiddleware, or by a call of `interrupt()`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig

from agent_factory.errors import NothingPending, NoThread, ReviewError, UnknownCall
from agent_factory.hooks.flows import arun, identity, run
from agent_factory.review.decision import Judge as Judge
from agent_factory.review.decision import Judgement as Judgement
from agent_factory.review.decision import judge as judge
from agent_factory.review.decision import judge_answer as judge_answer
from agent_factory.review.errors import (
    DecideTogether,
    DecisionNotAllowed,
    InvalidAnswer,
    InvalidDecision,
)
from agent_factory.review.pending_calls import Kind as Kind
from agent_factory.review.pending_calls import Pending, PendingCall
from agent_factory.review.policy import DecisionType as DecisionType
from agent_factory.review.policy import PolicyRow, Rule, ToolPolicy, policy_table
from agent_factory.review.records import without_marks as without_marks
from agent_factory.review.requests import Decision
from agent_factory.review.standing_approvals import (
    ApprovalStore,
    StandingApproval,
    StoredApprovals,
    aapprovals,
    approvals,
    approvals_of_run,
    arevoke,
    revoke,
)
from agent_factory.review.steps import Reviews as Reviews
from agent_factory.review.steps import (
    StepPlanner,
    Thread,
    action,
    apply,
    async_variant,
    plan_decision,
    plan_decisions,
    plan_input,
    thread_config,
)
from agent_factory.review.steps import is_paused as is_paused
from agent_factory.review.steps import repeat_review as repeat_review
from agent_factory.review.steps import topology_or_none as topology_or_none
from agent_factory.review.stranded_threads import StrandedThread, astranded, stranded
from agent_factory.review.turns import turn
from agent_factory.tools.client_tool import CLIENT_ID as CLIENT_ID

# Public. Names imported above as themselves are for the service, which asks about the same calls.
__all__ = [
    "ApprovalStore",
    "DecideTogether",
    "Decision",
    "DecisionNotAllowed",
    "InvalidAnswer",
    "InvalidDecision",
    "NoThread",
    "NothingPending",
    "Pending",
    "PendingCall",
    "PolicyRow",
    "ReviewError",
    "Rule",
    "StandingApproval",
    "StoredApprovals",
    "StrandedThread",
    "ToolPolicy",
    "UnknownCall",
    "aadd_input",
    "aapprovals",
    "aapprove",
    "add_input",
    "adecide",
    "aedit",
    "apending",
    "approvals",
    "approvals_of_run",
    "approve",
    "areject",
    "arespond",
    "arevoke",
    "astranded",
    "atake_turn",
    "decide",
    "edit",
    "pending",
    "policy_table",
    "reject",
    "respond",
    "revoke",
    "stranded",
    "take_turn",
]


def pending(agent: object, config: RunnableConfig) -> Pending:
    """Return the calls for which a thread waits; falsy for a thread that is not paused or new.

    Args:
        agent: An agent with a checkpointer.
        config: A config with the `thread_id`, and a `checkpoint_id` for an earlier checkpoint.

    Raises:
        NoThread: The agent has no checkpointer, or the config has no `thread_id`.
        MissingNode: The thread waits at a node which the agent lost with a change of middleware.
    """
    return read_thread(agent, config)[1]


def read_thread(agent: object, config: RunnableConfig) -> Thread:
    """The state of a thread and its pending calls; the arguments and errors of `pending`."""
    # `identity`: the flow yields values here, and awaitables in an async run.
    return run(Reviews.of(agent).read("", thread_config(agent, config)), identity)


async def apending(agent: object, config: RunnableConfig) -> Pending:
    """Async variant of `pending`."""
    return (await arun(Reviews.of(agent).read("a", thread_config(agent, config)), identity))[1]


@action
def approve(
    agent: object, config: RunnableConfig, call_id: str | None = None, **options: object
) -> Any:
    """Run calls unchanged, or continue a run that was stopped where no call waits.

    If several calls are pending, a decision about a single call is recorded, and the run continues
    after the last decision. Calls with separate interrupts continue separately.

    Args:
        agent: An agent with a checkpointer.
        config: A config with the `thread_id`.
        call_id: The id or the digest of the call; None for all open calls, which may differ from
            the calls a person has seen.
        **options: Passed to the agent's `invoke`, for example `context`. With `stream=True` the
            run is streamed, and the options are passed to the agent's `stream`, for example
            `stream_mode`.

    Returns:
        The result of the agent's `invoke`; the state of the thread if decisions are still missing.
        With `stream=True`, the iterator of the agent's `stream`, without parts if decisions are
        still missing. `await aapprove(..., stream=True)` returns an async iterator.

    Raises:
        ReviewError: The thread does not exist or is not paused, no pending call has this id, or
            the call may not be approved.
        MissingNode: The thread waits at a node which the agent lacks.

    >>> from langgraph.checkpoint.memory import InMemorySaver
    >>> from agent_factory import create_agent
    >>> from agent_factory.testing import ScriptedChatModel
    >>> def add(a: int, b: int) -> int:
    ...     "Add two numbers."
    ...     return a + b
    >>> agent = create_agent(
    ...     ScriptedChatModel([[{"name": "add", "args": {"a": 2, "b": 3}}], "It is 5."]),
    ...     [add],
    ...     checkpointer=InMemorySaver(),
    ...     interrupt_before=["tools"],
    ... )
    >>> thread = {"configurable": {"thread_id": "1"}}
    >>> _ = agent.invoke({"messages": [("user", "2 + 3?")]}, thread)
    >>> [(call.name, call.args) for call in pending(agent, thread).calls]
    [('add', {'a': 2, 'b': 3})]
    >>> approve(agent, thread)["messages"][-1].text
    'It is 5.'
    """
    return partial(apply, agent, config, plan_decision("approve", call_id), options)


aapprove = async_variant(approve)
"""Async variant of `approve`."""


@action
def reject(
    agent: object,
    config: RunnableConfig,
    message: str | None = None,
    call_id: str | None = None,
    **options: object,
) -> Any:
    """Do not run calls; the model reads the reason as their result and continues.

    Further arguments, the result and the errors are as of `approve`.

    Args:
        message: The reason for the model; None for a default text about the rejection.
    """
    return partial(apply, agent, config, plan_decision("reject", call_id, message=message), options)


areject = async_variant(reject)
"""Async variant of `reject`."""


@action
def edit(
    agent: object,
    config: RunnableConfig,
    args: Mapping[str, object],
    call_id: str | None = None,
    *,
    name: str | None = None,
    **options: object,
) -> Any:
    """Run a call with other arguments, or run another call instead.

    If `interrupt_before` or `interrupt_after` stopped the run, the model takes the new call for
    the original call. HumanInTheLoopMiddleware reports the change to the model.

    Further arguments, the result and further errors are as of `approve`.

    Args:
        args: All arguments of the call.
        call_id: The id or the digest of the call; may be None if a single call is open.
        name: Another tool; None keeps the tool.

    Raises:
        ArgumentError: The arguments are not a dict.
        ReviewError: Several calls are open and `call_id` is None.
    """
    edited_action = {"args": args, **({"name": name} if name else {})}
    planner = plan_decision("edit", call_id, edited_action=edited_action)
    return partial(apply, agent, config, planner, options)


aedit = async_variant(edit)
"""Async variant of `edit`."""


@action
def respond(
    agent: object,
    config: RunnableConfig,
    answer: object,
    call_id: str | None = None,
    **options: object,
) -> Any:
    """Answer instead of a tool, answer an `interrupt()`, or change the result of a tool.

    An answered call does not run. If a tool called `interrupt()`, this function returns the
    answer, and the tool runs again from the start. If the run stopped after the tools, the answer
    replaces the result in the messages of the model.

    Further arguments, the result and further errors are as of `approve`.

    Args:
        answer: A string; for an `interrupt()`, any accepted value.
        call_id: The id or the digest of the call, or the id of an interrupt; may be None if a
            single call is open.

    Raises:
        ArgumentError: The result of a call is not a string.
        ReviewError: Several calls are open and `call_id` is None.
    """
    return partial(apply, agent, config, plan_decision("respond", call_id, message=answer), options)


arespond = async_variant(respond)
"""Async variant of `respond`."""


@action
def decide(
    agent: object,
    config: RunnableConfig,
    decisions: Mapping[str, str | Decision | Mapping[str, object]],
    **options: object,
) -> Any:
    """Decide about several calls at once, with a decision for each.

    Further arguments, the result and the errors are as of `approve`.

    Args:
        decisions: For the id or the digest of each call, a `Decision`, such as
            `{"type": "reject", "message": "Too much."}`, or "approve" or "reject".
    """
    return partial(apply, agent, config, partial(plan_decisions, new=decisions), options)


adecide = async_variant(decide)
"""Async variant of `decide`."""


@action
def carry_out(
    agent: object,
    config: RunnableConfig,
    thread: Thread,
    decisions: Mapping[str, Mapping[str, object]],
    **options: object,
) -> Any:
    """`decide` about a thread that `read_thread` has just read.

    The decision of a pause without calls has the key "".
    """
    planner: StepPlanner = partial(plan_decisions, new=decisions)
    if "" in decisions:
        planner = plan_decision("approve", None)
    return partial(apply, agent, config, planner, options, thread=thread)


acarry_out = async_variant(carry_out)
"""Async variant of `carry_out`."""


@action
def add_input(agent: object, config: RunnableConfig, input: object, **options: object) -> Any:
    """Send a new message of the user: pending calls end, and a new turn begins.

    Each pending call is answered with an error: "did not run" if the thread waits before the tools,
    as for a review, otherwise "may have run". Results of parallel calls are kept.

    Further arguments and the result are as of `approve`.

    Args:
        input: A string, a message, a list of messages, or an input of the agent with `messages`.

    Raises:
        ArgumentError: The input is not a message and has no messages.
        NothingPending: The thread is not paused; use `invoke` for a new message.
        NoThread: The agent has no checkpointer, the config has no `thread_id`, or the thread does
            not exist.
    """
    return partial(apply, agent, config, plan_input(input), options, stranded=True)


aadd_input = async_variant(add_input)
"""Async variant of `add_input`."""


@action
def take_turn(
    agent: object,
    config: RunnableConfig,
    message: BaseMessage,
    decisions: Mapping[str, str | Decision | Mapping[str, object]] = MappingProxyType({}),
    **options: object,
) -> Any:
    """Bring the turn of a message to its end or its next pause, wherever it stands.

    Safe to call again, also after a crash of the process: for a queue of your own. A new message
    begins, and ends an earlier turn that was cut; a turn that was cut goes on at its last
    checkpoint; a turn that is over stays as it is. Only one process at a time may work on a thread:
    `Service.lease` fences the others.

    Args:
        agent: An agent with a checkpointer.
        config: A config with the `thread_id`.
        message: The message. Its id names the turn in the metadata of the checkpoints.
        decisions: Decisions by the digests of pending calls. Digests of calls that are not pending
            any more change nothing.
        **options: Passed to the agent's `invoke`. `durability` is "sync" by default.

    Returns:
        The result of the agent's `invoke`; the state of the thread if nothing was left to do.

    Raises:
        ArgumentError: The message has no id.
        NoThread: The agent has no checkpointer, or the config has no `thread_id`.
        MissingNode: The thread waits at a node which the agent lacks.
        ReviewError: A pending call may not be decided so.

    >>> from langchain_core.messages import HumanMessage
    >>> from langgraph.checkpoint.memory import InMemorySaver
    >>> from agent_factory import create_agent
    >>> from agent_factory.testing import ScriptedChatModel
    >>> agent = create_agent(ScriptedChatModel(["Hello!"]), checkpointer=InMemorySaver())
    >>> thread = {"configurable": {"thread_id": "1"}}
    >>> message = HumanMessage("Hi", id="m-1")
    >>> [len(take_turn(agent, thread, message)["messages"]) for _ in range(2)]
    [2, 2]
    """
    return partial(turn, agent, config, message, decisions, options)


atake_turn = async_variant(take_turn)
"""Async variant of `take_turn`."""
