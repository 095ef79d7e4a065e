"""Routing of `create_react_agent`, and how many steps its ways out take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langgraph.prebuilt.tool_node import ToolCallWithContext
from langgraph.types import Send

from agent_factory.runtime.routing import Rules, State
from agent_factory.runtime.spec import identity
from agent_factory.state.history import answers_of
from agent_factory.topology.model import TOOLS


@dataclass(eq=False, kw_only=True)
class ReactRules(Rules):
    """The routing rules of `create_react_agent`."""

    view: Callable[[Any], Any] = identity  # converts the state for tools
    together: bool = False  # one run of the tools node takes all calls of a turn (version v1)
    hooked: bool = False  # a `pre_model_hook` runs before each call of the model
    reviewed: bool = False  # a `post_model_hook` sees calls before they run, and may answer them
    structured: bool = False  # a node at the end asks for the structured response

    def sends(
        self, message: AIMessage, tail: Sequence[AnyMessage], state: State
    ) -> str | list[Send]:
        """The tools node with all calls, or a task for each call without an answer."""
        # A post_model_hook may write an answer anywhere in the history.
        answered = answers_of(state["messages"] if self.reviewed else tail)
        calls = [call for call in message.tool_calls if call["id"] not in answered]
        if not calls:
            return []
        # One run of the node takes all calls of the message, answered ones included.
        if self.together and len(calls) == len(message.tool_calls):
            return TOOLS
        shown = self.view(state)
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
        """Whether a turn whose calls are answered is the last: no result is left to read."""
        return not (tail and isinstance(tail[-1], ToolMessage))

    def returns(self, message: AIMessage, tail: Sequence[AnyMessage]) -> bool:
        """Whether a return_direct tool is among those of this turn."""
        for answer in reversed(tail):
            if not isinstance(answer, ToolMessage):
                return False
            if answer.name in self.direct:
                return True
        # A task sees only its own result, so the calls decide, alike for all tasks of a turn.
        return self._calls_direct(message)

    def _calls_direct(self, message: AIMessage) -> bool:
        return any(call["name"] in self.direct for call in message.tool_calls)

    def steps_needed(self, message: AIMessage) -> int:
        """How many super-steps it takes to run the calls of a message and end the run."""
        to_return = 2 + self.reviewed  # the model that wrote the message, its hook, the tools
        if self._calls_direct(message):
            return to_return
        # One more turn, which answers: the hooks, the model, and the structured response.
        return to_return + self.hooked + 1 + self.reviewed + self.structured
