"""The steps of a run, read from messages, from a decision log, or from a recording."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    ToolMessage,
    convert_to_messages,
)
from langgraph.types import StateSnapshot

from agent_factory.decisions.log import Decision, Outcome
from agent_factory.errors import ArgumentError, describe
from agent_factory.state.history import EDITED, RAN, REVIEWED
from agent_factory.structured_output.strategies import STRUCTURED_RESULT
from agent_factory.testing.comparison import shortened
from agent_factory.testing.recordings import CassetteError, Lines, read_cassette
from agent_factory.topology.transitions import TransitionReason


class StepKind(StrEnum):
    """Kinds of steps."""

    TOOL = "tool"
    """The model called a tool."""
    MODEL = "model"
    """The model answered, and called tools that are not its answer."""
    ANSWER = "answer"
    """The model answered, and called no tools, or only those of a structured answer."""
    USER = "user"
    """The user wrote a message."""
    REVIEW = "review"
    """The run waited for a person, or a person decided."""
    HOOK = "hook"
    """A hook or a layer of a middleware did something."""


@dataclass(frozen=True, slots=True)
class TrajectoryStep:
    """A step of a run.

    Args:
        kind: Kind of the step.
        name: The tool; `Middleware.hook` of a hook or layer; else the kind.
        turn: The number of the turn. The calls of a turn are made in parallel.
        args: The arguments with which a call ran; None if they are not known.
        outcome: Of a call "ok", "error" or "pending"; of a hook or layer the outcome in the
            decision log; "not from the model" of an answer by a hook or a client.
        text: The result of a call, the text of a message, the detail of a decision.
    """

    kind: StepKind
    name: str
    turn: int
    args: Mapping[str, Any] | None = None
    outcome: str = ""
    text: str = ""

    @property
    def event(self) -> str:
        """Event of the step, as the beginning of a sentence."""
        if self.kind is StepKind.TOOL:
            return f"{self.name} was called"
        return f"{self.name} {self.outcome}" if self.kind is StepKind.HOOK else f"{self.name} came"

    @property
    def call(self) -> str:
        """A call with arguments: `refund(euros=5)`."""
        args = ", ".join(f"{k}={shortened(repr(v))}" for k, v in (self.args or {}).items())
        return f"{self.name}({'...' if self.args is None else args})"

    def __str__(self) -> str:
        text = shortened(" ".join(self.text.split()))
        result = ": ".join(filter(None, (self.outcome, text)))
        if self.kind is StepKind.TOOL:
            return f"{self.call} -> {result}"
        if self.kind is StepKind.HOOK:
            return f"{self.name} -> {result}"
        return f"{self.name}: {result}" if result else self.name


@dataclass(frozen=True, slots=True)
class Trajectory:
    """The steps of a run, in order.

    Args:
        steps: The steps.
        source: Source of the steps: "messages", "decisions" or "recording".
        offered: The names of the tools for the model, where known.
    """

    steps: tuple[TrajectoryStep, ...]
    source: str
    offered: frozenset[str] = frozenset()

    def numbered(self, marks: Iterable[int] = ()) -> str:
        """The steps as numbered lines, with a mark at some; the end of the run is after the last.

        Of a long run only the lines around the marks are shown.
        """
        marked_steps = set(marks)
        lines = [*map(str, self.steps), "(the end of the run)"]
        if len(self.steps) not in marked_steps:
            lines.pop()
        # A screen holds 30 lines. Of a longer run, the steps before a mark matter more than those
        # after.
        near = {i for mark in marked_steps for i in range(mark - 4, mark + 3)}
        visible = [i for i in range(len(lines)) if len(lines) <= 30 or i < 3 or i in near]
        width = len(str(len(self.steps)))
        parts = []
        for before, index in zip([-1, *visible], visible, strict=False):
            if index > before + 1:
                parts.append(f"    ... {index - before - 1} more")
            number = f"{index + 1:>{width}}" if index < len(self.steps) else " " * width
            parts.append(f"{'> ' if index in marked_steps else '  '}{number}  {lines[index]}")
        if not marked_steps and visible and visible[-1] < len(lines) - 1:
            parts.append(f"    ... {len(lines) - 1 - visible[-1]} more")
        return "\n".join(parts)

    def __str__(self) -> str:
        return self.numbered()


def trajectory_of(run: object) -> Trajectory:
    """The steps of a run.

    Args:
        run: The result of `invoke`, a state of `get_state`, or a list of messages; a list of
            decisions; or the path of a file of decisions or of a recording.

    Raises:
        ArgumentError: `run` is of another kind.
        FileNotFoundError: The file does not exist.
        CassetteError: The file is neither a recording nor a file of decisions.

    >>> from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
    >>> call = {"name": "search", "args": {"query": "tea"}, "id": "1"}
    >>> messages = [
    ...     HumanMessage("Find tea."),
    ...     AIMessage("", tool_calls=[call]),
    ...     ToolMessage("Green tea", tool_call_id="1"),
    ...     AIMessage("There is green tea."),
    ... ]
    >>> print(trajectory_of(messages))
      1  user: Find tea.
      2  model: calls search
      3  search(query='tea') -> ok: Green tea
      4  answer: There is green tea.
    """
    if isinstance(run, Trajectory):
        return run
    if isinstance(run, str | Path):
        return _of_file(Path(run))
    if isinstance(run, StateSnapshot):
        run = {**run.values, "__interrupt__": run.interrupts}
    state: Mapping[str, Any] = {}
    if isinstance(run, Mapping) and "messages" in run:
        state, run = run, run["messages"]
    if isinstance(run, Sequence) and run:
        if all(isinstance(item, Decision) for item in run):
            return Trajectory(tuple(_of_decisions(run)), "decisions")
        try:
            messages = convert_to_messages(run)
        except (NotImplementedError, TypeError, ValueError):
            pass
        else:
            interrupts = state.get("__interrupt__", ())
            is_structured = state.get("structured_response") is not None
            steps = _of_messages(messages, interrupts, is_structured=is_structured)
            return Trajectory(tuple(steps), "messages")
    raise ArgumentError(
        "run",
        "must be the result of a run, a list of messages or decisions, or the path of a file of "
        f"decisions or of a recording, got {describe(run)}.",
        "Pass agent.invoke(...), what `decisions=list.append` collected, or the path of a file.",
    )


NOT_FROM_MODEL = "not from the model"
"""Outcome of an answer, or of a message with calls, that a hook or a client has written."""


def _of_messages(
    messages: Sequence[BaseMessage], interrupts: Sequence[Any] = (), *, is_structured: bool = False
) -> Iterator[TrajectoryStep]:
    """The steps of a conversation; with `is_structured`, the last calls are the answer."""
    results = {m.tool_call_id: m for m in messages if isinstance(m, ToolMessage)}
    last = next((m for m in reversed(messages) if not isinstance(m, ToolMessage)), None)
    turn = 0
    for message in messages:
        turn += 1
        if isinstance(message, HumanMessage):
            yield TrajectoryStep(StepKind.USER, "user", turn, text=message.text)
        if not isinstance(message, AIMessage):
            continue
        # LangChain gives each answer of a model an id of another form; LangGraph gives
        # such an id to a message without an id.
        is_written = _WRITTEN_ID.fullmatch(message.id or "") and not message.usage_metadata
        source = NOT_FROM_MODEL if is_written else ""
        calls = [*message.tool_calls, *message.invalid_tool_calls]
        if not calls:
            yield TrajectoryStep(StepKind.ANSWER, "answer", turn, outcome=source, text=message.text)
            continue
        texts = [results[c["id"]].text if c["id"] in results else "" for c in calls]
        is_answer = all(text.startswith(STRUCTURED_RESULT) for text in texts)
        is_answer = is_answer or (is_structured and message is last)
        kind = StepKind.ANSWER if is_answer else StepKind.MODEL
        summary = f"calls {', '.join(str(call['name']) for call in calls)}"
        yield TrajectoryStep(kind, str(kind), turn, outcome=source, text=summary)
        if REVIEWED in message.response_metadata:
            turn += 1
            outcome = "edited" if message.response_metadata.get(EDITED) else "decided"
            names = ", ".join(message.response_metadata[REVIEWED])
            yield TrajectoryStep(StepKind.REVIEW, "review", turn, outcome=outcome, text=names)
        turn += 1
        for call in calls:
            result = results.get(call["id"] or "")
            outcome = "pending" if result is None else "ok" if result.status != "error" else "error"
            # A person may have edited the call shortly before the tool ran.
            ran = result.response_metadata.get(RAN, call) if result else call
            # The arguments of an invalid call are a text outside of JSON.
            args = ran["args"] if isinstance(ran["args"], dict) else {}
            text = result.text if result else ""
            yield TrajectoryStep(StepKind.TOOL, str(ran["name"]), turn, args, outcome, text)
    for interrupt in interrupts:
        value = getattr(interrupt, "value", interrupt)
        text = value if isinstance(value, str) else json.dumps(value, default=str)
        yield TrajectoryStep(StepKind.REVIEW, "review", turn + 1, outcome="pending", text=text)


_WRITTEN_ID = re.compile("[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")

_TURN_ENDS = {
    TransitionReason.NO_CALLS: StepKind.ANSWER,
    TransitionReason.STRUCTURED: StepKind.ANSWER,
    TransitionReason.ANSWERED: StepKind.MODEL,
    TransitionReason.ONLY_ERRORS: StepKind.MODEL,
    TransitionReason.RETRY: StepKind.MODEL,
}
"""What the model did if a turn ends for one of these reasons."""

_NOTHING = (Outcome.PASSED, Outcome.SKIPPED, Outcome.INTERRUPTED)
"""Outcomes of hooks and layers that do not count as steps."""

_FAILED = (Outcome.ERROR_REPORTED, Outcome.RAISED)

_OF_CALLS = (TransitionReason.CALLS, TransitionReason.TOGETHER, TransitionReason.SEQUENTIAL)
"""Reasons that lead to the tools."""


def _of_decisions(decisions: Sequence[Decision]) -> list[TrajectoryStep]:
    """The steps of a log, with the names of calls, no arguments, and of results only errors."""
    steps: list[TrajectoryStep] = []
    turn = 0
    for decision in decisions:
        who = f"{decision.middleware}.{decision.hook}" if decision.middleware else ""
        model: StepKind | None = None
        if decision.reason in _OF_CALLS and not decision.calls:
            raise ArgumentError(
                "run",
                "is a decision log that does not name the tools that were called.",
                "Pass the result of the run, or its messages.",
            )
        jumped = decision.hook == "after_model" and decision.outcome is Outcome.JUMPED
        if decision.calls or jumped:
            model = StepKind.MODEL
        elif not who and decision.outcome is Outcome.ROUTED:
            # The name of the schema follows a structured answer.
            why = decision.reason.partition(":")[0]
            model = _TURN_ENDS.get(why)  # type: ignore[call-overload]  # a str enum
        if model is not None and (not steps or steps[-1].kind is not StepKind.MODEL):
            turn += 1
            text = f"calls {', '.join(decision.calls)}" if decision.calls else ""
            steps.append(TrajectoryStep(model, str(model), turn, text=text))
        if decision.calls:
            turn += 1
            calls = decision.calls
            steps += [TrajectoryStep(StepKind.TOOL, name, turn, outcome="ok") for name in calls]
        if not who and decision.tool and decision.outcome in _FAILED:
            call = (StepKind.TOOL, decision.tool, "ok")
            if equal := [i for i, s in enumerate(steps) if (s.kind, s.name, s.outcome) == call]:
                last = steps[equal[-1]]
                steps[equal[-1]] = replace(last, outcome="error", text=decision.detail)
        if decision.outcome is Outcome.INTERRUPTED and decision.reason != "from within":
            turn += 1
            text = who or decision.hook
            steps.append(TrajectoryStep(StepKind.REVIEW, "review", turn, None, "pending", text))
        elif who and decision.outcome not in _NOTHING:
            # The decision of a layer around a call belongs to the turn of the call.
            turn += not (decision.tool and steps and steps[-1].turn == turn)
            text = ", ".join(filter(None, (decision.tool, decision.detail, decision.reason)))
            args = {"detail": decision.detail, "reason": decision.reason, "tool": decision.tool}
            outcome = str(decision.outcome)
            steps.append(TrajectoryStep(StepKind.HOOK, who, turn, args, outcome, text))
    return steps


def _of_file(path: Path) -> Trajectory:
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
        first = json.loads(lines[0])
    # A cassette, or another file, which `read_cassette` refuses with the reason.
    except ValueError:
        first = None
    if not isinstance(first, dict) or "outcome" not in first:
        return recorded_trajectory(*read_cassette(path)[1:])
    # A log of a newer version may have more fields.
    names = {field.name for field in fields(Decision)}
    decisions = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            data = {key: value for key, value in json.loads(line).items() if key in names}
            lists = {key: tuple(data.get(key, ())) for key in ("changed", "namespace", "calls")}
            decisions.append(Decision(**data | lists | {"outcome": Outcome(data["outcome"])}))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise CassetteError(f"{path}:{number}: is not a decision: {error}.") from None
    return Trajectory(tuple(_of_decisions(decisions)), "decisions")


def recorded_trajectory(entries: Lines, results: Lines = (), pauses: Lines = ()) -> Trajectory:
    """The steps of a recording: from requests and answers, results of tools, and edits."""
    tool_names = frozenset(name for entry in entries for name in entry["request"].get("tools", ()))
    messages = recorded_messages(entries)
    # No request has the results of the last turn.
    answered_ids = {m.tool_call_id for m in messages if isinstance(m, ToolMessage)}
    last_results = {line["id"]: line["result"] for line in results}
    for call in calls_of(messages):
        result = last_results.get(call["id"], {"error": ""})
        # A layer may have answered an error, and a command has a message.
        if call["id"] not in answered_ids and "error" not in (result or {}):
            messages.append(ToolMessage(**(result or {"content": ""}), tool_call_id=call["id"]))
    answers = [answer for pause in pauses for answer in pause.get("answers", {}).values()]
    # An answer to a question may have decisions about several calls.
    decisions = [answer for answer in answers if isinstance(answer, dict)]
    decisions += [item for answer in decisions for item in answer.get("decisions", ())]
    edits = [decision["edited_action"] for decision in decisions if "edited_action" in decision]
    ran = {line["id"]: {"name": line["tool"], "args": line["args"]} for line in results}
    for message in messages:
        if isinstance(message, ToolMessage) and (call := ran.get(message.tool_call_id)) in edits:
            message.response_metadata[RAN] = call
    return Trajectory(tuple(_of_messages(messages)), "recording", tool_names)


def recorded_messages(entries: Lines) -> list[BaseMessage]:
    """The conversation of a recording: answers, messages of users, and results of calls."""
    messages: list[BaseMessage] = []
    inputs: Counter[str] = Counter()
    for entry in entries:
        request = convert_to_messages(entry["request"].get("messages", ()))
        # Recordings have no ids of messages, so texts are counted.
        new = Counter(str(m.text) for m in request if isinstance(m, HumanMessage)) - inputs
        inputs += new
        answered_ids = {m.tool_call_id for m in messages if isinstance(m, ToolMessage)}
        waiting = [call for call in calls_of(messages) if call["id"] not in answered_ids]
        answers = {m.tool_call_id: m for m in request if isinstance(m, ToolMessage)}
        results = [(c, answers[c["id"]]) for c in calls_of(request) if c["id"] in answers]
        # A call changed by a reviewer has other arguments in the request.
        for keys in (("name", "args"), ("name",)):
            # The last calls of a request are the newest: an earlier call may be equal.
            for call in waiting[::-1]:
                same = [i for i, (c, _) in enumerate(results) if all(c[k] == call[k] for k in keys)]
                if same:
                    ran, result = results.pop(same[-1])
                    message = result.model_copy(update={"tool_call_id": call["id"]})
                    if ran["args"] != call["args"]:
                        message.response_metadata = {RAN: ran}
                    messages.append(message)
                    waiting.remove(call)
        messages += [HumanMessage(text) for text in new.elements()]
        if "error" not in entry["answer"]:
            messages.append(AIMessage(**entry["answer"]))
    return messages


def calls_of(messages: Sequence[BaseMessage]) -> list[Any]:
    """The tool calls of a conversation, also calls with invalid JSON."""
    turns = [message for message in messages if isinstance(message, AIMessage)]
    return [call for turn in turns for call in (*turn.tool_calls, *turn.invalid_tool_calls)]
