"""Strategies for structured answers: requests to a model, and parsers of its answers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from types import UnionType
from typing import Any, Generic, cast

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
from agent_factory.models import chat_models_of, model_name
from agent_factory.providers.endings import CUT_CALL
from agent_factory.structured_output.schema import SchemaSpec, specs_of

SchemaT = TypeVar("SchemaT", default=Any)
"""Type of the structured answer."""

MAX_RETRIES = 3
"""Default number of times that a model is asked again for a structured answer."""

EXPLANATION = "structured_output"
"""`additional_kwargs["lc_source"]` of the messages that report an invalid answer to the model."""

EXPLANATION_KWARGS = {"lc_source": EXPLANATION}

STRUCTURED_RESULT = "Returning structured response: "
"""Beginning of the result of the call that is a structured answer, unless the strategy has another
text."""

HandleErrors = (
    bool | str | type[Exception] | tuple[type[Exception], ...] | Callable[[Exception], str]
)


def _count(max_retries: int) -> int:
    # In Python, True is an int.
    if not isinstance(max_retries, int) or isinstance(max_retries, bool) or max_retries < 0:
        reason = f"must be a non-negative integer, got {describe(max_retries)}."
        raise ArgumentError("max_retries", reason, code="AF117")
    return max_retries


class ToolStrategy(Generic[SchemaT]):
    """Structured answers as arguments of a tool call.

    Args:
        schema: A schema, or a union of schemas; each becomes a tool. The `strict` of an envelope is
            for providers, and has no effect on a tool.
        tool_message_content: Content of the tool message that answers the call. Default: the
            parsed value.
        handle_errors: The effect of an invalid answer:

            - True: the error is reported to the model, which tries again.
            - A string: the string is reported instead.
            - An exception type or a tuple of them: only such errors are reported.
            - A function of the exception: its result is reported.
            - False: the error is raised.
        max_retries: How many times in a run the model tries again before OutputError is raised.

    Raises:
        ArgumentError: An argument cannot be used.
    """

    def __init__(
        self,
        schema: type[SchemaT] | UnionType | dict[str, Any],
        *,
        tool_message_content: str | None = None,
        handle_errors: HandleErrors = True,
        max_retries: int = MAX_RETRIES,
    ) -> None:
        types = handle_errors if isinstance(handle_errors, tuple) else (handle_errors,)
        only_errors = all(isinstance(t, type) and issubclass(t, Exception) for t in types)
        function = callable(handle_errors) and not isinstance(handle_errors, type)
        if not (isinstance(handle_errors, bool | str) or only_errors or function):
            raise ArgumentError(
                "ToolStrategy handle_errors",
                "must be a bool, a string, exception types or a function of the exception, got "
                f"{describe(handle_errors)}.",
                code="AF117",
            )
        self.schema = schema
        self.schema_specs = specs_of(schema)
        self.tool_message_content = tool_message_content
        self.handle_errors = handle_errors
        self.max_retries = _count(max_retries)

    @cached_property
    def bindings(self) -> dict[str, OutputToolBinding[SchemaT]]:
        """Output tools by name."""
        return {spec.name: OutputToolBinding(spec) for spec in self.schema_specs}

    def read(self, message: AIMessage, failures: int) -> tuple[list[BaseMessage], Any]:
        """Parse an answer of the model.

        Args:
            message: The answer.
            failures: How many times the model was asked again in this run.

        Returns:
            The messages that answer the model, and the parsed value or None.

        Raises:
            StructuredOutputError: The answer is invalid, and `handle_errors` does not cover it.
            OutputError: The model was asked again `max_retries` times.
        """
        all_calls = [*message.tool_calls, *message.invalid_tool_calls]
        calls: list[Any] = [call for call in all_calls if call["name"] in self.bindings]
        try:
            if not all_calls:
                # Prompts ask for JSON, too. JSON for two schemas of a union is not an answer.
                values = []
                for spec in self.schema_specs:
                    with suppress(StructuredOutputError):
                        values.append(ProviderStrategyBinding[SchemaT](spec).parse(message))
                if len(values) == 1 and values[0] is not None:
                    return [], values[0]
                how = f"Call {' or '.join(self.bindings)} to give it."
                raise MissingStructuredOutputError(list(self.bindings), message, how)
            if len(calls) > 1:
                raise MultipleStructuredOutputsError([call["name"] for call in calls], message)
            # Other tools were called. The structured answer may come in a later turn.
            if not calls:
                return [], None
            name, args = calls[0]["name"], calls[0]["args"]
            try:
                # Arguments of an invalid call are the text of the model.
                if isinstance(args, str):
                    if (cause := calls[0].get("error")) != CUT_CALL:
                        cause = f"its arguments are not valid JSON: {args}"
                    raise ValueError(cause)
                value = self.bindings[name].parse(args)
            except Exception as error:  # Validators of a schema may raise anything.
                raise StructuredOutputValidationError(name, error, message) from error
        except StructuredOutputError as error:
            return _explanation(self, failures, error, calls), None
        content = self.tool_message_content or f"{STRUCTURED_RESULT}{value}"
        return [ToolMessage(content, tool_call_id=calls[0]["id"], name=name)], value


class ProviderStrategy(Generic[SchemaT]):
    """Structured answers by the structured output of the provider.

    Args:
        schema: A schema.
        strict: Passed to the provider, unless it is None. Default: the `strict` of the
            schema's envelope, if any.
        max_retries: How many times in a run the model tries again before OutputError is raised.

    Raises:
        ArgumentError: An argument cannot be used.
    """

    handle_errors: HandleErrors = True

    def __init__(
        self,
        schema: type[SchemaT] | dict[str, Any],
        *,
        strict: bool | None = None,
        max_retries: int = MAX_RETRIES,
    ) -> None:
        self.schema = schema
        self.max_retries = _count(max_retries)
        self.schema_spec = SchemaSpec.of(schema, strict)
        self.strict = self.schema_spec.strict
        # Read for its error: an invalid schema is refused when the strategy is made.
        _ = self.schema_spec.json_schema

    @cached_property
    def binding(self) -> ProviderStrategyBinding[SchemaT]:
        """Parser of the provider's answer."""
        return ProviderStrategyBinding(self.schema_spec)

    def to_model_kwargs(self) -> dict[str, Any]:
        """Return the keyword arguments of the model that request the schema."""
        strict = {} if self.strict is None else {"strict": self.strict}
        # The form of OpenAI's API.
        spec = {"name": self.schema_spec.name, "schema": self.schema_spec.json_schema, **strict}
        return {"response_format": {"type": "json_schema", "json_schema": spec}}

    def read(self, message: AIMessage, failures: int) -> tuple[list[BaseMessage], Any]:
        """Parse an answer of the model, as `ToolStrategy.read`; skip an answer with tool calls."""
        if message.tool_calls or message.invalid_tool_calls:
            return [], None
        try:
            return [], self.binding.parse(message)
        except StructuredOutputError as error:
            return _explanation(self, failures, error), None


