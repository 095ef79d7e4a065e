"""Guards of an agent: what enters its thread passes them, and so does what its tools show."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass, replace
from typing import Any

from langchain_core.messages import convert_to_messages
from langchain_core.runnables import RunnableConfig
from langgraph.types import Command, Overwrite, StateUpdate
from pydantic import BaseModel

from agent_factory.hooks.guards import MessageGuard
from agent_factory.runtime.views import Views
from agent_factory.upstream import is_json_overwrite

MESSAGES = "messages"

REFUSAL = "__agent_factory_refusal"
"""Key of `configurable` that holds the error with which a run ends at its first node."""


class Guards:
    """The guards of an agent, in the order of its middleware."""

    def __init__(self, members: Sequence[MessageGuard]) -> None:
        self._members = members
        self.views = Views(members)  # of the calls of tools

    def input(self, input: Any, config: RunnableConfig | None) -> tuple[Any, RunnableConfig | None]:
        """Return the input of a run as it may be stored and shown, and the config of the run."""
        input, error = self.admit(input)
        # `astream_events` calls `astream` with the input that is admitted already, and this config.
        if error is not None:
            config = {**(config or {})}
            config["configurable"] = {**config.get("configurable", {}), REFUSAL: error}
        return input, config

    def admit(self, input: Any) -> tuple[Any, Exception | None]:
        """Return the input of a run as it may be stored and shown, and the error it causes."""
        if isinstance(input, Command):
            return self._command(input)
        if isinstance(input, Mapping):
            return self._update(input)
        error: Exception | None = None
        if (messages := getattr(input, MESSAGES, None)) is not None:  # of a schema of the user
            value, error = self._value(messages)
            if value is not messages and is_dataclass(input) and not isinstance(input, type):
                input = replace(input, **{MESSAGES: value})
            elif value is not messages and isinstance(input, BaseModel):
                input = input.model_copy(update={MESSAGES: value})
        return input, error

    def raise_refusal(self, config: RunnableConfig | None) -> None:
        """Raise the error that the input of the run has caused."""
        error = (config or {}).get("configurable", {}).get(REFUSAL)
        if error is not None:
            raise error

    def steps(self, supersteps: Sequence[Sequence[StateUpdate]]) -> list[list[StateUpdate]]:
        """Return updates of the state of a thread as they may be stored."""
        return [
            [update._replace(values=self.result(update.values)) for update in updates]
            for updates in supersteps
        ]

    def result(self, result: Any) -> Any:
        """Return the result of a node as it may be stored: updates and commands."""
        if isinstance(result, list):
            return [self.result(part) for part in result]
        error: Exception | None = None
        if isinstance(result, Command):
            result, error = self._command(result)
        elif isinstance(result, Mapping):
            result, error = self._update(result)
        if error is not None:
            raise error
        return result

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function with the results of another one as they may be stored."""
        return lambda *arguments: self.result(function(*arguments))

    def shown(self, contents: Any) -> Any:
        """Return what a hook, a layer or a tool has returned or raised, as it may be shown."""
        if isinstance(contents, Command | Mapping):
            contents, _ = self.admit(contents)
        return self.views.value(contents)

    def _command(self, command: Any) -> tuple[Any, Exception | None]:
        update, error = command.update, None
        if isinstance(update, Mapping):
            update, error = self._update(update)
        elif isinstance(update, list | tuple) and dict(update).get(MESSAGES) is not None:
            pairs = [
                (key, *(self._value(value) if key == MESSAGES else (value, None)))
                for key, value in update
            ]
            update = [(key, value) for key, value, _ in pairs]
            error = next((error for _, _, error in pairs if error is not None), None)
        return (command if update is command.update else replace(command, update=update)), error

    def _update(self, update: Mapping[str, Any]) -> tuple[Mapping[str, Any], Exception | None]:
        if MESSAGES not in update:
            return update, None
        value, error = self._value(update[MESSAGES])
        return (update if value is update[MESSAGES] else {**update, MESSAGES: value}), error

    def _value(self, value: Any) -> tuple[Any, Exception | None]:
        """Return what is written to the messages as it may be stored; itself if nothing changes."""
        if isinstance(value, Overwrite):
            new, error = self._value(value.value)
            return (value if new is value.value else Overwrite(new)), error
        if is_json_overwrite(value):
            key = "__overwrite__" if "__overwrite__" in value else "value"
            new, error = self._value(value.get(key))
            return (value if new is value.get(key) else {**value, key: new}), error
        if value is None:
            return value, None
        originals: Sequence[Any] = value if isinstance(value, list) else [value]
        try:
            messages: Sequence[Any] = convert_to_messages(originals)
        except (KeyError, NotImplementedError, TypeError, ValueError):
            return value, None  # not messages: the run itself says so
        admitted, refusal = messages, None
        for guard in self._members:
            admitted, error = guard.admit(admitted)
            refusal = error if refusal is None else refusal
        is_changed = list(map(id, admitted)) != list(map(id, messages))
        return (list(admitted) if is_changed else value), refusal
