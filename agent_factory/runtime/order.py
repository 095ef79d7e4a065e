"""The order of the tool calls of a turn: which of them wait for which."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent_factory.tools.touches import CallTouches, Touches

Calls = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Order:
    """The rules for the order of calls.

    Args:
        touches: Data that each tool reads and writes, by the name of the tool.
        sequential: Each call waits for all calls before.
    """

    touches: Mapping[str, Touches]
    sequential: bool = False

    def waits(self, calls: Calls) -> list[frozenset[int]]:
        """Return, for each call, the numbers of the earlier calls that touch the same data.

        A call with invalid arguments, which are a text, runs no tool and waits for no call.

        >>> order = Order({"write": Touches(writes=("file:{path}",))})
        >>> calls = [{"name": "write", "args": {"path": path}} for path in "aba"]
        >>> [sorted(numbers) for numbers in order.waits(calls)]
        [[], [], [0]]
        """
        touches = [self._touches(call) for call in calls]
        return [
            frozenset(
                n
                for n, earlier in enumerate(touches[:number])
                if earlier is not None and later is not None
                if self.sequential or earlier.meets(later)
            )
            for number, later in enumerate(touches)
        ]

    def applies(self, calls: Calls) -> bool:
        """Return True if one of several calls waits for another one."""
        return len(calls) > 1 and any(self.waits(calls))

    def _touches(self, call: Mapping[str, Any]) -> CallTouches | None:
        """Return the data that a call touches; None if the call runs no tool."""
        if not isinstance(call["args"], Mapping):
            return None
        # A tool without a declaration waits for no call, as before declarations existed.
        touches = self.touches.get(call["name"])
        return CallTouches() if touches is None else touches.of(call["args"])
