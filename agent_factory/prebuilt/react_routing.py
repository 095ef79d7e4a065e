"""Routing of `create_react_agent`, and how many steps its ways out take."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langgraph.prebuilt.tool_node import ToolCallWithContext
from langgraph.types import Send

from agent_factory.runtime.routing import Rules, State
from agent_factory.state.history import answers_of
from agent_factory.topology.model import TOOLS


class ReactRules(Rules):
    """The routing rules of `create_react_agent`.

    Args:
        known: The names of its tools.
        direct: The names of its return_direct tools.
        view: Converts the state to the schema that tools read.
        together: One run of the tools node takes all calls of a turn (version v1).
        reviewed: A `post_model_hook` sees the calls before they run, and may answer them.
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
        """The tools node with all calls, or a task for each call without an answer."""
        # A post_model_hook may write an answer anywhere in the history.
        answered = answers_of(state["messages"] if self._reviewed else tail)
        calls = [call for call in message.tool_calls if call["id"] not in answered]
        if not calls:
            return []
        # One run of the node takes all calls of the message, answered ones included.
        if self._together and len(calls) == len(message.tool_calls):
            return TOOLS
        shown = self._view(state)
        # The task carries the whole state: remaining_steps, say, is in no channel it could read.
        return [
            Send(
                TOOLS,
                ToolCallWithContext(__type="tool_call_with_context", tool_call=call, state=shown),
            )
            for call in calls
        ]

    def answered(self, state: State) -> bool:
        """Whether the structured response is there: never, since it is made after the loop."""
        return False

    def leaves(self, state: State, tail: Sequence[AnyMessage]) -> bool:
        """Whether the run ends after a turn whose calls are answered.

        It goes on while the model has a result to read.
        """
        return not (tail and isinstance(tail[-1], ToolMessage))

    def returns(self, message: AIMessage, tail: Sequence[AnyMessage]) -> bool:
        """Whether a return_direct tool is among those of this turn."""
        for answer in reversed(tail):
            if not isinstance(answer, ToolMessage):
                return False
            if answer.name in self.direct:
                return True
        # A task sees only its own result, so the calls decide, alike for all tasks of a turn.
        return self.ends_with(message)

    def ends_with(self, message: AIMessage) -> bool:
        """Whether the message calls a return_direct tool."""
        return any(call["name"] in self.direct for call in message.tool_calls)


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
        """From return_direct calls to the end: the model, its hook, the tools."""
        return 2 + self.after

    def to_go_on(self) -> int:
        """From other calls to the end: the tools, and one more turn that answers."""
        return self.to_return() + self.before + self.to_answer()
