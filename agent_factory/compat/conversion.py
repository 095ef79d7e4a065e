"""Values of LangChain's agents made ours, and ours theirs: requests, responses, formats, schemas.

They are known by shape and by name. Where such a value exists, the modules it comes from are
loaded, so nothing of LangChain is ever imported here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import lru_cache, wraps
from importlib import import_module
from types import ModuleType
from typing import Annotated, Any, NotRequired, Required, cast, get_args, get_origin, get_type_hints

from langchain_core.language_models import BaseChatModel
from typing_extensions import TypedDict, is_typeddict

from agent_factory import errors
from agent_factory.errors import (
    MultipleStructuredOutputsError,
    StructuredOutputValidationError,
)
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

MISSING = (
    "Please install langchain (`pip install langchain`) to use '<provider>:<model>' string "
    "syntax for `model` parameter."
)


def init_model(model: str | BaseChatModel, **settings: Any) -> BaseChatModel:
    """The chat model itself, or the one that "provider:name" names.

    Args:
        model: A chat model (returned as it is), or a string for langchain's `init_chat_model`.
        **settings: Passed on with a string, such as `temperature`.

    Raises:
        ImportError: A string was given and langchain is not installed.
    """
    if not isinstance(model, str):
        return model
    try:
        module = import_module("langchain.chat_models")
    except ImportError as error:
        raise ImportError(MISSING) from error
    return cast("BaseChatModel", module.init_chat_model(model, **settings))


TYPES = "langchain.agents.middleware.types"
OUTPUT = "langchain.agents.structured_output"


def foreign_request(request: ModelRequest[Any], types: ModuleType) -> Any:
    """Our request as a ModelRequest of theirs, which holds the same objects.

    Args:
        request: Ours.
        types: The module their request comes from.
    """
    fields = {name: getattr(request, name) for name in _REQUEST_FIELDS}
    fields["response_format"] = foreign_format(request.response_format)
    return types.ModelRequest(**fields)


def native_request(theirs: Any, ours: ModelRequest[Any]) -> Any:
    """A request their layer passes inward, as ours; what is no request stays what it is.

    Args:
        theirs: What the layer passes inward.
        ours: The request the layer was called with.
    """
    if isinstance(theirs, ModelRequest) or not all(hasattr(theirs, f) for f in _REQUEST_FIELDS):
        return theirs
    changes = {
        name: value
        for name in _REQUEST_FIELDS
        if (value := getattr(theirs, name)) is not getattr(ours, name)
    }
    for lost in ("state", "runtime"):  # a request made from nothing has none
        if changes.get(lost, ours) is None:
            del changes[lost]
    if "response_format" in changes:
        changes |= _format_changed(changes.pop("response_format"), ours.response_format)
    return ours.override(**changes) if changes else ours


def _format_changed(theirs: Any, ours: ResponseFormat[Any] | None) -> dict[str, Any]:
    if theirs is foreign_format(ours):
        return {}
    return {"response_format": any_format(theirs)}


def foreign_response(response: ModelResponse[Any], types: ModuleType) -> Any:
    """Our response as a ModelResponse of theirs, which holds the same messages."""
    return types.ModelResponse(
        result=response.result, structured_response=response.structured_response
    )


def native_response(value: Any) -> Any:
    """What their layer returned, as ours; what is no response stays what it is."""
    if isinstance(value, ModelResponse | ExtendedModelResponse):
        return value
    if hasattr(value, "model_response") and hasattr(value, "command"):
        return ExtendedModelResponse(native_response(value.model_response), value.command)
    if hasattr(value, "result") and hasattr(value, "structured_response"):
        return ModelResponse(value.result, value.structured_response)
    return value


def any_format(value: Any) -> ResponseFormat[Any] | None:
    """A strategy of theirs as ours; anything else as `as_response_format` takes it.

    Raises:
        InvalidResponseFormat: It is no schema and no strategy.
    """
    return as_response_format(_native_format(value))


def _native_format(value: Any) -> Any:
    match _strategy_name(value):
        case "ToolStrategy":
            return ToolStrategy(
                value.schema,
                tool_message_content=value.tool_message_content,
                handle_errors=_native_handler(value.handle_errors),
            )
        case "ProviderStrategy":
            return ProviderStrategy(value.schema, strict=value.schema_spec.strict)
        case "AutoStrategy":
            return AutoStrategy(value.schema)
        case _:
            return value


def _strategy_name(value: Any) -> str | None:
    names = [kind.__name__ for kind in type(value).__mro__ if kind.__module__ == OUTPUT]
    return names[-1] if names else None


@lru_cache(maxsize=64)  # a layer that leaves the format alone is to be seen to have done so
def foreign_format(ours: ResponseFormat[Any] | None) -> Any:
    """Our strategy as theirs, the same object each time; ours where theirs takes no such schema."""
    output = sys.modules.get(OUTPUT)
    if ours is None or output is None:
        return ours
    try:
        return _foreign_format(ours, output)
    except Exception:  # they may raise anything; a TypedDict of `typing` is one they refuse
        return ours


def _foreign_format(ours: ResponseFormat[Any], output: Any) -> Any:
    match ours:
        case ToolStrategy():
            return output.ToolStrategy(
                ours.schema,
                tool_message_content=ours.tool_message_content,
                handle_errors=ours.handle_errors,
            )
        case ProviderStrategy():
            return output.ProviderStrategy(ours.schema, strict=ours.strict)
        case AutoStrategy():
            return output.AutoStrategy(ours.schema)


def _native_handler(handler: Any) -> Any:
    """Their `handle_errors` for our exceptions: types by name, and a function gets its own."""
    if isinstance(handler, tuple):
        return tuple(map(_native_handler, handler))
    if isinstance(handler, type):
        known = handler.__module__ == OUTPUT
        return getattr(errors, handler.__name__, handler) if known else handler
    return _given_theirs(handler) if callable(handler) else handler


def _given_theirs(handler: Callable[[Exception], Any]) -> Callable[[Exception], Any]:
    @wraps(handler)
    def handle(error: Exception) -> Any:
        return handler(_foreign_error(error))

    return handle


def _foreign_error(error: Exception) -> Exception:
    output: Any = sys.modules.get(OUTPUT)
    made: Exception = error
    if isinstance(error, StructuredOutputValidationError):
        made = output.StructuredOutputValidationError(
            error.tool_name, error.source, error.ai_message
        )
    elif isinstance(error, MultipleStructuredOutputsError):
        made = output.MultipleStructuredOutputsError(error.tool_names, error.ai_message)
    return made


def native_schema(schema: Any) -> Any:
    """A state schema with our marks for theirs, without what it only has from their AgentState.

    A schema in which nothing is theirs stays what it is, and so does what is no TypedDict.
    """
    types = sys.modules.get(TYPES)
    if types is None or not is_typeddict(get_origin(schema) or schema):
        return schema
    try:
        return _native_schema(get_origin(schema) or schema, types.AgentState) or schema
    except Exception:  # annotations that cannot be read: the merge of schemas says which
        return schema


@lru_cache(maxsize=256)  # a stack reads the same few schemas again and again
def _native_schema(schema: Any, standard: Any) -> Any:
    hints = get_type_hints(schema, include_extras=True)
    # Their AgentState has marks of theirs, so whatever extends it has some as well.
    if all(_native_hint(hint) == hint for hint in hints.values()):
        return None
    inherited = get_type_hints(standard, include_extras=True)
    own: Mapping[str, Any] = {
        key: _native_hint(hint) for key, hint in hints.items() if inherited.get(key) != hint
    }
    make: Any = TypedDict
    return make(schema.__name__, dict(own))


def _native_hint(hint: Any) -> Any:
    if get_origin(hint) in (Required, NotRequired):
        return get_origin(hint)[_native_hint(get_args(hint)[0])]
    if get_origin(hint) is not Annotated:
        return hint
    return Annotated[(get_args(hint)[0], *map(_native_mark, hint.__metadata__))]


def _native_mark(mark: Any) -> Any:
    if type(mark).__module__ == TYPES and type(mark).__name__ == OmitFromSchema.__name__:
        return OmitFromSchema(input=mark.input, output=mark.output)
    return mark
