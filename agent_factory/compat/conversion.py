"""Conversion between values of LangChain's agents and ours: requests, responses, formats, schemas.

LangChain's values are recognized by their shape and class name. Where such a value exists, its
modules are loaded already, so LangChain is never imported here.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import wraps
from importlib import import_module
from types import ModuleType
from typing import Annotated, Any, NotRequired, Required, cast, get_args, get_origin, get_type_hints
from weakref import WeakKeyDictionary

from langchain_core.language_models import BaseChatModel
from typing_extensions import TypedDict, is_typeddict

from agent_factory import errors
from agent_factory.errors import MultipleStructuredOutputsError, StructuredOutputValidationError
from agent_factory.structured_output.strategies import (
    AutoStrategy,
    ProviderStrategy,
    ResponseFormat,
    ToolStrategy,
    as_response_format,
)
from agent_factory.types import (
    _REQUEST_FIELDS,
    ExtendedModelResponse,
    ModelRequest,
    ModelResponse,
    OmitFromSchema,
)


def init_model(model: str | BaseChatModel, **settings: Any) -> BaseChatModel:
    """Return a chat model, or create a model from "provider:name".

    Args:
        model: A chat model, which is returned, or a string for langchain's `init_chat_model`.
        **settings: Arguments of `init_chat_model`, such as `temperature`.

    Raises:
        ImportError: `model` is a string and langchain is not installed.
    """
    if not isinstance(model, str):
        return model
    try:
        module = import_module("langchain.chat_models")
    except ImportError as error:
        raise ImportError(
            "Please install langchain (`pip install langchain`) to use '<provider>:<model>' string "
            "syntax for `model` parameter."
        ) from error
    return cast("BaseChatModel", module.init_chat_model(model, **settings))


TYPES = "langchain.agents.middleware.types"
OUTPUT = "langchain.agents.structured_output"


def to_langchain_request(request: ModelRequest[Any], types: ModuleType) -> object:
    """Return LangChain's ModelRequest, of the module `types`, with the same objects."""
    fields = {name: getattr(request, name) for name in _REQUEST_FIELDS}
    fields["response_format"] = to_langchain_format(request.response_format)
    return types.ModelRequest(**fields)


def from_langchain_request(value: object, request: ModelRequest[Any]) -> object:
    """Return our request with the changes in `value`, which a LangChain layer passed on."""
    if isinstance(value, ModelRequest) or not all(hasattr(value, f) for f in _REQUEST_FIELDS):
        return value
    # By identity: an untouched value is the same object.
    changes = {
        name: new
        for name in _REQUEST_FIELDS
        if (new := getattr(value, name)) is not getattr(request, name)
    }
    for name in ("state", "runtime"):  # None if the layer built a request without them.
        if name in changes and changes[name] is None:
            del changes[name]
    if "response_format" in changes:
        response_format = changes.pop("response_format")
        if response_format is not to_langchain_format(request.response_format):
            changes["response_format"] = from_langchain_format(response_format)
    return request.override(**changes) if changes else request


def to_langchain_response(response: ModelResponse, types: ModuleType) -> object:
    """Return LangChain's ModelResponse with the same messages."""
    return types.ModelResponse(
        result=response.result, structured_response=response.structured_response
    )


def from_langchain_response(value: object) -> Any:
    """Return our response for the response of a LangChain layer; other values unchanged."""
    if isinstance(value, ModelResponse | ExtendedModelResponse):
        return value
    if hasattr(value, "model_response") and hasattr(value, "command"):
        return ExtendedModelResponse(from_langchain_response(value.model_response), value.command)
    if hasattr(value, "result") and hasattr(value, "structured_response"):
        return ModelResponse(value.result, value.structured_response)
    return value


_SETTINGS: Mapping[type[ResponseFormat], tuple[str, ...]] = {
    ToolStrategy: ("tool_message_content", "handle_errors"),
    ProviderStrategy: ("strict",),
    AutoStrategy: (),
}
"""Strategies, which LangChain has under the same names, and their settings."""


