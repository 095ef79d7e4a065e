"""Hypothesis strategies for histories, states and stacks of middleware (extra `testing`).

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

from agent_factory.errors import ArgumentError, describe, require
from agent_factory.hooks.decorators import (
    after_agent,
    after_model,
    before_agent,
    before_model,
    wrap_model_call,
    wrap_tool_call,
)
from agent_factory.hooks.flows import Flow
from agent_factory.testing.harness import Middleware
from agent_factory.topology.model import Phase
from agent_factory.types import AgentState

if TYPE_CHECKING:
    import pytest
    from hypothesis.strategies import SearchStrategy

Stack = Sequence[Middleware] | Callable[[], Sequence[Middleware]]


def each_stack(stacks: Mapping[str, Stack]) -> pytest.MarkDecorator:
    """Decorate a test to run once for each stack, passed as the fixture `agent_stack`.

    Args:
        stacks: Each stack by its name, or a function to make the stack for each test.

    Raises:
        ArgumentError: `stacks` is not such a mapping.
        MissingExtra: pytest is not installed.

    ```python
    @each_stack({"base": [], "with retry": lambda: [ModelRetryMiddleware()]})
    def test_the_plan_stays(agent_stack, topology_snapshot):
        assert plan_agent(tools=tools, middleware=agent_stack) == topology_snapshot
    ```
    """
    if not isinstance(stacks, Mapping) or not stacks:
        raise ArgumentError(
            "stacks",
            f"must be a dict of stacks by name, got {describe(stacks)}.",
            "Pass {'base': [...], ...}.",
        )
    for name, stack in stacks.items():
        if not callable(stack) and not isinstance(stack, Sequence):
            raise ArgumentError(
                f"stacks[{name!r}]",
                f"must be a list of middleware or a function that makes it, got {describe(stack)}.",
                "Pass [...], or lambda: [...].",
            )
    require("testing", "each_stack", "pytest")
    import pytest

    return pytest.mark.parametrize(
        "agent_stack", list(stacks.values()), ids=list(stacks), indirect=True
    )


_ENDS = {
    Phase.BEFORE_AGENT: ("user",),
    Phase.BEFORE_MODEL: ("user", "tool"),
    Phase.AFTER_MODEL: ("calls", "answer"),
    Phase.AFTER_AGENT: ("answer",),
}
"""How a history may end at each phase: with a user message, tool results, calls without results, or
an answer of the model."""


def messages(
    phase: str | None = None, *, tools: Sequence[str] = ("search", "add"), max_turns: int = 2
) -> SearchStrategy[list[AnyMessage]]:
    """Histories as they are when a hook of a phase runs.

    Args:
        phase: "before_agent", "before_model", "after_model" or "after_agent"; None: any of them.
            Only a history at "after_model" may have calls without results.
        tools: The names of the called tools.
        max_turns: The most turns before the last turn.

    Raises:
        MissingExtra: hypothesis is not installed.
    """
    require("testing", "A strategy of examples", "hypothesis")
    from hypothesis import strategies as st

    text = st.text(max_size=20)
    args = st.dictionaries(st.sampled_from("abq"), st.integers() | text, max_size=2)
    call = st.tuples(st.sampled_from(tools), args, text, st.sampled_from(["success", "error"]))
    calls = st.lists(call, min_size=1, max_size=2)
    last_ends = _ENDS[Phase(phase)] if phase else ("user", "tool", "calls", "answer")

    def history(draw: Any) -> list[AnyMessage]:
        conversation: list[AnyMessage] = []
        ends = ["answer"] * draw(st.integers(0, max_turns))
        for end in [*ends, draw(st.sampled_from(last_ends))]:
            conversation.append(HumanMessage(draw(text)))
            least = 1 if end in ("tool", "calls") else 0
            for _ in range(0 if end == "user" else draw(st.integers(least, 2))):
                content = draw(text)
                tool_calls: list[object] = []
                results: list[AnyMessage] = []
                for index, (name, values, result, status) in enumerate(draw(calls)):
                    id_ = f"call-{len(conversation)}-{index}"
                    tool_calls.append({"name": name, "args": values, "id": id_})
                    results.append(ToolMessage(result, tool_call_id=id_, name=name, status=status))
                conversation += [AIMessage(content, tool_calls=tool_calls), *results]
            if end == "answer":
                conversation.append(AIMessage(draw(text)))
            # The calls of this phase have no results yet.
            while end == "calls" and isinstance(conversation[-1], ToolMessage):
                conversation.pop()
        # Not at random: hypothesis has to repeat and shrink an example.
        for index, message in enumerate(conversation):
            message.id = f"message-{index}"
        return conversation

    return st.composite(history)()


def states(
    schema: type[object] = AgentState,
    phase: str | None = None,
    *,
    optional: bool = False,
    **keys: SearchStrategy[object],
) -> SearchStrategy[dict[str, Any]]:
    """States for a hook.

    Args:
        schema: The state schema; required keys are drawn from their types.
        phase: As for `messages`.
        optional: Whether some states also have optional keys. They are left out by
            default, because a middleware may rely on its own earlier writes.
        **keys: Strategies for keys with an unspecific type, `messages` included.

    Raises:
        MissingExtra: hypothesis is not installed.
    """
    require("testing", "A strategy of examples", "hypothesis")
    from hypothesis import strategies as st

    standard = get_type_hints(AgentState)
    required: dict[str, SearchStrategy[Any]] = {"messages": messages(phase)}
    more: dict[str, SearchStrategy[Any]] = {}
    for key, hint in get_type_hints(schema, include_extras=True).items():
        if key in standard or key in keys:
            continue
        is_required = get_origin(hint) is not NotRequired
        # They may lie inside each other, in any order.
        while get_origin(hint) in (Required, NotRequired, Annotated):
            hint = get_args(hint)[0]
        if is_required or optional:
            (required if is_required else more)[key] = st.from_type(hint)
    return st.fixed_dictionaries({**required, **keys}, optional=more)


def stacks(
    members: Mapping[str, Callable[[], Middleware]] | None = None, *, max_size: int = 4
) -> SearchStrategy[list[Middleware]]:
    """Stacks of middleware in any order, each member at most once.

    Args:
        members: A function for each member to make; default: for each kind of hook and layer
            an idle member, with which any middleware should work.
        max_size: The most members of a stack.

    Raises:
        MissingExtra: hypothesis is not installed.
    """
    require("testing", "A strategy of examples", "hypothesis")
    from hypothesis import strategies as st

    makers = dict(_IDLE_MEMBERS if members is None else members)
    names = st.lists(st.sampled_from(sorted(makers)), unique=True, max_size=max_size)
    return names.map(lambda chosen_names: [makers[name]() for name in chosen_names])


def _idle_hook(state: object, runtime: object) -> None:
    """Do nothing."""


def _idle_layer(request: object) -> Flow[Any]:
    return (yield request)


_IDLE_MEMBERS: dict[str, Callable[[], Middleware]] = {
    "opens": lambda: before_agent(name="opens")(_idle_hook),
    "looks": lambda: before_model(name="looks")(_idle_hook),
    "stops": lambda: before_model(name="stops", can_jump_to=["end"])(_idle_hook),
    "reads": lambda: after_model(name="reads", can_jump_to=["model", "end"])(_idle_hook),
    "closes": lambda: after_agent(name="closes")(_idle_hook),
    "wraps": lambda: wrap_model_call(name="wraps")(_idle_layer),
    "guards": lambda: wrap_tool_call(name="guards")(_idle_layer),
}
