"""Results of replays of recorded runs: values, as a table and as a page without a script."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from enum import StrEnum
from html import escape
from importlib.resources import files
from typing import Any

from agent_factory.testing.trajectory_steps import Trajectory
from agent_factory.topology.render.html import themes

NO_STEPS = Trajectory((), "messages")


class ReplayVerdict(StrEnum):
    """Verdict on the replay of a run."""

    PASSED = "passed"
    """The agent asks and does what was recorded."""
    CHANGED = "changed"
    """The agent asks or does something else."""
    FAILED = "failed"
    """The run does not match the pattern that it is to match."""
    ERROR = "error"
    """The run raised, or the recording cannot be read."""


@dataclass(frozen=True, slots=True)
class ReplayUsage:
    """Calls, tokens and cost of a run.

    Args:
        model_calls: Calls of the model.
        tool_calls: Calls of tools with a result.
        input_tokens: Tokens in requests; for a request outside of the recording, estimated by
            the length.
        output_tokens: Tokens in answers.
        usd: The cost in US dollars; None if no price is known.
    """

    model_calls: int = 0
    tool_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    usd: float | None = None

    @property
    def tokens(self) -> int:
        """All tokens."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: ReplayUsage) -> ReplayUsage:
        # Without unknown costs, a sum is the least amount spent.
        costs = [cost for cost in (self.usd, other.usd) if cost is not None]
        names = [field.name for field in fields(self) if field.name != "usd"]
        counts = {name: getattr(self, name) + getattr(other, name) for name in names}
        return ReplayUsage(**counts, usd=sum(costs) if costs else None)


@dataclass(frozen=True, slots=True)
class ReplayedRun:
    """The replay of a recorded run.

    Args:
        name: The path of the recording in its folder, without suffix.
        verdict: The verdict of the replay.
        reason: The difference or the failure; empty for a passed run.
        request: The number of the first different request, from 1; None without a difference.
        step: The number of the first different step of the trajectory, from 1; None without a
            difference.
        tool: The tool of the different step; empty without a tool.
        recorded: Usage of the recorded run.
        replayed: Usage of the run now.
        seconds: Duration of the replay in seconds.
        trajectory: The steps of the run now.
    """

    name: str
    verdict: ReplayVerdict
    reason: str = ""
    request: int | None = None
    step: int | None = None
    tool: str = ""
    recorded: ReplayUsage = ReplayUsage()
    replayed: ReplayUsage = ReplayUsage()
    seconds: float = 0.0
    trajectory: Trajectory = NO_STEPS

    def assert_passed(self, *, allow_changes: bool = False) -> None:
        """Fail unless the run passed.

        Args:
            allow_changes: Whether the agent may ask and act otherwise than in the recording, as
                long as the run matches the pattern.

        Raises:
            AssertionError: The run has another verdict; the message describes the difference.
        """
        __tracebackhide__ = True
        if self.verdict is ReplayVerdict.PASSED:
            return
        if allow_changes and self.verdict is ReplayVerdict.CHANGED:
            return
        marks = [] if self.step is None else [self.step - 1]
        raise AssertionError(
            f"{self.name}: {self.verdict}. {self.reason}\n\n{self.trajectory.numbered(marks)}\n\n"
            "If that is intended, record the run again."
        )

    def to_data(self) -> dict[str, Any]:
        """The run as plain values for JSON."""
        data = asdict(replace(self, trajectory=NO_STEPS))
        trajectory = [str(step) for step in self.trajectory.steps]
        return {**data, "verdict": str(self.verdict), "trajectory": trajectory}