def from_langchain_format(value: Any) -> ResponseFormat | None:
    """Return our strategy for LangChain's strategy, or for any value of `as_response_format`."""
    names = [cls.__name__ for cls in type(value).__mro__ if cls.__module__ == OUTPUT]
    for kind, fields in _SETTINGS.items():
        # The last: a class of the user may derive from LangChain's class.
        if names and names[-1] == kind.__name__:
            holder = value.schema_spec if kind is ProviderStrategy else value
            settings = {name: getattr(holder, name) for name in fields}
            if "handle_errors" in settings:
                settings["handle_errors"] = _from_langchain_handler(value.handle_errors)
            return kind(value.schema, **settings)
    return as_response_format(value)


def to_langchain_format(strategy: ResponseFormat | None) -> object:
    """Return LangChain's strategy for ours, or ours if LangChain does not accept its schema."""
    # If LangChain's agents are not loaded, no layer can expect their strategies.
    if strategy is None or OUTPUT not in sys.modules:
        return strategy
    if strategy not in _strategies:
        _strategies[strategy] = _converted_strategy(strategy)
    return _strategies[strategy] or strategy


_strategies: WeakKeyDictionary[ResponseFormat, Any] = WeakKeyDictionary()
"""LangChain's strategies by ours, None where it does not accept the schema: the same object each
time shows that a layer did not change the format."""


def _converted_strategy(strategy: ResponseFormat) -> object:
    ours = next(kind for kind in _SETTINGS if isinstance(strategy, kind))
    settings = {name: getattr(strategy, name) for name in _SETTINGS[ours]}
    try:
        kind = getattr(sys.modules[OUTPUT], ours.__name__)
        return cast("object", kind(strategy.schema, **settings))
    except Exception:  # such as for a TypedDict of `typing`
        return None


def _from_langchain_handler(handler: object) -> Any:
    """Convert `handle_errors`: exception types by name, and functions to receive LangChain's."""
    if isinstance(handler, tuple):
        return tuple(map(_from_langchain_handler, handler))
    if isinstance(handler, type):
        from_langchain = handler.__module__ == OUTPUT
        return getattr(errors, handler.__name__, handler) if from_langchain else handler
    if not callable(handler):
        return handler

    @wraps(handler)
    def handle(error: Exception) -> object:
        # The function may check for LangChain's exceptions, from which ours do not derive.
        output: Any = sys.modules.get(OUTPUT)
        if isinstance(error, StructuredOutputValidationError):
            error = output.StructuredOutputValidationError(
                error.tool_name, error.source, error.ai_message
            )
        elif isinstance(error, MultipleStructuredOutputsError):
            error = output.MultipleStructuredOutputsError(error.tool_names, error.ai_message)
        return handler(error)

    return handle


def from_langchain_schema(schema: object) -> Any:
    """Convert the marks of a state schema, and drop keys inherited from LangChain's AgentState."""
    if TYPES not in sys.modules or not is_typeddict(get_origin(schema) or schema):
        return schema
    typed = get_origin(schema) or schema
    try:
        if typed not in _schemas:
            _schemas[typed] = _converted_schema(typed)
        return _schemas[typed] or schema
    except Exception:  # The merge of schemas reports annotations that cannot be read.
        return schema


_schemas: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
"""Converted schemas, None where nothing is to be converted: middleware mostly share a few."""


def _converted_schema(schema: Any) -> object:
    hints = get_type_hints(schema, include_extras=True)
    # LangChain's AgentState has marks, so each subclass has marks as well.
    if all(_converted_hint(hint) == hint for hint in hints.values()):
        return None
    base_hints = get_type_hints(sys.modules[TYPES].AgentState, include_extras=True)
    # mypy accepts TypedDict only with literal arguments.
    make: Any = TypedDict
    return make(
        schema.__name__,
        {key: _converted_hint(h) for key, h in hints.items() if base_hints.get(key) != h},
    )


def _converted_hint(hint: Any) -> object:
    if get_origin(hint) in (Required, NotRequired):
        return get_origin(hint)[_converted_hint(get_args(hint)[0])]
    if get_origin(hint) is not Annotated:
        return hint
    metadata = [
        OmitFromSchema(input=mark.input, output=mark.output)
        if (type(mark).__module__, type(mark).__name__) == (TYPES, OmitFromSchema.__name__)
        else mark
        for mark in hint.__metadata__
    ]
    return Annotated[(get_args(hint)[0], *metadata)]
