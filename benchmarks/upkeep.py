"""What an agent costs before it runs, and what its extras cost: logs, built-ins, checks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

from agent_factory import plan_agent, tool_labels
from agent_factory.decisions.recorder import Recorder
from agent_factory.factory.arguments import collect_warnings
from agent_factory.guarantees import counterexamples
from agent_factory.guarantees.defaults import default_findings
from agent_factory.middleware import FlowGuardMiddleware, ModelCallLimitMiddleware
from benchmarks.chains import over_the_longest_chain
from benchmarks.contenders import HOOKS, OURS, PEER, Factory, has_peer, ours, peer
from benchmarks.efforts import Effort
from benchmarks.harness import Contender, Match, Pair, Tally, Timed, per
from benchmarks.parts import MANY
from benchmarks.runs import Entry, Import, Setting, runs
from benchmarks.savers import Mode, Saver
from benchmarks.scripted import FreeModel, add, new_functions
from benchmarks.waiting import first_token, over_the_slower

TOOLS = 20
"""How many tools an agent has whose plan is checked."""

FUNCTIONS = 100
"""How many plain functions a large agent has as tools."""


def decisions(effort: Effort) -> Iterator[Match]:
    """What the decision log costs: a run that keeps one over a run that keeps none."""
    plain = ours()
    logged = replace(plain, create_agent=partial(plain.create_agent, decisions=_drop))
    for mode in Mode:
        setting = Setting(mode, number=MANY, turns=effort.turns)
        entries = {
            "a log": (logged, setting),
            "no log": (plain, setting),
            "no log either": (plain, setting),
        }
        pairs = [Pair("a log", "no log"), Pair("no log either", "no log")]
        name, scale = f"{MANY} hook middleware, {mode}", per(effort.turns, "ms a turn")
        yield Match("decisions", name, partial(runs, entries), effort.runs, pairs, scale)
    for number in (0, MANY):
        entry = logged, Setting(Mode.SYNC, Saver.MEMORY, number=number, turns=effort.turns)
        name = f"changes of the prefix, {number} hook middleware"
        pairs = [
            Pair("looked for", "not", "prefix" if number else None),
            Pair("not either", "not"),
        ]
        opened = partial(_looking, entry)
        # The ratio is near 1, so it takes more rounds than others to see it.
        scale = per(effort.turns, "ms a turn")
        yield Match("decisions", name, opened, 4 * effort.runs, pairs, scale)


@contextmanager
def _looking(entry: Entry) -> Iterator[Mapping[str, Timed]]:
    """An agent with a log, and the same while its recorder does not note requests."""
    begins = Recorder.begins

    def stop(prepare: Callable[[], object]) -> None:
        setattr(Recorder, begins.__name__, lambda *_: None)
        prepare()

    def go_on(tidy: Callable[[], object]) -> None:
        setattr(Recorder, begins.__name__, begins)
        tidy()

    with runs(dict.fromkeys(("looked for", "not", "not either"), entry)) as found:
        yield {
            name: one
            if name == "looked for"
            else replace(one, prepare=partial(stop, one.prepare), tidy=partial(go_on, one.tidy))
            for name, one in found.items()
        }


def _drop(decision: Any) -> None:
    """A log that goes nowhere."""


def batteries(effort: Effort) -> Iterator[Match]:
    """What all built-ins cost that have nothing to do, beyond the nodes of their hooks."""
    for mode, fused in product(Mode, (False, True)):
        opened = partial(_idle, mode, effort.turns, fused=fused)
        pairs = [Pair("built-ins", "bare hooks", "batteries fused" if fused else "batteries")]
        name = f"{mode}, {'fused' if fused else 'hook by hook'}"
        scale = per(effort.turns, "ms a turn")
        yield Match("batteries", name, opened, 2 * effort.runs, pairs, scale)


def _idle(mode: Mode, turns: int, *, fused: bool) -> AbstractContextManager[Mapping[str, Timed]]:
    # Only here: the built-ins are much to import where another group is asked for.
    from benchmarks import batteries

    return batteries.opened(mode, turns, fused=fused)


def guards(effort: Effort) -> Iterator[Match | Tally]:
    """What guards cost where they find nothing to do, and how long they let a user wait."""
    for mode in Mode:
        opened = partial(_guarded, mode, effort.turns)
        pairs = [
            Pair("progress guard", "idle layer", "guards"),
            Pair("answer guard", "idle layer", "guards"),
            Pair("flow guard", "idle tool layer", "guards"),
            Pair("idle layer again", "idle layer"),
        ]
        scale = per(effort.turns, "ms a turn")
        yield Match("guards", str(mode), opened, 4 * effort.runs, pairs, scale)
    for mode in Mode:
        count = partial(over_the_slower, mode, max(3, round(20 * effort.share)))
        pair = Pair(OURS, None, "guard wait", "ms over the slower of model and check")
        yield Tally("guards", f"{mode}, a check while the model works", {OURS: count}, [pair])
        count = partial(first_token, mode, max(3, round(200 * effort.share)))
        pair = Pair(OURS, None, "first token", "ms the first token comes later")
        yield Tally("guards", f"{mode}, a flow of chunks", {OURS: count}, [pair])


def _guarded(mode: Mode, turns: int) -> AbstractContextManager[Mapping[str, Timed]]:
    from benchmarks import batteries

    return batteries.guarded(mode, turns)


def touched(effort: Effort) -> Iterator[Match | Tally]:
    """What it costs to look at what calls touch, and how long a turn of calls that meet takes."""
    for mode in Mode:
        opened = partial(_touching, mode, effort.turns)
        pairs = [
            Pair("touches", "no touches", "touches"),
            Pair("no touches again", "no touches"),
        ]
        scale = per(effort.turns, "ms a turn")
        yield Match("touches", f"{mode}, turns of one call", opened, 4 * effort.runs, pairs, scale)
    for mode in Mode:
        count = partial(over_the_longest_chain, mode, max(3, round(20 * effort.share)))
        pair = Pair(OURS, None, "longest chain", "times the longest chain")
        yield Tally("touches", f"{mode}, a turn of calls that meet", {OURS: count}, [pair])


def _touching(mode: Mode, turns: int) -> AbstractContextManager[Mapping[str, Timed]]:
    from benchmarks import batteries

    return batteries.touching(mode, turns)


def build(effort: Effort) -> Iterator[Match]:
    """What `create_agent` costs, with functions it has seen before and with new ones."""
    cases: list[tuple[str, Callable[[Factory], Contender], str | None]] = [
        ("no middleware", partial(_building, number=0), None),
        (f"{MANY} hook middleware", partial(_building, number=MANY), "build"),
        (f"{FUNCTIONS} functions, first time", _building_new, None),
        (f"{FUNCTIONS} functions, second time", _building_again, None),
    ]
    makers = [ours, *([peer] if has_peer() else [])]
    for name, case, goal in cases:
        pairs = [Pair(OURS, PEER, goal)] if has_peer() else [Pair(OURS, None)]
        if case is _building_again:
            pairs.append(Pair(OURS, None, "functions"))
        yield Match("build", name, partial(_built, case, makers), effort.builds, pairs)
    name = f"{MANY} hook middleware: looking for what is likely wrong"
    pairs = [Pair("checks", "all of it")]
    yield Match("build", name, _checking, effort.builds, pairs)
    name = f"{2 * MANY} hook middleware, {TOOLS} tools: what holds on every path"
    pairs = [
        Pair("guarantees of each build", "all of it", "guarantees"),
        Pair("sentence", None, "sentence"),
    ]
    yield Match("build", name, _proving, effort.builds, pairs)


@contextmanager
def _checking() -> Iterator[dict[str, Contender]]:
    """The warnings of a build alone, and the build with them."""
    factory = ours()
    members = factory.middleware(HOOKS, MANY)
    topology = plan_agent(tools=[add], middleware=members)
    yield {
        "checks": Contender(lambda: list(collect_warnings(members, topology, None, None))),
        "all of it": Contender(lambda: _create(factory, [add], members)),
    }


@contextmanager
def _proving() -> Iterator[dict[str, Contender]]:
    """The guarantees that each build checks, the build with them, and a sentence of an author."""
    factory = ours()
    members = [*factory.middleware(HOOKS, 2 * MANY - 2), FlowGuardMiddleware(action="deny")]
    members.append(ModelCallLimitMiddleware(run_limit=5))
    functions = new_functions(TOOLS)
    tools = [tool_labels("untrusted", "private", "outside")(functions[0]), *functions[1:]]
    topology = plan_agent(tools=tools, middleware=members)
    sentence = ["every loop passes a limit"]
    yield {
        "guarantees of each build": Contender(lambda: list(default_findings(topology))),
        "all of it": Contender(lambda: _create(factory, tools, members)),
        "sentence": Contender(lambda: counterexamples(topology, sentence)),
    }


@contextmanager
def _built(
    case: Callable[[Factory], Contender], makers: list[Callable[[], Factory]]
) -> Iterator[dict[str, Contender]]:
    made = [maker() for maker in makers]
    yield {factory.name: case(factory) for factory in made}


def _building(factory: Factory, number: int) -> Contender:
    members = factory.middleware(HOOKS, number)
    return Contender(lambda: _create(factory, [add], members))


def _building_new(factory: Factory) -> Contender:
    functions: list[Callable[..., Any]] = []

    def renew() -> None:
        functions[:] = new_functions(FUNCTIONS)

    return Contender(lambda: _create(factory, functions), prepare=renew)


def _building_again(factory: Factory) -> Contender:
    functions = new_functions(FUNCTIONS)
    return Contender(lambda: _create(factory, functions))


def _create(factory: Factory, tools: list[Any], members: list[Any] | None = None) -> Any:
    return factory.create_agent(FreeModel(turns=0), tools, middleware=members or [])


LEAST = "from langgraph.graph import StateGraph"
"""The least that anything on LangGraph costs."""

LAZY = "import agent_factory"

USED = "from agent_factory import create_agent"


def imports(effort: Effort) -> Iterator[Match]:
    """What an import costs in a fresh interpreter, over the least that LangGraph itself costs."""
    statements = [LEAST, LAZY, USED, *(["import langchain.agents"] if has_peer() else [])]
    opened = partial(_imported, statements)
    pairs = [Pair(statement, LEAST) for statement in statements[2:]]
    pairs = [Pair(LAZY, LEAST, "import"), Pair(LAZY, None, "lazy import"), *pairs]
    yield Match("imports", "in a fresh interpreter", opened, effort.imports, pairs)


@contextmanager
def _imported(statements: list[str]) -> Iterator[dict[str, Import]]:
    yield {statement: Import(statement) for statement in statements}
