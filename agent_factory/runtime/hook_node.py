"""Node hooks and decisions become graph nodes and edges, in both colours, written once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import run_in_executor
from langgraph.runtime import get_runtime
from langgraph.types import Command

from agent_factory.decisions.log import REASON
from agent_factory.decisions.recorder import DecisionRecorder
from agent_factory.errors import (
    BadReturn,
    CommandNotSupported,
    HookPathNotSupported,
    UndeclaredJump,
    describe,
)
from agent_factory.hooks.introspection import Bound, sync_async_error
from agent_factory.runtime.composition import disable_streaming
from agent_factory.runtime.routing import Rules, State, ended_by_tools
from agent_factory.runtime.tools_node import pending_exit
from agent_factory.state.schema import TOOL_SIGNALS
from agent_factory.state.updates import check_keys, pairs_of
from agent_factory.topology.model import JUMPS, Hook, Phase
from agent_factory.topology.topology import Topology

Update = Any
"""What a node may return to LangGraph: a dict, a Command, a list of both, or None."""


class HookNode(Runnable[Any, Any]):
    """A node hook of a middleware.

    Args:
        bound: The hook and its functions.
        plan: The agent's plan.
        rules: What routing knows of it.
        keys: The keys of its state.
        watch: Records what it decides, or None.
    """

    def __init__(
        self,
        bound: Bound[Hook],
        plan: Topology,
        rules: Rules,
        keys: Collection[str],
        recorder: DecisionRecorder | None = None,
    ) -> None:
        self.name: str = bound.definition.node
        self._bound = bound
        self._passed_on: Callable[[State, Rules], Any] = pending_exit
        self._rules = rules
        self._keys = frozenset(keys)
        self._enters = self.name == plan.entry
        self._in_loop = bound.definition.phase in (Phase.BEFORE_MODEL, Phase.AFTER_MODEL)
        if recorder is not None:
            owner, hook = bound.definition.owner, str(bound.definition.phase)
            self._bound = recorder.hook(bound, self._finish, reasoned=REASON not in self._keys)
            self._passed_on = recorder.passing(owner, hook, pending_exit, ended_by_tools)

    @property
    def threaded(self) -> bool:
        """Whether it goes to a thread in an asynchronous run: it is synchronous only."""
        return self._bound.afunc is None

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Update:
        """Run the hook in a synchronous run."""
        if passed := self._passed(input):
            return passed
        if self._bound.func is None:
            raise HookPathNotSupported(*sync_async_error(self._bound, asynchronous=False))
        disable_streaming(config)
        state = _shown(input)
        return self._finish(state, self._bound.func(state, get_runtime()))

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Update:
        """Run the hook in an asynchronous run; one that is synchronous only runs in a thread."""
        if passed := self._passed(input):
            return passed
        disable_streaming(config)
        state, runtime = _shown(input), get_runtime()
        if self._bound.afunc is not None:
            return self._finish(state, await self._bound.afunc(state, runtime))
        assert self._bound.func is not None  # a hook has one colour at least
        return self._finish(state, await run_in_executor(None, self._bound.func, state, runtime))

    def _passed(self, state: State) -> Any:
        """What is handed on without a look at it by the hook; mostly nothing."""
        if not self._in_loop or ("jump_to" not in state and TOOL_SIGNALS not in state):
            return None
        return self._passed_on(state, self._rules)

    def _finish(self, state: State, result: Any) -> Update:
        if result is None and not self._enters:
            return None
        if isinstance(result, Command):
            return self._finish_command(state, result)
        if result is None or isinstance(result, Mapping):
            update = result or {}
            if REASON in update:
                update = dict(self._unreasoned(update.items()))
            self._check(update)
            return {**self._forgotten(state), **update} or None
        raise BadReturn(
            self.name, f"returned {describe(result)}.", "Return a dict of updates, or None."
        )

    def _unreasoned(self, pairs: Iterable[tuple[str, Any]]) -> Iterable[tuple[str, Any]]:
        """An update without its reason, which is for the decision log alone."""
        if REASON in self._keys:
            return pairs
        return ((key, value) for key, value in pairs if key != REASON)

    def _finish_command(self, state: State, command: Command[Any]) -> Command[Any]:
        if command.graph is not None:
            return command  # its update and goto are another graph's
        if command.goto:
            raise CommandNotSupported(
                self.name,
                f"returned a Command with goto={command.goto!r}, and its own edge would be taken "
                "as well.",
                "Return {'jump_to': ...} and declare it with hook_config(can_jump_to=[...]).",
            )
        pairs = list(self._unreasoned(pairs_of(command, self.name)))
        self._check(dict(pairs))
        return replace(command, update=[*self._forgotten(state).items(), *pairs])

    def _check(self, update: Mapping[str, Any]) -> None:
        check_keys(update, self._keys, self.name)
        jump = update.get("jump_to")
        if jump is not None and jump not in self._bound.definition.can_jump_to:
            targets = ", ".join(map(repr, JUMPS))
            raise UndeclaredJump(
                self.name,
                f"jumped to {jump!r} without having declared it.",
                f"Decorate it with hook_config(can_jump_to=[{jump!r}])."
                if jump in JUMPS
                else f"A hook can jump to {targets}, if it declares it.",
            )

    def _forgotten(self, state: State) -> dict[str, Any]:
        """The answer of an earlier run, which must not be seen in this one."""
        stale = self._enters and state.get("structured_response") is not None
        return {"structured_response": None} if stale else {}


def _shown(state: State) -> State:
    """The state without what tools say of the run to the node at the loop's entry."""
    if TOOL_SIGNALS not in state:
        return state
    return {key: value for key, value in state.items() if key != TOOL_SIGNALS}
