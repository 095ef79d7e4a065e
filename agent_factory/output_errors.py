"""What can be wrong with a structured answer; `agent_factory.structured_output` offers these."""

from __future__ import annotations

from collections.abc import Sequence

from langchain_core.messages import AIMessage

from agent_factory.errors import OutputError


class StructuredOutputError(OutputError):
    """A structured answer is missing or cannot be used. `ai_message` is what the model said."""

    code = "AF311"

    def __init__(self, culprit: str, reason: str, ai_message: AIMessage) -> None:
        super().__init__(
            culprit,
            reason,
            "With handle_errors the model is told, and asked again.",
            ai_message=ai_message,
        )


class MultipleStructuredOutputsError(StructuredOutputError):
    """The model gave several structured answers where one was asked for."""

    code = "AF312"

    def __init__(self, tool_names: Sequence[str], ai_message: AIMessage) -> None:
        self.tool_names = list(tool_names)
        names = ", ".join(tool_names)
        super().__init__(
            names, f"The model gave several structured answers ({names}); give one.", ai_message
        )


class StructuredOutputValidationError(StructuredOutputError):
    """A structured answer does not fit its schema. `source` says why."""

    code = "AF313"

    def __init__(self, tool_name: str, source: Exception, ai_message: AIMessage) -> None:
        self.tool_name = tool_name
        self.source = source
        super().__init__(
            tool_name,
            f"Failed to parse structured output for tool '{tool_name}': {source}.",
            ai_message,
        )


class MissingStructuredOutputError(StructuredOutputError):
    """The model answered in prose where a structured answer was asked for."""

    code = "AF314"

    def __init__(self, names: Sequence[str], ai_message: AIMessage, how: str) -> None:
        super().__init__(
            ", ".join(names), f"The answer came as text, without its structure. {how}", ai_message
        )
