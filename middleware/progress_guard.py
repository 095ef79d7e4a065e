"""Notice that a run repeats itself, and end it in three steps.

Everything is read off the messages of the run, newest first, so the guard keeps no record of calls:
it decides the same after a resume, in a fork and in another process. A run that gets on costs a
comparison with the four turns before, however long the thread is.

A withheld call is answered with an error. Its tool stays in the request: the tools come first in a
prompt, so to remove one would make the provider read everything again, and the same tool with
other arguments may be what is needed next.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple, NotRequired

from langchain_core.messages import AnyMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool
from langgraph.channels.untracked_value import UntrackedValue
from typing_extensions import TypedDict

from agent_factory import (
    AgentMiddleware,
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
from agent_factory.structured_output.strategies import EXPLANATION

from ._shared.errors import is_async
from ._shared.final_answer import final_message, request_final_answer
from ._shared.messages import error_result, last_turn, tool_names, unanswered, with_remark
from ._shared.models import with_update
from ._shared.validation import check_choice, check_count

__all__ = ["NoProgressError", "ProgressGuardMiddleware", "ProgressGuardState"]

LONGEST_CYCLE = 4
"""The most turns of a cycle: a turn is compared with this many turns before it."""

_KEY = "progress_guard"
"""Key of the state, of the metadata of results, and mark of messages."""


class _RunRecord(TypedDict):
    """What a guard knows of a run that its messages do not show."""

    start: str | None  # the id of the newest message at the first model call
    stopped: str  # why the run had to end; empty before


class ProgressGuardState(AgentState[Any]):
    """State of an agent with a progress guard.

    Attributes:
        progress_guard: Where this run began, and why it was stopped.
    """

    progress_guard: NotRequired[
        Annotated[_RunRecord, UntrackedValue(dict, guard=False), PrivateStateAttr]
    ]


class NoProgressError(TurnError):
    """A run repeated itself and could not be ended with an answer. The work so far is kept.

    It is raised with `exit_behavior="error"`, and if a hook jumps back to the model although the
    answer is the same each time.

    Attributes:
        repetition: What was repeated: "search was called 5 times in a row with the same result".
    """

    code = "AF354"

    def __init__(self, repetition: str, hint: str) -> None:
        self.repetition = repetition
        super().__init__("the run", f"repeats itself: {repetition}.", hint)


class _Turn(NamedTuple):
    """The calls of a turn with their results; an answer is a call without a name and a result."""

    calls: Sequence[Any]
    results: Mapping[str | None, ToolMessage]


@dataclass(frozen=True, slots=True)
class _Repetition:
    """Turns at the end of a run that repeat earlier ones."""

    kind: Literal["calls", "unknown", "errors", "answers"]
    cycle: Sequence[_Turn]  # the turns that are repeated
    times: int
    excess: int  # repeated turns beyond the mark

    def __str__(self) -> str:
        """The repetition as half a sentence; the decision log, the model and users read it."""
        if self.kind == "answers" and len(self.cycle) == 1:
            return f"the same answer was given {self.times} times in a row"
        if self.kind == "unknown":
            names = dict.fromkeys(call["name"] for turn in self.cycle for call in turn.calls)
            called = ", ".join(names)
            return f"tools that do not exist were called {self.times} times in a row ({called})"
        turns = [
            " + ".join(call["name"] or "an answer" for call in turn.calls) for turn in self.cycle
        ]
        if self.kind == "errors":
            return f"{turns[0]} failed {self.times} times in a row with the same error"
        if len(turns) > 1:
            return f"cycle {' -> '.join(turns)}, {self.times} times with the same results"
        return f"{turns[0]} was called {self.times} times in a row with the same result"


_ADVICE = {
    "calls": "The same call will not bring anything new. Use what you have, try something else, or "
    "answer and say what is missing.",
    "unknown": "Call only these: {tools}. If none of them fits, answer and say what is missing.",
    "errors": "Read the error and try another way, or answer and say what could not be done.",
    "answers": "It was not accepted. Answer differently, or say what you cannot do.",
}


class ProgressGuardMiddleware(AgentMiddleware[ProgressGuardState, Any]):
    """Notices that a run repeats itself, and ends it: by a remark, by withheld calls, by an answer.

    A turn is a repetition if each of its calls was made in one of the four turns before it, with
    the same arguments and the same result. So a call that is made again and again counts, and so
    does a cycle of up to four turns. A turn with anything new starts the count again: another
    call, other arguments, another result. So does a message of the user.

    Three more things count. Turns in a row that call only tools which do not exist are
    repetitions, whatever they pass. A tool that fails with the same error each time is one after
    `error_after` turns, whatever its arguments. And so is the same answer to the same words, if a
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
            those whose result does not show what they did, such as a key press.
        ignore_arguments: Names of arguments that make no difference, such as a "reason".
        result_key: A function of a result that returns what of it counts, for results that hold the
            time. Default: the content and the status.
        exit_behavior: How the run ends. "answer": the model is called once more, without tools, for
            an answer from the work so far. "end": with a message that says what was repeated.
            "error": NoProgressError is raised.
        name: Distinguishes several instances.

    Raises:
        ValueError: A count is not a whole number of at least 1, or a later step has a lower count
            than an earlier one; `exit_behavior` is unknown.
        TypeError: A list of tools or of arguments holds something else, or `result_key` is not a
            plain function.

    >>> guard = ProgressGuardMiddleware(polling_tools={"job_status": 20})
    >>> guard.remark_after, guard.withhold_after, guard.answer_after
    (2, 3, 4)
    """

    state_schema = ProgressGuardState

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
        result_key: Callable[[ToolMessage], Any] | None = None,
        exit_behavior: Literal["answer", "end", "error"] = "answer",
        name: str | None = None,
    ) -> None:
        super().__init__(name=name)
        for argument, count in (
            ("remark_after", remark_after),
            ("withhold_after", withhold_after),
            ("answer_after", answer_after),
            ("error_after", error_after),
        ):
            check_count(argument, count, 1, required=True)
        if not remark_after <= withhold_after <= answer_after:
            raise ValueError(
                "remark_after, withhold_after and answer_after must not decrease, got "
                f"{remark_after}, {withhold_after} and {answer_after}. Equal counts skip a step."
            )
        if not isinstance(polling_tools, Mapping | None):
            raise TypeError(
                f"polling_tools must be a dict of counts by tool, got {polling_tools!r}. Pass "
                "{'job_status': 20}."
            )
        for tool, count in (polling_tools or {}).items():
            check_count(f"polling_tools[{tool!r}]", count, 1, required=True)
        if isinstance(ignore_arguments, str) or not all(
            isinstance(argument, str) for argument in ignore_arguments
        ):
            raise TypeError(
                f"ignore_arguments must be a list of names, got {ignore_arguments!r}. Pass "
                "['reason']."
            )
        if result_key is not None and (not callable(result_key) or is_async(result_key)):
            raise TypeError(
                "result_key must be a plain function of the ToolMessage that returns what counts, "
                f"got {result_key!r}."
            )
        check_choice("exit_behavior", exit_behavior, ("answer", "end", "error"))
        self.remark_after = remark_after
        self.withhold_after = withhold_after
        self.answer_after = answer_after
        self.error_after = error_after
        self.polling_tools = dict(polling_tools or {})
        self.ignore_tool_names = tool_names(ignore_tools, "ignore_tools") or frozenset()
        self.expected_tools = self.ignore_tool_names | self.polling_tools.keys()
        self.ignore_arguments = frozenset(ignore_arguments)
        self.result_key = result_key
        self.exit_behavior = exit_behavior
        # More repeated turns than any step needs, which keeps the work of each call bounded.
        most = max(error_after, LONGEST_CYCLE, *self.polling_tools.values())
        self._reach = answer_after + most

    def around_model(self, request: ModelRequest[Any]) -> Flow[ModelCallResult[Any]]:
        """Call the model, unless the run has to end because it repeats itself."""
        messages: Sequence[AnyMessage] = request.state.get("messages") or ()
        record: _RunRecord | None = request.state.get(_KEY)  # type: ignore[assignment]
        repetition = self._repetition(request, record["start"] if record else None)
        if repetition is None and record is not None and not record["stopped"]:
            response: ModelResponse[Any] = yield request
            return response
        if record is None:
            record = {"start": messages[-1].id if messages else None, "stopped": ""}
        stopped = record["stopped"]
        if repetition and repetition.excess >= self.answer_after - self.remark_after:
            stopped = stopped or str(repetition)
            if repetition.kind == "answers":
                raise NoProgressError(
                    str(repetition), "Let the hook that jumps back give up after a few attempts."
                )
            if self.exit_behavior == "error":
                raise NoProgressError(
                    stopped,
                    "Give the model what it lacks, name the tool in `polling_tools`, or choose "
                    "exit_behavior='answer' or 'end'.",
                )
        if stopped:
            if self.exit_behavior == "end":
                response = ModelResponse([final_message(stopped, source=_KEY)])
            else:
                response = yield from request_final_answer(request, stopped)
            set_reason(f"end: {stopped}")
            return with_update(request, response, {_KEY: {**record, "stopped": stopped}})
        if repetition is None:
            response = yield request
            return with_update(request, response, {_KEY: record})
        remarked, update = self._remarked(request, repetition)
        response = yield remarked
        step = "remark"
        if refusals := self._refusals(request, response, repetition):
            response = ModelResponse([*response.result, *refusals], response.structured_response)
            step = "calls withheld"
        set_reason(f"{step}: {repetition}")
        return with_update(request, response, {_KEY: record, **update})

    def _remarked(
        self, request: ModelRequest[Any], repetition: _Repetition
    ) -> tuple[ModelRequest[Any], dict[str, Any]]:
        """The request with a remark, and the update that keeps it in the thread."""
        last = request.messages[-1] if request.messages else None
        if isinstance(last, ToolMessage) and _KEY in last.response_metadata:
            return request, {}  # a call that was withheld: its result says why
        advice = _ADVICE[repetition.kind].format(tools=", ".join(sorted(_names_of(request))))
        if self._withholds(repetition):
            advice = f"Such a call does not run any more. {advice}"
        text = f"[You repeat yourself: {repetition}. {advice}]"
        messages = with_remark(request.messages, text, _KEY)
        changed = messages[-1]
        stored = {message.id for message in request.state.get("messages", [])[-1:]}
        if not isinstance(changed, ToolMessage) or changed.id not in stored:
            return request.override(messages=messages), {}
        # The next requests begin with this one, and the provider has it in its cache.
        metadata = {**changed.response_metadata, _KEY: {"remark": text}}
        messages[-1] = changed.model_copy(update={"response_metadata": metadata})
        return request.override(messages=messages), {"messages": [messages[-1]]}

    def _withholds(self, repetition: _Repetition) -> bool:
        has_calls = repetition.kind != "answers"
        return has_calls and repetition.excess >= self.withhold_after - self.remark_after

    def _refusals(
        self, request: ModelRequest[Any], response: ModelResponse[Any], repetition: _Repetition
    ) -> list[ToolMessage]:
        """Errors as the results of the calls that do not run because they repeat others."""
        if not self._withholds(repetition):
            return []
        message, tail = last_turn(response.result)  # type: ignore[arg-type]  # messages, all
        made = [call for turn in repetition.cycle for call in turn.calls]
        names, known = {call["name"] for call in made}, _names_of(request)

        def is_repeated(call: Any) -> bool:
            if repetition.kind == "errors":
                return call["name"] in names
            if repetition.kind == "unknown":
                return call["name"] not in known
            return any(self._is_same_call(call, earlier) for earlier in made)

        text = (
            f"This call did not run: {repetition}. Do not make it again. Try something else, or "
            "answer with what you have."
        )
        return [
            error_result(call, text, response_metadata={_KEY: {"withheld": True}})
            for call in unanswered(message, tail)
            if is_repeated(call)
        ]

    def _repetition(self, request: ModelRequest[Any], start: str | None) -> _Repetition | None:
        """What the end of the run repeats, if that has reached the mark."""
        messages = request.state.get("messages")
        if not messages:
            return None
        turns = _Turns(messages, start)
        found = self._repeated_calls(turns)
        if getattr(messages[-1], "status", None) == "error" and all(
            map(_failed, _results(turns.get(0)))
        ):
            for other in (self._unknown_tools(turns, _names_of(request)), self._same_error(turns)):
                if other and (found is None or other.excess > found.excess):
                    found = other
        return found

    def _repeated_calls(self, turns: _Turns) -> _Repetition | None:
        """The repetition of calls, or of answers, that is furthest beyond its mark."""
        found: _Repetition | None = None
        period = polling = count = 0
        while count < self._reach and (distance := self._distance(turns, count)):
            period = max(period, distance)
            polling = max(polling, self._polling(turns.read[count]))
            count += 1
            excess = count - max(self.remark_after, period, polling)
            if excess >= 0 and (found is None or excess >= found.excess):
                cycle = turns.read[period - 1 :: -1]
                is_answer = not any(call["name"] for turn in cycle for call in turn.calls)
                kind: Literal["answers", "calls"] = "answers" if is_answer else "calls"
                found = _Repetition(kind, cycle, (count + period) // period, excess)
        return found

    def _distance(self, turns: _Turns, at: int) -> int:
        """How many turns back all calls of a turn were made before; 0 if one of them is new."""
        furthest = 0
        turn = turns.get(at)
        for call in turn.calls if turn else ():
            name, args = call["name"], call["args"]
            if name in self.ignore_tool_names:
                return 0
            for distance in range(1, LONGEST_CYCLE + 1):
                earlier = turns.get(at + distance)
                if turn is None or earlier is None:
                    return 0
                for made in earlier.calls:
                    # Nearly all calls are new, so what costs least is compared first.
                    if (
                        made["name"] == name
                        and (made["args"] == args or self.ignore_arguments)
                        and self._is_same_call(call, made)
                        and self._is_same_result(turn, call, earlier, made)
                    ):
                        break
                else:
                    continue
                furthest = max(furthest, distance)
                break
            else:
                return 0
        return furthest

    def _unknown_tools(self, turns: _Turns, known: Collection[str]) -> _Repetition | None:
        """Turns in a row that call only tools which the request does not offer, and fail."""
        count = 0
        while count <= self._reach and (turn := turns.get(count)) is not None:
            is_unknown = not any(call["name"] in known for call in turn.calls)
            if not is_unknown or not all(map(_failed, _results(turn))):
                break
            count += 1
        excess = count - 1 - self.remark_after
        if excess < 0:
            return None
        return _Repetition("unknown", turns.read[count - 1 :: -1], count, excess)

    def _same_error(self, turns: _Turns) -> _Repetition | None:
        """Turns in a row in which the same tools fail with the same errors."""
        last = turns.read[0]
        if any(call["name"] in self.ignore_tool_names for call in last.calls):
            return None
        count = 0
        while count < self._reach and (turn := turns.get(count + 1)) is not None:
            later = turns.read[count]
            if len(turn.calls) != len(later.calls) or not all(
                call["name"] == made["name"]
                and _failed(turn.results.get(made["id"]))
                and self._is_same_result(later, call, turn, made)
                for call, made in zip(later.calls, turn.calls, strict=True)
            ):
                break
            count += 1
        excess = count - max(self.remark_after, self.error_after, self._polling(last))
        return _Repetition("errors", [last], count + 1, excess) if excess >= 0 else None

    def _polling(self, turn: _Turn) -> int:
        """How often a turn may be repeated because it waits for something."""
        return max((self.polling_tools.get(call["name"], 0) for call in turn.calls), default=0)

    def _is_same_call(self, one: Any, other: Any) -> bool:
        mine, theirs = one["args"], other["args"]
        if self.ignore_arguments and isinstance(mine, dict) and isinstance(theirs, dict):
            mine, theirs = (
                {key: args[key] for key in args if key not in self.ignore_arguments}
                for args in (mine, theirs)
            )
        # Equal values are the same JSON, except for numbers: in Python, 1 == 1.0 == True.
        return bool(
            one["name"] == other["name"]
            and mine == theirs
            and json.dumps(mine, sort_keys=True, default=str)
            == json.dumps(theirs, sort_keys=True, default=str)
        )

    def _is_same_result(self, turn: _Turn, call: Any, earlier: _Turn, made: Any) -> bool:
        one, other = turn.results.get(call["id"]), earlier.results.get(made["id"])
        if one is None or other is None:
            return not call["name"] and not made["name"]  # two answers
        marks = [result.response_metadata.get(_KEY) or {} for result in (one, other)]
        if any("withheld" in mark for mark in marks):
            return True  # the call would have brought what it brought before
        if one.status != other.status or _is_explanation(one) or _is_explanation(other):
            return False
        contents = [
            _without_remark(result, mark.get("remark", ""))
            for result, mark in zip((one, other), marks, strict=True)
        ]
        if self.result_key is None:
            return bool(contents[0] == contents[1])
        keys = [
            self.result_key(result.model_copy(update={"content": content}))
            for result, content in zip((one, other), contents, strict=True)
        ]
        return bool(keys[0] == keys[1])


class _Turns:
    """The turns of a run, newest first, read off its messages as far as they are needed.

    They are the turns since the last message of the user. A hook may write as the user, too: what
    it adds in a run, after the message with the id `start`, does not count as one.
    """

    def __init__(self, messages: Sequence[AnyMessage], start: str | None) -> None:
        self.read: list[_Turn] = []
        self._rest = self._all(messages, start)

    def get(self, at: int) -> _Turn | None:
        """A turn by its place from the end; None if the run does not have as many."""
        read = self.read
        while len(read) <= at:
            turn = next(self._rest, None)
            if turn is None:
                return None
            read.append(turn)
        return read[at]

    @staticmethod
    def _all(messages: Sequence[AnyMessage], start: str | None) -> Iterator[_Turn]:
        results: dict[str | None, ToolMessage] = {}
        for at in range(len(messages) - 1, -1, -1):
            message: Any = messages[at]
            # By `type`, because `isinstance` is slow for the classes of pydantic.
            kind = message.type
            if kind == "tool":
                results[message.tool_call_id] = message
            elif kind in ("ai", "AIMessageChunk"):
                calls = message.tool_calls
                if message.invalid_tool_calls:
                    calls = [*calls, *message.invalid_tool_calls]
                if not calls:
                    before = messages[at - 1] if at else None
                    words = before.text if isinstance(before, HumanMessage) else ""
                    calls = [{"name": "", "args": [message.text, words], "id": None}]
                yield _Turn(calls, results)
                results = {}
            elif (
                kind == "human"
                and start in (None, message.id)
                and "lc_source" not in message.additional_kwargs
            ):
                return
            if message.id == start:
                start = None


def _names_of(request: ModelRequest[Any]) -> set[str]:
    """The names of the tools that a request offers."""
    return {
        str(tool.get("name", "") if isinstance(tool, dict) else tool.name) for tool in request.tools
    }


def _results(turn: _Turn | None) -> list[ToolMessage | None]:
    """The results of the calls of a turn."""
    return [turn.results.get(call["id"]) for call in turn.calls] if turn else []


def _failed(result: ToolMessage | None) -> bool:
    return result is not None and result.status == "error" and not _is_explanation(result)


def _is_explanation(result: ToolMessage) -> bool:
    """Whether it says what is wrong with a structured answer, which has a limit of its own."""
    return result.additional_kwargs.get("lc_source") == EXPLANATION


def _without_remark(result: ToolMessage, remark: str) -> Any:
    """The content of a result as the tool gave it."""
    content = result.content
    if not remark:
        return content
    return content[:-1] if isinstance(content, list) else content.removesuffix(f"\n\n{remark}")
