"""Structured answers: the strategies, what reads an answer, and what explains a bad one.

A schema is a pydantic model, a dataclass, a TypedDict, a JSON schema dict, or, for tools, a union
of them. Bare, it means `AutoStrategy`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import UnionType
from typing import Any, Generic

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool, StructuredTool
from typing_extensions import TypeVar

from agent_factory.errors import (
    ArgumentError,
    BadReturn,
    MissingStructuredOutputError,
    MultipleStructuredOutputsError,
    OutputError,
    StructuredOutputError,
    StructuredOutputValidationError,
    describe,
)
from agent_factory.structured_output.schema import SchemaSpec, specs_of

__all__ = [
    "AutoStrategy",
    "MissingStructuredOutputError",
    "MultipleStructuredOutputsError",
    "OutputToolBinding",
    "ProviderStrategy",
    "ProviderStrategyBinding",
    "ResponseFormat",
    "StructuredOutputError",
    "StructuredOutputValidationError",
    "ToolStrategy",
    "supports_provider_strategy",
]

SchemaT = TypeVar("SchemaT", default=Any)
"""The type of the structured answer."""

MAX_RETRIES = 3
"""How often a model is asked again for a structured answer, where a strategy does not say."""

EXPLANATION = "structured_output"
"""`additional_kwargs["lc_source"]` of the messages that tell a model what was wrong."""

EXPLAINS = {"lc_source": EXPLANATION}


HandleErrors = (
    bool | str | type[Exception] | tuple[type[Exception], ...] | Callable[[Exception], str]
)


class ToolStrategy(Generic[SchemaT]):
    """The model answers by calling a tool that stands for the schema.

    Args:
        schema: A schema, or a union of schemas: one tool for each.
        tool_message_content: What the answer to that call says; default: the parsed value.
        handle_errors: What a bad answer leads to. True: the model is told and asked again; a
            string: it is told that; exception types: only those; a callable: it is told what
            that returns; False: the error is raised.
        max_retries: How often the model is asked again in one run, before OutputError.
    """

    def __init__(
        self,
        schema: type[SchemaT] | UnionType | dict[str, Any],
        *,
        tool_message_content: str | None = None,
        handle_errors: HandleErrors = True,
        max_retries: int = MAX_RETRIES,
    ) -> None:
        _check_count(max_retries)
        _check_handle_errors(handle_errors)
        self.schema = schema
        self.schema_specs = specs_of(schema)
        self.tool_message_content = tool_message_content
        self.handle_errors = handle_errors
        self.max_retries = max_retries

    @cached_property
    def bindings(self) -> dict[str, OutputToolBinding[SchemaT]]:
        """The output tools by name."""
        return {spec.name: OutputToolBinding(spec) for spec in self.schema_specs}

    def read(self, message: AIMessage, failures: int) -> tuple[list[BaseMessage], Any]:
        """What a model's answer comes to: the messages that answer it, and the parsed value.

        Args:
            message: The model's answer.
            failures: How often it was already asked again in this run.

        Raises:
            StructuredOutputError: The answer cannot be used and `handle_errors` does not cover it.
            OutputError: It was asked again `max_retries` times.
        """
        made = [*message.tool_calls, *message.invalid_tool_calls]
        calls: list[Any] = [call for call in made if call["name"] in self.bindings]
        try:
            if not made:
                how = f"Call {' or '.join(self.bindings)} to give it."
                raise MissingStructuredOutputError(list(self.bindings), message, how)
            if len(calls) > 1:
                raise MultipleStructuredOutputsError([call["name"] for call in calls], message)
            return self._read_one(message, calls[0]) if calls else ([], None)
        except StructuredOutputError as error:
            text = _explain(self.handle_errors, error)
            _cap(self.max_retries, failures, error)
            return _explanations(text, calls), None

    def _read_one(self, message: AIMessage, call: Any) -> tuple[list[BaseMessage], Any]:
        name = call["name"]
        try:
            if isinstance(call["args"], str):
                raise ValueError(f"its arguments are no JSON: {call['args']}")
            value = self.bindings[name].parse(call["args"])
        except Exception as error:  # a schema's own checks may raise anything
            raise StructuredOutputValidationError(name, error, message) from error
        content = self.tool_message_content or f"Returning structured response: {value}"
        return [ToolMessage(content, tool_call_id=call["id"], name=name)], value


class ProviderStrategy(Generic[SchemaT]):
    """The provider makes the model answer in the schema.

    Args:
        schema: A schema.
        strict: Passed to the provider where it is not None.
    """

    handle_errors: HandleErrors = True
    max_retries: int = MAX_RETRIES

    def __init__(
        self, schema: type[SchemaT] | dict[str, Any], *, strict: bool | None = None
    ) -> None:
        self.schema = schema
        self.schema_spec = SchemaSpec(schema)
        self.strict = strict
        _ = self.schema_spec.kind, self.schema_spec.json_schema

    @cached_property
    def binding(self) -> ProviderStrategyBinding[SchemaT]:
        """What reads the provider's answer."""
        return ProviderStrategyBinding(self.schema_spec)

    def to_model_kwargs(self) -> dict[str, Any]:
        """The keyword arguments that ask a provider for the schema."""
        strict = {} if self.strict is None else {"strict": self.strict}
        spec = {"name": self.schema_spec.name, "schema": self.schema_spec.json_schema, **strict}
        return {"response_format": {"type": "json_schema", "json_schema": spec}}

    def read(self, message: AIMessage, failures: int) -> tuple[list[BaseMessage], Any]:
        """As `ToolStrategy.read`; an answer that calls tools is no answer yet."""
        if message.tool_calls or message.invalid_tool_calls:
            return [], None
        try:
            return [], self.binding.parse(message)
        except StructuredOutputError as error:
            _cap(self.max_retries, failures, error)
            return _explanations(_template(error), ()), None


