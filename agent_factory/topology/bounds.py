"""Bounds: the most that a run can use by its limits, and which limits give it.

They are bounds, never prophecy: what no limit bounds has none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import inf, prod
from typing import Protocol, get_args

from agent_factory.topology.declarations import (
    JOBS,
    AccessKind,
    LimitUnit,
    UsageLimit,
)
from agent_factory.topology.model import Call, Layer, ToolKind, TopologyData

_AFTERWARDS = {
    "tokens",
    "input tokens",
    "output tokens",
    "USD",
    "seconds",
}
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
    own = list(_own(plan, "", prices or {}))
    rows, totals = list(own), {row.what: [row] for row in own}
    inside = _agents_inside(plan)
    for agent in inside:
        calls = _runs_of(agent, plan, rows)
        of_ledger = {row.what: row for row in _own(plan, agent, prices or {}, is_ledger=True)}
        for row in _own(plan, agent, prices or {}, is_ledger=False):
            # A ledger counts all runs of the agent inside together, other limits one run each.
            total, all_runs = _times(row, calls, agent), of_ledger[row.what]
            if all_runs.most is not None and (total.most is None or all_runs.most < total.most):
                total = all_runs
            totals.setdefault(row.what, []).append(total)
            if total.by or row.what in _CALLS or row.what.startswith("calls of "):
                rows.append(total)
    if inside:
        rows += [
            _sum(what, totals[what], plan.limits)
            for what in get_args(LimitUnit)
            if what not in ("seconds", JOBS)
        ]
    return Bounds(tuple(rows))


def _own(
    plan: TopologyData,
    agent: str,
    prices: Mapping[str, TokenPrice],
    *,
    is_ledger: bool | None = None,
) -> Iterator[Bound]:
    """The bounds of one run of an agent, by its own limits.

    `is_ledger` is true for limits of ledgers, which are of all runs together, and false for others.
    """
    limits = [
        limit
        for limit in plan.limits
        if _agent_of(limit.owner) == agent and is_ledger in (None, limit.scope == "ledger")
    ]
    calls = _Calls(plan, agent, limits)
    yield calls.bound("model calls")
    yield calls.bound("tool calls")
    for tool in calls.tools:
        yield calls.bound("tool calls", tool)
    tokens = _tokens(plan, limits, agent)
    yield from tokens.values()
    yield _dollars(plan, limits, agent, tokens, prices)
    yield _bound(plan, "seconds", "seconds", limits, agent)


@dataclass(frozen=True, slots=True)
class _Calls:
    """The limits of calls of an agent, and the layers around them."""

    plan: TopologyData
    agent: str
    limits: Sequence[UsageLimit]

    @property
    def tools(self) -> list[str]:
        """The names of the agent's tools, without those of agents inside of them."""
        kind = ToolKind.INNER if self.agent else ToolKind.CLIENT
        names = [tool.name for tool in self.plan.tools if tool.kind is kind]
        if not self.agent:
            return names
        names = [name for name in names if _agent_of(name) == self.agent]
        return [name.rpartition("/")[2] for name in names]

    def bound(self, unit: LimitUnit, tool: str = "") -> Bound:
        """The bound of calls of the model, of all tools or of one."""
        limits = [limit for limit in self.limits if limit.unit == unit]
        # A limit of all tools bounds each of them.
        limits = [limit for limit in limits if limit.tool in ("", tool)]
        what = f"calls of {tool}" if tool else str(unit)
        bound = _bound(self.plan, what, unit, limits, self.agent)
        each = [self.bound(unit, name) for name in self.tools] if not tool else []
        if unit == "tool calls" and not tool and each:
            sums = [row.most for row in each if row.most is not None]
            # The limits of all tools one by one bound them together, too.
            if len(sums) == len(each) and (bound.most is None or sum(sums) < bound.most):
                by = tuple(dict.fromkeys(text for row in each for text in row.by))
                notes = tuple(dict.fromkeys(note for row in each for note in row.notes))
                more = "A tool that a middleware adds while a run works comes on top."
                attempts = [row.attempts for row in each if row.attempts is not None]
                total = sum(attempts) if len(attempts) == len(each) else None
                return Bound(what, sum(sums), by, total, (*notes, more), self.agent)
        if bound.most is None or self.agent:  # the layers of an agent inside are not in the plan
            return bound
        return self._with_attempts(bound, unit, limits)

    def _with_attempts(self, bound: Bound, unit: LimitUnit, limits: Sequence[UsageLimit]) -> Bound:
        """The bound with what layers around the calls repeat."""
        layers = self.plan.layers_around(_CALLS[unit])
        factor = prod(layer.attempts for layer in layers)
        repeats = [
            f"{layer.owner}, up to {layer.attempts}" for layer in layers if layer.attempts > 1
        ]
        numbers = [
            limit.most * factor
            for limit in limits
            if not list(self._uncounted(layers, limit.owner, unit))
        ]
        notes = list(bound.notes)
        if repeats:
            text = f"Attempts may be more ({'; '.join(repeats)} of each call)"
            notes.append(f"{text}: at most {min(numbers):g} in all." if numbers else f"{text}.")
        if not numbers:
            outside = dict.fromkeys(
                owner for limit in limits for owner in self._uncounted(layers, limit.owner, unit)
            )
            notes.append(
                "Attempts that fail are not counted, because a layer further out may go on after "
                f"them: {', '.join(outside)}."
            )
        return Bound(
            bound.what, bound.most, bound.by, min(numbers, default=None), tuple(notes), bound.agent
        )

    def _uncounted(self, layers: Sequence[Layer], owner: str, unit: LimitUnit) -> Iterator[str]:
        """The layers outside of a limit that may go on after failures, which it does not count."""
        owners = [layer.owner for layer in layers]
        outside = layers[: owners.index(owner)] if owner in owners else layers
        counting = {limit.owner for limit in self.limits if limit.unit == unit}
        jumps_back = any("model" in hook.can_jump_to for hook in self.plan.hooks)
        for layer in outside:
            # A failed model call ends the loop, unless a hook sends the run back after a layer has
            # made an answer of it, as a retry does that may make one attempt.
            if (jumps_back or unit != "model calls") and layer.owner not in counting:
                yield layer.owner


