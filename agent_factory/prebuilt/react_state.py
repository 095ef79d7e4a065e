"""The state of `create_react_agent`: schemas, and the form for user code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, is_dataclass, make_dataclass
from typing import Annotated, Any, NotRequired, get_type_hints

from langchain_core.messages import AnyMessage, BaseMessage
from langgraph.channels import EphemeralValue
from langgraph.graph.message import add_messages
from langgraph.managed import RemainingSteps
from pydantic import BaseModel, create_model
from typing_extensions import TypedDict, is_typeddict

from agent_factory.errors import describe
from agent_factory.prebuilt.react_errors import ReactArgumentError
from agent_factory.state.schema import TOOL_SIGNALS, Schemas, engine_hints

MODEL_INPUT = "llm_input_messages"
"""The key in which a `pre_model_hook` writes messages for one model call."""

STEPS = "remaining_steps"
"""The key of the super-steps that are left to the run, the one that reads it included."""


class AgentState(TypedDict):
    """The state of `create_react_agent`; extend it with your own keys."""

    messages: Annotated[Sequence[BaseMessage], add_messages]
    remaining_steps: NotRequired[RemainingSteps]


class AgentStatePydantic(BaseModel):
    """`AgentState` as a pydantic model, for instances in hooks, prompts and tools."""

    messages: Annotated[Sequence[BaseMessage], add_messages]
    remaining_steps: RemainingSteps = 25


class AgentStateWithStructuredResponse(AgentState):
    """`AgentState` for an agent with a `response_format`."""

    structured_response: NotRequired[dict[str, Any] | BaseModel]


class AgentStateWithStructuredResponsePydantic(AgentStatePydantic):
    """`AgentStatePydantic` for an agent with a `response_format`."""

    structured_response: dict[str, Any] | BaseModel | None = None


def chosen_schema(schema: Any, *, structured: bool) -> type[object]:
    """The user's schema, or the default schema."""
    if schema is None:
        return AgentStateWithStructuredResponse if structured else AgentState
    keys = keys_of(schema)
    required = {"messages", STEPS} | ({"structured_response"} if structured else set())
    if missing := required - keys.keys():
        raise ReactArgumentError(
            "state_schema",
            f"Missing required key(s) {missing} in state_schema",
            "Extend agent_factory.prebuilt.AgentState.",
        )
    return schema  # type: ignore[no-any-return]


def keys_of(schema: object) -> dict[str, object]:
    """The keys of a schema with their type hints."""
    hint = "Pass a TypedDict, a dataclass or a pydantic model."
    try:
        hints = get_type_hints(schema, include_extras=True)
    except Exception as error:  # evaluating an annotation may raise anything
        reason = f"{describe(schema)} cannot be read as a state schema: {error}"
        raise ReactArgumentError("state_schema", reason, hint) from error
    if not (is_typeddict(schema) or is_dataclass(schema) or hasattr(schema, "model_fields")):
        reason = f"{describe(schema)} cannot be read as a state schema: it is of another kind"
        raise ReactArgumentError("state_schema", reason, hint)
    fields = getattr(schema, "model_fields", hints)
    # The hints of a pydantic model include class variables and private attributes.
    return {key: hint for key, hint in hints.items() if key in fields}


def schemas_of(schema: type[object], *, has_tools: bool, hooked: bool) -> Schemas:
    """The schemas of the graph, of hooks, and of input and output."""
    # mypy accepts TypedDict only with literal arguments.
    make: Any = TypedDict
    keys = keys_of(schema)
    channels = engine_hints(TOOL_SIGNALS) if has_tools else {}
    if hooked:
        # Ephemeral: the messages of one call do not reach the next.
        channels[MODEL_INPUT] = NotRequired[Annotated[list[AnyMessage], EphemeralValue(list)]]
    return Schemas(
        state=make("ReactTurn", {**channels, **keys}),
        hook=make("ReactHook", keys),
        input=schema,
        output=schema,
        written=schema,
    )


def model_schema(schema: type[object], *, hooked: bool) -> type[Any]:
    """The schema for a prompt and a choice of models: with the messages of a hook."""
    if not hooked or MODEL_INPUT in keys_of(schema):
        return schema
    name, messages_type = "CallModelInputSchema", list[AnyMessage]
    if is_typeddict(schema):
        make: Any = TypedDict
        return make(name, {**keys_of(schema), MODEL_INPUT: messages_type})  # type: ignore[no-any-return]
    if is_dataclass(schema):
        definition: Any = (MODEL_INPUT, messages_type, field(default_factory=list))
        return make_dataclass(name, [definition], bases=(schema,))
    fields: Any = {MODEL_INPUT: (messages_type, [])}
    return create_model(name, __base__=schema, **fields)


class View:
    """Converts the state for user code: to a dict, or to an instance of the schema."""

    def __init__(self, schema: type[object]) -> None:
        self._keys = tuple(keys_of(schema))
        self._make = dict if is_typeddict(schema) else schema

    def __call__(self, state: Mapping[str, object]) -> Any:
        """The state in the user's schema."""
        values = {key: state[key] for key in self._keys if key in state}
        # A new run resets the last response to None, which the schema may not allow.
        if values.get("structured_response", ...) is None:
            del values["structured_response"]
        return self._make(**values)
