"""OnceMiddleware: records each effect before the tool runs, and the result afterwards."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Final, NotRequired, cast, get_args

from langchain_core.messages import ToolMessage
from langchain_core.messages.tool import ToolCall
from langgraph.errors import GraphInterrupt, is_invalid_resume
from langgraph.runtime import Runtime
from langgraph.types import Command

from agent_factory import (
    AgentState,
    Flow,
    Ordering,
    PrivateStateAttr,
    ToolCallRequest,
    ToolGuard,
    set_reason,
)
from agent_factory.middleware._shared.effects import (
    EffectRuntime,
    OnUnknown,
    Recording,
    recording_here,
)
from agent_factory.middleware._shared.errors import (
    outcome_unknown,
    record_failure,
    recorded_failures,
)
from agent_factory.middleware._shared.invocable import once_per_task, plain_hook
from agent_factory.middleware._shared.messages import error_result
from agent_factory.middleware._shared.payload_free import PayloadFree
from agent_factory.middleware._shared.validation import check_choice, check_value
from agent_factory.review import PendingCall
from agent_factory.review.policy import DecisionType
from agent_factory.review.questions import Question
from agent_factory.types import providing

from .effects import Effect, EffectError, EffectStore, check_released, dump, effects_of_run, stored
from .keys import configurable_of, key_of, run_id

Result = ToolMessage | Command[Any]
Compensation = Callable[[Effect], object]

_QUESTION: Final = (
    "{unknown}\nRespond with the result that it had, approve to run it again, or reject to leave "
    "it open."
)
_FAILED: Final = (
    "Error: {unknown} Find out whether it was done before you make the call again, or say that it "
    "is uncertain."
)
_REJECTION: Final = "Error: {unknown} A person decided not to run it again."
_UNDONE: Final = "Error: {effect}, was done, and has been undone since."


class OnceState(AgentState):
    """State of agents with an undo of effects.

    Attributes:
        once_run: The id of the newest message in the input of the run.
    """

    once_run: NotRequired[Annotated[str | None, PrivateStateAttr]]


class OnceMiddleware(PayloadFree[OnceState]):
    """Lets the effect of a tool call happen once, also if the process dies and the run is resumed.

    Before a tool runs, the call is recorded as started; afterwards, with the result. A repeated
    call gets the stored result, and the tool does not run. Without a result of an earlier attempt,
    the outcome is unknown: the process died, the tool timed out or was cancelled, or the result
    cannot be used (`BadReturn`). Each tool has a policy for an unknown outcome:

    - "rerun": the tool runs again. For tools which pass the `idempotency_key` to a provider.
    - "ask": a person is asked by an interrupt, a `ToolApprovalRequest`: respond with the result
      of the attempt, approve to run the tool again, or reject to leave the outcome open.
    - "fail": the model reads an error about the unknown outcome.

    After any other exception the effect did not happen: the record is deleted, and the call may run
    again. An interrupt inside the tool deletes the record as well. A result with status "error" is
    a result.

    The key of a record is made of the thread, the namespace of a nested agent, the id of the
    model's message, and the id, tool and arguments of the call. So a resumed run has the same keys,
    in any process; a new answer of the model to the same question is a new effect. Run the agent
    with `durability="sync"`, so an answer is stored before the tools run.

    The middleware is the innermost layer around tools, and records only calls which really run.

    Args:
        effects: For each tool with an effect, the policy for an unknown outcome; None for a tool
            without records.
        store: The store of effects, such as `SqliteEffects(path)`. Default: the store of
            `effects_of_run` around the run.
        default: The policy for all tools without a key in `effects`.
        undo: Compensations by the name of the tool: functions of the `Effect`, sync or async, which
            only `undo_effects` calls. Tools of subagents with the same store may be named as well.
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
    guard_settings = ("effects", "store", "default")

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
        expected, hint = "a dict with names of tools as keys", "Pass {'refund': 'ask'}."
        check_value("effects", effects, isinstance(effects, Mapping), expected, hint, TypeError)
        for tool, policy in [*effects.items(), (None, default)]:
            if policy is not None:
                argument = "default" if tool is None else f"effects[{tool!r}]"
                check_choice(argument, policy, get_args(OnUnknown))
        if default is None and not any(effects.values()):
            raise ValueError(
                "effects names no tool, so nothing would be recorded. Pass {'refund': 'ask'}, or "
                "default='ask' for all tools."
            )
        functions = undo or {}
        are_functions = isinstance(functions, Mapping) and all(map(callable, functions.values()))
        expected = "a dict with names of tools as keys and functions as values"
        check_value("undo", undo, are_functions, expected, "Pass {'book': cancel}.", TypeError)
        self.effects, self.store, self.default = dict(effects), store, default
        self.undo = dict(functions)
        self.expected_tools = tuple(effects)
        self.unused = () if undo else ("before_agent",)

    @property
    def guards(self) -> Sequence[ToolGuard]:  # type: ignore[override]
        """The tools in the form of the plan: a call does not run twice."""
        tools = [tool for tool, policy in self.effects.items() if policy is not None]
        when = "the same call has run, or may have"
        if self.default is None:
            return [ToolGuard(tool, "check", when) for tool in tools]
        exclude = tuple(tool for tool, policy in self.effects.items() if policy is None)
        return [ToolGuard("*", "check", when, exclude)]

    @plain_hook
    def before_agent(self, state: OnceState, runtime: Runtime[Any]) -> dict[str, Any]:
        """Name the run after the newest message, for an undo of the effects."""
        messages = state["messages"]
        return {"once_run": messages[-1].id if messages else None}

    def around_tool(self, request: ToolCallRequest) -> Flow[Result]:
        """Return the stored result, or run the tool and store its result."""
        call = request.tool_call
        policy = self.effects.get(call["name"], self.default)
        recording = recording_here()
        store = self.store or (recording and recording.store)
        thread = configurable_of(request).get("thread_id")
        run = (recording and recording.run) or run_id(thread, request.state)
        if policy is None:
            # The effects of a subagent belong to this run.
            with effects_of_run(store, run) if store else nullcontext():
                return cast("Result", (yield request))
        if store is None:
            raise EffectError(
                self.name,
                f"has no store to record the effect of {call['name']} in.",
                f"Write {self.name}(..., store=SqliteEffects('effects.db')), or run the agent "
                "within `with effects_of_run(store):`.",
            )
        effect = Effect.start(key_of(request), run, call["name"], dump(call["args"]))
        attempt = ""
        while (earlier := (yield from stored(store.begin, effect))) is not None:
            check_released(earlier, attempt)
            if (result := (yield from self._settled(store, earlier, call, policy))) is not None:
                return cast("Result", result)
            # Only this attempt: a person is asked about a newer attempt of another process.
            yield from stored(store.release, earlier)
            attempt = earlier.attempt
        end = partial(_end, store, effect)
        fields = {"idempotency_key": effect.key, "on_unknown": policy, "end": end}
        # The subclass shows tools and inner layers the record of the effect.
        runtime = EffectRuntime(**{**vars(request.runtime), **fields})
        here = providing(effects=Recording(store, effect.run, runtime))
        try:
            with here, recorded_failures() as failures:
                result = yield replace(request, runtime=runtime)
        except GeneratorExit as closed:
            # Control flow closes a flow, which cannot yield then: the store is called at once.
            signal = closed.__context__
            # A tool that asks runs again from its beginning when the answer comes. Its attempt must
            # not count as one whose outcome is unknown.
            if isinstance(signal, GraphInterrupt) or (signal and is_invalid_resume(signal)):
                store.release(effect)
            raise
        except Exception as error:
            yield from end(None, error)
            raise
        # A layer further in may have reported an exception to the model.
        if (failure := failures.get(call["id"])) is not None:
            record_failure(call["id"], failure)
        # Without a stored result, the next attempt goes by the policy.
        if not runtime.is_left and not (failure and outcome_unknown(failure)):
            yield from end(result)
        return cast("Result", result)

    def _settled(
        self, store: EffectStore, earlier: Effect, call: ToolCall, policy: OnUnknown
    ) -> Flow[object]:
        """The result of a started call; None to run the tool again."""
        if earlier.is_done:
            set_reason("the result is stored")
            records = yield from stored(store.of_run, earlier.run)
            if any(record.key == earlier.undo_key for record in records):
                return error_result(call, _UNDONE.format(effect=earlier))
            return earlier.result
        problem = f"{earlier}, and its outcome is unknown: it may have been done."
        set_reason("the outcome of an earlier attempt is unknown")
        if policy == "fail":
            return error_result(call, _FAILED.format(unknown=problem))
        if policy == "rerun":
            return None
        allowed: tuple[DecisionType, ...] = ("approve", "reject", "respond")
        question = _QUESTION.format(unknown=problem)
        pending = PendingCall(
            str(call["id"]), call["name"], call["args"], "review", allowed, question
        )

        def ask() -> Flow[Any]:
            yield from ()
            return Question([pending]).ask()

        outside = EffectError(
            call["name"],
            "cannot be asked about outside of an agent.",
            "Test the answers in an agent with a checkpointer.",
        )
        # LangGraph assigns answers to the interrupts of a task by order, so a question in the task
        # of the tool could take the answer to a question of the tool. A graph has a separate
        # namespace. Questions about earlier attempts are passed in their order.
        decision = yield from once_per_task([earlier.attempt], ask, outside)
        if decision["type"] == "reject":
            text = decision.get("message") or _REJECTION.format(unknown=problem)
            return error_result(call, text)
        if decision["type"] == "approve":
            return None
        answer = ToolMessage(decision["message"], tool_call_id=call["id"], name=call["name"])
        yield from stored(store.finish, earlier, dump(answer))
        return answer


def _end(
    store: EffectStore, effect: Effect, result: object, error: BaseException | None = None
) -> Flow[None]:
    if error is None:
        yield from stored(store.finish, effect, dump(result))
    elif not outcome_unknown(error):
        yield from stored(store.release, effect)