class AutoStrategy(Generic[SchemaT]):
    """The provider's structured output where the model has it, else the tool strategy.

    Args:
        schema: A schema, or a union (which always means the tool strategy).
    """

    def __init__(self, schema: type[SchemaT] | UnionType | dict[str, Any]) -> None:
        self.schema = schema
        self.by_tool: ToolStrategy[SchemaT] = ToolStrategy(schema)

    @cached_property
    def by_provider(self) -> ProviderStrategy[SchemaT] | None:
        """The provider strategy for the schema; None for a union."""
        specs = self.by_tool.schema_specs
        return ProviderStrategy(specs[0].schema) if len(specs) == 1 else None

    def resolve(self, model: Any) -> ToolStrategy[SchemaT] | ProviderStrategy[SchemaT]:
        """The strategy that suits a model."""
        if self.by_provider is not None and supports_provider_strategy(model):
            return self.by_provider
        return self.by_tool


ResponseFormat = ToolStrategy[SchemaT] | ProviderStrategy[SchemaT] | AutoStrategy[SchemaT]

Strategy = ToolStrategy[Any] | ProviderStrategy[Any] | None
"""A strategy that has been decided for a model."""


def strategy_for(response_format: ResponseFormat[Any] | None, model: Any) -> Strategy:
    """The strategy itself, or the one that AutoStrategy chooses for a model.

    A layer may have put a bare schema into its request, as one may into create_agent.
    """
    wanted = as_response_format(response_format)
    return wanted.resolve(model) if isinstance(wanted, AutoStrategy) else wanted


_PROVIDER_MODELS = re.compile(
    r"gpt-4o|gpt-4\.1|gpt-5|(^|/)o[34](-|$)|grok|claude-(sonnet|opus)-4-[5-9]"
)
"""Model names whose providers document schema-bound answers (OpenAI, xAI and Anthropic docs)."""


def supports_provider_strategy(model: Any) -> bool:
    """Whether a model's profile, or without one its name, promises provider structured output."""
    profile = getattr(model, "profile", None)
    if isinstance(profile, Mapping) and "structured_output" in profile:
        return bool(profile["structured_output"])
    name = getattr(model, "model_name", None) or getattr(model, "model", None)
    return isinstance(name, str) and bool(_PROVIDER_MODELS.search(name.lower()))


def as_response_format(value: Any) -> ResponseFormat[Any] | None:
    """A strategy as it is, a bare schema as AutoStrategy, None as None.

    Raises:
        ArgumentError: It is neither.
    """
    if value is None or isinstance(value, ToolStrategy | ProviderStrategy | AutoStrategy):
        return value
    return AutoStrategy(value)