def _bound(
    plan: TopologyData, what: str, unit: LimitUnit, limits: Iterable[UsageLimit], agent: str
) -> Bound:
    """The bound by the lowest limits of a unit."""
    limits = [limit for limit in limits if limit.unit == unit]
    if not limits:
        where = f" to the agent inside of {agent}" if agent else ""
        if what.startswith("calls of "):
            name = what.removeprefix("calls of ")
            advice = f"ToolCallLimitMiddleware(tool_name={name!r}, run_limit=...)"
        else:
            advice = _ADVICE[unit]
        return Bound(what, None, notes=(f"Add {advice}{where}.",), agent=agent)
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
    if unit not in ("seconds", "tool calls") and not agent:
        layers = plan.layers_around(Call.MODEL)
        owners = [layer.owner for layer in layers]
        for limit in lowest if unit in _AFTERWARDS else ():
            # Layers further in may discard answers that the limit does not see.
            start = owners.index(limit.owner) if limit.owner in owners else 0
            if inside := dict.fromkeys(x.owner for x in layers[start:] if x.attempts > 1):
                notes.append(
                    f"Answers that {', '.join(inside)} discard come on top. Put {limit.owner} "
                    "after them in the list."
                )
        # No limit counts the calls that middleware make themselves.
        kind = AccessKind.SENDS_TO_MODEL
        if calling := dict.fromkeys(a.owner for a in plan.accesses if a.kind is kind):
            notes.append(f"Calls that {', '.join(calling)} make of a model themselves come on top.")
    by = tuple(dict.fromkeys(f"{limit.owner}: {limit}" for limit in lowest))
    return Bound(what, most, by, notes=tuple(notes), agent=agent)


def _tokens(plan: TopologyData, limits: Sequence[UsageLimit], agent: str) -> dict[LimitUnit, Bound]:
    """The bounds of tokens: those of both kinds bound each kind, and each kind together both."""
    units: tuple[LimitUnit, ...] = ("tokens", "input tokens", "output tokens")
    of = {unit: _bound(plan, unit, unit, limits, agent) for unit in units}
    both, of_input, of_output = (of[unit] for unit in units)
    for unit, part in ((units[1], of_input), (units[2], of_output)):
        # What is read cannot be more than what is read and written.
        if both.most is not None and (part.most is None or both.most < part.most):
            of[unit] = Bound(unit, both.most, both.by, notes=both.notes, agent=agent)
    if of_input.most is not None and of_output.most is not None:
        total = of_input.most + of_output.most
        if both.most is None or total < both.most:
            notes = tuple(dict.fromkeys([*of_input.notes, *of_output.notes]))
            of[units[0]] = Bound(
                units[0], total, (*of_input.by, *of_output.by), notes=notes, agent=agent
            )
    return of


