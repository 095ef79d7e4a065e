"""Notice a run that repeats its calls, and end the run in three steps.

All facts are in the messages of the run, newest first, so the guard keeps no record of calls: the
decision is the same after a resume, in a fork and in another process. The tool of a withheld call
stays in the request, whose beginning would change without it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache, partial
from typing import Annotated, Any, Literal, NotRequired

from langchain_core.messages import AnyMessage, ToolCall, ToolMessage
from langchain_core.tools import BaseTool
from langgraph.channels.untracked_value import UntrackedValue
from pydantic import BaseModel

from agent_factory import (
    AgentState,
    Flow,
    ModelCallResult,
    ModelRequest,
    ModelResponse,
    Ordering,
    PrivateStateAttr,
    TurnError,
    set_reason,
)
from agent_factory.middleware._shared.errors import is_sync_function
from agent_factory.middleware._shared.final_answer import final_message, request_final_answer
from agent_factory.middleware._shared.messages import (
    error_result,
    last_turn,
    tool_names,
    unanswered,
    with_kept_remark,
)
from agent_factory.middleware._shared.models import names_of, with_update
from agent_factory.middleware._shared.payload_free import PayloadFree
from agent_factory.middleware._shared.validation import check_choice, check_count, check_strings
from agent_factory.types import run_identity

from .repetition import LONGEST_CYCLE, MARKS, Comparison, Repetition, turns_of

_KEY = "progress_guard"
"""Key of the state, and mark of messages."""


RUNS = 1024
"""Maximum number of active runs whose beginning is known; the oldest is forgotten."""


class ProgressGuardState(AgentState):
    """State of an agent with a progress guard.

    Attributes:
        progress_guard: Why this run was stopped. Every `invoke` starts without.
    """

    progress_guard: NotRequired[Annotated[str, UntrackedValue(str, guard=False), PrivateStateAttr]]


class NoProgressError(TurnError):
    """A run repeated its calls and could not be ended with an answer. The work so far is kept.

    Raised with `exit_behavior="error"`, and if a hook jumps back to the model although the answer
    is the same each time.

    Attributes:
        repetition: The repetition: "search was called 5 times in a row with the same result".
    """

    code = "AF354"

    def __init__(self, repetition: str, hint: str) -> None:
        self.repetition = repetition
        super().__init__("the run", f"repeats itself: {repetition}.", hint)


_ADVICE = {
    "calls": "The same call will not bring anything new. Use what you have, try something else, or "
    "answer and say what is missing.",
    "unknown": "Call only these: {tools}. If none of them fits, answer and say what is missing.",
    "errors": "Read the error and try another way, or answer and say what could not be done.",
    "answers": "It was not accepted. Answer differently, or say what you cannot do.",
}


class ProgressGuardMiddleware(PayloadFree[ProgressGuardState]):
    """Notices a run that repeats its calls, and ends it: by a remark, withheld calls, an answer.

    A turn is a repetition if each of its calls was made in one of the four turns before, with the
    same arguments and the same result. So a call that is made again and again counts, and so does a
    cycle of up to four turns. A turn with anything new starts the count again: another call, other
    arguments, another result. So does a message of the user.

    Three more things count. Turns in a row with calls of missing tools alone, which fail, are
    repetitions with any arguments. A tool that fails with the same error each time is a repetition
    after `error_after` turns, with any arguments. And so is the same answer to the same words, if a
    hook jumps back to the model.

    The *mark* of a repetition is reached with `remark_after` repeated turns in a row, and not
    before a whole cycle was repeated: by the third A, by A B A B, by A B C A B C. Then:

    1. The last result gets a remark for the model, which stays in the thread.
    2. From `withhold_after` repeated turns on, a call that continues the repetition does not run.
       The model reads an error as its result.
    3. At `answer_after` repeated turns the run ends as `exit_behavior` says.

    With the defaults, the second call after the mark does not run, and then the run ends.

    Args:
        remark_after: Repeated turns in a row after which the model gets a remark.
        withhold_after: Repeated turns in a row after which calls are withheld.
        answer_after: Repeated turns in a row after which the run ends. For a longer cycle, and for
            `error_after` and `polling_tools`, the later steps follow at the same distance.
        error_after: Repeated turns in a row after which the same error of a tool counts although
            the arguments differ.
        polling_tools: Tools that are called to wait for something, each with the repeated turns
            after which the model gets a remark: `{"job_status": 20}`.
        ignore_tools: Tools whose calls never count as a repetition, as names or BaseTool instances:
            tools whose result does not show the effect, such as a key press.
        ignore_arguments: Names of arguments that make no difference, such as a "reason".
        result_key: A function from a result to its part that counts, for results that hold the
            time. Default: the content and the status.
        exit_behavior: The end of the run. "answer": the model is called once more, without tools,
            for an answer from the work so far. "end": a message about the repetition. "error":
            NoProgressError is raised.
        name: Distinguishes several instances.

    Raises:
        ValueError: A count is not a whole number of at least 1, or a later step has a lower count
            than an earlier step; `exit_behavior` is unknown.
        TypeError: A list of tools or of arguments holds something else, or `result_key` is not a
            plain function.

    >>> guard = ProgressGuardMiddleware(polling_tools={"job_status": 20})
    >>> guard.remark_after, guard.withhold_after, guard.answer_after
    (2, 3, 4)
    """

    state_schema = ProgressGuardState
    guard_settings = (
        *("withhold_after", "answer_after", "error_after", "polling_tools", "ignore_tools"),
        *("ignore_arguments", "result_key", "exit_behavior"),
    )

    ordering = Ordering(
        after=("ContextEditingMiddleware", "SummarizationMiddleware"),
        before=(
            *("AnswerGuardMiddleware", "ModelRefusalMiddleware"),
            *("ModelFallbackMiddleware", "ModelRetryMiddleware"),
        ),
    )

    def __init__(
        self,
        *,
        remark_after: int = 2,
        withhold_after: int = 3,
        answer_after: int = 4,
        error_after: int = 4,
        polling_tools: Mapping[str, int] | None = None,
        ignore_tools: Sequence[str | BaseTool] | None = None,
        ignore_arguments: Collection[str] = (),
        result_key: Callable[[ToolMessage], object] | None = None,
        exit_behavior: Literal["answer", "end", "error"] = "answer",
        name: str | None = None,
    ) -> None:
        super().__init__(name=name)
        if not isinstance(polling_tools, Mapping | None):
            raise TypeError(
                f"polling_tools must be a dict of counts by tool, got {polling_tools!r}. Pass "
                "{'job_status': 20}."
            )
        self.polling_tools = dict(polling_tools or {})
        counts = {
            "remark_after": remark_after,
            "withhold_after": withhold_after,
            "answer_after": answer_after,
            "error_after": error_after,
            **{f"polling_tools[{tool!r}]": count for tool, count in self.polling_tools.items()},
        }
        for argument, count in counts.items():
            check_count(argument, count, 1, required=True)
        if not remark_after <= withhold_after <= answer_after:
            raise ValueError(
                "remark_after, withhold_after and answer_after must not decrease, got "
                f"{remark_after}, {withhold_after} and {answer_after}. Equal counts skip a step."
            )
        check_strings("ignore_arguments", ignore_arguments)
        if result_key is not None and not is_sync_function(result_key):
            raise TypeError(
                "result_key must be a plain function of the ToolMessage that returns what counts, "
                f"got {result_key!r}."
            )
        check_choice("exit_behavior", exit_behavior, ("answer", "end", "error"))
        self.remark_after, self.withhold_after = remark_after, withhold_after
        self.answer_after, self.error_after = answer_after, error_after
        self.ignore_tool_names = tool_names(ignore_tools, "ignore_tools") or frozenset()
        self.expected_tools = self.ignore_tool_names | self.polling_tools.keys()
        self.ignore_arguments = frozenset(ignore_arguments)
        self.result_key, self.exit_behavior = result_key, exit_behavior
        # In this process, and not in the state, because a write to the state in each run costs more
        # than all other work. A resumed run begins again, like state for one run.
        self._starts: Callable[[object, str], list[int]] = lru_cache(RUNS)(lambda run, graph: [])
        most = max(error_after, LONGEST_CYCLE, *self.polling_tools.values())
        self._comparison = Comparison(
            remark_after=remark_after,
            error_after=error_after,
            reach=answer_after + most,
            polling_tools=self.polling_tools,
            ignored_tools=self.ignore_tool_names,
            ignored_arguments=self.ignore_arguments,
            result_key=result_key,
        )

    def around_model(self, request: ModelRequest[Any]) -> Flow[ModelCallResult]:
        """Call the model, unless the run has to end because of a repetition."""
        messages: Sequence[AnyMessage] = request.state.get("messages") or ()
        reason: str = request.state.get(_KEY, "")  # type: ignore[assignment]
        # Nearly all calls end here, before any turn is compared.
        arguments = partial(_arguments_of, request)
        if not reason and self._comparison.is_progress(messages, arguments):
            response: ModelResponse = yield request
            return response
        turns = turns_of(messages, lambda: self._start(request, len(messages)))
        repetition = self._comparison.repetition(turns, arguments, names_of(request.tools))
        if repetition is None and not reason:
            response = yield request
            return response
        if repetition and repetition.excess >= self.answer_after - self.remark_after:
            reason = reason or str(repetition)
            # A hook sends the answers back, so another answer would not end the run.
            if repetition.kind == "answers":
                hint = "Let the hook that jumps back give up after a few attempts."
                raise NoProgressError(str(repetition), hint)
            if self.exit_behavior == "error":
                raise NoProgressError(
                    reason,
                    "Give the model what it lacks, name the tool in `polling_tools`, or choose "
                    "exit_behavior='answer' or 'end'.",
                )
        if reason:
            if self.exit_behavior == "end":
                response = ModelResponse([final_message(reason, source=_KEY)])
            else:
                response = yield from request_final_answer(request, reason)
            set_reason(f"end: {reason}")
            return with_update(request, response, {_KEY: reason})
        assert repetition is not None
        request_with_remark, update = self._remarked(request, repetition)
        response = yield request_with_remark
        step = "remark"
        if refusals := self._refusals(request, response, repetition):
            response = ModelResponse([*response.result, *refusals], response.structured_response)
            step = "calls withheld"
        set_reason(f"{step}: {repetition}")
        return with_update(request, response, update)

    def _start(self, request: ModelRequest[Any], count: int) -> int:
        """Count the messages of the thread at this run's first look at its user message.

        The look is at the first model call, unless the run was resumed after many turns.
        """
        runtime = request.runtime
        if runtime is None or (control := run_identity(runtime)) is None:
            return count
        # A subagent has the run of its caller. Its namespace begins with the task of the call.
        info = runtime.execution_info
        start = self._starts(control, info.checkpoint_ns.rpartition("|")[0] if info else "")
        # The cached list is empty until the first call of the run.
        if not start:
            start.append(count)
        return start[0]

    def _remarked(
        self, request: ModelRequest[Any], repetition: Repetition
    ) -> tuple[ModelRequest[Any], dict[str, object]]:
        """The request with a remark, and the update that keeps the remark in the thread."""
        last = request.messages[-1] if request.messages else None
        if isinstance(last, ToolMessage) and MARKS in last.response_metadata:
            return request, {}  # a withheld call: its result has the reason
        advice = _ADVICE[repetition.kind].format(tools=", ".join(sorted(names_of(request.tools))))
        if self._withholds(repetition):
            advice = f"Such a call does not run any more. {advice}"
        text = f"[You repeat yourself: {repetition}. {advice}]"
        return with_kept_remark(request, text, _KEY, {MARKS: {"remark": True}})

    def _withholds(self, repetition: Repetition) -> bool:
        has_calls = repetition.kind != "answers"
        return has_calls and repetition.excess >= self.withhold_after - self.remark_after

    def _refusals(
        self, request: ModelRequest[Any], response: ModelResponse, repetition: Repetition
    ) -> list[ToolMessage]:
        if not self._withholds(repetition):
            return []
        message, tail = last_turn(response.result)  # type: ignore[arg-type]  # messages, all
        calls = [call for turn in repetition.cycle for call in turn.calls]
        names, names_in_request = {call["name"] for call in calls}, names_of(request.tools)

        def is_repeated(call: ToolCall) -> bool:
            if repetition.kind == "errors":
                return call["name"] in names
            if repetition.kind == "unknown":
                return call["name"] not in names_in_request
            same, arguments = self._comparison.is_same_call, partial(_arguments_of, request)
            return any(same(call, earlier, arguments) for earlier in calls)

        text = (
            f"This call did not run: {repetition}. Do not make it again. Try something else, or "
            "answer with what you have."
        )
        return [
            error_result(call, text, response_metadata={MARKS: {"withheld": True}})
            for call in unanswered(message, tail)
            if is_repeated(call)
        ]


def _arguments_of(request: ModelRequest[Any], name: str | None) -> Collection[str] | None:
    """The arguments of an offered tool; None if the tool takes any, or is not known."""
    for tool in request.tools:
        if not isinstance(tool, BaseTool) or tool.name != name:
            continue
        schema: Any = tool.args_schema
        if isinstance(schema, dict):  # of an MCP server
            properties: Collection[str] = schema.get("properties") or ()
            return None if schema.get("additionalProperties") or not properties else properties
        if isinstance(schema, type) and issubclass(schema, BaseModel):
            fields = schema.model_fields
            takes_any = schema.model_config.get("extra") == "allow" or not fields
            return None if takes_any else {*fields, *(str(f.alias) for f in fields.values())}
    return None
