"""Replay a folder of recorded runs with an agent of today, and report the changes.

The answers of the model and the results of tools come from the recordings. Where the agent asks
otherwise than in the recording, the run goes on with the next recorded answer, so that the end can
be compared as well.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from langchain_core.messages import convert_to_messages
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph.state import CompiledStateGraph
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command
from pydantic import PrivateAttr

from agent_factory.errors import ArgumentError, describe, did_you_mean, require
from agent_factory.factory.agent import topology_of, with_model
from agent_factory.hooks.flows import Flow, Invoke, adrive, drive
from agent_factory.testing.recorded_reviews import (
    Question,
    RecordedAnswer,
    asked_in,
    changed_questions,
    waiting_questions,
)
from agent_factory.testing.recorded_tools import EndOfReplay, RecordedTools, with_innermost
from agent_factory.testing.recorded_usage import Price, run_starts, usage_of_answer
from agent_factory.testing.recordings import Cassette, CassetteError, ReplayChatModel
from agent_factory.testing.redaction import Redact
from agent_factory.testing.replay_report import (
    NO_STEPS,
    ReplayedRun,
    ReplayReport,
    ReplayUsage,
    ReplayVerdict,
)
from agent_factory.testing.trajectories import TrajectoryMismatch, assert_trajectory
from agent_factory.testing.trajectory_patterns import PatternError
from agent_factory.testing.trajectory_steps import (
    StepKind,
    Trajectory,
    TrajectoryStep,
    recorded_trajectory,
    trajectory_of,
)
from agent_factory.types import Graph

if TYPE_CHECKING:
    import pytest

SUFFIX = ".jsonl"
"""The suffix of recordings in a folder."""

EXPECTED = ".trajectory"
"""The suffix of a file that holds the pattern which the recording of the same name must match."""

Agent = Graph | Callable[[Any], Any]
"""An agent, or a function that builds it from a model."""

Progress = Callable[[list[Path]], Iterable[Path]]
"""Function that takes the list of recordings, and gives them one by one."""


class ReplayOptions(TypedDict, total=False):
    """The options of `replay_recording`."""

    context: object
    config: Mapping[str, object] | None
    run_tools: bool | Collection[str]
    price: Price | None
    redact: Redact | None


def recordings_in(folder: str | Path) -> list[Path]:
    """The recordings of a folder and its subfolders, the files `*.jsonl`, by name.

    Raises:
        ArgumentError: The folder does not exist, or holds no recordings.
    """
    paths = sorted(Path(folder).rglob(f"*{SUFFIX}"))
    if not paths:
        problem = "holds no recordings" if Path(folder).is_dir() else "does not exist"
        raise ArgumentError(
            "folder",
            f"{folder} {problem}.",
            f"Pass a folder with files *{SUFFIX} that record_agent(agent, path) has written.",
        )
    return paths


def each_recording(folder: str | Path) -> pytest.MarkDecorator:
    """Decorate a test to run once for each recording of a folder: the argument `recording`.

    Args:
        folder: The folder; the ids of the tests are the paths in the folder.

    Raises:
        ArgumentError: The folder does not exist, or holds no recordings.
        MissingExtra: pytest is not installed.

    ```python
    @each_recording(Path(__file__).parent / "recordings")
    def test_recorded_runs(recording):
        replay_recording(support_agent, recording).assert_passed()
    ```
    """
    paths = recordings_in(folder)
    names = [_name_in(path, folder) for path in paths]
    require("testing", "each_recording", "pytest")
    import pytest

    return pytest.mark.parametrize("recording", paths, ids=names)


def _name_in(path: Path, folder: str | Path) -> str:
    return path.relative_to(folder).with_suffix("").as_posix()


def replay_folder(
    agent: Agent, folder: str | Path, *, progress: Progress = iter, **options: Unpack[ReplayOptions]
) -> ReplayReport:
    """Replay all recordings of a folder and its subfolders.

    Args:
        agent: An agent of `create_agent`, or a function of a model that builds an agent, which
            is the better choice for middleware with models. The function is called once.
        folder: The folder with files `*.jsonl` of `record_agent` or `record`.
        progress: A function to show progress along the list of paths, such as
            `rich.progress.track` or `tqdm`.
        **options: As for `replay_recording`.

    Returns:
        A report: `print` shows a table, `to_html` makes a page.

    Raises:
        ArgumentError: The folder holds no recordings, or `agent` is of another kind.

    >>> import tempfile
    >>> from agent_factory import create_agent
    >>> from agent_factory.testing import ScriptedChatModel, record
    >>> folder = tempfile.TemporaryDirectory()
    >>> model = record(ScriptedChatModel(["Hello!"]), f"{folder.name}/hello.jsonl")
    >>> _ = create_agent(model).invoke({"messages": [("user", "Hi")]})
    >>> def build(model):
    ...     return create_agent(model, system_prompt="Be kind.")
    >>> report = replay_folder(build, folder.name)
    >>> print(report.summary)
    1 run: 1 changed
    >>> print(report.runs[0].reason)
    request 1 differs: messages[0].content: 'Hi' was recorded, 'Be kind.' is asked now.
    >>> folder.cleanup()
    """
    return drive(_replay_all(agent, folder, progress, options), throw_signals=True)


async def areplay_folder(
    agent: Agent, folder: str | Path, *, progress: Progress = iter, **options: Unpack[ReplayOptions]
) -> ReplayReport:
    """Replay all recordings of a folder in asynchronous runs; otherwise as `replay_folder`."""
    return await adrive(_replay_all(agent, folder, progress, options), throw_signals=True)


def replay_recording(
    agent: Agent,
    path: str | Path,
    *,
    context: object = None,
    config: Mapping[str, object] | None = None,
    run_tools: bool | Collection[str] = False,
    price: Price | None = None,
    redact: Redact | None = None,
) -> ReplayedRun:
    """Replay a recording with an agent.

    The agent gets a checkpointer, and a store if it has one, in memory. The model answers from the
    recording: each request gets the recorded answer, or else the next answer. The
    tools of the agent do not run either: the results of their calls are the recorded
    results. Tools of middleware do run. Models of middleware are asked, unless a
    function builds the agent with the recorded model everywhere.

    The expected pattern is in the recording, `record_agent(..., expect=...)`, or in a file of
    the same name with the suffix `.trajectory`.

    Args:
        agent: An agent of `create_agent`, or a function of a model that builds an agent.
        path: The recording.
        context: The context of the run.
        config: A RunnableConfig for the run.
        run_tools: Whether the tools of the agent run again, or the names of the tools to run.
        price: A function of a model's name and the usage of a call that returns US dollars, or
            None for an unknown price.
        redact: The function for `record_agent` or `record`, if any.

    Raises:
        ArgumentError: `agent` is neither of both.
    """
    replayer = _Replayer(agent, context, config, run_tools, price, redact)
    # The replay has to see EndOfReplay, which is control flow and passes other flows.
    return drive(replayer.replay(Path(path)), throw_signals=True)


async def areplay_recording(
    agent: Agent, path: str | Path, **options: Unpack[ReplayOptions]
) -> ReplayedRun:
    """Replay a recording in an asynchronous run; otherwise as `replay_recording`."""
    replayer = _Replayer(agent, **options)
    return await adrive(replayer.replay(Path(path)), throw_signals=True)


def _replay_all(
    agent: Agent, folder: str | Path, progress: Progress, options: ReplayOptions
) -> Flow[ReplayReport]:
    """Replay all recordings of a folder with one agent, because building takes longer."""
    paths = recordings_in(folder)
    replayer = _Replayer(agent, **options)
    runs = []
    for path in progress(paths):
        run = yield from replayer.replay(path)
        runs.append(replace(run, name=_name_in(path, folder)))
    return ReplayReport(tuple(runs))


class _RecordedModel(ReplayChatModel):
    """Model with the next recorded answer for a request outside of the recording."""

    _scales: dict[int, float] = PrivateAttr(default_factory=dict)
    _first: int | None = PrivateAttr(default=None)

    def load(self, path: Path, redact: Redact | None = None) -> Cassette:
        """Answer from a recording from now on."""
        cassette = super().load(path, redact)
        self._scales, self._first = {}, None
        if not cassette.entries:
            raise CassetteError(f"{path}: holds no request. Record the run again.")
        return cassette

    def _unrecorded(self, request: dict[str, object], reason: str) -> int:
        entries = self._cassette.entries
        self._first = self._first or len(entries) - len(self._left) + 1
        number = min(self._left, default=0)
        other = entries[number - 1]["request"] if number else None
        # A request without tools, as for a summary, does not get the answer of a turn.
        if other is None or bool(other.get("tools")) != bool(request.get("tools")):
            raise EndOfReplay(reason)
        # Tokens of this request are not counted, so they are scaled by its length.
        self._scales[number] = len(json.dumps(request)) / len(json.dumps(other))
        return number

    @property
    def expected(self) -> str:
        """The expected pattern of the run; empty without a pattern."""
        file = self.path.with_suffix(EXPECTED)
        if file.exists():
            return file.read_text(encoding="utf-8").strip()
        return str(self._cassette.header.get("expect", ""))

    def inputs(self) -> Iterator[object]:
        """Inputs of the agent, run by run: states, and answers."""
        header, entries, _, pauses = self._cassette
        answers, asked = [], None
        for pause in pauses:
            asked = pause.get("asked", asked)
            if "answers" in pause:
                by_number = {str(number): item for number, item in enumerate(asked or ())}
                answers.append(RecordedAnswer(None, pause["at"], by_number, pause["answers"]))
        inputs = header.get("inputs", ())
        if len(answers) != sum("resume" in item for item in inputs) and inputs:
            answers = []  # the agent had other inputs
        for item in inputs:
            if "resume" in item:
                yield answers.pop(0) if answers else RecordedAnswer(item["resume"])
            else:
                yield {**item, "messages": convert_to_messages(item.get("messages", ()))}
        if "inputs" in header:
            return
        for number, messages in run_starts(entries):
            while answers and answers[0].at is not None and answers[0].at <= number:
                yield answers.pop(0)
            yield {"messages": messages}
        yield from answers

    def usage(self, *, now: bool, tool_calls: int, price: Price | None) -> ReplayUsage:
        """Usage of all recorded answers, or of the answers to requests now."""
        total = ReplayUsage(tool_calls=tool_calls)
        for number, entry in enumerate(self._cassette.entries, 1):
            if not now or number not in self._left:
                scale = self._scales.get(number, 1.0) if now else 1.0
                total += usage_of_answer(entry["answer"], self.model_name or "", price, scale)
        return total


@dataclass
class _Replayer:
    """An agent with a model and tools that answer from recordings, one recording at a time."""

    agent: Any
    context: object = None
    config: Mapping[str, Any] | None = None
    run_tools: bool | Collection[str] = False
    price: Price | None = None
    redact: Redact | None = None

    def __post_init__(self) -> None:
        agent, run_tools, self.model = self.agent, self.run_tools, _RecordedModel(path=Path())
        if isinstance(agent, CompiledStateGraph):
            compiled_agent: Graph = with_model(agent, self.model)
        elif callable(agent):
            compiled_agent = agent(self.model)
        else:
            raise ArgumentError(
                "agent",
                "must be an agent or a function of a model that builds one, got "
                f"{describe(agent)}.",
                "Pass what create_agent returned, or lambda model: create_agent(model, ...).",
            )
        plan = topology_of(compiled_agent)  # raises for other agents than those of create_agent
        # Tools of middleware do run: they return commands, and a recording holds messages
        # only.
        run = {tool.name for tool in plan.tools if tool.owner}
        names = {tool.name for tool in plan.tools}
        chosen = names if run_tools is True else set(run_tools or ())
        for name in sorted(chosen - names):
            otherwise = f"It has {', '.join(sorted(names)) or 'none'}."
            hint = did_you_mean(name, names, otherwise)
            raise ArgumentError("run_tools", f"the agent has no tool {name!r}.", hint)
        self.tools = RecordedTools(run | chosen)
        self.saver = InMemorySaver()
        services = {
            "checkpointer": self.saver,
            "store": InMemoryStore() if compiled_agent.store is not None else None,
            # A hit of a cache would leave out recorded requests.
            "cache": None,
        }
        # Innermost, so that layers around tools do now what they did then.
        self.agent = with_innermost(compiled_agent, self.tools, services=services)

    def replay(self, path: Path) -> Flow[ReplayedRun]:
        """Replay a recording."""
        start, name = perf_counter(), path.with_suffix("").name
        model, price = self.model, self.price
        try:
            self.tools.load(model.load(path, self.redact), self.redact)
        except (CassetteError, FileNotFoundError) as error:
            return ReplayedRun(name, ReplayVerdict.ERROR, str(error))
        thread = str(path)
        config: Any = {**(self.config or {})}
        config["configurable"] = {**config.get("configurable", {}), "thread_id": thread}
        failed, waiting, reviews, asked = yield from self._run(config)
        values = self.agent.get_state(config).values
        # The agent replays all recordings of a folder, so no state of this recording may stay.
        self.saver.delete_thread(thread)
        state = {"messages": [], **values, "__interrupt__": waiting}
        trajectory = trajectory_of(state) if state["messages"] else NO_STEPS
        header, entries, results, pauses = model._cassette
        before = recorded_trajectory(entries, results, pauses)
        calls = {step.call: step.outcome for _, step in _calls(trajectory)}
        questions = waiting_questions(waiting, model.redacted)
        if header["version"] > 2 and not reviews:
            reviews = changed_questions(asked, questions, calls)
        # A waiting call has not run. A recording without results does not say whether the
        # last calls have run: they have if they do not wait now.
        calls_before = sum(
            step.outcome != "pending"
            or (header["version"] < 2 and calls.get(step.call) != "pending")
            for _, step in _calls(before)
        )
        calls_now = sum(step.outcome != "pending" for _, step in _calls(trajectory))
        run = ReplayedRun(
            name,
            ReplayVerdict.PASSED,
            request=model._first,
            recorded=model.usage(now=False, tool_calls=calls_before, price=price),
            replayed=model.usage(now=True, tool_calls=calls_now, price=price),
            seconds=perf_counter() - start,
            trajectory=trajectory,
        )
        return self._judged(run, before, failed, reviews, questions)

    def _run(
        self, config: Any
    ) -> Flow[tuple[Exception | None, Sequence[Any], list[str], list[Question]]]:
        """Run the recorded inputs; give the error, interrupts, changes of reviews, next review."""
        inputs, waiting, reviews = self.model.inputs(), (), []
        failed: Exception | None = None
        try:
            for item in inputs:
                if isinstance(item, RecordedAnswer):
                    resume = item.resume
                    # A run at a node with `interrupt_before` takes any answer.
                    if waiting or not self.agent.get_state(config).next:
                        resume, changes = item.fit(waiting_questions(waiting, self.model.redacted))
                        reviews += changes
                        if not waiting:
                            continue
                        if resume is None:  # the questions now have no decision
                            break
                    item = Command(resume=resume)
                waiting = ()
                result = yield Invoke(self.agent.bind(context=self.context), item, config)
                waiting = result.get("__interrupt__", ())
        # The reason is in `model.mismatch` or `tools.missing`.
        except EndOfReplay:
            pass
        except Exception as raised:
            failed = raised
        # A run that ended has not come to the next review.
        later = (item.questions for item in inputs if isinstance(item, RecordedAnswer))
        _, entries, _, pauses = self.model._cassette
        return failed, waiting, reviews, next(later, asked_in(pauses, len(entries)))

    def _judged(
        self,
        run: ReplayedRun,
        before: Trajectory,
        error: Exception | None,
        reviews: Sequence[str],
        waiting: Sequence[Question],
    ) -> ReplayedRun:
        """The run with the verdict and the reason."""
        model, tools, entries = self.model, self.tools, self.model._cassette.entries
        reasons = [reason for reason in (*reviews, model.mismatch, tools.missing) if reason]
        if model._left and not tools.missing:
            number = len(model._left)
            reasons.append(f"{number} of {len(entries)} recorded answers were not requested.")
            if waiting and not reviews:
                reasons.append(
                    f"The run waits for a person, who is asked about {waiting[0].text}. Record "
                    "what they decide: record_agent(agent, path) notes it, and record(model, path) "
                    'takes inputs=[..., Command(resume={"decisions": [{"type": "approve"}]})].'
                )
        if reasons:
            run, difference = _compared(run, before)
            reasons += [difference] if difference else []
        # A recorded error ends the replay as it ended the run.
        if error is not None and (reasons or "error" not in entries[-1]["answer"]):
            text = f"raised {type(error).__name__}: {error}".rstrip(": ")
            return replace(run, verdict=ReplayVerdict.ERROR, reason=" ".join([text, *reasons]))
        if reasons:
            run = replace(run, verdict=ReplayVerdict.CHANGED, reason=" ".join(reasons))
        try:
            if pattern := model.expected:
                assert_trajectory(run.trajectory, pattern)
        except TrajectoryMismatch as mismatch:
            reason = " ".join([*mismatch.reasons, *reasons])
            return replace(run, verdict=ReplayVerdict.FAILED, reason=reason, step=mismatch.step)
        except (PatternError, ArgumentError) as wrong:
            reason = f"cannot be compared with its pattern: {wrong}"
            return replace(run, verdict=ReplayVerdict.ERROR, reason=reason)
        return run


def _calls(trajectory: Trajectory) -> list[tuple[int, TrajectoryStep]]:
    return [(i, s) for i, s in enumerate(trajectory.steps, 1) if s.kind is StepKind.TOOL]


def _compared(run: ReplayedRun, before: Trajectory) -> tuple[ReplayedRun, str]:
    """The run with the first different call, and the difference; empty without a difference."""
    for first, other in zip_longest(_calls(before), _calls(run.trajectory)):
        was, now = first and first[1], other and other[1]
        alike = was and now and (was.name, was.args) == (now.name, now.args)
        # Whether the last calls of a recording have run is not known.
        if alike and was.outcome in (now.outcome, "pending"):
            continue
        number = other[0] if other else len(run.trajectory.steps) + 1
        there = f"{was.call} -> {was.outcome}" if was else "no further call"
        here = f"{now.call} -> {now.outcome}" if now else "the run ends"
        text = f"Step {number}: {there} was recorded, and now {here}."
        return replace(run, step=number, tool=(now or was).name), text
    return run, ""
