"""Structured answers: schemas, strategies and errors.

A schema is a pydantic model, a dataclass, a TypedDict, a JSON schema dict, alone or in the envelope
of OpenAI's `response_format`, or a union of them. A plain schema means `AutoStrategy`.
"""

from agent_factory.errors import (
    MissingStructuredOutputError,
    MultipleStructuredOutputsError,
    StructuredOutputError,
    StructuredOutputValidationError,
)
from agent_factory.structured_output.strategies import (
    AutoStrategy,
    OutputToolBinding,
    ProviderStrategy,
    ProviderStrategyBinding,
    ResponseFormat,
    SchemaT,
    ToolStrategy,
    supports_provider_strategy,
)

__all__ = [
    "AutoStrategy",
    "MissingStructuredOutputError",
    "MultipleStructuredOutputsError",
    "OutputToolBinding",
    "ProviderStrategy",
    "ProviderStrategyBinding",
    "ResponseFormat",
    "SchemaT",
    "StructuredOutputError",
    "StructuredOutputValidationError",
    "ToolStrategy",
    "supports_provider_strategy",
]
