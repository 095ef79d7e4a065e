"""Copies of a state for hooks and layers: what they change in place must not change the thread."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent_factory.state.schema import TOOL_SIGNALS

_CONTAINERS = frozenset({dict, list, set})


class StateCopies:
    """Makes copies of states, in which each dict, list and set of the state is a copy too.

    What is in these is shared with the thread: to copy it as well takes too long.
    """

    def __init__(self) -> None:
        self._last: tuple[Any, Any] = (None, None)

    def copy(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """Return a copy of a state, without the signals of tools, which the engine reads."""
        own = {
            key: value.copy() if type(value) in _CONTAINERS and key != "messages" else value
            for key, value in state.items()
            if key != TOOL_SIGNALS
        }
        if type(messages := own.get("messages")) is list:
            # Many hooks see the same history, of 1,000 messages perhaps: they share one copy, as
            # long as none of them adds or removes a message in it.
            original, copied = self._last
            if original is not messages or len(copied) != len(messages):
                copied = messages.copy()
                self._last = messages, copied
            own["messages"] = copied
        return own