@dataclass(frozen=True)
class OutputToolBinding(Generic[SchemaT]):
    """A schema as a tool that is never run: its arguments are the answer."""

    spec: SchemaSpec

    @property
    def schema(self) -> Any:
        """The schema as it was given."""
        return self.spec.schema

    @cached_property
    def tool(self) -> BaseTool:
        """What the model is offered."""
        return StructuredTool(
            name=self.spec.name,
            description=self.spec.description or f"Give the answer as {self.spec.name}.",
            args_schema=self.spec.json_schema,
        )

    def parse(self, tool_args: Mapping[str, Any]) -> SchemaT:
        """The arguments of a call as the answer.

        Raises:
            ValueError: They do not fit the schema.
        """
        value: SchemaT = self.spec.parse(tool_args)
        return value


@dataclass(frozen=True)
class ProviderStrategyBinding(Generic[SchemaT]):
    """Reads the text of a provider's structured answer."""

    spec: SchemaSpec

    @property
    def schema(self) -> Any:
        """The schema as it was given."""
        return self.spec.schema

    def parse(self, message: AIMessage) -> SchemaT:
        """The text of a message as the answer.

        Raises:
            MissingStructuredOutputError: The text is no JSON.
            StructuredOutputValidationError: It does not fit the schema.
        """
        try:
            value = json.loads(message.text)
        except ValueError:
            how = f"Give JSON that fits {self.spec.name}, and nothing else."
            raise MissingStructuredOutputError([self.spec.name], message, how) from None
        try:
            parsed: SchemaT = self.spec.parse(value)
        except Exception as error:  # a schema's own checks may raise anything
            raise StructuredOutputValidationError(self.spec.name, error, message) from error
        return parsed


def _explain(handle_errors: HandleErrors, error: StructuredOutputError) -> str:
    """What the model is told of a bad answer.

    Raises:
        StructuredOutputError: The error itself, where `handle_errors` does not cover it.
    """
    if handle_errors is True:
        return _template(error)
    if isinstance(handle_errors, str):
        return handle_errors
    if isinstance(handle_errors, type | tuple):
        causes = (error, getattr(error, "source", None))
        if any(isinstance(cause, handle_errors) for cause in causes):
            return _template(error)
    elif callable(handle_errors):
        return _checked_text(handle_errors, handle_errors(error))
    raise error


def _checked_text(function: Any, text: Any) -> str:
    if isinstance(text, str):
        return text
    name = getattr(function, "__name__", type(function).__name__)
    raise BadReturn(
        f"handle_errors {name}", f"gave {describe(text)}.", "Return the text the model is told."
    )


def _check_count(max_retries: Any) -> None:
    if not isinstance(max_retries, int) or isinstance(max_retries, bool) or max_retries < 0:
        raise ArgumentError(
            "ToolStrategy max_retries",
            f"{describe(max_retries)} is no count.",
            "Give 0 or more.",
            code="AF117",
        )


def _check_handle_errors(value: Any) -> None:
    kinds = value if isinstance(value, tuple) else (value,)
    if isinstance(value, bool | str) or all(
        isinstance(kind, type) and issubclass(kind, Exception) for kind in kinds
    ):
        return
    if not callable(value) or isinstance(value, type):
        raise ArgumentError(
            "ToolStrategy handle_errors",
            f"{describe(value)} cannot handle an error.",
            "Give True, False, a text, exception types or a function of the exception.",
            code="AF117",
        )


def _template(error: StructuredOutputError) -> str:
    return f"Error: {error.reason}\n Please fix your mistakes."


def _cap(max_retries: int, failures: int, error: StructuredOutputError) -> None:
    if failures >= max_retries:
        raise OutputError(
            error.subject,
            f"no valid structured answer (retries: {failures}). Last mistake: {error.reason}",
            "Simplify the schema, describe its fields, or raise max_retries.",
            ai_message=error.ai_message,
            retries=failures,
        ) from error


def _explanations(text: str, calls: Sequence[Any]) -> list[BaseMessage]:
    """The text as an answer to each bad call; to prose, as a word of the user."""
    if not calls:
        return [HumanMessage(text, additional_kwargs=EXPLAINS)]
    return [
        ToolMessage(
            text,
            tool_call_id=call["id"],
            name=call["name"],
            status="error",
            additional_kwargs=EXPLAINS,
        )
        for call in calls
    ]


def is_explanation(message: BaseMessage) -> bool:
    """Whether a message tells the model what was wrong with its structured answer."""
    return message.additional_kwargs.get("lc_source") == EXPLANATION