class AutoStrategy(Generic[SchemaT]):
    """`ProviderStrategy` if the model supports it, otherwise `ToolStrategy`.

    Args:
        schema: A schema, or a union of schemas, which always means `ToolStrategy`.
        max_retries: How many times in a run the model tries again before OutputError is raised.

    Raises:
        ArgumentError: An argument cannot be used.
    """

    def __init__(
        self,
        schema: type[SchemaT] | UnionType | dict[str, Any],
        *,
        max_retries: int = MAX_RETRIES,
    ) -> None:
        self.schema = schema
        self.by_tool: ToolStrategy[SchemaT] = ToolStrategy(schema, max_retries=max_retries)

    @cached_property
    def by_provider(self) -> ProviderStrategy[SchemaT] | None:
        """Provider strategy for the schema, or None for a union."""
        if len(self.by_tool.schema_specs) > 1:
            return None
        (spec,), retries = self.by_tool.schema_specs, self.by_tool.max_retries
        return ProviderStrategy(spec.schema, strict=spec.strict, max_retries=retries)

    def resolve(
        self, model: object, *, with_tools: bool = False
    ) -> ToolStrategy[SchemaT] | ProviderStrategy[SchemaT]:
        """Return the strategy for a model, in a request with tools or without."""
        if (provider := self.by_provider) is None:
            return self.by_tool
        is_supported = supports_provider_strategy(model, with_tools=with_tools)
        return provider if is_supported else self.by_tool


ResponseFormat = ToolStrategy[SchemaT] | ProviderStrategy[SchemaT] | AutoStrategy[SchemaT]

Strategy = ToolStrategy | ProviderStrategy | None
"""Strategy that was chosen for a model."""


def strategy_for(
    response_format: ResponseFormat | None, model: object, *, with_tools: bool
) -> Strategy:
    """Return the strategy for a model; layers may put a plain schema into a request."""
    strategy = as_response_format(response_format)
    if isinstance(strategy, AutoStrategy):
        return strategy.resolve(model, with_tools=with_tools)
    return strategy


# xAI: Grok before version 4 refuses a schema together with tools. Prefixes as in "openai/gpt-5" and
# "us.anthropic.claude-sonnet-4-5", suffixes as in "gpt-4o-mini" and "gpt-5.1".
_PROVIDER_MODELS = re.compile(
    r"(^|[/:.])(gpt-4o|gpt-4\.1|gpt-5|grok-4|claude-(haiku|sonnet|opus)-4-[5-9]|claude-fable-5)"
    r"($|[-.:])"
)
"""Names of models with structured output, from the docs of OpenAI, xAI and Anthropic."""

_GEMINI = re.compile(r"gemini(-(?P<version>\d+))?")


