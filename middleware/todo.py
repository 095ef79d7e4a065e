"""A to-do list that the model keeps for itself, and that outlives what it was written in.

The list lies in the state, so neither a summary nor a cleared result can lose it, and it is shown
at each call at the end of the last message. There the provider's prompt cache suffers least: all
that stood before is read from the cache, whereas a list in the system prompt would make the
provider read the whole conversation anew with each change. It is not a message of its own, since
text between tool results and the model's answer leads models to end their turn, and since layers
that look for the user's last message would find the list. What is shown is not written to the
thread.

There is no layer around tools and no hook: the tool itself refuses a second list in one turn, so
no way to it leads past that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal, NotRequired

from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.prebuilt import ToolRuntime
from langgraph.types import Command
from pydantic import ValidationError
from typing_extensions import TypedDict

from agent_factory import AgentMiddleware, AgentState, Flow, ModelRequest, OmitFromInput
from agent_factory.middleware._shared.messages import last_turn, unanswered

__all__ = [
    "DEFAULT_SYSTEM_PROMPT",
    "DEFAULT_TOOL_DESCRIPTION",
    "PlanningState",
    "Todo",
    "TodoListMiddleware",
]

DEFAULT_SYSTEM_PROMPT: Final = """\
You keep a to-do list with the tool write_todos. Use it where a task takes several steps, so that \
none is forgotten and the user can follow; do without it where one or two steps are enough. Write \
the list before you start. Mark an item in_progress when you begin it and completed as soon as it \
is done, one at a time rather than all at the end. Change the list when you learn that the plan \
was wrong. Before your final answer, see to it that nothing is left open, or say what is."""

DEFAULT_TOOL_DESCRIPTION: Final = """\
Write the to-do list of the task at hand. What you send replaces the whole list: repeat the items \
that stay, leave out those that no longer matter, and send an empty list when a new task begins.

Each item has a content, what is to be done in one sentence, and a status:
- pending: not begun;
- in_progress: being worked on;
- completed: done, with nothing left to do. Work that failed or was cut short is not completed.

