"""What is measured, as values: nothing here is built or run before the harness asks for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

from agent_factory import plan_agent
from agent_factory.checks import Suspect, doubts
from benchmarks.contenders import (
    BY_HAND,
    HOOKS,
    LAYERS,
    OURS,
    PEER,
    Colour,
    Factory,
    FreeModel,
    Import,
    Setting,
    add,
    by_hand,
    has_peer,
    new_functions,
    ours,
    peer,
    runs,
)
from benchmarks.harness import Comparison, Contender, Timed

MANY = 16
"""How many middleware are many."""

FUNCTIONS = 100
"""How many plain functions a large agent has as tools."""

Open = Callable[[], AbstractContextManager[Mapping[str, Timed]]]


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is measured.

    Args:
        checks: Rounds of the self-check, also where little is measured.
        runs: Rounds of agent runs; three times as many where runs are short.
        builds: Rounds of builds.
        imports: Rounds of imports.
        turns: Tool turns in a run.
    """

    checks: int = 120
    runs: int = 40
    builds: int = 40
    imports: int = 20
    turns: int = 10


QUICK = Effort(runs=8, builds=8, imports=4)


def check(effort: Effort) -> Iterator[Comparison]:
    """An agent against another one that is built the same: the figures should be 1."""
    for colour in Colour:
        setting = Setting(colour, turns=effort.turns)
        yield Comparison(
            "check", f"itself, {colour}", OURS, "itself", _same(setting), effort.checks
        )


def _same(setting: Setting) -> Open:
    return lambda: runs({OURS: (ours(), setting), "itself": (ours(), setting)})


def turns(effort: Effort) -> Iterator[Comparison]:
    """A run of ten tool turns: ours over the peer's, and over a loop wired by hand."""
    sizes = [(HOOKS, 0), (HOOKS, 8), (HOOKS, MANY), (LAYERS, MANY)]
    for saver, colour, (kind, number) in product((False, True), Colour, sizes):
        setting = Setting(colour, saver, kind, number, effort.turns)
        name = f"{_what(setting)}, {_where(setting)}"
        rounds = _rounds(setting, effort)
        if has_peer():
            yield Comparison("turns", name, OURS, PEER, _against(peer, setting), rounds, 1.0)
        if not number:
            yield Comparison("turns", name, OURS, BY_HAND, _against(by_hand, setting), rounds)


def _rounds(setting: Setting, effort: Effort) -> int:
    long = setting.kind is HOOKS and setting.number > 0
    return effort.runs if long else 3 * effort.runs


def _what(setting: Setting) -> str:
    return f"{setting.number} {setting.kind.name}" if setting.number else "no middleware"


def _where(setting: Setting) -> str:
    return f"{setting.colour}, {'memory' if setting.saver else 'no saver'}"


def _against(other: Callable[[], Factory], setting: Setting) -> Open:
    def open_() -> AbstractContextManager[Mapping[str, Timed]]:
        rivals = (ours(), other())
        return runs({factory.name: (factory, setting) for factory in rivals})

    return open_


def growth(effort: Effort) -> Iterator[Comparison]:
    """What many middleware cost: a run with sixteen over one with none."""
    goals = {(OURS, Colour.ASYNC, LAYERS): 1.15}
    factories = [(OURS, ours), *([(PEER, peer)] if has_peer() else [])]
    for kind, colour, (name, factory) in product((LAYERS, HOOKS), Colour, factories):
        many = Setting(colour, kind=kind, number=MANY, turns=effort.turns)
        yield Comparison(
            "growth",
            f"{name}: {_what(many)}, {colour}",
            "many",
            "none",
            _grown(factory, many),
            _rounds(many, effort),
            goals.get((name, colour, kind)),
        )


def _grown(factory: Callable[[], Factory], many: Setting) -> Open:
    none = Setting(many.colour, turns=many.turns)
    return lambda: runs({"many": (factory(), many), "none": (factory(), none)})


