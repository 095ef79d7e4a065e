"""OnceMiddleware: records each effect before the tool runs, and its result after it."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from contextlib import nullcontext
from dataclasses import replace
from functools import cache
from hashlib import sha256
from typing import Annotated, Any, Final, NotRequired, cast, get_args

from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.messages.tool import ToolCall
from langgraph.errors import GraphInterrupt, is_invalid_resume
from langgraph.graph import START, StateGraph
from langgraph.prebuilt import ToolRuntime
from langgraph.runtime import Runtime
from langgraph.types import Command
from typing_extensions import TypedDict

from agent_factory import (
    AgentMiddleware,
    AgentState,
    Flow,
    Invoke,
    Ordering,
    PrivateStateAttr,
    ToolCallRequest,
    set_reason,
)
from agent_factory.middleware._shared.effects import EffectRuntime, OnUnknown
from agent_factory.middleware._shared.errors import FailureRecorder, outcome_unknown, record_failure
from agent_factory.middleware._shared.interrupts import ask
from agent_factory.middleware._shared.messages import error_result
from agent_factory.middleware._shared.reviews import (
    ActionRequest,
    ReviewConfig,
    ToolApprovalRequest,
    answer_schema,
)
from agent_factory.middleware._shared.validation import check_choice

from .effects import (
    Effect,
    EffectError,
    EffectStore,
    current_recording,
    dump,
    effects_of_run,
    stored,
)

Result = ToolMessage | Command[Any]
Compensation = Callable[[Effect], Any]

_QUESTION: Final = (
    "{unknown}\nRespond with the result that it had, approve to run it again, or reject to leave "
    "it open."
)
_FAILED: Final = (
    "Error: {unknown} Find out whether it was done before you make the call again, or say that it "
    "is uncertain."
)
_REJECTED: Final = "Error: {unknown} A person decided not to run it again."
_UNDONE: Final = "Error: {effect}, was done, and has been undone since."


class OnceState(AgentState[Any]):
    """State of agents whose effects can be undone.

    Attributes:
        once_run: The newest message of the input with which the run began.
    """

    once_run: NotRequired[Annotated[str | None, PrivateStateAttr]]


class OnceMiddleware(AgentMiddleware[OnceState, Any]):
    """Lets the effect of a tool call happen once, also if the process dies and the run is resumed.

    Before a tool runs, its call is recorded as started; after it, with its result. A call that runs
    again gets the stored result, and the tool does not run. If an earlier attempt was started and
    has no result, its outcome is unknown: the process died, or the tool timed out or was cancelled.
    What then happens is set for each tool:

    - "rerun": the tool runs again. For tools that pass their `idempotency_key` on.
    - "ask": a person is asked by an interrupt, a `ToolApprovalRequest`: respond with the result
      that the attempt had, approve to run the tool again, or reject to leave it open.
    - "fail": the model reads an error that says that the outcome is unknown.

    Any other exception means that the effect did not happen: the record is deleted, and the call
    may run again. An interrupt inside the tool deletes it as well. A result with status "error" is
    a result.

    The key of a record is made of the thread, the namespace of a nested agent, the id of the
    model's message, and the id, tool and arguments of the call. So it is the same when a run is
    resumed, in whatever process; a new answer of the model to the same question is a new effect.
    Run the agent with `durability="sync"`, so that an answer is stored before its tools run.

    It is the innermost layer around tools: only what really runs is recorded.

    Args:
        effects: For each tool with an effect, what happens if the outcome of an earlier attempt is
            unknown; None for a tool that is not recorded.
        store: Where effects are recorded, such as `SqliteEffects(path)`. Default: the store that
            `effects_of_run` announces where the agent runs.
        default: As `effects`, for all tools that it does not name.
        undo: Compensations by the name of the tool: functions of the `Effect`, sync or async. They
            are called by `undo_effects`, and by nothing else. Tools of subagents with the same
            store may be named as well.
        name: Distinguishes several instances.

    Raises:
        ValueError: A policy is unknown, or no tool is recorded.
        TypeError: `effects` or `undo` is not a mapping, or a compensation is not a function.

    >>> from agent_factory import create_agent
    >>> from agent_factory.middleware import InMemoryEffects
    >>> from agent_factory.testing import ScriptedChatModel
    >>> from langgraph.checkpoint.memory import InMemorySaver
    >>> def refund(order: str) -> str:
    ...     "Refund an order."
    ...     return f"{order} is refunded."
    >>> agent = create_agent(
    ...     ScriptedChatModel([[{"name": "refund", "args": {"order": "A1"}}], "Done."]),
    ...     [refund],
    ...     middleware=[OnceMiddleware({"refund": "ask"}, store=InMemoryEffects())],
    ...     checkpointer=InMemorySaver(),
    ... )
    >>> thread = {"configurable": {"thread_id": "1"}}
    >>> agent.invoke({"messages": "Refund A1"}, thread, durability="sync")["messages"][2].text
    'A1 is refunded.'
    """

    state_schema = OnceState
    needs_checkpointer = True
    unused: Collection[str] = ()
    kept_flows = ("around_tool",)

    ordering = Ordering(
        after=(
            "HumanInTheLoopMiddleware",
            "ToolCallLimitMiddleware",
            "AutoModeMiddleware",
            "ToolErrorMiddleware",
            "ToolRetryMiddleware",
            "LLMToolEmulator",
            "BudgetMiddleware",
        ),
        reads=("tool_errors",),
    )

    def __init__(
        self,
        effects: Mapping[str, OnUnknown | None],
        *,
        store: EffectStore | None = None,
        default: OnUnknown | None = None,
        undo: Mapping[str, Compensation] | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(name=name)
        if not isinstance(effects, Mapping):
            raise TypeError(
                f"effects must be a dict with names of tools as keys, got {effects!r}. "
                "Pass {'refund': 'ask'}."
            )
        for tool, policy in [*effects.items(), (None, default)]:
            if policy is not None:
                argument = "default" if tool is None else f"effects[{tool!r}]"
                check_choice(argument, policy, get_args(OnUnknown))
        if default is None and not any(effects.values()):
            raise ValueError(
                "effects names no tool, so nothing would be recorded. Pass {'refund': 'ask'}, or "
                "default='ask' for all tools."
            )
        if not isinstance(undo or {}, Mapping) or not all(map(callable, (undo or {}).values())):
            raise TypeError(
                "undo must be a dict with names of tools as keys and functions as values, got "
                f"{undo!r}. Pass {{'book': cancel}}."
            )
        self.effects = dict(effects)
        self.store = store
        self.default = default
        self.undo = dict(undo or {})
        self.expected_tools = tuple(effects)
        self.unused = () if undo else ("before_agent",)

    def before_agent(self, state: OnceState, runtime: Runtime[Any]) -> dict[str, Any]:
        """Name the run after the newest message, so that its effects can be undone."""
        messages = state["messages"]
        return {"once_run": messages[-1].id if messages else None}

    async def abefore_agent(self, state: OnceState, runtime: Runtime[Any]) -> dict[str, Any]:
        """Async variant of `before_agent`; nothing is awaited."""
        return self.before_agent(state, runtime)

    def around_tool(self, request: ToolCallRequest) -> Flow[Result]:
        """Return the stored result, or run the tool and store its result."""
        call = request.tool_call
        policy = self.effects.get(call["name"], self.default)
        store, run = self._recording(request)
        if policy is None:
            # The effects of a subagent belong to this run.
            with effects_of_run(store, run) if store and run else nullcontext():
                return cast("Result", (yield request))
        if store is None:
            raise EffectError(
                self.name,
                f"has no store to record the effect of {call['name']} in.",
                f"Write {self.name}(..., store=SqliteEffects('effects.db')), or run the agent "
                "within `with effects_of_run(store):`.",
            )
        if run is None:
            raise EffectError(
                self.name,
                f"cannot record the effect of {call['name']} without a thread: a call would have "
                "no key by which it is known again.",
                'Pass {"configurable": {"thread_id": "1"}}, and build the agent with a '
                "checkpointer.",
            )
        effect = Effect.start(_key(request), run, call["name"], dump(call["args"]))
        while (earlier := (yield from stored(store.begin, effect))) is not None:
            if earlier.is_done:
                return (yield from _stored_result(store, earlier, call))
            if (result := (yield from self._settled(store, earlier, call, policy))) is not None:
                return cast("Result", result)
            # Only this attempt: what another process has started since is asked about again.
            yield from stored(store.release, earlier)
        return (yield from self._run(request, store, effect, policy))

    def _recording(self, request: ToolCallRequest) -> tuple[EffectStore | None, str | None]:
        """The store, and the name of the run; each None if there is none."""
        announced = current_recording()
        store = self.store or (announced and announced.store)
        if announced and announced.run is not None:
            return store, announced.run
        thread = _configurable(request).get("thread_id")
        return store, None if thread is None else run_id(thread, request.state)

    def _settled(
        self, store: EffectStore, earlier: Effect, call: ToolCall, policy: OnUnknown
    ) -> Flow[ToolMessage | None]:
        """The result of a call with an attempt of unknown outcome; None to run the tool again."""
        unknown = f"{earlier}, and its outcome is unknown: it may have been done."
        set_reason("the outcome of an earlier attempt is unknown")
        if policy == "fail":
            return error_result(call, _FAILED.format(unknown=unknown))
        if policy == "rerun":
            return None
        decision = yield from _decision(self.name, earlier, call, _QUESTION.format(unknown=unknown))
        if decision["type"] == "reject":
            text = decision.get("message") or _REJECTED.format(unknown=unknown)
            return error_result(call, text)
        if decision["type"] == "approve":
            return None
        answer = ToolMessage(decision["message"], tool_call_id=call["id"], name=call["name"])
        yield from stored(store.finish, earlier, dump(answer))
        return answer

    def _run(
        self, request: ToolCallRequest, store: EffectStore, effect: Effect, policy: OnUnknown
    ) -> Flow[Result]:
        """Run the tool of a call that has been recorded as started."""
        call_id = request.tool_call["id"]
        own = {"idempotency_key": effect.key, "on_unknown": policy}
        runtime = EffectRuntime(**{**vars(request.runtime), **own})
        try:
            with effects_of_run(store, effect.run), FailureRecorder() as recorder:
                result: Result = yield replace(request, runtime=runtime)
        except GeneratorExit as closed:
            # Control flow closes a flow, which cannot yield then: the store is called at once.
            signal = closed.__context__
            if isinstance(signal, GraphInterrupt) or (signal and is_invalid_resume(signal)):
                store.release(effect)
            raise
        except Exception as error:
            if not outcome_unknown(error):
                yield from stored(store.release, effect)
            raise
        # A layer further in may have reported an exception to the model.
        if (failure := recorder.errors.get(call_id)) is not None:
            record_failure(call_id, failure)
            if outcome_unknown(failure):
                return result
        yield from stored(store.finish, effect, dump(result))
        return result


def idempotency_key(runtime: ToolRuntime[Any, Any]) -> str:
    """The key of the call that runs, for a provider that does the same work once for each key.

    It is the same when the call runs again, in whatever process.

    Args:
        runtime: The runtime of a tool under OnceMiddleware: its parameter `runtime: ToolRuntime`.

    Raises:
        EffectError: The effect of the call is not recorded.

    >>> def pay(euros: int, runtime: ToolRuntime) -> str:
    ...     "Pay a bill."
    ...     return f"Paid {euros} euros under {idempotency_key(runtime)}."
    """
    if not isinstance(runtime, EffectRuntime):
        raise EffectError(
            "idempotency_key",
            "has no key for this call: its effect is not recorded.",
            "Add OnceMiddleware({'name_of_the_tool': 'rerun'}) to the agent.",
        )
    return runtime.idempotency_key


def run_id(thread: str, state: Mapping[str, Any]) -> str:
    """The name of a run of a thread that nobody has named."""
    return f"{thread}/{state.get('once_run') or ''}"


def _configurable(request: ToolCallRequest) -> Mapping[str, Any]:
    config: Any = getattr(request.runtime, "config", None) or {}
    configurable: Mapping[str, Any] = config.get("configurable") or {}
    return configurable


def _key(request: ToolCallRequest) -> str:
    """The key of a call, the same whenever the call runs, and that of no other call."""
    call, configurable = request.tool_call, _configurable(request)
    # Models give ids of calls again. The nearest message with the call is the one that made it.
    source = next(
        (
            message.id
            for message in reversed(request.state["messages"])
            if isinstance(message, AIMessage)
            and any(made["id"] == call["id"] for made in message.tool_calls)
        ),
        None,
    )
    if source is None:
        raise EffectError(
            call["name"],
            "has no key: no message with an id in the state made this call.",
            "Keep the model's message in the state while its tools run.",
        )
    # That of the graph: the last part is the task of the call, the part before it of a subagent.
    namespace = str(configurable.get("checkpoint_ns") or "").rpartition("|")[0]
    parts = [configurable.get("thread_id"), namespace, source, call["id"], call["name"]]
    text = json.dumps([*parts, call["args"]], default=str, sort_keys=True)
    return sha256(text.encode()).hexdigest()[:32]


def _stored_result(store: EffectStore, earlier: Effect, call: ToolCall) -> Flow[Result]:
    """The result of an effect that has happened, unless it has been undone since."""
    set_reason("the result is stored")
    records = yield from stored(store.of_run, earlier.run)
    if any(record.key == earlier.undo_key for record in records):
        return error_result(call, _UNDONE.format(effect=earlier))
    return cast("Result", earlier.result)


class _Question(TypedDict):
    request: ToolApprovalRequest
    attempt: str
    decision: NotRequired[Any]


@cache
def _question() -> Any:
    """The graph that asks a person.

    LangGraph gives the interrupts of a task their answers by order, so a question in the task of
    the tool could take the answer to a question of the tool itself. A graph has a namespace.
    """

    def question(state: _Question) -> dict[str, Any]:
        schema, title = answer_schema(state["request"])
        return {"decision": ask(state["request"], schema, title=title)}

    graph = StateGraph(_Question)
    graph.add_node("question", question)
    graph.add_edge(START, "question")
    return graph.compile(name="question")


def _decision(owner: str, earlier: Effect, call: ToolCall, question: str) -> Flow[Any]:
    """What a person decides about an attempt whose outcome is unknown."""
    request = ToolApprovalRequest(
        tool_call_id=call["id"],
        action_request=ActionRequest(
            name=call["name"],
            args=call["args"],
            description=question,
            tool_call_id=call["id"],
        ),
        review_config=ReviewConfig(
            action_name=call["name"], allowed_decisions=["approve", "reject", "respond"]
        ),
    )
    asked = _Question(request=request, attempt=earlier.attempt)
    while True:
        answered = yield Invoke(_question(), asked)
        if "__interrupt__" in answered:
            raise EffectError(
                owner,
                f"cannot ask about {call['name']} outside of an agent.",
                "Test the answers in an agent with a checkpointer.",
            )
        # In a task that is resumed, a graph that has ended returns its old state. The next one has
        # another namespace. So questions about earlier attempts are passed in their order.
        if answered["attempt"] == earlier.attempt:
            return answered["decision"]
