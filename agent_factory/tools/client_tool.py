"""Client tools: tools whose calls the client of an agent runs, such as a page in a browser."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Annotated, Any, Literal, Self

from langchain_core.messages import ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.types import interrupt
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    RootModel,
    ValidationError,
    model_validator,
)
from typing_extensions import TypedDict

from agent_factory.errors import ArgumentError, InvalidAnswer, describe
from agent_factory.structured_output.json_schema import JsonSchema
from agent_factory.upstream import mark_invalid_resume

CLIENT_CALL: Literal["client_tool_call"] = "client_tool_call"
"""The `type` of an interrupt that waits for the result of a call in the client."""

CLIENT_ID = "client_message_id"
"""Key in the metadata of a result: the client's id of its message."""

MOST_CHARACTERS = 65_536
"""The longest description and schema of a client tool together, as JSON."""

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")

_EXAMPLE = 'Pass "the result", a list of content blocks, or {"error": "what went wrong"}.'


class ClientToolCall(TypedDict):
    """Value of the interrupt at which a call waits for its client.

    Attributes:
        type: Marks the value.
        id: The id of the call.
        name: The tool.
        args: The arguments.
    """

    type: Literal["client_tool_call"]
    id: str
    name: str
    args: dict[str, Any]


def _with_type(block: object) -> object:
    if isinstance(block, Mapping) and isinstance(block.get("type"), str):
        return block
    raise ValueError("a content block is an object with a type")


Block = Annotated[dict[str, Any], BeforeValidator(_with_type)]
"""Content block of a message."""


class ClientToolResult(BaseModel):
    """Result of a call that the client has run, in its complete form.

    Args:
        content: The result, as a text or as content blocks.
        error: The reason why there is no result, for the model, in place of a result.
        id: The client's id of its message with the result. The message of the thread has another
            id, and the client's as `CLIENT_ID` in its metadata.
        request: The client's requests from now on, as `ClientToolsMiddleware` reads them; None
            leaves them unchanged.
    """

    model_config = ConfigDict(extra="forbid")

    content: str | Annotated[list[Block], Field(min_length=1)] | None = None
    error: str | None = None
    id: str | None = None
    request: dict[str, Any] | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.content is None) == (self.error is None):
            raise ValueError("a result has either content or error")
        return self


class _Answer(RootModel[str | Annotated[list[Block], Field(min_length=1)] | ClientToolResult]):
    """Answer to the interrupt: the content of the result alone, or the complete form."""


def read_result(name: str, answer: object) -> ClientToolResult:
    """Read a client's answer to a call.

    Args:
        name: The tool.
        answer: A text, content blocks, `{"error": "..."}`, or the parts of a `ClientToolResult`.

    Raises:
        InvalidAnswer: The answer has another form.

    >>> read_result("page_title", "Orders").content
    'Orders'
    """
    try:
        root = _Answer.model_validate(answer).root
    except ValidationError as error:
        raise _refusal(name, error) from error
    return root if isinstance(root, ClientToolResult) else ClientToolResult(content=root)


def _refusal(name: str, error: ValidationError) -> InvalidAnswer:
    """Return the error for an answer that is not a result."""
    # The first mistake is that the answer is not a string, so its input is the whole answer.
    answer = describe(error.errors(include_url=False)[0]["input"])
    reason = f"the result of the call must be a text, content blocks or an error, got {answer}."
    return InvalidAnswer(name, reason, _EXAMPLE)


class ClientTool(BaseTool):
    """Tool without code: a call pauses the run until the client has sent its result.

    Made by `client_tool`.
    """

    args_schema: dict[str, Any]

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        with _call_of(input):
            return super().invoke(input, config, **kwargs)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        with _call_of(input):
            return await super().ainvoke(input, config, **kwargs)

    def _run(self, /, **args: Any) -> ToolMessage:
        call_id = _call_id.get()
        if problems := JsonSchema(self.args_schema).errors(args):
            text = f"Error: the arguments do not fit {self.name}: {'; '.join(problems)}."
            # In the form in which LangGraph's ToolNode ends its errors.
            text += "\n Please fix your mistakes."
            return ToolMessage(text, name=self.name, tool_call_id=call_id, status="error")
        call = ClientToolCall(type=CLIENT_CALL, id=call_id, name=self.name, args=args)
        try:
            # LangGraph stores an answer as soon as `interrupt` returns, so the schema of the answer
            # checks the answer before. A refused answer can be corrected.
            answer = interrupt(call, response_schema=_Answer).root
        except ValidationError as error:
            raise mark_invalid_resume(_refusal(self.name, error)) from None
        result = read_result(self.name, answer)
        content: Any = result.content if result.error is None else result.error
        return ToolMessage(
            content,
            name=self.name,
            tool_call_id=call_id,
            status="success" if result.error is None else "error",
            artifact=result.request,
            response_metadata={} if result.id is None else {CLIENT_ID: result.id},
        )

    async def _arun(self, /, **args: Any) -> ToolMessage:
        # Nothing here waits: `interrupt` returns a present answer, or raises.
        return self._run(**args)


