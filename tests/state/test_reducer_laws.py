"""Whatever a reducer does: it is called once a write, and hooks and the thread see one value."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import Annotated, Any, NotRequired

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from langgraph.channels import LastValue
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, Overwrite
from stack_agents import agent_of, kept_agent

from agent_factory import AgentMiddleware, create_agent, hook_config
from agent_factory.testing import ScriptedChatModel
from agent_factory.types import AgentState, ExtendedModelResponse
from samples import THREAD, look
from tables import each


class Live:
    """A value that can be neither copied nor stored, as a lock or a connection."""

    def __reduce_ex__(self, _: Any) -> Any:
        raise TypeError("cannot be copied")


LIVE = Live()


def keep(left: Any, right: Any) -> Any:
    """The first value that is not None."""
    return right if left is None else left


@dataclass(frozen=True)
class Hook:
    """What a hook or a model layer does: it writes items, or jumps to the end, or both."""

    place: str
    items: tuple[Any, ...] = ()
    jumps: bool = False
    overwrites: bool = False


HOOK_PLACES = ["before_agent", "before_model", "after_model", "after_agent"]
ITEMS = st.sampled_from([(), (), ("a",), ("b", "c"), (LIVE,)])


def hooks(*items: Any) -> st.SearchStrategy[list[Hook]]:
    """Stacks, with these items among those that are written."""
    written = st.one_of(ITEMS, *map(st.just, items))
    jumps, overwrites = st.booleans(), st.sampled_from([False, False, False, True])
    hook = st.builds(Hook, st.sampled_from(HOOK_PLACES), written, jumps, overwrites)
    layer = st.builds(Hook, st.just("around_model"), written)
    return st.lists(st.one_of(hook, hook, layer), min_size=1, max_size=6)


class Reducer:
    """A reducer of one kind, which counts its calls."""

    __name__ = "reducer"

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.calls = 0
        self._numbers = count()

    def __call__(self, left: list[Any], right: list[Any]) -> list[Any]:
        self.calls += 1
        if "bad" in right:
            raise ZeroDivisionError("bad")
        if self.kind == "gives ids":
            return [*left, *([next(self._numbers), item] for item in right)]
        if self.kind == "consumes":
            items = [*right]
            right.clear()
            return [*left, *items]
        if self.kind == "in place":
            left.extend(right)
            return left
        return right if self.kind == "replaces" else [*left, *right]


class Trial:
    """An agent whose middleware write to one key, and what they have seen there."""

    def __init__(self, stack: Sequence[Hook], kind: str, fused: bool, saver: bool) -> None:
        self.reducer, self.views, self.writes = Reducer(kind), list[list[Any]](), 0

        class State(AgentState[Any]):
            items: Annotated[list[Any], self.reducer]
            handle: NotRequired[Annotated[Any, keep]]

        turns = [[{"name": "look", "args": {}, "id": "1"}], "Done."]
        self.agent = create_agent(
            ScriptedChatModel(turns * 4),
            [look],
            middleware=[self._middleware(hook, State) for hook in stack],
            state_schema=State,
            checkpointer=InMemorySaver() if saver else None,
            fused=fused,
        )

    def _middleware(self, hook: Hook, schema: Any) -> AgentMiddleware[Any, Any]:
        jumps_left = hook.jumps

        def act(middleware: Any, state: Any, runtime: Any) -> Any:
            nonlocal jumps_left
            self.views.append([*state["items"]])
            update: dict[str, Any] = {}
            if hook.items:
                items = [*hook.items]
                update["items"] = Overwrite(items) if hook.overwrites else items
                self.writes += not hook.overwrites
            if LIVE in hook.items:
                update["handle"] = LIVE
            if jumps_left:
                jumps_left, update["jump_to"] = False, "end"
            return update or None

        def around(middleware: Any, request: Any) -> Any:
            response = yield request
            self.writes += 1
            return ExtendedModelResponse(response, command=Command(update={"items": [*hook.items]}))

        if hook.place == "around_model":
            run: Any = around
        else:
            run = hook_config(can_jump_to=["end"])(act) if hook.jumps else act
        name = f"m{id(hook)}-{id(run)}"
        body = {hook.place: run, "state_schema": schema, "name": name}
        return type("Writes", (AgentMiddleware,), body)()  # type: ignore[no-any-return]

    def ask(self, mode: str, stream: str | None) -> Any:
        """Run the agent, watched or not; return the items at the end, or the error."""
        question: Any = {"messages": [("user", "Hi")], "items": []}
        self.writes += 1
        modes: Any = ["values", stream] if stream else "values"

        async def watch() -> Any:
            return [part async for part in self.agent.astream(question, THREAD, stream_mode=modes)]

        try:
            if stream is None and mode == "sync":
                return self.agent.invoke(question, THREAD)["items"]
            if stream is None:
                return asyncio.run(self.agent.ainvoke(question, THREAD))["items"]
            parts: Any = (
                asyncio.run(watch())
                if mode == "async"
                else [*self.agent.stream(question, THREAD, stream_mode=modes)]
            )
        except ZeroDivisionError as error:
            return repr(error)
        return [state for kind, state in parts if kind == "values"][-1]["items"]


def is_live(stack: Sequence[Hook]) -> bool:
    return any(LIVE in hook.items for hook in stack)


STREAMS = st.sampled_from([None, None, "updates", "messages"])


@pytest.mark.timeout(7200)
@pytest.mark.filterwarnings("ignore::agent_factory.AgentFactoryWarning")
@pytest.mark.parametrize("mode", ["sync", "async"])
@settings(settings.get_profile("costly"))
@example([Hook("before_model", (LIVE,)), Hook("after_model", (LIVE,))], "adds", False, "updates")
@given(hooks(("bad",)), st.sampled_from(["adds", "replaces"]), st.booleans(), STREAMS)
def test_a_reducer_leads_to_the_same_fused_and_hook_by_hook(
    mode: str, stack: list[Hook], kind: str, saver: bool, stream: str | None
) -> None:
    """Also one that raises: the error ends the run where it would hook by hook."""
    saver = saver and not is_live(stack)
    fused, by_hook = (Trial(stack, kind, way, saver) for way in (True, False))
    for _ in range(2):
        assert fused.ask(mode, stream) == by_hook.ask(mode, stream)
        assert fused.views == by_hook.views


@pytest.mark.timeout(7200)
@pytest.mark.filterwarnings("ignore::agent_factory.AgentFactoryWarning")
@pytest.mark.parametrize("mode", ["sync", "async"])
@settings(settings.get_profile("costly"))
@given(
    hooks(), st.sampled_from(["gives ids", "consumes", "in place", "adds"]), st.booleans(), STREAMS
)
def test_a_reducer_is_called_once_for_each_write(
    mode: str, stack: list[Hook], kind: str, saver: bool, stream: str | None
) -> None:
    """What a hook sees is what the thread holds at the end, ids that the reducer gave included."""
    stack = [Hook(hook.place, hook.items, hook.jumps) for hook in stack]
    trial = Trial(stack, kind, True, saver and not is_live(stack))
    result = trial.ask(mode, stream)
    assert trial.reducer.calls == trial.writes
    for view in trial.views:
        assert view == result[: len(view)]
    if trial.agent.checkpointer:
        assert trial.agent.get_state(THREAD).values["items"] == result


class Barrier(LastValue[Any]):
    """A channel that nobody but LangGraph knows."""


@each("place", ["before_model", "after_model"])
@each("fused", [True, False])
def test_a_reducer_next_to_an_unknown_channel_works(call: Any, place: str, fused: bool) -> None:
    """The step of the hook goes on along its edge."""
    reducer, ran = Reducer("in place"), list[str]()

    class State(AgentState[Any]):
        items: Annotated[list[Any], reducer]
        barrier: NotRequired[Annotated[Any, Barrier]]

    def write(middleware: Any, state: Any, runtime: Any) -> Any:
        return {"items": ["a"], "barrier": 1}

    def guard(middleware: Any, state: Any, runtime: Any) -> None:
        ran.append(f"guard sees {state['items']}, {state['barrier']}")

    writes = type("Writes", (AgentMiddleware,), {place: write, "state_schema": State})()
    guards = type("Guards", (AgentMiddleware,), {place: guard, "state_schema": State})()
    stack = [writes, guards] if place == "before_model" else [guards, writes]
    agent = agent_of(["Done."], *stack, state_schema=State, fused=fused)
    result = call(agent, {"messages": [("user", "Hi")], "items": []})
    assert ran == ["guard sees ['a'], 1"]
    assert result["items"] == ["a"]
    assert result["messages"][-1].text == "Done."


class Largest(AgentState[Any]):
    """A key without a value to begin with: `int | None` cannot be called."""

    largest: NotRequired[Annotated[int | None, lambda left, right: max(left or 0, right or 0)]]


@each("fused", [True, False])
@each("writes", [(3,), (2, 5), (None, 4, 1)])
def test_a_key_without_a_first_value_gets_what_is_written(
    call: Any, fused: bool, writes: tuple[int | None, ...]
) -> None:
    views: list[Any] = []

    def writer(number: int, value: int | None) -> AgentMiddleware[Any, Any]:
        def before_model(middleware: Any, state: Any, runtime: Any) -> Any:
            views.append(state.get("largest"))
            return {"largest": value}

        name, keys = f"Writer{number}", {"state_schema": Largest, "before_model": before_model}
        made: AgentMiddleware[Any, Any] = type(name, (AgentMiddleware,), keys)()
        return made

    agent = kept_agent(
        ["Done.", "Done."],
        *(writer(number, value) for number, value in enumerate(writes)),
        fused=fused,
    )
    most = max(value or 0 for value in writes)
    for _ in range(2):
        assert call(agent, {"messages": "Hi"}, THREAD)["largest"] == most
        assert agent.get_state(THREAD).values["largest"] == most
    assert all(view is None or isinstance(view, int) for view in views)
