"""The state of a `create_react_agent`: its schemas, and how code of its user's sees it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, is_dataclass, make_dataclass
from typing import Annotated, Any, NotRequired, cast, get_type_hints

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
"""What a `pre_model_hook` writes to show the model other messages than those of the state."""

STEPS = "remaining_steps"
"""How many super-steps are left to the run, counting the one that reads it."""


class AgentState(TypedDict):
    """What the state of a `create_react_agent` holds; extend it for keys of your own."""

    messages: Annotated[Sequence[BaseMessage], add_messages]
    remaining_steps: NotRequired[RemainingSteps]


class AgentStatePydantic(BaseModel):
    """`AgentState` as a pydantic model: hooks, prompts and tools get instances of it."""

    messages: Annotated[Sequence[BaseMessage], add_messages]
    remaining_steps: RemainingSteps = 25


class AgentStateWithStructuredResponse(AgentState):
    """`AgentState` for an agent with a `response_format`."""

    structured_response: NotRequired[dict[str, Any] | BaseModel]


class AgentStateWithStructuredResponsePydantic(AgentStatePydantic):
    """`AgentStatePydantic` for an agent with a `response_format`."""

    structured_response: dict[str, Any] | BaseModel | None = None


def chosen_schema(given: Any, *, structured: bool) -> type[Any]:
    """The schema that was given, if it has the keys it must have, or the usual one.

    Raises:
        ReactArgumentError: It lacks one, or is no schema.
    """
    if given is None:
        return AgentStateWithStructuredResponse if structured else AgentState
    keys = keys_of(given)
    required = {"messages", STEPS} | ({"structured_response"} if structured else set())
    if missing := required - keys.keys():
        raise ReactArgumentError(
            "state_schema",
            f"Missing required key(s) {missing} in state_schema",
            "Extend agent_factory.prebuilt.AgentState.",
        )
    return given  # type: ignore[no-any-return]


def keys_of(schema: Any) -> dict[str, Any]:
    """The keys of a schema with their hints.

    Raises:
        ReactArgumentError: It is no schema, or its annotations cannot be read.
    """
    try:
        hints = get_type_hints(schema, include_extras=True)
    except Exception as error:  # whatever an annotation may raise while it is read
        raise _no_schema(schema, str(error)) from error
    if not (is_typeddict(schema) or is_dataclass(schema) or hasattr(schema, "model_fields")):
        raise _no_schema(schema, "it is of another kind")
    fields = getattr(schema, "model_fields", hints)
    return {key: hint for key, hint in hints.items() if key in fields}


def _no_schema(schema: Any, reason: str) -> ReactArgumentError:
    return ReactArgumentError(
        "state_schema",
        f"{describe(schema)} cannot be read as a state schema: {reason}",
        "Write a TypedDict or a pydantic model.",
    )


def schemas_of(schema: type[Any], *, has_tools: bool, hooked: bool) -> Schemas:
    """What each part of the graph reads of the state.

    Args:
        schema: The schema of its author.
        has_tools: Tools may have a word on where the run goes.
        hooked: A hook may choose what the model reads.
    """
    make: Any = TypedDict
    keys = keys_of(schema)
    own = engine_hints(TOOL_SIGNALS) if has_tools else {}
    if hooked:
        # For one step: what a hook chose for one call is nothing to the next.
        own[MODEL_INPUT] = NotRequired[Annotated[list[AnyMessage], EphemeralValue(list)]]
    return Schemas(
        state=make("ReactTurn", {**own, **keys}),
        hook=make("ReactHook", keys),
        input=schema,
        output=schema,
        written=schema,
    )


def model_schema(schema: type[Any], *, hooked: bool) -> type[Any]:
    """What a prompt and a choice of models see: the state, with the messages a hook has chosen."""
    if not hooked or MODEL_INPUT in keys_of(schema):
        return schema
    name = "CallModelInputSchema"
    if is_typeddict(schema):
        make: Any = TypedDict
        made: type[Any] = make(name, {**keys_of(schema), MODEL_INPUT: list[AnyMessage]})
        return made
    if is_dataclass(schema):
        chosen: Any = (MODEL_INPUT, list[AnyMessage], field(default_factory=list))
        return make_dataclass(name, [chosen], bases=(schema,))
    return create_model(name, __base__=schema, **{MODEL_INPUT: cast("Any", (list[AnyMessage], []))})


class View:
    """How code of the user's sees the state: as a dict, or as an instance of its model.

    Args:
        schema: The schema.
    """

    def __init__(self, schema: type[Any]) -> None:
        self._keys = tuple(keys_of(schema))
        self._make = dict if is_typeddict(schema) else schema

    def __call__(self, state: Mapping[str, Any]) -> Any:
        """The state as its author knows it."""
        return self._make(**{key: state[key] for key in self._keys if _is_there(state, key)})


def _is_there(state: Mapping[str, Any], key: str) -> bool:
    # An answer of an earlier run that was taken back is not there; None may be no value of it.
    return key in state and not (key == "structured_response" and state[key] is None)
