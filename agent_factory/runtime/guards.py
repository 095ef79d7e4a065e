"""Guards of an agent: filters for all entries of its thread, and for all output of its tools."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass, replace
from typing import Any, cast

from langchain_core.messages import AnyMessage, convert_to_messages
from langchain_core.runnables import RunnableConfig
from langgraph.channels import UntrackedValue
from langgraph.types import Command, Overwrite, StateUpdate
from pydantic import BaseModel

from agent_factory.hooks.guards import Admitted, MessageGuard
from agent_factory.runtime.views import Views
from agent_factory.state.history import last_turn, unanswered_calls, without_records
from agent_factory.state.schema import REFUSAL
from agent_factory.state.updates import pairs_of_result
from agent_factory.topology.model import MODEL, Phase
from agent_factory.upstream import is_json_overwrite, read_keys

MESSAGES = "messages"
_BEFORE = (Phase.BEFORE_AGENT, Phase.BEFORE_MODEL)


class Guards:
    """The guards of an agent, in the order of its middleware; the graph gets a channel."""

    def __init__(self, members: Sequence[MessageGuard], channels: dict[str, Any]) -> None:
        self._members = members
        channels[REFUSAL] = UntrackedValue(object, guard=False)
        self.views = Views(members)  # of the calls of tools

    def input(self, input: Any, config: RunnableConfig | None) -> tuple[Any, RunnableConfig | None]:
        """Return the input of a run after all guards, and the config of the run."""
        input, error = self.admit(input)
        # `astream_events` calls `astream` with the admitted input and this config.
        if error is not None:
            config = {**(config or {})}
            config["configurable"] = {**config.get("configurable", {}), REFUSAL: error}
        return input, config

    def admit(self, input: Any) -> tuple[Any, Exception | None]:
        """Return the input of a run after all guards, and the error of a guard."""
        if isinstance(input, list | tuple):  # of Commands
            parts = [*map(self.admit, input)]
            return [part for part, _ in parts], next((e for _, e in parts if e is not None), None)
        error: Exception | None
        if isinstance(input, Command):
            if isinstance(input.update, list | tuple):
                updates = [self._update({key: value}) for key, value in input.update]
                update: Any = [pair for part, _ in updates for pair in part.items()]
                error = next((error for _, error in updates if error is not None), None)
            else:
                update, error = self.admit(input.update)
            return (input if update is input.update else replace(input, update=update)), error
        if isinstance(input, Mapping):
            return self._update(input)
        error = None
        if (messages := getattr(input, MESSAGES, None)) is not None:  # of a schema of the user
            value, error = self._value(messages)
            if value is not messages and is_dataclass(input) and not isinstance(input, type):
                input = replace(input, **{MESSAGES: value})
            elif value is not messages and isinstance(input, BaseModel):
                input = input.model_copy(update={MESSAGES: value})
        return input, error

    def raise_refusal(self, config: Any) -> None:
        """Raise the error of a guard for the input of the run, or for the hook before."""
        error = config["configurable"].get(REFUSAL) or read_keys(config, [REFUSAL]).get(REFUSAL)
        if error is not None:
            raise error

    def steps(self, supersteps: Sequence[Sequence[StateUpdate]]) -> list[list[StateUpdate]]:
        """Return updates of the state of a thread as they may be stored."""
        return [
            [update._replace(values=self.result(update.values)) for update in updates]
            for updates in supersteps
        ]

    def result(self, result: Any, phase: Phase | None = None) -> Any:
        """Return the result of a node, an update or a command, after all guards.

        An error is raised; for a hook by the next node, if the model comes next.
        """
        result, error = self.admit(result)
        if error is None:
            return result
        pairs = (phase and pairs_of_result(result)) or []
        if (dict(pairs).get("jump_to") or (phase in _BEFORE and MODEL)) != MODEL:
            raise error
        return Command(update=[*pairs, (REFUSAL, error)])

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function whose results pass all guards."""
        return lambda *arguments: self.result(function(*arguments))

    def shown(self, contents: Any) -> Any:
        """Return a result or an error of a hook, a layer or a tool in the form for observers."""
        if isinstance(contents, Command | Mapping):
            contents, _ = self.admit(contents)
        return self.views.value(contents)

    def _update(self, update: Mapping[str, Any]) -> tuple[Mapping[str, Any], Exception | None]:
        if MESSAGES not in update:
            return update, None
        value, error = self._value(update[MESSAGES])
        return (update if value is update[MESSAGES] else {**update, MESSAGES: value}), error

    def _value(self, value: Any) -> tuple[Any, Exception | None]:
        """Return a value for the messages after all guards; the same object if nothing changes."""
        if (is_object := isinstance(value, Overwrite)) or is_json_overwrite(value):
            old = value.value if is_object else value.get("__overwrite__", value.get("value"))
            new, error = self._value(old)
            return (value if new is old else Overwrite(new)), error
        if value is None:
            return value, None
        originals: Sequence[Any] = value if isinstance(value, list) else [value]
        try:
            messages: Sequence[Any] = convert_to_messages(originals)
        except (KeyError, NotImplementedError, TypeError, ValueError):
            return value, None  # not messages: the run itself says so
        admitted, error = messages, None
        for guard in self._members:
            admitted, refusal = guard.admit(admitted)
            error = refusal if error is None else error
        is_changed = list(map(id, admitted)) != list(map(id, messages))
        return (list(admitted) if is_changed else value), error


class _Entry:
    """Entry of an input: calls without a result lose their reviews, whatever the message says."""

    def admit(self, messages: Sequence[AnyMessage]) -> Admitted:
        last, tail = last_turn(messages)
        is_open = bool(unanswered_calls(last, tail))
        return [without_records(m) if is_open and m is last else m for m in messages], None


ENTRY = Guards([cast("MessageGuard", _Entry())], {})
