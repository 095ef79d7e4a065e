"""Parts of the spec become graph nodes. Each node has both colours; its work is written once."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from langchain_core.messages import AnyMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import run_in_executor
from langgraph.runtime import Runtime, get_runtime
from langgraph.types import Command, Send

from agent_factory.compose import ModelCall, Outcome
from agent_factory.errors import (
    BadReturn,
    HookPathNotSupported,
    UndeclaredJump,
    UnknownStateKey,
    describe,
)
from agent_factory.history import Seen, repair
from agent_factory.introspect import Bound
from agent_factory.parent import relayed
from agent_factory.routing import Choice, State
from agent_factory.spec import AgentSpec, colour_error
from agent_factory.topology import Hook, Phase
from agent_factory.tracing import silence
from agent_factory.types import ModelRequest, ModelResponse

Update = Any
"""What a node may return to LangGraph: a dict, a Command, a list of both, or None."""


def stopped(state: State) -> Update:
    """What a node inside the loop hands on without working, because a tool stopped the run.

    Tools of one turn run side by side and leave for different nodes. Where one of them stops the
    run, a node of the loop is entered with that jump in its state, and passes it on.
    """
    if command := relayed(state):
        return command
    return {"jump_to": "end"} if state.get("jump_to") == "end" else None


class Path(Runnable[Any, Any]):
    """A decision of `routing` as LangGraph wants it: in both colours, and not traced."""

    def __init__(self, choose: Choice, name: str) -> None:
        self.name = name
        self._choose = choose

    def invoke(
        self, input: Any, config: RunnableConfig | None = None, **_: Any
    ) -> str | list[Send]:
        """Decide."""
        return self._choose(input)

    async def ainvoke(
        self, input: Any, config: RunnableConfig | None = None, **_: Any
    ) -> str | list[Send]:
        """Decide."""
        return self._choose(input)


class HookNode(Runnable[Any, Any]):
    """A node hook of a middleware.

    Args:
        bound: The hook and its functions.
        keys: The keys of the agent's state.
        routed: Its edge reads the state's jump, so a jump that led here must not be seen there.
    """

    def __init__(self, bound: Bound[Hook], keys: Collection[str], *, routed: bool) -> None:
        self.name = bound.fact.node
        self._bound = bound
        self._keys = frozenset(keys)
        self._routed = routed
        self._in_loop = bound.fact.phase in (Phase.BEFORE_MODEL, Phase.AFTER_MODEL)

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Update:
        """Run the hook in a synchronous run."""
        if self._in_loop and (passed := stopped(input)):
            return passed
        if self._bound.sync is None:
            raise HookPathNotSupported(*colour_error(self._bound, asynchronous=False))
        silence(config)
        return self._finish(input, self._bound.sync(input, get_runtime()))

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Update:
        """Run the hook in an asynchronous run; one that is synchronous only runs in a thread."""
        if self._in_loop and (passed := stopped(input)):
            return passed
        silence(config)
        runtime = get_runtime()
        if self._bound.a is not None:
            return self._finish(input, await self._bound.a(input, runtime))
        assert self._bound.sync is not None  # a hook has one colour at least
        return self._finish(input, await run_in_executor(None, self._bound.sync, input, runtime))

    def _finish(self, state: State, result: Any) -> Update:
        if isinstance(result, Command):
            self._check(result.update if isinstance(result.update, dict) else {})
            return result
        if result is None or isinstance(result, Mapping):
            self._check(result or {})
            return self._forget_jump(state, result)
        raise BadReturn(
            self.name or "", f"returned {describe(result)}.", "Return a dict of updates, or None."
        )

    def _check(self, update: Mapping[str, Any]) -> None:
        if unknown := update.keys() - self._keys:
            raise UnknownStateKey(
                str(self.name),
                f"wrote {', '.join(map(repr, sorted(unknown)))}, and the state has no such key.",
                "Declare it in the middleware's state_schema.",
            )
        jump = update.get("jump_to")
        if jump is not None and jump not in self._bound.fact.can_jump_to:
            raise UndeclaredJump(
                str(self.name),
                f"jumped to {jump!r} without having declared it.",
                f"Decorate it with hook_config(can_jump_to=[{jump!r}]).",
            )

    def _forget_jump(self, state: State, update: Mapping[str, Any] | None) -> Update:
        if self._routed and state.get("jump_to") and "jump_to" not in (update or {}):
            return {**(update or {}), "jump_to": None}
        return update


class ModelNode(Runnable[Any, Any]):
    """The model with all layers around it.

    Args:
        spec: The agent.
        sync: The composed call for synchronous runs.
        a: The composed call for asynchronous runs.
        single: State keys that take one value a step.
        routed: As in HookNode.
    """

    def __init__(
        self,
        spec: AgentSpec,
        sync: ModelCall,
        a: ModelCall,
        single: Collection[str],
        *,
        routed: bool,
    ) -> None:
        self.name = "model"
        self._spec = spec
        self._sync = sync
        self._a = a
        self._single = frozenset(single)
        self._routed = routed
        self._offered = spec.toolbox.offered
        self._seen = Seen()

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Update:
        """Ask the model in a synchronous run."""
        if passed := stopped(input):
            return passed
        silence(config)
        state, healing = self._healed(input, get_runtime())
        return self._finish(state, healing, self._sync(self._request(state)))

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Update:
        """Ask the model in an asynchronous run."""
        if passed := stopped(input):
            return passed
        silence(config)
        state, healing = self._healed(input, get_runtime())
        return self._finish(state, healing, await self._a(self._request(state)))

    def _healed(self, state: State, runtime: Runtime[Any]) -> tuple[State, list[Any]]:
        """The state with a valid history, and what to write so that the thread has it too."""
        messages: list[AnyMessage] = state["messages"]
        mended = repair(messages, self._seen.of(runtime.control, messages))
        if mended is not None:
            messages = mended.messages
            state = {**state, "messages": messages}
        self._seen.remember(runtime.control, messages)
        return state, mended.update if mended else []

    def _request(self, state: State) -> ModelRequest[Any]:
        spec = self._spec
        return ModelRequest(
            model=spec.model,
            messages=state["messages"],
            system_message=spec.system_message,
            tools=list(self._offered),
            response_format=spec.response_format,
            state=state,  # type: ignore[arg-type]  # the merged schema extends AgentState
            runtime=get_runtime(),
        )

    def _finish(self, state: State, healing: list[Any], outcome: Outcome) -> Update:
        update: dict[str, Any] = {"messages": [*healing, *outcome.response.result]}
        update |= self._structured(state, outcome.response)
        if self._routed and state.get("jump_to"):
            update["jump_to"] = None
        if not outcome.commands:
            return update
        return _folded(update, outcome.commands, self._single)

    def _structured(self, state: State, response: ModelResponse[Any]) -> dict[str, Any]:
        """The answer of this call, also where there is none: an earlier one must not stay."""
        value = response.structured_response
        stale = state.get("structured_response") is not None
        if value is None and not stale and self._spec.response_format is None:
            return {}
        return {"structured_response": value}


def _folded(
    update: Mapping[str, Any], commands: Sequence[Command[Any]], single: Collection[str]
) -> Command[Any]:
    """The node's update with those of the layers, inner first; a single value is the outermost."""
    writes = list(update.items())
    for command in commands:
        writes += _pairs(command)
    last = {key: index for index, (key, _) in enumerate(writes)}
    kept = [w for i, w in enumerate(writes) if w[0] not in single or last[w[0]] == i]
    return Command(update=kept)


def _pairs(command: Command[Any]) -> list[tuple[str, Any]]:
    update = command.update
    if update is None:
        return []
    pairs = list(update.items()) if isinstance(update, Mapping) else update
    if not isinstance(pairs, Sequence) or not all(
        isinstance(pair, tuple) and len(pair) == 2 for pair in pairs
    ):
        raise BadReturn(
            "a wrap_model_call layer",
            f"returned a Command whose update is {describe(update)}.",
            "Give a dict of state keys.",
        )
    if any(key == "jump_to" and value for key, value in pairs):
        raise UndeclaredJump(
            "a wrap_model_call layer", "cannot jump.", "Jump from an after_model hook."
        )
    return list(pairs)