def decisions(effort: Effort) -> Iterator[Comparison]:
    """What the decision log costs: a run that keeps one over a run that keeps none."""
    for colour in Colour:
        setting = Setting(colour, number=MANY, turns=effort.turns)
        rounds, what = _rounds(setting, effort), _what(setting)
        yield Comparison(
            "decisions", f"{what}, {colour}", "a log", "no log", _logged(setting), rounds
        )
        yield Comparison(
            "decisions", f"{what}, no log, {colour}", OURS, "itself", _same(setting), rounds
        )


def _logged(setting: Setting) -> Open:
    def open_() -> AbstractContextManager[Mapping[str, Timed]]:
        plain = ours()
        logged = replace(plain, create_agent=partial(plain.create_agent, decisions=_drop))
        return runs({"a log": (logged, setting), "no log": (plain, setting)})

    return open_


def _drop(decision: Any) -> None:
    """A log that goes nowhere."""


def batteries(effort: Effort) -> Iterator[Comparison]:
    """What all built-ins cost that have nothing to do, beyond the nodes of their hooks."""
    for colour in Colour:
        opened = partial(_idle, colour, effort.turns)
        yield Comparison(
            "batteries", colour, "built-ins", "bare hooks", opened, effort.runs, goal=1.15
        )


def _idle(colour: Colour, turns: int) -> AbstractContextManager[Mapping[str, Timed]]:
    # Only here: the built-ins are much to import where another group is asked for.
    from benchmarks import batteries

    return batteries.opened(colour, turns)


def build(effort: Effort) -> Iterator[Comparison]:
    """What `create_agent` costs, with functions it has seen before and with new ones."""
    cases: list[tuple[str, Callable[[Factory], Contender]]] = [
        ("no middleware", partial(_building, number=0)),
        (f"{MANY} hook middleware", partial(_building, number=MANY)),
        (f"{FUNCTIONS} functions, first time", _building_new),
        (f"{FUNCTIONS} functions, second time", _building_again),
    ]
    if has_peer():
        for name, case in cases:
            rivals = partial(_built, case, (ours, peer))
            yield Comparison("build", name, OURS, PEER, rivals, effort.builds, 1.0)
    name, case = cases[-1]
    yield Comparison(
        "build", name, OURS, None, partial(_built, case, (ours,)), effort.builds, goal=15
    )
    name = f"{MANY} hook middleware: looking for what is likely wrong"
    yield Comparison("build", name, "checks", "all of it", _checking, effort.builds)


@contextmanager
def _checking() -> Iterator[dict[str, Contender]]:
    """The doubts of a build, which are no part of the building, and the build with them."""
    factory = ours()
    members = factory.middleware(HOOKS, MANY)
    topology = plan_agent([add], middleware=members)
    suspect = Suspect(members, topology, False, None, False)
    yield {
        "checks": Contender(lambda: list(doubts(suspect))),
        "all of it": Contender(lambda: _create(factory, [add], members)),
    }


@contextmanager
def _built(
    case: Callable[[Factory], Contender], factories: tuple[Callable[[], Factory], ...]
) -> Iterator[dict[str, Contender]]:
    made = [factory() for factory in factories]
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


def imports(effort: Effort) -> Iterator[Comparison]:
    """What an import costs in a fresh interpreter, over the least that LangGraph itself costs."""
    least = "from langgraph.graph import StateGraph"
    cases = [
        ("import agent_factory", 1.0),
        ("from agent_factory import create_agent", None),
        *([("import langchain.agents", None)] if has_peer() else []),
    ]
    for statement, goal in cases:
        opened = partial(_imported, (statement, least))
        yield Comparison(
            "imports", "in a fresh interpreter", statement, least, opened, effort.imports, goal
        )


@contextmanager
def _imported(statements: tuple[str, ...]) -> Iterator[dict[str, Import]]:
    yield {statement: Import(statement) for statement in statements}


GROUPS: Mapping[str, Callable[[Effort], Iterator[Comparison]]] = {
    "turns": turns,
    "growth": growth,
    "decisions": decisions,
    "batteries": batteries,
    "build": build,
    "imports": imports,
}
"""Every group, by the name the command line knows it by. `check` comes before each."""
