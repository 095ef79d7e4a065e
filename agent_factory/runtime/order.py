"""The order of the tool calls of a turn: which of them wait for which."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent_factory.tools.touches import CallTouches, Touches

Calls = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Order:
    """What decides about the order of calls.

    Args:
        touches: What tools touch, by their names.
        sequential: Each call waits for all before it.
    """

    touches: Mapping[str, Touches]
    sequential: bool = False

    def waits(self, calls: Calls) -> list[frozenset[int]]:
        """Return, for each call, the numbers of the earlier ones that it meets.

        Calls with invalid arguments, whose arguments are a text, run no tool and meet none.

        >>> order = Order({"write": Touches(writes=("file:{path}",))})
        >>> calls = [{"name": "write", "args": {"path": path}} for path in "aba"]
        >>> [sorted(numbers) for numbers in order.waits(calls)]
        [[], [], [0]]
        """
        touches = [self._touches(call) for call in calls]
        # A call that runs no tool meets none.
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
        """Return what a call touches; None if it runs no tool."""
        if not isinstance(call["args"], Mapping):
            return None
        # A tool without a declaration meets no other, as before there were any.
        touches = self.touches.get(call["name"])
        return CallTouches() if touches is None else touches.of(call["args"])
