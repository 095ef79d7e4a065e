"""Hypothesis strategies: histories, states and stacks of middleware. Needs the extra `testing`.

>>> from agent_factory.testing import assert_valid_history, strategies
>>> from hypothesis import given
>>> @given(strategies.messages("before_model"))
... def a_model_may_see_it(history):
...     assert_valid_history(history)
>>> a_model_may_see_it()
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    NotRequired,
    Required,
    get_args,
    get_origin,
    get_type_hints,
)

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from agent_factory.errors import ArgumentError, describe
from agent_factory.hooks.base import AgentMiddleware
from agent_factory.hooks.decorators import (
    after_agent,
    after_model,
    before_agent,
    before_model,
    wrap_model_call,
    wrap_tool_call,
)
from agent_factory.testing.fixtures import Middleware
from agent_factory.testing.plugin import needs
from agent_factory.topology.model import Phase
from agent_factory.types import AgentState

if TYPE_CHECKING:
    import pytest
    from hypothesis.strategies import SearchStrategy


Stack = Sequence[Middleware] | Callable[[], Sequence[Middleware]]


def each_stack(stacks: Mapping[str, Stack]) -> pytest.MarkDecorator:
    """A decorator: the test runs once for each stack, which it takes as `agent_stack`.

    Args:
        stacks: Each stack by its name, or a function that makes it anew for each test.

    Raises:
        ArgumentError: It is no such mapping.
        ImportError: pytest is not installed.

    ```python
    @each_stack({"base": [], "with retry": lambda: [ModelRetryMiddleware()]})
    def test_the_plan_stays(agent_stack, topology_snapshot):
        assert plan_agent(tools, middleware=agent_stack) == topology_snapshot
    ```
    """
    if not isinstance(stacks, Mapping) or not stacks:
        raise ArgumentError(
            "each_stack", f"{describe(stacks)} names no stack.", "Give {'base': [...], ...}."
        )
    for name, stack in stacks.items():
        if not callable(stack) and not isinstance(stack, Sequence):
            raise ArgumentError(
                name, f"{describe(stack)} is no stack.", "Give a list, or a function that makes it."
            )
    decorator: pytest.MarkDecorator = needs("pytest").mark.parametrize(
        "agent_stack", list(stacks.values()), ids=list(stacks), indirect=True
    )
    return decorator


ENDS = ("user", "tool", "calls", "answer")
"""How a history may end: the user speaks, results are in, calls wait, the model has answered."""

_ENDS_AT = {
    Phase.BEFORE_AGENT: ("user",),
    Phase.BEFORE_MODEL: ("user", "tool"),
    Phase.AFTER_MODEL: ("calls", "answer"),
    Phase.AFTER_AGENT: ("answer",),
}


def messages(
    phase: str | None = None,
    *,
    tools: Sequence[str] = ("search", "add"),
    max_turns: int = 2,
) -> SearchStrategy[list[AnyMessage]]:
    """Histories that a model may be shown, as they are when a hook of a phase runs.

    Args:
        phase: "before_agent", "before_model", "after_model" or "after_agent"; None: of any of them.
            Only at an after_model hook are there calls without an answer.
        tools: The tools that are called.
        max_turns: How many turns come before the last one, at most.

    Raises:
        ImportError: hypothesis is not installed.
    """
    st = needs("hypothesis", "strategies")
    ends = _ENDS_AT[Phase(phase)] if phase else ENDS
    turns = st.lists(_turn(st, tools), max_size=max_turns)
    last = st.sampled_from(ends).flatmap(lambda end: _last_turn(st, tools, end))
    joined: SearchStrategy[list[AnyMessage]] = st.builds(
        lambda turns, last: _numbered([*turns, last]), turns, last
    )
    return joined


def _texts(st: Any) -> Any:
    return st.text(max_size=20)


def _turn(st: Any, tools: Sequence[str]) -> Any:
    return st.tuples(st.just("answer"), _texts(st), _rounds(st, tools, 0), _texts(st))


def _last_turn(st: Any, tools: Sequence[str], end: str) -> Any:
    least = 1 if end in ("tool", "calls") else 0
    rounds = st.just([]) if end == "user" else _rounds(st, tools, least)
    return st.tuples(st.just(end), _texts(st), rounds, _texts(st))


def _rounds(st: Any, tools: Sequence[str], least: int) -> Any:
    """Rounds of calls: a text, and calls with their results."""
    call = st.tuples(
        st.sampled_from(tools),
        st.dictionaries(st.sampled_from("abq"), st.integers() | _texts(st), max_size=2),
        _texts(st),
        st.booleans(),
    )
    one = st.tuples(_texts(st), st.lists(call, min_size=1, max_size=2))
    return st.lists(one, min_size=least, max_size=2)


def _numbered(turns: Sequence[Any]) -> list[AnyMessage]:
    """The turns as messages, with ids in order."""
    found: list[AnyMessage] = []
    for end, question, rounds, answer in turns:
        found.append(HumanMessage(question))
        for text, calls in rounds:
            found += _round(text, calls, len(found))
        if end == "answer":
            found.append(AIMessage(answer))
        while end == "calls" and isinstance(found[-1], ToolMessage):
            found.pop()
    for index, message in enumerate(found):
        message.id = f"message-{index}"
    return found


def _round(text: str, calls: Sequence[Any], start: int) -> list[AnyMessage]:
    ids = [f"call-{start}-{index}" for index in range(len(calls))]
    made: list[Any] = [
        {"name": name, "args": args, "id": id_}
        for id_, (name, args, _, _) in zip(ids, calls, strict=True)
    ]
    results = [
        ToolMessage(result, tool_call_id=id_, name=name, status="error" if failed else "success")
        for id_, (name, _, result, failed) in zip(ids, calls, strict=True)
    ]
    return [AIMessage(text, tool_calls=made), *results]


def states(
    schema: type[Any] = AgentState,
    phase: str | None = None,
    *,
    optional: bool = False,
    **keys: SearchStrategy[Any],
) -> SearchStrategy[dict[str, Any]]:
    """States that a hook may see.

    Args:
        schema: The state schema; keys that it requires are drawn from their types.
        phase: As for `messages`.
        optional: Keys that are not required are there now and then. A middleware may rely on what
            it writes there itself, so by default they are left out.
        **keys: Strategies for keys of which the type does not say enough, `messages` too.

    Raises:
        ImportError: hypothesis is not installed.
    """
    st = needs("hypothesis", "strategies")
    standard = get_type_hints(AgentState)
    hints = get_type_hints(schema, include_extras=True)
    own = {key: hint for key, hint in hints.items() if key not in {*standard, *keys}}
    required = {k: _drawn(st, h) for k, h in own.items() if get_origin(h) is not NotRequired}
    more = {k: _drawn(st, h) for k, h in own.items() if k not in required and optional}
    known = {"messages": messages(phase), **required, **keys}
    found: SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(known, optional=more)
    return found


def _drawn(st: Any, hint: Any) -> Any:
    while get_origin(hint) in (Required, NotRequired, Annotated):
        hint = get_args(hint)[0]
    return st.from_type(hint)


def stacks(
    members: Mapping[str, Callable[[], AgentMiddleware[Any, Any]]] | None = None,
    *,
    max_size: int = 4,
) -> SearchStrategy[list[AgentMiddleware[Any, Any]]]:
    """Stacks of middleware, in any order, each member once.

    Args:
        members: What makes each member; default: one that does nothing for each kind of hook and
            layer, which is what a middleware of yours should work beside.
        max_size: How many at most.

    Raises:
        ImportError: hypothesis is not installed.
    """
    st = needs("hypothesis", "strategies")
    makers = dict(_BYSTANDERS if members is None else members)
    names = st.lists(st.sampled_from(sorted(makers)), unique=True, max_size=max_size)
    found: SearchStrategy[list[AgentMiddleware[Any, Any]]] = names.map(
        lambda chosen: [makers[name]() for name in chosen]
    )
    return found


def _idle(state: Any, runtime: Any) -> None:
    """Do nothing."""


def _pass(request: Any) -> Any:
    return (yield request)


_BYSTANDERS: dict[str, Callable[[], AgentMiddleware[Any, Any]]] = {
    "opens": lambda: before_agent(name="opens")(_idle),
    "looks": lambda: before_model(name="looks")(_idle),
    "stops": lambda: before_model(name="stops", can_jump_to=["end"])(_idle),
    "reads": lambda: after_model(name="reads", can_jump_to=["model", "end"])(_idle),
    "closes": lambda: after_agent(name="closes")(_idle),
    "wraps": lambda: wrap_model_call(name="wraps")(_pass),
    "guards": lambda: wrap_tool_call(name="guards")(_pass),
}
