"""Bounds: the most that a run can use by its limits, and which limits give it.

They are bounds, never prophecy: what no limit bounds has none.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from math import inf, prod
from typing import Protocol, get_args

from agent_factory.topology.declarations import (
    JOBS,
    AccessKind,
    LimitScope,
    LimitUnit,
    UsageLimit,
)
from agent_factory.topology.model import Call, Layer, ToolKind, TopologyData

_TOKENS: tuple[LimitUnit, ...] = ("tokens", "input tokens", "output tokens")

_AFTERWARDS = {*_TOKENS, "USD", "seconds"}
"""Units of which a call says only afterwards how much it has used."""

_CALLS = {"model calls": Call.MODEL, "tool calls": Call.TOOL}

_ADVICE = {
    "model calls": "ModelCallLimitMiddleware(run_limit=...)",
    "tool calls": "ToolCallLimitMiddleware(run_limit=...)",
    "tokens": "BudgetMiddleware(run=Limits(total_tokens=...))",
    "input tokens": "BudgetMiddleware(run=Limits(input_tokens=...))",
    "output tokens": "BudgetMiddleware(run=Limits(output_tokens=...))",
    "USD": "BudgetMiddleware(run=Limits(usd=...)), or pass prices to bounds()",
    "seconds": "BudgetMiddleware(run=Limits(seconds=...))",
}

_PER_MILLION = 1_000_000


class TokenPrice(Protocol):
    """A price in US dollars for a million tokens, such as `agent_factory.middleware.Price`."""

    @property
    def input(self) -> float: ...
    @property
    def output(self) -> float: ...
    @property
    def cache_read(self) -> float | None: ...
    @property
    def cache_write(self) -> float | None: ...


@dataclass(frozen=True, slots=True)
class Bound:
    """The most that a run can use of one thing.

    Args:
        what: What is counted: "model calls", "calls of search", "tokens", "USD", ...
        most: The number, as the limits count; None if nothing limits it.
        by: The limits that give it, in words, with their middleware.
        attempts: For calls, the most with repeated attempts of each; None if it is not known.
        notes: What the number does not include; for None, what to add.
        agent: The agent inside of a tool that uses it: "clerk". Empty for the agent itself, "all"
            for both together.

    >>> print(Bound("model calls", 5, ("Limit: at most 5 model calls a run",)))
    model calls: at most 5, by Limit: at most 5 model calls a run
    """

    what: str
    most: float | None
    by: tuple[str, ...] = ()
    attempts: float | None = None
    notes: tuple[str, ...] = ()
    agent: str = ""

    @property
    def name(self) -> str:
        """What is counted, with the agent: "clerk: model calls"."""
        return f"{self.agent}: {self.what}" if self.agent else self.what

    @property
    def number(self) -> str:
        """The most as text: "at most 5", or "no bound"."""
        return "no bound" if self.most is None else f"at most {self.most:g}"

    def __str__(self) -> str:
        by = f", by {' and '.join(self.by)}" if self.by else ""
        notes = "".join(f" {note}" for note in self.notes)
        return f"{self.name}: {self.number}{by}{'.' if notes else ''}{notes}"


@dataclass(frozen=True, slots=True)
class Bounds:
    """The most that a run can use, one thing after the other.

    Args:
        rows: The bounds: of the agent, of agents inside of its tools, of all of them together.
    """

    rows: tuple[Bound, ...]

    def of(self, what: str, agent: str = "") -> Bound:
        """The bound of one thing: "model calls", "calls of search", "USD", ...

        Raises:
            KeyError: There is none of this name.
        """
        for row in self.rows:
            if (row.what, row.agent) == (what, agent):
                return row
        raise KeyError(f"{what!r} is not bounded. There are {', '.join(r.name for r in self.rows)}")

    def to_data(self) -> list[dict[str, object]]:
        """The bounds as plain dicts, for JSON."""
        return [asdict(row) for row in self.rows]

    def __str__(self) -> str:
        return "\n".join(map(str, self.rows))


def bounds(plan: TopologyData, prices: Mapping[str, TokenPrice] | None = None) -> Bounds:
    """The most that a run of an agent can use; see `Topology.bounds`."""

    def one_run(agent: str, scopes: Collection[str] = get_args(LimitScope)) -> list[Bound]:
        limits = [x for x in plan.limits if _agent_of(x.owner) == agent and x.scope in scopes]
        return list(_Run(plan, agent, limits).bounds(prices or {}))

    rows = one_run("")
    totals = {row.what: [row] for row in rows}
    names = [tool.name for tool in plan.tools if tool.kind is ToolKind.INNER]
    names += [limit.owner for limit in plan.limits]
    inside = _unique(agent for name in names if (agent := _agent_of(name)))
    # The runs of an agent further in follow from those of the agent around it.
    for agent in sorted(inside, key=lambda agent: agent.count("/")):
        calls = _runs_of(agent, plan, rows)
        # A ledger counts all runs of the agent inside together, other limits one run each.
        each_run, all_runs = one_run(agent, ("run", "thread")), one_run(agent, ("ledger",))
        for each, together in zip(each_run, all_runs, strict=True):
            total = _lowest(_times(each, calls), together)
            totals.setdefault(total.what, []).append(total)
            if total.by or total.what in _CALLS or total.what.startswith("calls of "):
                rows.append(total)
    if inside:
        rows += [
            _sum(what, totals[what], plan.limits)
            for what in get_args(LimitUnit)
            if what not in ("seconds", JOBS)
        ]
    return Bounds(tuple(rows))


@dataclass(frozen=True, slots=True)
class _Run:
    """One run of an agent of a plan, with the limits that bound it."""

    plan: TopologyData
    agent: str
    limits: Sequence[UsageLimit]

    def bounds(self, prices: Mapping[str, TokenPrice]) -> Iterator[Bound]:
        """The bounds of all that it uses."""
        yield self.calls("model calls")
        yield self.calls("tool calls")
        for tool in self.tools:
            yield self.calls("tool calls", tool)
        tokens = self.tokens()
        yield from tokens
        yield self.dollars(tokens, prices)
        yield self.bound("seconds")

    @property
    def tools(self) -> list[str]:
        """The names of the agent's tools, without those of agents inside of them."""
        kind = ToolKind.INNER if self.agent else ToolKind.CLIENT
        names = [tool.name for tool in self.plan.tools if tool.kind is kind]
        if not self.agent:
            return names
        return [name.rpartition("/")[2] for name in names if _agent_of(name) == self.agent]

    def limits_of(self, unit: LimitUnit, tool: str = "") -> list[UsageLimit]:
        """The limits of a unit. A limit of all tools bounds each of them."""
        return [x for x in self.limits if x.unit == unit and x.tool in ("", tool)]

    def calls(self, unit: LimitUnit, tool: str = "") -> Bound:
        """The bound of calls of the model, of all tools or of one."""
        bound = self.bound(unit, tool)
        if unit == "tool calls" and not tool and self.tools:
            # The limits of all tools one by one bound them together, too.
            each = _together(unit, [self.calls(unit, name) for name in self.tools])
            if _lowest(bound, each) is each:
                more = "A tool that a middleware adds while a run works comes on top."
                return replace(each, notes=(*each.notes, more))
        if bound.most is None or self.agent:  # the layers of an agent inside are not in the plan
            return bound
        layers = self.plan.layers_around(_CALLS[unit])
        factor = prod(layer.attempts for layer in layers)
        limits = self.limits_of(unit, tool)
        uncounted = {limit: self.uncounted(layers, limit.owner, unit) for limit in limits}
        attempts = min((x.most * factor for x in limits if not uncounted[x]), default=None)
        notes = list(bound.notes)
        if repeats := [f"{x.owner}, up to {x.attempts}" for x in layers if x.attempts > 1]:
            text = f"Attempts may be more ({'; '.join(repeats)} of each call)"
            notes.append(
                f"{text}." if attempts is None else f"{text}: at most {attempts:g} in all."
            )
        if attempts is None:
            notes.append(
                "Attempts that fail are not counted, because a layer further out may go on after "
                f"them: {', '.join(_unique(*uncounted.values()))}."
            )
        return replace(bound, attempts=attempts, notes=tuple(notes))

    def uncounted(self, layers: Sequence[Layer], owner: str, unit: LimitUnit) -> list[str]:
        """The layers outside of a limit that may go on after failures, which it does not count."""
        # A failed model call ends the loop, unless a hook sends the run back after a layer has made
        # an answer of it, as a retry does that may make one attempt.
        jumps_back = any("model" in hook.can_jump_to for hook in self.plan.hooks)
        if unit == "model calls" and not jumps_back:
            return []
        owners = [layer.owner for layer in layers]
        outside = owners[: owners.index(owner)] if owner in owners else owners
        counting = {limit.owner for limit in self.limits if limit.unit == unit}
        return [name for name in outside if name not in counting]

    def bound(self, unit: LimitUnit, tool: str = "") -> Bound:
        """The bound by the lowest limits of a unit."""
        what = f"calls of {tool}" if tool else str(unit)
        limits = self.limits_of(unit, tool)
        if not limits:
            of_tool = f"ToolCallLimitMiddleware(tool_name={tool!r}, run_limit=...)"
            advice = of_tool if tool else _ADVICE[unit]
            where = f" to the agent inside of {self.agent}" if self.agent else ""
            return Bound(what, None, notes=(f"Add {advice}{where}.",), agent=self.agent)
        # Of equal numbers the one that nobody can raise.
        most, raisable = min((limit.most, limit.raisable) for limit in limits)
        lowest = [item for item in limits if (item.most, item.raisable) == (most, raisable)]
        fixed = min((limit.most for limit in limits if not limit.raisable), default=None)
        notes = []
        if raisable and fixed is not None:
            notes.append(f"Nobody can raise it above {fixed:g}.")
        if unit in _AFTERWARDS:
            of = "of each agent that shares it " if lowest[0].scope == "ledger" else ""
            notes.append(f"The last call {of}may go over it, because its use is known afterwards.")
        if unit not in ("seconds", "tool calls") and not self.agent:
            notes += self.notes_of_model(lowest if unit in _AFTERWARDS else ())
        by = _unique(f"{limit.owner}: {limit}" for limit in lowest)
        return Bound(what, most, by, notes=tuple(notes), agent=self.agent)

    def notes_of_model(self, counting_answers: Iterable[UsageLimit]) -> Iterator[str]:
        """What models use and limits do not see: discarded answers, calls by middleware."""
        layers = self.plan.layers_around(Call.MODEL)
        owners = [layer.owner for layer in layers]
        for limit in counting_answers:
            # Layers further in may discard answers that the limit does not see.
            start = owners.index(limit.owner) if limit.owner in owners else 0
            if inside := _unique(x.owner for x in layers[start:] if x.attempts > 1):
                yield (
                    f"Answers that {', '.join(inside)} discard come on top. Put {limit.owner} "
                    "after them in the list."
                )
        # No limit counts the calls that middleware make themselves.
        kind = AccessKind.SENDS_TO_MODEL
        if calling := _unique(a.owner for a in self.plan.accesses if a.kind is kind):
            yield f"Calls that {', '.join(calling)} make of a model themselves come on top."

    def tokens(self) -> tuple[Bound, Bound, Bound]:
        """The bounds of tokens: of all, of those that are read, and of those that are written."""
        both, of_input, of_output = map(self.bound, _TOKENS)
        # What is read cannot be more than what is read and written.
        read, written = (_lowest(x, replace(both, what=x.what)) for x in (of_input, of_output))
        return _lowest(both, _together("tokens", [of_input, of_output])), read, written

    def dollars(self, tokens: Iterable[Bound], prices: Mapping[str, TokenPrice]) -> Bound:
        """The bound of US dollars: by a limit, or by tokens at the highest price."""
        bound = self.bound("USD")
        if not prices:
            return bound
        # Tokens of a cache may cost more than others.
        rates = [
            (max(p.input, p.cache_read or 0, p.cache_write or 0), p.output) for p in prices.values()
        ]
        input_rate, output_rate = (max(rate) for rate in zip(*rates, strict=True))
        both, read, written = (
            row if row.most is None else replace(row, most=row.most * rate)
            for row, rate in zip(
                tokens, (max(input_rate, output_rate), input_rate, output_rate), strict=True
            )
        )
        for row in (both, _together("USD", [read, written])):
            if row.most is not None:
                note = (
                    f"At the highest prices of {', '.join(prices)}; other models are not included."
                )
                # Prices are those of a million tokens.
                usd, notes = row.most / _PER_MILLION, (note, *row.notes)
                bound = _lowest(bound, replace(row, what="USD", most=usd, notes=notes))
        return bound


