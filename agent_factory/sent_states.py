"""The state that tool calls were sent with, for the node that runs them.

LangGraph sends a call without the state, and ToolNode reads every channel again for each. But the
edge that sends the calls has just read the same. So it is handed on here, out of LangGraph's
sight: with another process, or a thread that is taken up again, it is read anew.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

from langchain_core.messages import AIMessage
from langgraph.types import Send

State = Mapping[str, Any]
Target = str | list[Send]


class SentStates:
    """What has been sent and not yet run, by the very list in which each call was sent.

    Args:
        keys: What tools see of the state: nothing that passes with a step.
    """

    SIZE = 256
    """How many calls are remembered. A call that pauses before it runs may linger."""

    def __init__(self, keys: Collection[str]) -> None:
        self._keys = frozenset(keys)
        self._sent: OrderedDict[int, tuple[list[Any], dict[str, Any]]] = OrderedDict()

    def keeping(self, choose: Callable[[State], Target]) -> Callable[[State], Target]:
        """A decision after which the state is at hand for the calls that it sends."""
        return partial(self._choose, choose)

    def _choose(self, choose: Callable[[State], Target], state: State) -> Target:
        target = choose(state)
        # What a hook has said after the model is given its id only as it is written.
        if isinstance(target, list) and isinstance(state["messages"][-1], AIMessage):
            for send in target:
                self.keep(send.arg, state)
        return target

    def keep(self, calls: list[Any], state: State) -> None:
        """Remember the state for a list of calls."""
        seen = {key: value for key, value in state.items() if key in self._keys}
        # Holding the list keeps its id from being reused.
        self._sent[id(calls)] = calls, seen
        if len(self._sent) > self.SIZE:
            self._sent.popitem(last=False)

    def take(self, calls: list[Any]) -> dict[str, Any] | None:
        """The state that a list of calls was sent with, once; None where it is not known."""
        sent, state = self._sent.pop(id(calls), (None, None))
        return state if sent is calls else None
