"""The runs of a recording: the first request of each run, and the usage of the run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any, cast

from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage, convert_to_messages
from langchain_core.messages.ai import UsageMetadata

from agent_factory.state.history import is_explanation
from agent_factory.testing.recordings import Lines, read_cassette
from agent_factory.testing.replay_report import ReplayUsage
from agent_factory.testing.trajectory_steps import StepKind, recorded_trajectory

Price = Callable[[str, UsageMetadata], float | None]
"""Function of a model's name and the usage of a call that returns US dollars, or None."""


def usage_of_runs(path: Path, price: Price) -> list[dict[str, float]]:
    """Usage of each run, by the names of bounds: "model calls", "calls of search", "tokens", "USD".

    Calls of tools are calls with a result, refused calls included. Amounts outside of the
    recording are left out.

    Raises:
        FileNotFoundError: The file does not exist.
        CassetteError: The file is not a recording.
    """
    header, entries, results, _ = read_cassette(path)
    # An input that resumes a run does not begin a run.
    inputs = [item for item in header.get("inputs", ()) if "resume" not in item]
    starts = [0] if len(inputs) == 1 else [number for number, _ in run_starts(entries)]
    runs = [entries[start:end] for start, end in pairwise([*starts, len(entries)])]
    name = str(header.get("model_name") or "")
    return [_usage_of_run(run, results, name, price) for run in runs if run]


def run_starts(entries: Lines) -> Iterator[tuple[int, list[BaseMessage]]]:
    """Index of the first request of each run, with the new messages of the user.

    A run begins with a message of the user after an answer.
    """
    answer: Mapping[str, Any] | None = None
    for number, entry in enumerate(entries):
        request = entry["request"]
        # A middleware's own call, such as for a summary, offers other tools.
        if bool(request.get("tools")) != bool(entries[0]["request"].get("tools")):
            continue
        messages = convert_to_messages(request.get("messages", ()))
        if answer is None:
            yield number, [m for m in messages if not isinstance(m, SystemMessage)]
        elif not answer.get("tool_calls") and "error" not in answer:
            new = [*takewhile(lambda m: isinstance(m, HumanMessage), reversed(messages))][::-1]
            # The explanation of an invalid structured answer is a user message as well.
            if new and not any(map(is_explanation, new)):
                yield number, new
        answer = entry["answer"]


def usage_of_answer(
    answer: Mapping[str, Any], model: str, price: Price | None, scale: float = 1.0
) -> ReplayUsage:
    """Usage of a recorded answer; without tokens if the provider reported none.

    `scale` is for input tokens, if the request is longer or shorter now.
    """
    if not (reported := answer.get("usage_metadata")):
        return ReplayUsage(model_calls=1)
    read, written = round(reported.get("input_tokens", 0) * scale), reported.get("output_tokens", 0)
    counts = {"input_tokens": read, "output_tokens": written, "total_tokens": read + written}
    usage = cast("UsageMetadata", {**reported, **counts})
    metadata = answer.get("response_metadata", {})
    name = metadata.get("model_name") or metadata.get("model") or model
    usd = None if price is None else price(str(name), usage)
    return ReplayUsage(1, 0, read, written, usd)


def _usage_of_run(entries: Lines, results: Lines, model: str, price: Price) -> dict[str, float]:
    steps = recorded_trajectory(entries, results).steps
    calls = [s.name for s in steps if s.kind is StepKind.TOOL and s.outcome != "pending"]
    usage: dict[str, float] = {"model calls": len(entries), "tool calls": len(calls)}
    usage |= Counter(f"calls of {name}" for name in calls)
    answers = [entry["answer"] for entry in entries if entry["answer"].get("usage_metadata")]
    if usages := [usage_of_answer(answer, model, price) for answer in answers]:
        total = sum(usages, ReplayUsage())
        usage |= {"tokens": total.tokens, "input tokens": total.input_tokens}
        usage["output tokens"] = total.output_tokens
        dollars = [each.usd for each in usages if each.usd is not None]
        if len(dollars) == len(usages):
            usage["USD"] = sum(dollars)
    return usage