_call_id: ContextVar[str] = ContextVar("call_id", default="")


@contextmanager
def _call_of(input: object) -> Iterator[None]:
    """Keep the id of a call: BaseTool passes only the arguments on to `_run`."""
    token = _call_id.set(str(input.get("id") or "") if isinstance(input, Mapping) else "")
    try:
        yield
    finally:
        _call_id.reset(token)


def client_tool(
    name: str, description: str, schema: Mapping[str, Any] | type[BaseModel] | None = None
) -> ClientTool:
    """Return a tool whose calls the client of the agent runs.

    A call pauses the run by LangGraph's `interrupt`, whose value is a `ClientToolCall`: its `id`,
    `name` and `args`. The run goes on with `Command(resume=...)`, with the result: a text, content
    blocks, or `{"error": "what went wrong"}`. Another answer is refused, and can be corrected. The
    agent needs a checkpointer.

    Args:
        name: Letters, digits, "_" and "-", at most 64.
        description: When to use the tool, for the model.
        schema: The JSON schema of the arguments, of the type "object", or a class of pydantic; None
            for a tool without arguments. Calls outside of the schema are reported to the model, and
            do not reach the client.

    Raises:
        ArgumentError: An argument cannot be used.

    >>> from langgraph.checkpoint.memory import InMemorySaver
    >>> from langgraph.types import Command
    >>> from agent_factory import create_agent
    >>> from agent_factory.testing import ScriptedChatModel
    >>> model = ScriptedChatModel([[{"name": "page_title"}], "You are looking at orders."])
    >>> title = client_tool("page_title", "The title of the page that the user sees.")
    >>> agent = create_agent(model, [title], checkpointer=InMemorySaver())
    >>> thread = {"configurable": {"thread_id": "1"}}
    >>> waiting = agent.invoke({"messages": "Where am I?"}, thread)["__interrupt__"][0].value
    >>> waiting["name"], waiting["args"]
    ('page_title', {})
    >>> agent.invoke(Command(resume="Orders"), thread)["messages"][-1].text
    'You are looking at orders.'
    """

    def refusal(part: str, reason: str, hint: str = "") -> ArgumentError:
        return ArgumentError(f"client_tool {name!r}: {part}", reason, hint, code="AF112")

    if not isinstance(name, str) or not _NAME.fullmatch(name):
        reason = f"must have 1 to 64 letters, digits, '_' and '-', got {describe(name)}."
        raise refusal("name", reason, 'Pass "page_title", for example.')
    if not isinstance(description, str):
        raise refusal("description", f"must be a string, got {describe(description)}.")
    if isinstance(schema, type) and issubclass(schema, BaseModel):
        schema = schema.model_json_schema()
    if not isinstance(schema, Mapping | None):
        reason = f"must be a JSON schema or a class of pydantic, got {describe(schema)}."
        raise refusal("schema", reason, 'Pass {"type": "object", "properties": {...}}.')
    complete = {"type": "object", "properties": {}, **(schema or {})}
    if complete["type"] != "object":
        reason = f"must be of the type 'object', got {describe(complete['type'])}."
        raise refusal("schema", reason, "Make the value a property of an object.")
    try:
        size = len(json.dumps([description, complete]))
        JsonSchema(complete)
    except (TypeError, ValueError, RecursionError) as error:
        raise refusal("schema", f"is not a JSON schema: {error}.") from error
    if size > MOST_CHARACTERS:
        reason = f"has {size:,} characters as JSON with the description, at most "
        raise refusal("schema", f"{reason}{MOST_CHARACTERS:,} are allowed.", "Shorten it.")
    return ClientTool(name=name, description=description, args_schema=complete)
