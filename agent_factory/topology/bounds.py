"""Bounds: the most that a run can use by limits, and the limits behind each number.

Upper bounds, not estimates: a use without limits has no bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain, repeat
from math import inf, prod
from typing import Protocol

from agent_factory.topology.declarations import AccessKind, LimitScope, LimitUnit, UsageLimit
from agent_factory.topology.model import START, TOOLS, Call, ToolKind, TopologyData
from agent_factory.topology.paths import PlanGraph

_TOKENS: tuple[LimitUnit, ...] = ("tokens", "input tokens", "output tokens")

_CALLS = {"model calls": Call.MODEL, "tool calls": Call.TOOL}
"""Units of calls. What a call uses of any other unit is known only after it."""

_ADVICE = {
    "model calls": "ModelCallLimitMiddleware(run_limit=...)",
    "tool calls": "ToolCallLimitMiddleware(run_limit=...)",
    "tokens": "BudgetMiddleware(run=Limits(total_tokens=...))",
    "input tokens": "BudgetMiddleware(run=Limits(input_tokens=...))",
    "output tokens": "BudgetMiddleware(run=Limits(output_tokens=...))",
    "USD": "BudgetMiddleware(run=Limits(usd=...)), or pass prices to bounds()",
    "seconds": "BudgetMiddleware(run=Limits(seconds=...))",
}


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
    """Upper bound of a use in a run.

    Args:
        what: The use: "model calls", "calls of search", "tokens", "USD", ...
        most: The number, as the limits count; None if nothing limits it.
        by: The limits with this number, in words, with their middleware.
        attempts: For calls, the most with repeated attempts of each; None if unknown.
        notes: Uses outside of the number; for None, the limits to add.
        agent: The agent inside of a tool: "clerk". Empty for the agent itself, "all" for both
            together.

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
        """The use, with the agent: "clerk: model calls"."""
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
    """Upper bounds of a run, a row for each use.

    Args:
        rows: The bounds of the agent, of agents inside of tools, of all together.
    """

    rows: tuple[Bound, ...]

    def of(self, what: str, agent: str = "") -> Bound:
        """The bound of a use: "model calls", "calls of search", "USD", ...

        Raises:
            KeyError: No bound has this name.
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
    """Upper bounds of a run of an agent; see `Topology.bounds`."""
    rows = rows_of(PlanGraph(plan), prices or {})
    # Rows without a limit are left out for agents inside, except rows of calls.
    visible = [row for row in rows if row.by or not row.agent or "calls" in row.what]
    if any(row.agent for row in rows):
        visible += [_of_all(what, rows, plan.limits) for what in _ADVICE if what != "seconds"]
    return Bounds(tuple(visible))


def rows_of(
    graph: PlanGraph,
    prices: Mapping[str, TokenPrice],
    scope: LimitScope = "run",
    *,
    is_certain: bool = False,
) -> list[Bound]:
    """The bounds of an agent, and of agents inside of tools.

    If certain, limits that people may raise do not count, nor do sums of known tools.
    """
    plan = graph.plan
    all_limits = [limit for limit in plan.limits if not (is_certain and limit.raisable)]
    tools: dict[str, list[str]] = {"": []}
    for tool in plan.tools:
        if tool.kind in (ToolKind.CLIENT, ToolKind.INNER):
            agent = _agent_of(tool.name) if tool.kind is ToolKind.INNER else ""
            tools.setdefault(agent, []).append(tool.name.removeprefix(f"{agent}/"))
        if tool.agent:
            tools.setdefault(tool.name, [])
    for limit in plan.limits:
        tools.setdefault(_agent_of(limit.owner), [])

    def one_run(agent: str, *scopes: LimitScope) -> list[Bound]:
        # A run without a call makes a thread without a call.
        limits = [x for x in all_limits if x.scope in scopes or not x.most]
        limits = [x for x in limits if _agent_of(x.owner) == agent]
        run = _Run(plan, agent, tools[agent], limits, None if agent else graph, scope)
        return list(run.bounds(prices, is_certain=is_certain))

    # A run is a part of a thread, and of a ledger.
    rows = one_run("", *(("run", "thread", "ledger") if scope == "run" else (scope,)))
    # The runs of an agent further in follow from the runs of the agent around it.
    for agent in sorted(filter(None, tools), key=lambda agent: agent.count("/")):
        outer, _, name = agent.rpartition("/")
        same = [row for row in rows if (row.what, row.agent) == (f"calls of {name}", outer)]
        calls = same[0] if same else _Run(plan, outer, (), ()).bound("tool calls", name)
        # Each attempt of the tool starts a run for each request.
        requests = max((each.max_requests for each in plan.tools if each.name == agent), default=1)
        most = None if calls.attempts is None else calls.attempts * requests
        runs = replace(calls, most=most)
        # A ledger counts all runs of the agent inside together, other limits each run alone.
        parts = zip(one_run(agent, "run", "thread"), one_run(agent, "ledger"), strict=True)
        rows += [_lowest(_in_runs(each, runs), together) for each, together in parts]
    return rows


@dataclass(frozen=True, slots=True)
class _Run:
    """Run of an agent of a plan, with tools and limits."""

    plan: TopologyData
    agent: str
    tools: Sequence[str]
    limits: Sequence[UsageLimit]
    graph: PlanGraph | None = None
    """The paths of the agent; None for an agent inside, whose nodes are not in the plan."""
    scope: LimitScope = "run"

    def bounds(self, prices: Mapping[str, TokenPrice], *, is_certain: bool) -> Iterator[Bound]:
        """The bounds of all uses."""
        yield self.calls("model calls")
        all_tools = self.calls("tool calls")
        each_tool = [self.calls("tool calls", tool) for tool in self.tools]
        if each_tool and not is_certain:
            # The limits of each tool bound all tools together, too.
            total = _together("tool calls", each_tool)
            more = "A tool that a middleware adds while a run works comes on top."
            all_tools = _lowest(all_tools, replace(total, notes=(*total.notes, more)))
        yield all_tools
        yield from each_tool
        # Input tokens cannot be more than all tokens.
        limit, of_input, of_output = map(self.bound, _TOKENS)
        tokens = [_lowest(limit, _together("tokens", [of_input, of_output]))]
        tokens += [_lowest(x, replace(limit, what=x.what)) for x in (of_input, of_output)]
        yield from tokens
        yield self.dollars(tokens, prices)
        yield self.bound("seconds")

    def limits_of(self, unit: LimitUnit, tool: str = "") -> list[UsageLimit]:
        """The limits of a unit that no path bypasses. A limit of all tools bounds each tool."""
        limits = [x for x in self.limits if x.unit == unit and x.tool in ("", tool)]
        return [x for x in limits if self.graph is None or not self.graph.path_beyond(x)]

    def most_without_limit(self, unit: LimitUnit) -> float | None:
        """The largest number by the paths of a run; None for any number."""
        if self.graph is None:
            return None
        at = TOOLS if unit == "tool calls" else self.plan.style.model
        if not self.graph.shortest_path(START, at):
            return 0
        is_once = unit == "model calls" and not self.graph.shortest_path(at, at)
        return len(self.graph.models) if is_once and self.scope == "run" else None

    def calls(self, unit: LimitUnit, tool: str = "") -> Bound:
        """The bound of calls of the model, of all tools or a single tool, and of the attempts."""
        bound = self.bound(unit, tool)
        if bound.most is None:
            return bound
        layers, notes = self.plan.layers_around(_CALLS[unit]), [*bound.notes]
        limits, most = self.limits_of(unit, tool), self.most_without_limit(unit)
        # The layers of an agent inside are not in the plan.
        attempts = [x.most for x in limits if x.attempts]
        gaps: list[str] = []
        if not self.agent:
            attempts += [] if most is None else [most * prod(x.attempts for x in layers)]
            owners = [layer.owner for layer in layers]
            for limit in [x for x in limits if not x.attempts]:
                # The layers inside of a limit may attempt each counted call several times. A hook
                # is both outside and inside of all layers.
                at = owners.index(limit.owner) if limit.owner in owners else None
                if missing := self.uncounted(limit, owners[:at]):
                    gaps += missing
                else:
                    attempts.append(limit.most * prod(layer.attempts for layer in layers[at:]))
        least = min(attempts, default=None)
        names = {f"{self.agent}/{name}".lstrip("/") for name in ([tool] if tool else self.tools)}
        again = {x.name for x in self.plan.tools if x.on_loss == "repeat"}
        if unit == "tool calls" and names & again:
            least = None
            notes.append('A service makes lost calls again: background(..., on_loss="repeat").')
        repeats = [f"{x.owner}, up to {x.attempts}" for x in layers if x.attempts > 1]
        if not self.agent and repeats and least != bound.most:
            in_all = "" if least is None else f": at most {least:g} in all"
            notes.append(f"Attempts may be more ({'; '.join(repeats)} of each call){in_all}.")
        if least is None and gaps:
            notes.append(
                "Attempts that fail are not counted, because a layer further out may go on after "
                f"them: {', '.join(_unique(gaps))}."
            )
        return replace(bound, attempts=least, notes=tuple(notes))

    def uncounted(self, limit: UsageLimit, outside: Iterable[str]) -> list[str]:
        """The middleware outside of a limit that may go on after failures, uncounted."""
        # A failed model call ends the loop, unless a layer answers in its place, as a retry
        # with a single attempt does, and a hook then sends the run back.
        jumps_back = any("model" in hook.can_jump_to for hook in self.plan.hooks)
        if limit.unit == "model calls" and not jumps_back:
            return []
        counting = {other.owner for other in self.limits if other.unit == limit.unit}
        return [owner for owner in outside if owner not in counting]

    def bound(self, unit: LimitUnit, tool: str = "") -> Bound:
        """The bound by the lowest limits of a unit."""
        what = f"calls of {tool}" if tool else str(unit)
        limits, by_paths = self.limits_of(unit, tool), self.most_without_limit(unit)
        if by_paths is not None and not limits:
            return Bound(what, by_paths, ("the paths of a run",), agent=self.agent)
        if not limits:
            of_tool = f"ToolCallLimitMiddleware(tool_name={tool!r}, run_limit=...)"
            advice = of_tool if tool else _ADVICE[unit]
            where = f" to the agent inside of {self.agent}" if self.agent else ""
            return Bound(what, None, notes=(f"Add {advice}{where}.",), agent=self.agent)
        # Of equal numbers, the number of a limit that nobody can raise.
        most, raisable = min((limit.most, limit.raisable) for limit in limits)
        lowest = [item for item in limits if (item.most, item.raisable) == (most, raisable)]
        ceiling = min((limit.most for limit in limits if not limit.raisable), default=None)
        notes = []
        if raisable and ceiling is not None:
            notes.append(f"Nobody can raise it above {ceiling:g}.")
        if unit not in _CALLS:
            of = "of each agent that shares it " if lowest[0].scope == "ledger" else ""
            notes.append(f"The last call {of}may go over it, because its use is known afterwards.")
        if unit not in ("seconds", "tool calls") and not self.agent:
            notes += self.notes_of_model(() if unit in _CALLS else lowest)
        by = _unique(f"{limit.owner}: {limit}" for limit in lowest)
        return Bound(what, most, by, notes=tuple(notes), agent=self.agent)

    def notes_of_model(self, counting_answers: Iterable[UsageLimit]) -> Iterator[str]:
        """Uses of models outside of the limits: discarded answers, calls by middleware."""
        layers = self.plan.layers_around(Call.MODEL)
        owners = [layer.owner for layer in layers]
        for limit in counting_answers:
            # Layers further in may discard answers, unseen by the limit.
            start = owners.index(limit.owner) if limit.owner in owners else 0
            if inside := _unique(x.owner for x in layers[start:] if x.attempts > 1):
                yield (
                    f"Answers that {', '.join(inside)} discard come on top. Put {limit.owner} "
                    "after them in the list."
                )
        # No limit counts the calls of middleware.
        kind = AccessKind.SENDS_TO_MODEL
        if calling := _unique(a.owner for a in self.plan.accesses if a.kind is kind):
            yield f"Calls that {', '.join(calling)} make of a model themselves come on top."

    def dollars(self, tokens: Sequence[Bound], prices: Mapping[str, TokenPrice]) -> Bound:
        """The bound of US dollars: by a limit, or by tokens at the highest price."""
        bound, (both, reads, writes) = self.bound("USD"), tokens
        if not prices:
            return bound
        # Tokens of a cache may cost more than usual.
        of_input = max(max(p.input, p.cache_read or 0, p.cache_write or 0) for p in prices.values())
        of_output = max(price.output for price in prices.values())
        cost = _lowest(
            _together("USD", [both], [max(of_input, of_output)]),
            _together("USD", [reads, writes], [of_input, of_output]),
        )
        if cost.most is None:
            return bound
        note = f"At the highest prices of {', '.join(prices)}; other models are not included."
        usd = cost.most / 1_000_000  # prices are for a million tokens
        return _lowest(bound, replace(cost, most=usd, notes=(note, *cost.notes)))


def _unique(*texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(chain(*texts)))


def _lowest(*bounds: Bound) -> Bound:
    """The lowest of several bounds of a use; the first if several are equal."""
    return min(bounds, key=lambda bound: inf if bound.most is None else bound.most)


def _together(what: str, bounds: Sequence[Bound], weights: Iterable[float] = repeat(1)) -> Bound:
    """The bound of several uses together, each by a weight."""
    pairs = list(zip(bounds, weights, strict=False))
    return Bound(
        what,
        _sum(None if bound.most is None else bound.most * weight for bound, weight in pairs),
        _unique(*(bound.by for bound in bounds)),
        _sum(bound.attempts for bound in bounds),
        _unique(*(bound.notes for bound in bounds)),
        bounds[0].agent,
    )


def _sum(numbers: Iterable[float | None]) -> float | None:
    """A sum; None with an unknown part."""
    total = sum(inf if number is None else number for number in numbers)
    return None if total == inf else total


def _agent_of(name: str) -> str:
    """The agent of a member or a tool: "clerk" for "clerk/refund"."""
    return name.rpartition("/")[0]


def _in_runs(row: Bound, runs: Bound) -> Bound:
    """The bound of all runs of an agent inside, from the bound of a single run."""
    if row.most is None:
        return row
    # Any number of runs may use any amount together.
    if runs.most is None:
        note = f"Each run of {row.agent} uses {row.number}, and its runs have no bound."
        return replace(row, most=None, attempts=None, notes=(note, *runs.notes))
    attempts = None if row.attempts is None else row.attempts * runs.most
    note = f"{row.most:g} in each of {runs.most:g} runs."
    most, by = row.most * runs.most, _unique(row.by, runs.by)
    return replace(row, most=most, by=by, attempts=attempts, notes=(note, *row.notes))


def _of_all(what: str, all_rows: Sequence[Bound], limits: Iterable[UsageLimit]) -> Bound:
    """The bound of all agents together; the ledger bounds all agents that share a ledger."""
    rows = [row for row in all_rows if row.what == what]
    bound = replace(_together(what, rows), attempts=None, agent="all")
    if bound.most is None:
        names = ", ".join(row.agent or "the agent itself" for row in rows if row.most is None)
        return replace(bound, by=(), notes=(f"Without a bound: {names}.",))
    units = (what, "tokens") if what.endswith("put tokens") else (what,)
    of_ledger = [x for x in limits if x.ledger and x.unit in units and not x.tool]
    uses: dict[tuple[float, str], list[float]] = {}
    for row in rows:
        of_agent = [limit for limit in of_ledger if _agent_of(limit.owner) == row.agent]
        least = min(of_agent, key=lambda limit: limit.most, default=None)
        # All limits of a ledger are the same limit, and the same text.
        ledger = (inf, row.agent) if least is None else (least.most, str(least))
        uses.setdefault(ledger, []).append(row.most or 0)
    total, notes = 0.0, list(bound.notes)
    for (most, ledger_text), amounts in uses.items():
        total += min(sum(amounts), most)
        if sum(amounts) > most:
            notes.append(f"Together {ledger_text}, counted once.")
    return replace(bound, most=total, notes=tuple(notes))
