"""Let a model judge tool calls before they run, and block risky calls.

The middleware is a tool layer: the judge reads a call after changes by reviews and layers outside.
The graph has no additional step, and parallel calls are judged in parallel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool
from langgraph.types import Command
from pydantic import BaseModel

from agent_factory import AgentState, Flow, Ordering, ToolCallRequest, ToolGuard

from ._shared.judge import DEFAULT_INSTRUCTIONS, RiskJudge
from ._shared.messages import error_result, tool_names
from ._shared.payload_free import PayloadFree
from ._shared.validation import check_string

if TYPE_CHECKING:
    from langchain_core.decisions import BaseDecisionModel

__all__ = ["DEFAULT_BLOCKED_MESSAGE", "DEFAULT_INSTRUCTIONS", "AutoModeMiddleware", "RiskJudge"]

DEFAULT_BLOCKED_MESSAGE: Final = """\
Error: the call of {tool} was blocked and did not run: {reason} Do not try to reach the same by \
other means. Go on without it, or ask the user."""

_SOURCE = "auto_mode"


class AutoModeMiddleware(PayloadFree[AgentState]):
    """Has a model judge tool calls before they run, and blocks those that are too risky.

    Before a listed tool runs, the classifier is asked for the probability that the call is risky,
    or beyond the request of the user. Below the threshold the tool runs. From the threshold on, the
    tool does not run, and the agent's model reads an error with the reason. No person is asked: for
    reviews by people, use `HumanInTheLoopMiddleware`.

    The judge is a `RiskJudge`; see there for the texts the judge reads, and for the calls that are
    blocked because the judge fails. The error has the reason.

    Put the middleware after (inside) reviews and layers with changes of calls, so the judge reads
    the call to run; and before (outside) retries and the emulator, so a call is judged once and an
    emulated call too.

    Args:
        tools: The tools with judged calls, as names or BaseTool instances. Calls of further tools
            run without a judgement. None: all tools.
        instructions: As in `RiskJudge`.
        criteria: As in `RiskJudge`.
        classifier: The judge: a chat model, "provider:name" or a decision model.
        threshold: The least probability of a blocked call, from 0 to 1.
        blocked_message: The error for the agent's model. `{tool}` and `{reason}` are filled in.
        name: The name of this instance, if a stack has several.

    Raises:
        ValueError: `tools` is empty, `threshold` is not from 0 to 1, or the criteria have unknown
            keys.
        TypeError: An argument has an unusable type.

    >>> from agent_factory import create_agent
    >>> from agent_factory.testing import ScriptedChatModel
    >>> def delete(path: str) -> str:
    ...     "Delete a file."
    ...     return "deleted"
    >>> judge = ScriptedChatModel(['{"reason": "It was not asked for.", "probability": 0.9}'])
    >>> model = ScriptedChatModel([[{"name": "delete", "args": {"path": "/etc"}}], "I did not."])
    >>> auto_mode = AutoModeMiddleware(tools=["delete"], classifier=judge)
    >>> agent = create_agent(model, [delete], middleware=[auto_mode])
    >>> result = agent.invoke({"messages": "Clean up"})["messages"][2]
    >>> result.status, "It was not asked for." in result.text
    ('error', True)
    """

    guard_settings = ("classifier", "instructions", "criteria", "threshold")
    ordering = Ordering(
        before=("ToolRetryMiddleware", "LLMToolEmulator"),
        after=("HumanInTheLoopMiddleware",),
        reads=("tool_calls",),
        sends_to_model=("user_messages", "answers", "tool_calls", "tool_results"),
    )

    def __init__(
        self,
        *,
        classifier: str | BaseChatModel | BaseDecisionModel,
        tools: Sequence[str | BaseTool] | None = None,
        instructions: str = DEFAULT_INSTRUCTIONS,
        criteria: str | Mapping[str, object] | BaseModel | None = None,
        threshold: float = 0.5,
        blocked_message: str = DEFAULT_BLOCKED_MESSAGE,
        name: str | None = None,
    ) -> None:
        super().__init__(name=name)
        self._judge = RiskJudge(
            classifier, instructions=instructions, criteria=criteria, threshold=threshold
        )
        self.classifier = self._judge.classifier
        self.tool_names = tool_names(tools)
        self.expected_tools = tuple(self.tool_names or ())
        check_string("blocked_message", blocked_message)
        self.instructions = instructions
        self.criteria = self._judge.criteria
        self.threshold, self.blocked_message = threshold, blocked_message

    @property
    def guards(self) -> Sequence[ToolGuard]:  # type: ignore[override]
        """The judgements in the form of the plan."""
        # Sorted: the order of strings in a set differs from process to process.
        tools = ("*",) if self.tool_names is None else sorted(self.tool_names)
        return [ToolGuard(name, "judge") for name in tools]

    def around_tool(self, request: ToolCallRequest) -> Flow[ToolMessage | Command[Any]]:
        """Run the tool if the judge does not object."""
        call = request.tool_call
        if self.tool_names is None or call["name"] in self.tool_names:
            objection = yield from self._judge.objection_to(request)
            if objection is not None:
                # Not by `format`: all further braces of the text are the user's.
                text = self.blocked_message.replace("{tool}", call["name"])
                text = text.replace("{reason}", objection)
                return error_result(call, text, additional_kwargs={"lc_source": _SOURCE})
        result: ToolMessage | Command[Any] = yield request
        return result
