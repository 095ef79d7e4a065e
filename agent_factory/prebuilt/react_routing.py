"""Where a run of a `create_react_agent` goes, and how many steps it needs to get to its end."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, ToolCall, ToolMessage
from langgraph.prebuilt.tool_node import ToolCallWithContext
from langgraph.types import Send

from agent_factory.runtime.routing import Rules, State
from agent_factory.state.history import answers_of
from agent_factory.topology.model import TOOLS


class ReactRules(Rules):
    """What routing knows of a `create_react_agent`.

    Args:
        known: The names of its tools.
        direct: Those whose result ends the run.
        view: What tools are shown of the state.
        together: One run of the tools node holds all calls of a turn: version v1.
        reviewed: A hook sees the calls before they are run, and may answer them.
    """

    def __init__(
        self,
        known: Collection[str],
        direct: Collection[str],
        view: Callable[[Any], Any],
        *,
        together: bool,
        reviewed: bool,
    ) -> None:
        super().__init__(frozenset(known), frozenset(direct))
        self._view = view
        self._together = together
        self._reviewed = reviewed

    def sends(
        self, message: AIMessage, tail: Sequence[AnyMessage], state: State
    ) -> str | list[Send]:
        """The tools node with all calls, or one task for each that nothing answers."""
        # A hook's answer counts wherever it stands, a reviewer's after the calls.
        answered = answers_of(state["messages"] if self._reviewed else tail)
        calls = [call for call in message.tool_calls if call["id"] not in answered]
        if not calls:
            return []
        # Together the node would run all calls of the message, those answered by a reviewer too.
        if self._together and len(calls) == len(message.tool_calls):
            return TOOLS
        shown = self._view(state)
        return [_task(call, shown) for call in calls]

    def answered(self, state: State) -> bool:
        """Never: the structured answer is made after the loop."""
        return False

    def leaves(self, state: State, tail: Sequence[AnyMessage]) -> bool:
        """Whether a turn whose calls are answered is the last one: not while the model is to read
        an answer."""
        return not (tail and isinstance(tail[-1], ToolMessage))

    def returns(self, message: AIMessage, tail: Sequence[AnyMessage]) -> bool:
        """Whether a tool whose result ends the run is among those of this turn."""
        for answer in reversed(tail):
            if not isinstance(answer, ToolMessage):
                return False
            if answer.name in self.direct:
                return True
        # Tasks of one turn see only their own answer: the calls tell each of them the same.
        return self.ends_with(message)

    def ends_with(self, message: AIMessage) -> bool:
        """Whether one of a message's calls is of such a tool."""
        return any(call["name"] in self.direct for call in message.tool_calls)


def _task(call: ToolCall, state: Any) -> Send:
    # With the whole state: what is not in a channel, such as remaining_steps, is lost otherwise.
    return Send(
        TOOLS, ToolCallWithContext(__type="tool_call_with_context", tool_call=call, state=state)
    )


@dataclass(frozen=True, slots=True)
class Steps:
    """How many super-steps a run needs, by the nodes that it has.

    Args:
        before: A node before each call of the model.
        after: A node after each call of the model.
        structured: A node at the end.
    """

    before: bool = False
    after: bool = False
    structured: bool = False

    def to_answer(self) -> int:
        """From a message without calls to the end, the step of the model included."""
        return 1 + self.after + self.structured

    def to_return(self) -> int:
        """From calls whose results are the answer to the end: the model, its hook, the tools."""
        return 2 + self.after

    def to_go_on(self) -> int:
        """From other calls to the end: the tools, and one more turn that answers."""
        return self.to_return() + self.before + self.to_answer()
