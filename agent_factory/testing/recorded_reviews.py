"""Reviews in recordings: questions of runs, answers of people, and changes of both."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langgraph.callbacks import GraphInterruptEvent
from langgraph.errors import is_invalid_resume
from langgraph.types import Command, Interrupt

from agent_factory.review.pending_calls import read_request
from agent_factory.runtime.run_layers.pauses import PauseHandler
from agent_factory.testing.comparison import normalize
from agent_factory.testing.recordings import Lines, RecordingChatModel
from agent_factory.testing.redaction import Redaction
from agent_factory.testing.trajectory_steps import StepKind, TrajectoryStep
from agent_factory.tools.client_tool import CLIENT_CALL
from agent_factory.upstream import named_interrupts


class PauseRecorder(PauseHandler):
    """Writes the questions of an agent's runs, and the answers to them."""

    raise_error = True  # LangChain would log an error

    def __init__(self, model: RecordingChatModel) -> None:
        super().__init__()
        self.model = model
        self._answer: dict[str, object] = {}
        self._position = 0  # the number of requests before the answer

    def on_chain_start(self, serialized: object, inputs: object, **_: object) -> None:
        """Take the answer by which a run is resumed."""
        if isinstance(inputs, Command) and inputs.resume is not None:
            self._position = self.model.request_count
            ids = [interrupt.id for interrupt in self.interrupts or ()]
            answers: Any = inputs.resume
            if not named_interrupts(answers):
                # LangGraph gives an answer without an id to the only interrupt.
                answers = {ids[0]: answers} if len(ids) == 1 else {}
            # By number: a replay has other ids.
            numbered = {str(ids.index(id_)): value for id_, value in answers.items() if id_ in ids}
            # Without interrupts, a run continues from a node with `interrupt_before`.
            self._answer = {"answers": numbered} if numbered else {}

    def on_interrupt(self, event: GraphInterruptEvent) -> None:
        """Write the questions of a run."""
        self.on_chain_end()
        super().on_interrupt(event)
        if event.interrupts:  # none before or after a node
            self.model.write_pause({"asked": [_data_of(item) for item in event.interrupts]})

    def on_chain_end(self, *_: object, **__: object) -> None:
        """Write the answer by which the run was resumed."""
        if self._answer:
            self.model.write_pause({**self._answer, "at": self._position})
        self._answer = {}

    def on_chain_error(self, error: BaseException, **_: object) -> None:
        """Write the answer as well; a refused answer can be given again, and is not written."""
        if is_invalid_resume(error):
            self._answer = {}
        self.on_chain_end()


def _data_of(interrupt: Interrupt) -> dict[str, Any]:
    """The question of an interrupt as plain data: calls, or a value."""
    value = interrupt.value
    if (calls := read_request(value, interrupt.response_schema)) is not None:
        call_data = [{"name": call.name, "args": call.args} for call in calls]
        return {"calls": call_data, "batched": any(call.batched for call in calls)}
    if isinstance(value, Mapping) and value.get("type") == CLIENT_CALL:
        return {"calls": [{"name": value["name"], "args": value["args"]}], "batched": False}
    return {"value": normalize(value)}


@dataclass(frozen=True, slots=True)
class Question:
    """A call, or another question, for a person.

    Equal questions have one key. The place is the id of the interrupt, in a recording its number;
    a batched interrupt asks about all calls of a turn together.
    """

    text: str
    key: str
    place: str
    batched: bool


def _questions(items: Mapping[str, Mapping[str, Any]]) -> Iterator[Question]:
    """The questions of interrupts, by their ids or numbers."""
    for place, item in items.items():
        for call in item.get("calls", ()):
            text = TrajectoryStep(StepKind.TOOL, call["name"], 0, call["args"]).call
            yield Question(text, json.dumps(call, sort_keys=True), place, item["batched"])
        if "calls" not in item:
            text = TrajectoryStep(StepKind.TOOL, "interrupt", 0, {"value": item["value"]}).call
            yield Question(text, json.dumps(item, sort_keys=True), place, batched=False)