def supports_provider_strategy(model: object, *, with_tools: bool = False) -> bool:
    """Return True if a model has structured output, by its profile or else by its name.

    Args:
        model: A chat model, perhaps with arguments bound to it, or with fallbacks, which must have
            structured output as well.
        with_tools: Whether the request has tools. Gemini models before version 3 refuse a schema
            together with tools.

    >>> from langchain_core.language_models import FakeListChatModel
    >>> model = FakeListChatModel(responses=[], profile={"structured_output": True})
    >>> supports_provider_strategy(model)
    True
    """
    for chat_model in chat_models_of(model):
        name = (model_name(chat_model) or "").lower()
        gemini = _GEMINI.search(name)
        # An alias without a number, such as gemini-flash-latest, may stand for an older model.
        if with_tools and gemini and int(gemini["version"] or 0) < 3:
            return False
        profile = getattr(chat_model, "profile", None)
        # langchain-core 1.x: the provider's package fills the profile, or leaves it empty.
        abilities = profile if isinstance(profile, Mapping) else {}
        if not abilities.get("structured_output", _PROVIDER_MODELS.search(name)):
            return False
    return True


def as_response_format(value: Any) -> ResponseFormat | None:
    """Return a strategy or None unchanged, and a plain schema as AutoStrategy."""
    if value is None or isinstance(value, ToolStrategy | ProviderStrategy | AutoStrategy):
        return value
    return AutoStrategy(value)


@dataclass(frozen=True)
class _Binding(Generic[SchemaT]):
    """Form in which a schema is sent to a model."""

    spec: SchemaSpec

    @property
    def schema(self) -> Any:
        """The schema as the user passed it."""
        return self.spec.schema


@dataclass(frozen=True)
class OutputToolBinding(_Binding[SchemaT]):
    """Output tool for a schema. It never runs: the arguments of its call are the answer."""

    @cached_property
    def tool(self) -> BaseTool:
        """Tool that the model can call."""
        return StructuredTool(
            name=self.spec.name,
            description=self.spec.description or f"Give the answer as {self.spec.name}.",
            args_schema=self.spec.json_schema,
        )

    def parse(self, tool_args: Mapping[str, object]) -> SchemaT:
        """Return the arguments of a call as an instance of the schema.

        Raises:
            ValueError: The arguments do not match the schema.
        """
        return cast(SchemaT, self.spec.parse(tool_args))


_FENCE = re.compile(r"\s*```(?:json)?\s*\n(.*)```\s*", re.DOTALL)


@dataclass(frozen=True)
class ProviderStrategyBinding(_Binding[SchemaT]):
    """Parser of a text that is a structured answer: JSON, perhaps in a fence of Markdown."""

    def parse(self, message: AIMessage) -> SchemaT:
        """Return the text of a message as an instance of the schema.

        Raises:
            MissingStructuredOutputError: The text is not JSON.
            StructuredOutputValidationError: The JSON does not match the schema.
        """
        fence = _FENCE.fullmatch(message.text)
        try:
            value = json.loads(fence[1] if fence else message.text)
        except ValueError:
            how = f"Answer with JSON that matches {self.spec.name}, and nothing else."
            raise MissingStructuredOutputError([self.spec.name], message, how) from None
        try:
            return cast(SchemaT, self.spec.parse(value))
        except Exception as error:  # Validators of a schema may raise anything.
            raise StructuredOutputValidationError(self.spec.name, error, message) from error


def _explanation(
    strategy: ToolStrategy | ProviderStrategy,
    failures: int,
    error: StructuredOutputError,
    calls: Sequence[Any] = (),
) -> list[BaseMessage]:
    """Return the messages that explain an invalid answer to the model, or raise the error.

    The messages are results of the `calls`; without calls, a message of the user.
    """
    handle_errors = strategy.handle_errors
    text = f"Error: {error.reason}\n Please fix your mistakes."
    if isinstance(handle_errors, str):
        text = handle_errors
    elif isinstance(handle_errors, type | tuple):
        # Users name the exception of their validator, which is the source of ours.
        causes = (error, getattr(error, "source", None))
        if not any(isinstance(cause, handle_errors) for cause in causes):
            raise error
    elif callable(handle_errors):
        text = handle_errors(error)
        if not isinstance(text, str):
            name = getattr(handle_errors, "__name__", type(handle_errors).__name__)
            reason = f"must return a string, got {describe(text)}."
            raise BadReturn(f"handle_errors {name}", reason, "Return what the model should read.")
    elif not handle_errors:
        raise error
    if failures >= strategy.max_retries:
        raise OutputError(
            error.subject,
            f"no valid structured answer (retries: {failures}). Last error: {error.reason}",
            "Simplify the schema, describe its fields, or raise max_retries.",
            ai_message=error.ai_message,
            retries=failures,
        ) from error
    kwargs: Any = {"additional_kwargs": EXPLANATION_KWARGS}
    if not calls:
        return [HumanMessage(text, **kwargs)]
    return [
        ToolMessage(text, tool_call_id=call["id"], name=call["name"], status="error", **kwargs)
        for call in calls
    ]