Call it at most once in a message."""

_NAME: Final = "write_todos"

_SHOWN = """\
<todo_list>
Your to-do list as it stands; write_todos replaces it.
{items}
</todo_list>"""

_SECOND = (
    "Error: this list was not written. write_todos was called more than once in one message, and "
    "each call replaces the whole list, so only the first one counts. Call it again, alone, if "
    "the list should change."
)

_MALFORMED = (
    "Error: the list was not written. {problems}. Send the whole list again, each item with a "
    "content (text) and a status (pending, in_progress or completed)."
)

_TOLD: Final = 3
"""Problems that the model is told at once: a long list may have hundreds of the same kind."""


class Todo(TypedDict):
    """An item of a to-do list: what is to be done, and how far it is."""

    content: str
    status: Literal["pending", "in_progress", "completed"]


class PlanningState(AgentState[Any]):
    """The state of an agent with a to-do list.

    Attributes:
        todos: The list as the model last wrote it; absent until then.
    """

    todos: NotRequired[Annotated[list[Todo], OmitFromInput]]


class TodoListMiddleware(AgentMiddleware[PlanningState, Any]):
    """Gives the model a to-do list: a tool to write it, and its newest form at each call.

    The list is the state's `todos`, kept with the thread and handed back with the result. Of
    several lists in one message the first is written; the other calls are answered with an error,
    and so is a list that is malformed, which leaves the old one as it was.

    It works wherever it stands in a stack. After (inside) summarization and context editing the
    list is not counted by them.

    Args:
        system_prompt: When to use the list; put at the end of the system prompt. Empty: nothing
            is said.
        tool_description: What the model is told of the tool.
        name: Tells several instances apart. An agent has one list, so it needs one instance.

    Raises:
        TypeError: An argument is no string.
        ValueError: `tool_description` is empty.

    >>> [tool.name for tool in TodoListMiddleware().tools]
    ['write_todos']
    """

    state_schema = PlanningState

    def __init__(
        self,
        *,
        system_prompt: str = DEFAULT_SYSTEM_PROMPT,
        tool_description: str = DEFAULT_TOOL_DESCRIPTION,
        name: str | None = None,
    ) -> None:
        super().__init__(name=name)
        for argument, value in (
            ("system_prompt", system_prompt),
            ("tool_description", tool_description),
        ):
            if not isinstance(value, str):
                raise TypeError(f"{argument} must be a string, not {value!r}.")
        if not tool_description.strip():
            raise ValueError("tool_description must say what the tool does; it is empty.")
        self.system_prompt = system_prompt
        self.tool_description = tool_description
        self.tools = [_tool(tool_description)]
        self._told: tuple[SystemMessage | None, str, SystemMessage | None] | None = None

    def around_model(self, request: ModelRequest[Any]) -> Flow[Any]:
        """Asks the model with the instructions and the list."""
        state: Any = request.state
        system = self._instructed(request.system_message)
        messages = _reminded(request.messages, state.get("todos") or [])
        return (yield request.override(system_message=system, messages=messages))

    def _instructed(self, system: SystemMessage | None) -> SystemMessage | None:
        """The system message with the instructions; the same one for the same in each turn."""
        told, prompt = self._told, self.system_prompt
        if told is None or told[0] is not system or told[1] != prompt:
            told = self._told = system, prompt, _instructed(system, prompt)
        return told[2]


def _tool(description: str) -> BaseTool:
    return StructuredTool.from_function(
        func=write_todos,
        coroutine=awrite_todos,  # or it would take a thread
        name=_NAME,
        description=description,
        handle_validation_error=_explained,
    )


def write_todos(todos: list[Todo], runtime: ToolRuntime) -> Command[Any] | ToolMessage:
    """Write the list, unless an earlier call of the same message does so."""
    call_id = runtime.tool_call_id
    lists = [c["id"] for c in unanswered(*last_turn(runtime.state["messages"])) if _is_list(c)]
    if lists and call_id != lists[0]:
        return _answer(call_id, _SECOND, "error")
    if empty := [index for index, todo in enumerate(todos) if not todo["content"].strip()]:
        problems = f"todos.{empty[0]}.content: it is empty"
        return _answer(call_id, _MALFORMED.format(problems=problems), "error")
    done = sum(todo["status"] == "completed" for todo in todos)
    said = f"The list is written: {done} of {len(todos)} completed."
    return Command(update={"todos": todos, "messages": [_answer(call_id, said)]})


async def awrite_todos(todos: list[Todo], runtime: ToolRuntime) -> Command[Any] | ToolMessage:
    """As `write_todos`; there is nothing to wait for."""
    return write_todos(todos, runtime)


def _is_list(call: Any) -> bool:
    return bool(call["name"] == _NAME)


def _answer(
    call_id: str | None, text: str, status: Literal["success", "error"] = "success"
) -> ToolMessage:
    return ToolMessage(text, tool_call_id=call_id, name=_NAME, status=status)


def _explained(error: ValidationError) -> str:
    problems = [f"{'.'.join(map(str, found['loc']))}: {found['msg']}" for found in error.errors()]
    more = f"; and {len(problems) - _TOLD} more" if len(problems) > _TOLD else ""
    return _MALFORMED.format(problems="; ".join(problems[:_TOLD]) + more)


def _instructed(system: SystemMessage | None, prompt: str) -> SystemMessage | None:
    if not prompt:
        return system
    return SystemMessage(prompt) if system is None else _with_text(system, prompt)


def _reminded(messages: list[AnyMessage], todos: Sequence[Todo]) -> list[AnyMessage]:
    """The messages with the list at the end of the last one."""
    if not todos:
        return messages
    items = "\n".join(f"- [{todo['status']}] {todo['content']}" for todo in todos)
    shown = _SHOWN.format(items=items)
    if not messages or isinstance(messages[-1], AIMessage):
        return [*messages, HumanMessage(shown)]
    return [*messages[:-1], _with_text(messages[-1], shown)]


def _with_text(message: Any, text: str) -> Any:
    """A copy of the message with a text at its end."""
    content = message.content
    if isinstance(content, str):
        told: Any = f"{content}\n\n{text}" if content else text
    else:
        told = [*content, {"type": "text", "text": text}]
    return message.model_copy(update={"content": told})