def waiting_questions(interrupts: Sequence[Interrupt], redact: Redaction) -> list[Question]:
    """The questions of a waiting run, in the form of a recording."""
    data = {item.id: json.dumps(_data_of(item), default=str) for item in interrupts}
    return list(_questions({place: redact(json.loads(text)) for place, text in data.items()}))


def asked_in(pauses: Lines, requests: int) -> list[Question]:
    """The questions at the end of a recording; `requests` is the number of recorded requests."""
    if not pauses or "asked" not in pauses[-1] or pauses[-1]["at"] != requests:
        return []
    return list(_questions({str(n): item for n, item in enumerate(pauses[-1]["asked"])}))


def changed_questions(
    asked: Sequence[Question], waiting: Sequence[Question], calls: Collection[str]
) -> list[str]:
    """Questions about made calls that are not asked now, and questions that were not asked before.

    The run now may end before the other recorded calls.
    """
    _, missing, new = _pairs_of(asked, waiting)
    return _changes([question for question in missing if question.text in calls], new)


def _pairs_of(
    asked: Sequence[Question], waiting: Sequence[Question]
) -> tuple[list[tuple[Question, Question]], list[Question], list[Question]]:
    """Pairs of equal questions, questions that are not asked any more, and new questions."""
    pairs, missing, new = [], list(asked), []
    for question in waiting:
        previous = next((other for other in missing if other.key == question.key), None)
        if previous is None:
            new.append(question)
        else:
            missing.remove(previous)
            pairs.append((previous, question))
    return pairs, missing, new


def _changes(missing: Sequence[Question], new: Sequence[Question]) -> list[str]:
    gone = [f"Nobody is asked about {question.text} any more." for question in missing]
    return gone + [f"A person is asked about {q.text} now, and was not before." for q in new]


@dataclass(frozen=True, slots=True)
class RecordedAnswer:
    """The answer by which a recorded run was resumed, after some requests if known.

    `resume` is the value for a whole run; with `answers`, `asked` has the interrupts by number.
    """

    resume: Any = None
    at: int | None = None
    asked: Mapping[str, Mapping[str, Any]] | None = None
    answers: Mapping[str, Any] | None = None

    @property
    def questions(self) -> list[Question]:
        """The answered questions, if known."""
        return list(_questions(self.asked or {}))

    def fit(self, waiting: Sequence[Question]) -> tuple[object, list[str]]:
        """The answer to the questions now, None if they are new, and the changes since."""
        if self.asked is None or self.answers is None:
            return self._fit_value(waiting)
        questions = self.questions
        decisions: dict[int, Any] = {}  # by the identity of a question
        for place, answer in self.answers.items():
            answered = [question for question in questions if question.place == place]
            parts = answer["decisions"] if any(q.batched for q in answered) else [answer]
            decisions |= zip(map(id, answered), parts, strict=False)
        pairs, missing, new = _pairs_of(questions, waiting)
        resume: dict[str, Any] = {}
        for previous, question in pairs:
            if id(previous) in decisions and question.batched:
                batch = resume.setdefault(question.place, {"decisions": []})
                batch["decisions"].append(decisions[id(previous)])
            elif id(previous) in decisions:
                resume[question.place] = decisions[id(previous)]
        return (None if new else resume or None), _changes(missing, new)

    def _fit_value(self, waiting: Sequence[Question]) -> tuple[object, list[str]]:
        """`fit` for an answer to unknown questions."""
        given = self.resume.get("decisions") if isinstance(self.resume, dict) else None
        if not waiting:
            text = json.dumps(self.resume, ensure_ascii=False, default=str)
            return self.resume, [f"Nobody is asked any more: nothing waits for the answer {text}."]
        if isinstance(given, list) and len(given) != len(waiting):
            texts = ", ".join(question.text for question in waiting)
            change = f"{len(given)} calls were decided about, and {len(waiting)} wait now: {texts}."
            return None, [change]
        return self.resume, []