@dataclass(frozen=True, slots=True)
class ReplayReport:
    """The replayed runs of a folder; `str` is a table.

    Args:
        runs: The runs, by name.
    """

    runs: tuple[ReplayedRun, ...]

    @property
    def passed(self) -> bool:
        """True if all runs passed."""
        return all(run.verdict is ReplayVerdict.PASSED for run in self.runs)

    @property
    def summary(self) -> str:
        """The verdicts in one line: "200 runs: 3 changed, 197 passed"."""
        counts = Counter(run.verdict for run in self.runs)
        # The verdicts are listed from the best to the worst.
        text = ", ".join(f"{counts[v]} {v}" for v in reversed(ReplayVerdict) if counts[v])
        return f"{len(self.runs)} run{'s' * (len(self.runs) != 1)}: {text}"

    @property
    def recorded(self) -> ReplayUsage:
        """Usage of all recorded runs."""
        return sum((run.recorded for run in self.runs), ReplayUsage())

    @property
    def replayed(self) -> ReplayUsage:
        """Usage of all runs now."""
        return sum((run.replayed for run in self.runs), ReplayUsage())

    def rows(self) -> Iterator[tuple[str, ...]]:
        """The cells of a table: a head, a row for each run, and the sums."""
        yield "recording", "verdict", "model calls", "tool calls", "tokens", "USD"
        for run in self.runs:
            yield run.name, str(run.verdict), *_changes(run.recorded, run.replayed)
        yield "all", "", *_changes(self.recorded, self.replayed)

    def to_data(self) -> dict[str, object]:
        """The report as plain values for JSON."""
        counts = Counter(str(run.verdict) for run in self.runs)
        runs = [run.to_data() for run in self.runs]
        return {"runs": runs, **{str(verdict): counts[verdict] for verdict in ReplayVerdict}}

    def to_html(self) -> str:
        """The report as a page without files from elsewhere, and without a script."""
        css = (files("agent_factory.testing") / "replay_report.css").read_text(encoding="utf-8")
        head, *rows, (label, verdict, *sums) = self.rows()
        policy = "default-src 'none'; style-src 'unsafe-inline'"
        counts = Counter(run.verdict for run in self.runs)
        tiles = "".join(f'<li class="{v}"><b>{counts[v]}</b> {v}</li>' for v in ReplayVerdict)

        def numbers(cells: Sequence[str]) -> str:
            columns = zip(head[2:], cells, strict=True)
            return "".join(f'<td data-head="{name}">{escape(cell)}</td>' for name, cell in columns)

        def line(run: ReplayedRun, cells: Sequence[str]) -> str:
            title = escape(run.name)
            if run.trajectory.steps:
                marks = () if run.step is None else (run.step - 1,)
                steps = "\n".join(
                    f"<mark>{escape(text)}</mark>" if text.startswith(">") else escape(text)
                    for text in run.trajectory.numbered(marks).split("\n")
                )
                state = " open" if run.verdict is ReplayVerdict.FAILED else ""
                title = f"<details{state}><summary>{title}</summary><pre>{steps}</pre></details>"
            reason = f"<p>{escape(run.reason)}</p>" if run.reason else ""
            return (
                f'<tr class="{run.verdict}"><th scope="row">{title}{reason}</th>'
                f"<td><span>{run.verdict}</span></td>{numbers(cells)}</tr>\n"
            )

        pairs = [(run, cells) for run, (_, _, *cells) in zip(self.runs, rows, strict=True)]
        # The sort is stable: each half stays in the order of the folder.
        pairs.sort(key=lambda pair: pair[0].verdict is ReplayVerdict.PASSED)
        heads = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in head)
        return (
            '<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{escape(self.summary)}</title><style>{themes()}\n{css}</style></head>\n"
            f"<body><header><h1>Replayed runs</h1><ul>{tiles}</ul></header>\n"
            f"<main><table><thead><tr>{heads}</tr></thead>\n"
            f"<tbody>\n{''.join(line(run, cells) for run, cells in pairs)}</tbody>\n"
            f'<tfoot><tr><th scope="row">{label}</th><td>{verdict}</td>{numbers(sums)}</tr></tfoot>'
            "</table></main>\n</body></html>\n"
        )

    def __str__(self) -> str:
        rows, lines = list(self.rows()), list[str]()
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        reasons = ["", *(run.reason for run in self.runs), ""]
        for row, reason in zip(rows, reasons, strict=True):
            lines.append("  ".join(map(str.ljust, row, widths)).rstrip())
            lines += [f"  {reason}"] if reason else []
        return "\n".join([*lines, self.summary])


def _changes(usage_before: ReplayUsage, usage_now: ReplayUsage) -> Iterator[str]:
    for name in ("model_calls", "tool_calls", "tokens"):
        before, after = getattr(usage_before, name), getattr(usage_now, name)
        yield f"{before:,}" if before == after else f"{before:,} -> {after:,}"
    costs = ["-" if u.usd is None else f"{u.usd:.4f}" for u in (usage_before, usage_now)]
    # A single value if nothing has changed.
    yield " -> ".join(dict.fromkeys(costs))