def _dollars(
    plan: TopologyData,
    limits: Sequence[UsageLimit],
    agent: str,
    tokens: Mapping[LimitUnit, Bound],
    prices: Mapping[str, TokenPrice],
) -> Bound:
    """The bound of US dollars: by a limit, or by tokens at the highest price."""
    bound = _bound(plan, "USD", "USD", limits, agent)
    if not prices:
        return bound
    # Tokens of a cache may cost more than others.
    rates = [
        (max(p.input, p.cache_read or 0, p.cache_write or 0), p.output) for p in prices.values()
    ]
    input_rate, output_rate = (max(rate) for rate in zip(*rates, strict=True))
    both, of_input, of_output = tokens.values()
    options = []
    if both.most is not None:
        options.append((both.most * max(input_rate, output_rate), both))
    if of_input.most is not None and of_output.most is not None:
        usd = of_input.most * input_rate + of_output.most * output_rate
        by = tuple(dict.fromkeys([*of_input.by, *of_output.by]))
        notes = tuple(dict.fromkeys([*of_input.notes, *of_output.notes]))
        options.append((usd, Bound("", usd, by, notes=notes)))
    for usd, row in options:
        # Prices are those of a million tokens.
        if bound.most is None or usd / _PER_MILLION < bound.most:
            note = f"At the highest prices of {', '.join(prices)}; other models are not included."
            notes = (note, *row.notes)
            bound = Bound("USD", usd / _PER_MILLION, row.by, notes=notes, agent=agent)
    return bound


def _agent_of(name: str) -> str:
    """The agent that has a member or a tool: "clerk" for "clerk/refund"."""
    return name.rpartition("/")[0]


def _agents_inside(plan: TopologyData) -> list[str]:
    """The agents inside of tools that the plan shows, outer ones first."""
    names = [tool.name for tool in plan.tools if tool.kind is ToolKind.INNER]
    names += [limit.owner for limit in plan.limits]
    agents = dict.fromkeys(agent for name in names if (agent := _agent_of(name)))
    # An agent whose only tool is another agent has no other name in the plan.
    agents |= dict.fromkeys(up for agent in agents if (up := _agent_of(agent)))
    return sorted(agents, key=lambda agent: agent.count("/"))


def _runs_of(agent: str, plan: TopologyData, rows: Sequence[Bound]) -> Bound:
    """The bound of the runs of an agent inside: an attempt of its tool starts one a request."""
    tool, outer = agent.rpartition("/")[2], _agent_of(agent)
    requests = max((each.max_requests for each in plan.tools if each.name == agent), default=1)
    for row in rows:
        if (row.what, row.agent) == (f"calls of {tool}", outer):
            most = None if row.attempts is None else row.attempts * requests
            return Bound(row.what, most, row.by, notes=row.notes, agent=outer)
    advice = f"Add ToolCallLimitMiddleware(tool_name={tool!r}, run_limit=...)."
    return Bound(f"calls of {tool}", None, notes=(advice,), agent=outer)


def _times(row: Bound, calls: Bound, agent: str) -> Bound:
    """The bound of all runs of an agent inside, from that of one run."""
    if row.most is None:
        return row
    # Any number of runs may use any amount together.
    if calls.most is None:
        note = f"Each run of {agent} uses {row.number}, and its runs have no bound."
        return Bound(row.what, None, row.by, notes=(note, *calls.notes), agent=agent)
    note = f"{row.most:g} in each of {calls.most:g} runs."
    by = tuple(dict.fromkeys([*row.by, *calls.by]))
    return Bound(row.what, row.most * calls.most, by, notes=(note, *row.notes), agent=agent)


def _sum(what: str, rows: Sequence[Bound], limits: Iterable[UsageLimit]) -> Bound:
    """The bound of all agents together; those of one ledger cannot use more than it has."""
    numbers = [row.most for row in rows if row.most is not None]
    # A sum with an unknown part is unknown.
    if len(numbers) < len(rows):
        names = ", ".join(row.agent or "the agent itself" for row in rows if row.most is None)
        return Bound(what, None, notes=(f"Without a bound: {names}.",), agent="all")
    by = tuple(dict.fromkeys(text for row in rows for text in row.by))
    notes = list(dict.fromkeys(note for row in rows for note in row.notes))
    units = (what, "tokens") if what.endswith("put tokens") else (what,)
    shared = [x for x in limits if x.ledger and x.unit in units and not x.tool]
    parts: dict[UsageLimit | str, list[float]] = {}
    for row, number in zip(rows, numbers, strict=True):
        own = [limit for limit in shared if _agent_of(limit.owner) == row.agent]
        least = min(own, key=lambda limit: limit.most, default=None)
        # All limits of one ledger are the same limit, whichever middleware has it.
        key = replace(least, owner="") if least is not None else row.agent
        parts.setdefault(key, []).append(number)
    total = 0.0
    for ledger, uses in parts.items():
        most = inf if isinstance(ledger, str) else ledger.most
        total += min(sum(uses), most)
        if sum(uses) > most:
            notes.append(f"Together {ledger}, counted once.")
    return Bound(what, total, by, notes=tuple(notes), agent="all")
