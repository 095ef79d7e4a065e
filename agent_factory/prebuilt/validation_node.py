"""ValidationNode: a node that checks tool calls against schemas without running a tool."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from inspect import isroutine
from typing import Any

from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.messages.tool import ToolCall
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import get_executor_for_config, merge_configs, run_in_executor
from langchain_core.tools import BaseTool, StructuredTool, create_schema_from_function
from langchain_core.utils.pydantic import is_basemodel_subclass, is_pydantic_v1_subclass
from pydantic import BaseModel, ValidationError
from pydantic.v1 import ValidationError as ValidationErrorV1

from agent_factory.errors import ArgumentError, SpecError, TurnError, describe, raise_all

Schema = type[BaseModel]
"""A model class of pydantic 2, or one of pydantic 1, which type checkers cannot name with it."""

FormatError = Callable[[BaseException, ToolCall, Schema], str]
"""Writes the message to the model about a call that does not fit its schema."""

_FIX = "Respond after fixing all validation errors."


class NothingToValidate(TurnError, ValueError):
    """The last message for a ValidationNode is not a model's."""

    code = "AF320"


class ValidationNode(Runnable[Any, Any]):
    """Checks the tool calls of the last message against schemas, without running a tool.

    For extraction and custom loops: the graph routes back to the model while a result is
    an error. Each call gets a ToolMessage, in the order of the calls: the validated arguments as
    JSON, or the error and `additional_kwargs={"is_error": True}`. A call with an unknown name or
    with invalid JSON arguments gets an error, too.

    Works as a node, or called with `invoke` or `ainvoke`: a list of messages gives a list of
    results, a state with `messages` gives `{"messages": [...]}`. Validators run in threads.

    Args:
        schemas: Model classes of pydantic 2 or 1 (the call's name is the class's), tools (by their
            name; injected arguments are left out), or functions (by their name).
        format_error: Writes the message to the model, from the error, the call and the schema.
            Default: the error, and a request to respond after fixing it.
        name: The node's name.
        tags: The tags of runs in traces.

    Raises:
        ArgumentError: A schema cannot be used.
        SpecError: Two different schemas have the same name (AF113).

    >>> class Add(BaseModel):
    ...     a: int
    ...     b: int = 0
    >>> call = {"name": "Add", "args": {"a": "2"}, "id": "1"}
    >>> ValidationNode([Add]).invoke([AIMessage("", tool_calls=[call])])[0].content
    '{"a":2,"b":0}'
    """

    def __init__(
        self,
        schemas: Sequence[BaseTool | Schema | Callable[..., object]],
        *,
        format_error: FormatError | None = None,
        name: str = "validation",
        tags: list[str] | None = None,
    ) -> None:
        self.name = name
        self.tags = tags
        self._format_error = format_error
        if isinstance(schemas, str) or not isinstance(schemas, Iterable):
            raise ArgumentError(
                "schemas", f"must be a list, got {describe(schemas)}.", "Pass a list of schemas."
            )
        self.schemas_by_name: dict[str, Schema] = {}
        clashes = []
        for entry in schemas:
            if isinstance(entry, BaseTool):
                key, schema = entry.name, _schema_of_tool(entry)
            elif isinstance(entry, type) and is_basemodel_subclass(entry):
                key, schema = entry.__name__, entry
            elif isroutine(entry):
                key = entry.__name__
                try:
                    args_schema = create_schema_from_function("Validation", entry)
                except (TypeError, ValueError, NameError) as error:
                    reason = f"No schema can be made of {describe(entry)}: {error}"
                    raise _unusable(reason) from error
                tool = StructuredTool(name="Validation", func=entry, args_schema=args_schema)
                schema = _schema_of_tool(tool)
            else:
                raise _unusable(
                    "Unsupported input to ValidationNode. Expected BaseModel, tool or function. "
                    f"Got: {type(entry)}."
                )
            # The same schema may be passed twice, as a tool may be in an agent.
            if self.schemas_by_name.setdefault(key, schema) is not schema:
                clashes.append(
                    SpecError(key, "is the name of two schemas.", "Rename one.", code="AF113")
                )
        raise_all(clashes)

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Any:
        """Check the calls of the last message.

        Raises:
            NothingToValidate: There is no message, or the last message is not an AIMessage.
        """
        # langchain-core also passes the config alone, unlike its annotation.
        return self._call_with_config(self._answer, input, self._tagged(config))  # type: ignore[arg-type]

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Any:
        """Check the calls of the last message in a thread, since validators are sync."""

        async def answer(input: object, config: RunnableConfig) -> object:
            return await run_in_executor(config, self._answer, input, config)

        return await self._acall_with_config(answer, input, self._tagged(config))  # type: ignore[arg-type]

    def _tagged(self, config: RunnableConfig | None) -> RunnableConfig:
        return merge_configs(config, {"tags": self.tags or []})

    def _answer(self, input: object, config: RunnableConfig) -> object:
        if isinstance(input, list):
            messages = input
        elif isinstance(input, Mapping):
            messages = input.get("messages") or []
        else:
            messages = getattr(input, "messages", None) or []
        message = messages[-1] if messages else None
        if not isinstance(message, AIMessage):
            reason, hint = "No message found in input.", "Call the model first."
            if messages:
                reason = f"Last message is not an AIMessage: {describe(message)}."
                hint = "Put the node right after the model."
            raise NothingToValidate("validation", reason, hint)
        # The threads get the context of the run, and `max_concurrency` of the config limits them.
        with get_executor_for_config(config) as executor:
            results = list(executor.map(self._check, message.tool_calls))
        for call in message.invalid_tool_calls:
            if call["id"]:
                problem = call["error"] or "they are not valid JSON"
                text = f"Error: the arguments cannot be read: {problem}\n\n{_FIX}"
                results.append(_refused(call, text))
        return results if isinstance(input, list) else {"messages": results}

    def _check(self, call: ToolCall) -> ToolMessage:
        schema = self.schemas_by_name.get(call["name"])
        if schema is None:
            names = ", ".join(self.schemas_by_name)
            text = f"Error: {call['name']} is not a valid tool, try one of [{names}].\n\n{_FIX}"
            return _refused(call, text)
        # The classes of pydantic 1 have other methods, and no common base with pydantic 2.
        model = schema
        try:
            if is_pydantic_v1_subclass(schema):
                content = model.validate(call["args"]).json()
            else:
                content = model.model_validate(call["args"]).model_dump_json()
            return ToolMessage(content, name=call["name"], tool_call_id=call["id"])
        except (ValidationError, ValidationErrorV1) as error:
            if self._format_error is None:
                return _refused(call, f"{error!r}\n\n{_FIX}")
            return _refused(call, self._format_error(error, call, schema))


def _schema_of_tool(tool: BaseTool) -> Schema:
    schema: object = tool.args_schema
    if schema is None:
        raise _unusable(f"Tool {tool.name} does not have an args_schema defined.")
    if not (isinstance(schema, type) and is_basemodel_subclass(schema)):
        raise _unusable(
            "Validation node only works with tools that have a pydantic BaseModel args_schema. "
            f"Got {tool.name} with args_schema: {schema}."
        )
    call_schema: Any = tool.tool_call_schema
    # The model cannot write injected arguments, so the schema leaves them out.
    return schema if _fields(call_schema) == _fields(schema) else call_schema


def _fields(schema: Any) -> set[str]:
    return set(schema.__fields__ if is_pydantic_v1_subclass(schema) else schema.model_fields)


def _unusable(reason: str) -> ArgumentError:
    return ArgumentError("schemas", reason, "Pass a model class, a tool or a function.")


def _refused(call: Mapping[str, object], content: str) -> ToolMessage:
    return ToolMessage(
        content,
        name=call["name"],
        tool_call_id=call["id"],
        additional_kwargs={"is_error": True},
    )
