"""Hook node: runs a node hook of a middleware, sync or async, and checks the result."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from inspect import iscoroutine
from typing import Any

from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import run_in_executor
from langgraph.runtime import get_runtime
from langgraph.types import Command

from agent_factory.compat.langchain import LangChainAdapter
from agent_factory.decisions.log import REASON
from agent_factory.decisions.recorder import NO_RECORDER, Recorder
from agent_factory.errors import (
    AgentFactoryWarning,
    BadReturn,
    CommandNotSupported,
    HookPathNotSupported,
    UndeclaredJump,
    UnknownStateKey,
    describe,
)
from agent_factory.hooks.base import FunctionMiddleware
from agent_factory.hooks.introspection import Bound, sync_async_error
from agent_factory.hooks.trace_policy import policy_of
from agent_factory.runtime.composition import disable_streaming
from agent_factory.runtime.error_notes import add_notes
from agent_factory.runtime.guards import Guards
from agent_factory.runtime.limits import JumpLimit
from agent_factory.runtime.lost_writes import watched_hook
from agent_factory.runtime.routing import Rules, State, ended_by_tools
from agent_factory.runtime.tools_node import pending_exit
from agent_factory.state.schema import ANSWER, TOOL_SIGNALS
from agent_factory.state.updates import Pair, check_keys, pairs_of
from agent_factory.topology.model import JUMPS, Hook, Phase
from agent_factory.topology.topology import Topology
from agent_factory.types import run_services


class StateCopies:
    """Makes copies of states, in which each dict, list and set of the state is a copy too.

    The items of these containers are shared with the thread: copies take too long.
    """

    def __init__(self) -> None:
        self._last: tuple[Any, Any] = (None, None)

    def copy(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """Return a copy of a state, without the signals of tools, which the engine reads."""
        values = dict(state)
        values.pop(TOOL_SIGNALS, None)
        values.pop(ANSWER, None)
        for key, value in state.items():  # for each hook: so the types are compared one by one
            kind = type(value)
            if (kind is dict or kind is list or kind is set) and key != "messages":
                values[key] = value.copy()
        if type(messages := values.get("messages")) is list:
            # Many hooks see the same history, of 1,000 messages perhaps: all share a single copy
            # until a hook adds or removes a message there.
            original, messages_copy = self._last
            if original is not messages or len(messages_copy) != len(messages):
                messages_copy = messages.copy()
                self._last = messages, messages_copy
            values["messages"] = messages_copy
        return values


class HookNode(Runnable[State, object]):
    """Node that runs a hook of a middleware."""

    # Read by a step of several nodes: a hook sends no tokens.
    streams = False

    def __init__(
        self,
        bound: Bound[Hook],
        plan: Topology,
        rules: Rules,
        keys: Collection[str],
        recorder: Recorder = NO_RECORDER,
        copies: StateCopies | None = None,
        context_schema: type[object] | None = None,
        tools: Mapping[str, Any] | None = None,
        guards: Guards | None = None,
        *,
        strict: bool = False,
        merges_by_id: bool = False,
    ) -> None:
        definition = bound.definition
        self.name: str = definition.node
        self._rules = rules
        self._keys = frozenset(keys)
        self._copies = copies or StateCopies()
        self._context_schema = context_schema
        self._tools = tools or {}
        self._guards = guards
        # LangChain drops a key that no schema has, and a middleware for LangChain may rely on that.
        self._drops_keys = isinstance(bound.owner, LangChainAdapter) and not strict
        self._dropped: set[str] = set()
        self._is_entry = self.name == plan.entry
        self._phase = definition.phase
        self._in_loop = definition.phase in (Phase.BEFORE_MODEL, Phase.AFTER_MODEL)
        reads_reason = REASON not in self._keys
        # From the loop's entry, a jump to the model has no effect.
        if "model" in definition.can_jump_to and self.name != plan.loop_entry:
            limit = JumpLimit(self.name)
            func, afunc = (f and partial(limit.around, f) for f in (bound.func, bound.afunc))
            bound = replace(bound, func=func, afunc=afunc)
        if strict:
            bound = watched_hook(bound, merges_by_id=merges_by_id)
        self._bound = recorder.hook(bound, self._finish, reads_reason=reads_reason)
        exits = pending_exit if guards is None else guards.around(pending_exit)
        self._pending_exit = recorder.pending_exit(
            definition.owner, str(definition.phase), exits, ended_by_tools
        )

    @property
    def needs_thread(self) -> bool:
        """True if the hook is sync only, so that an asynchronous run calls it in a thread."""
        return self._bound.afunc is None

    @property
    def has_trace_policy(self) -> bool:
        """True if a policy decides about the contents of spans of this node."""
        return policy_of(self._bound.owner) is not None

    def invoke(self, input: State, config: RunnableConfig | None = None, **_: object) -> object:
        if update := self._skipped(input):
            return update
        if self._bound.func is None:
            raise HookPathNotSupported(*sync_async_error(self._bound, asynchronous=False))
        state = self._begin(input, config)
        try:
            result = self._bound.func(state, get_runtime())
        except Exception as error:
            add_notes(error, self._context_schema)
            raise
        update = self._finish(state, result)
        return update if self._guards is None else self._guards.result(update, self._phase)

    async def ainvoke(
        self, input: State, config: RunnableConfig | None = None, **_: object
    ) -> object:
        if update := self._skipped(input):
            return update
        state, runtime = self._begin(input, config), get_runtime()
        try:
            if self._bound.afunc is not None:
                result = await self._bound.afunc(state, runtime)
            else:
                assert self._bound.func is not None  # a hook has at least one function
                result = await run_in_executor(None, self._bound.func, state, runtime)
        except Exception as error:
            add_notes(error, self._context_schema)
            raise
        update = self._finish(state, result)
        return update if self._guards is None else self._guards.result(update, self._phase)

    def _begin(self, input: State, config: RunnableConfig | None) -> State:
        """Prepare the context of the hook, and return a state for the hook."""
        if self._guards is not None:
            self._guards.raise_refusal(config)
        disable_streaming(config)
        services = run_services.get()
        if services.tools is not self._tools:
            # Never reset: LangGraph runs each task in a copy of the context.
            run_services.set(replace(services, tools=self._tools))
        return self._copies.copy(input)

    def _skipped(self, state: State) -> object:
        """Return the update of a hook that does not run, because a tool has ended the run."""
        is_silent = "jump_to" not in state and TOOL_SIGNALS not in state
        if not self._in_loop or (is_silent and state.get(ANSWER) is None):
            return None
        return self._pending_exit(state, self._rules)

    def _finish(self, state: State, result: object) -> Command[Any] | dict[str, object] | None:
        if result is None and not self._is_entry:
            return None
        # This run must not see the answer of an earlier run of the thread.
        stale = self._is_entry and state.get("structured_response") is not None
        reset = {"structured_response": None} if stale else {}
        if not isinstance(result, Mapping | Command | None):
            raise BadReturn(
                self.name,
                f"must return a dict of updates or None, got {describe(result)}.",
                "Write `await` before the call that the hook returns."
                if iscoroutine(result)
                else "Return {'key': value}.",
            )
        if not isinstance(result, Command):
            pairs = list((result or {}).items())
        elif result.graph is not None:
            return result  # update and goto are for another graph
        elif result.goto:
            raise CommandNotSupported(
                self.name,
                f"returned a Command with goto={result.goto!r}, but the run would take the node's "
                "own edge too.",
                "Return {'jump_to': ...} and declare it with hook_config(can_jump_to=[...]).",
            )
        else:
            pairs = pairs_of(result, self.name)
        if REASON not in self._keys:  # for the decision log alone
            pairs = [(key, value) for key, value in pairs if key != REASON]
        if self._drops_keys:
            pairs = self._known(pairs)
        self._check(update := dict(pairs))
        if isinstance(result, Command):
            return replace(result, update=[*reset.items(), *pairs])
        return {**reset, **update} or None

    def _known(self, pairs: Sequence[Pair]) -> list[Pair]:
        """Return the writes to keys of the state, and warn once of each other key."""
        if unknown_keys := {key for key, _ in pairs} - self._keys - self._dropped:
            self._dropped |= unknown_keys
            names = ", ".join(map(repr, sorted(unknown_keys)))
            reason = f"wrote {names}, which is dropped, because the state has no such key."
            hint = "Add the middleware that declares it, or declare it in a state_schema."
            error = UnknownStateKey(self.name, reason, hint)
            warnings.warn(AgentFactoryWarning([error]), stacklevel=2)
        return [(key, value) for key, value in pairs if key in self._keys]

    def _check(self, update: Mapping[str, object]) -> None:
        check_keys(update, self._keys, self.name)
        jump, definition = update.get("jump_to"), self._bound.definition
        if jump is not None and jump not in definition.can_jump_to:
            targets = [target for target in JUMPS if target in {jump, *definition.can_jump_to}]
            is_function = isinstance(self._bound.owner, FunctionMiddleware)
            declaration = f"@{definition.phase}" if is_function else "hook_config"
            raise UndeclaredJump(
                self.name,
                f"jumped to {jump!r} without a declaration.",
                f"Decorate it with {declaration}(can_jump_to={targets})."
                if jump in JUMPS
                else f"Jump to one of {', '.join(map(repr, JUMPS))}, and declare it.",
            )