def _unique(*texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(chain(*texts)))


def _lowest(*bounds: Bound) -> Bound:
    """The lowest of several bounds of one thing; the first of equal ones."""
    return min(bounds, key=lambda bound: inf if bound.most is None else bound.most)


def _together(what: str, bounds: Sequence[Bound]) -> Bound:
    """The bound of several things together; a sum with an unknown part is unknown."""
    numbers = [bound.most for bound in bounds if bound.most is not None]
    attempts = [bound.attempts for bound in bounds if bound.attempts is not None]
    return Bound(
        what,
        sum(numbers) if len(numbers) == len(bounds) else None,
        _unique(*(bound.by for bound in bounds)),
        sum(attempts) if len(attempts) == len(bounds) else None,
        _unique(*(bound.notes for bound in bounds)),
        bounds[0].agent,
    )


def _agent_of(name: str) -> str:
    """The agent that has a member or a tool: "clerk" for "clerk/refund"."""
    return name.rpartition("/")[0]


def _runs_of(agent: str, plan: TopologyData, rows: Iterable[Bound]) -> Bound:
    """The bound of the runs of an agent inside: an attempt of its tool starts one a request."""
    tool, outer = agent.rpartition("/")[2], _agent_of(agent)
    requests = max((each.max_requests for each in plan.tools if each.name == agent), default=1)
    for row in rows:
        if (row.what, row.agent) == (f"calls of {tool}", outer):
            return replace(row, most=None if row.attempts is None else row.attempts * requests)
    return _Run(plan, outer, ()).bound("tool calls", tool)


