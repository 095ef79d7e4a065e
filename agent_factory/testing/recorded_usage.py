"""What the runs of a recording have used, by the names that the bounds of a plan have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from langchain_core.messages.ai import UsageMetadata

from agent_factory.testing.recordings import read_cassette
from agent_factory.testing.trajectory_steps import StepKind, recorded_trajectory

Price = Callable[[str, UsageMetadata], float | None]
"""Function of a model's name and the usage of a call that returns US dollars, or None."""


def usage_of_runs(path: Path, price: Price) -> list[dict[str, float]]:
    """What each run of a recording has used: "model calls", "calls of search", "tokens", "USD".

    Calls of tools are those that have a result, also of a call that was refused. Amounts that a
    recording does not hold are left out.

    Raises:
        FileNotFoundError: The file does not exist.
        CassetteError: The file is not a recording.
    """
    header, entries, results, _ = read_cassette(path)
    inputs = [item for item in header.get("inputs", ()) if "resume" not in item]
    # An input that resumes a run does not begin one.
    runs = [entries] if len(inputs) == 1 else _runs(entries)
    name = str(header.get("model_name") or "")
    return [_usage(run, results, name, price) for run in runs if run]


def _runs(entries: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """The entries of each run: a run begins with a message of the user after an answer."""
    runs: list[list[dict[str, Any]]] = [[]]
    written, is_over = 0, False
    for entry in entries:
        request = entry["request"]
        # A call that a middleware makes itself, such as for a summary, offers other tools.
        if bool(request.get("tools")) == bool(entries[0]["request"].get("tools")):
            count = sum(m.get("type") == "human" for m in request.get("messages", ()))
            if is_over and count > written:
                runs.append([])
            written = count
            is_over = "error" not in entry["answer"] and not entry["answer"].get("tool_calls")
        runs[-1].append(entry)
    return runs


def _usage(
    entries: Sequence[Mapping[str, Any]],
    results: Sequence[Mapping[str, Any]],
    model: str,
    price: Price,
) -> dict[str, float]:
    steps = recorded_trajectory(entries, results).steps
    calls = [s.name for s in steps if s.kind is StepKind.TOOL and s.outcome != "pending"]
    usage: dict[str, float] = {"model calls": len(entries), "tool calls": len(calls)}
    usage |= Counter(f"calls of {name}" for name in calls)
    dollars: list[float | None] = []
    for answer in (entry["answer"] for entry in entries):
        if counts := answer.get("usage_metadata"):
            for unit, field in _UNITS.items():
                usage[unit] = usage.get(unit, 0) + counts.get(field, 0)
            metadata = answer.get("response_metadata", {})
            name = metadata.get("model_name") or metadata.get("model") or model
            dollars.append(price(str(name), cast("UsageMetadata", counts)))
    if dollars and None not in dollars:
        usage["USD"] = sum(cast("list[float]", dollars))
    return usage


_UNITS = {
    "tokens": "total_tokens",
    "input tokens": "input_tokens",
    "output tokens": "output_tokens",
}