def _times(row: Bound, calls: Bound) -> Bound:
    """The bound of all runs of an agent inside, from that of one run."""
    if row.most is None:
        return row
    # Any number of runs may use any amount together.
    if calls.most is None:
        note = f"Each run of {row.agent} uses {row.number}, and its runs have no bound."
        return replace(row, most=None, notes=(note, *calls.notes))
    note = f"{row.most:g} in each of {calls.most:g} runs."
    most, by = row.most * calls.most, _unique(row.by, calls.by)
    return replace(row, most=most, by=by, notes=(note, *row.notes))


def _sum(what: str, rows: Sequence[Bound], limits: Iterable[UsageLimit]) -> Bound:
    """The bound of all agents together; those of one ledger cannot use more than it has."""
    bound = replace(_together(what, rows), attempts=None, agent="all")
    if bound.most is None:
        names = ", ".join(row.agent or "the agent itself" for row in rows if row.most is None)
        return replace(bound, by=(), notes=(f"Without a bound: {names}.",))
    units = (what, "tokens") if what.endswith("put tokens") else (what,)
    shared = [x for x in limits if x.ledger and x.unit in units and not x.tool]
    parts: dict[UsageLimit | str, list[float]] = {}
    for row in rows:
        own = [limit for limit in shared if _agent_of(limit.owner) == row.agent]
        least = min(own, key=lambda limit: limit.most, default=None)
        # All limits of one ledger are the same limit, whichever middleware has it.
        key = replace(least, owner="") if least is not None else row.agent
        parts.setdefault(key, []).append(row.most or 0)
    total, notes = 0.0, list(bound.notes)
    for ledger, uses in parts.items():
        most = inf if isinstance(ledger, str) else ledger.most
        total += min(sum(uses), most)
        if sum(uses) > most:
            notes.append(f"Together {ledger}, counted once.")
    return replace(bound, most=total, notes=tuple(notes))
