"""A to-do list of the model that survives when messages are summarized.

The list is a key of the state. Each call shows it at the end of the last message, which costs the
cache least. Text after the results would lead models to end their turn.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, NotRequired

from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import InjectedToolCallId, StructuredTool
from langgraph.prebuilt import ToolRuntime
from langgraph.types import Command
from pydantic import ValidationError
from typing_extensions import TypedDict

from agent_factory import AgentMiddleware, AgentState, Flow, ModelRequest, OmitFromInput, Ordering

from ._shared.invocable import tool_of
from ._shared.messages import last_turn, unanswered, with_text
from ._shared.validation import check_string

__all__ = [
    "WRITE_TODOS_SYSTEM_PROMPT",
    "WRITE_TODOS_TOOL_DESCRIPTION",
    "PlanningState",
    "Todo",
    "TodoListMiddleware",
]

WRITE_TODOS_SYSTEM_PROMPT: Final = """\
You keep a to-do list with the tool write_todos. Use it where a task takes several steps, so that \
none is forgotten and the user can follow; do without it where one or two steps are enough. Write \
the list before you start. Mark an item in_progress when you begin it and completed as soon as it \
is done, one at a time rather than all at the end. Change the list when you learn that the plan \
was wrong. Before your final answer, see to it that nothing is left open, or say what is."""

WRITE_TODOS_TOOL_DESCRIPTION: Final = """\
Write the to-do list of the task at hand. What you send replaces the whole list: repeat the items \
that stay, leave out those that no longer matter, and send an empty list when a new task begins.

Each item has a content, what is to be done in one sentence, and a status:
- pending: not begun;
- in_progress: being worked on;
- completed: done, with nothing left to do. Work that failed or was cut short is not completed.

Call it at most once in a message."""

_TOOL_NAME: Final = "write_todos"

_REMINDER = """\
<todo_list>
Your current to-do list; write_todos replaces it.
{items}
</todo_list>"""

_SECOND_CALL = (
    "Error: this list was not written. write_todos was called more than once in one message, and "
    "each call replaces the whole list, so only the first one counts. Call it again, alone, if "
    "the list should change."
)

_FORMAT_ERROR = (
    "Error: the list was not written. {problems}. Send the whole list again, each item with a "
    "content (text) and a status (pending, in_progress or completed)."
)

_MAX_PROBLEMS: Final = 3
"""Problems reported to the model at once: a long list may have hundreds of one kind."""


class Todo(TypedDict):
    """An item of a to-do list: the task, and its status."""

    content: str
    status: Literal["pending", "in_progress", "completed"]


class PlanningState(AgentState):
    """The state of an agent with a to-do list.

    Attributes:
        todos: The list as the model last wrote it; absent until then.
    """

    todos: NotRequired[Annotated[list[Todo], OmitFromInput]]


class TodoListMiddleware(AgentMiddleware[PlanningState, Any]):
    """Gives the model a to-do list: a tool that writes the list, and the current list at each call.

    The list is the key `todos` of the state, kept with the thread and part of the result. If one
    message holds several lists, the first is written and the other calls get an error. A malformed
    list gets an error too and leaves the old list unchanged.

    The middleware works at any position of a stack. After (inside) summarization and context
    editing, these do not count the list.

    Args:
        system_prompt: When to use the list; added at the end of the system prompt. An empty string
            adds nothing.
        tool_description: The description of the tool for the model.
        name: The name of this instance. An agent has one list, and needs one instance.

    Raises:
        TypeError: An argument is not a string.
        ValueError: `tool_description` is empty.

    >>> [tool.name for tool in TodoListMiddleware().tools]
    ['write_todos']
    """

    state_schema = PlanningState

    ordering = Ordering(extends=("system_prompt",))

    def __init__(
        self,
        *,
        system_prompt: str = WRITE_TODOS_SYSTEM_PROMPT,
        tool_description: str = WRITE_TODOS_TOOL_DESCRIPTION,
        name: str | None = None,
    ) -> None:
        super().__init__(name=name)
        check_string("system_prompt", system_prompt)
        check_string("tool_description", tool_description)
        if not tool_description.strip():
            raise ValueError("tool_description must say what the tool does; it is empty.")
        self.system_prompt, self.tool_description = system_prompt, tool_description
        report: Any = {"handle_validation_error": _report_malformed}
        self.tools = [tool_of(write_in_turn, _TOOL_NAME, tool_description, **report)]
        self._cached: tuple[SystemMessage | None, str, SystemMessage | None] | None = None

    def around_model(self, request: ModelRequest[Any]) -> Flow[Any]:
        """Ask the model with the instructions and the list."""
        # Cached, because both are usually the same objects in each turn.
        system, prompt, cached = request.system_message, self.system_prompt, self._cached
        if cached is None or cached[0] is not system or cached[1] != prompt:
            message = system
            if prompt:
                message = with_text(system, prompt) if system else SystemMessage(prompt)
            cached = self._cached = system, prompt, message
        messages = request.messages
        state: Any = request.state
        if todos := state.get("todos"):
            items = "\n".join(f"- [{todo['status']}] {todo['content']}" for todo in todos)
            reminder = _REMINDER.format(items=items)
            # As a part of the last message, unless that is the model's: some providers refuse two
            # messages of the user in a row.
            if not messages or isinstance(messages[-1], AIMessage):
                messages = [*messages, HumanMessage(reminder)]
            else:
                messages = [*messages[:-1], with_text(messages[-1], reminder)]
        return (yield request.override(system_message=cached[2], messages=messages))


def write_in_turn(todos: list[Todo], runtime: ToolRuntime) -> Flow[Command[Any] | ToolMessage]:
    """Write the list, unless an earlier call of the same message does so."""
    yield from ()  # a flow, because an async run would call a function in a thread
    calls = unanswered(*last_turn(runtime.state.get("messages", ())))
    ids = [call["id"] for call in calls if call["name"] == _TOOL_NAME]
    # The calls run in parallel, so their order in the message decides.
    if ids and runtime.tool_call_id != ids[0]:
        return _result(runtime.tool_call_id, _SECOND_CALL, "error")
    return write_list(todos, str(runtime.tool_call_id))


def write_list(
    todos: list[Todo], tool_call_id: Annotated[str, InjectedToolCallId]
) -> Command[Any] | ToolMessage:
    """Write the list, with any other calls in the turn."""
    if empty := [index for index, todo in enumerate(todos) if not todo["content"].strip()]:
        problems = f"todos.{empty[0]}.content: it is empty"
        return _result(tool_call_id, _FORMAT_ERROR.format(problems=problems), "error")
    count = sum(todo["status"] == "completed" for todo in todos)
    text = f"The list is written: {count} of {len(todos)} completed."
    answer = _result(tool_call_id, text, "success")
    return Command(update={"todos": todos, "messages": [answer]})


def _result(call_id: str | None, text: str, status: Literal["success", "error"]) -> ToolMessage:
    return ToolMessage(text, tool_call_id=call_id, name=_TOOL_NAME, status=status)


def _report_malformed(error: ValidationError) -> str:
    problems = [f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors()]
    rest = len(problems) - _MAX_PROBLEMS
    more = f"; and {rest} more" if rest > 0 else ""
    return _FORMAT_ERROR.format(problems="; ".join(problems[:_MAX_PROBLEMS]) + more)


write_todos = StructuredTool.from_function(
    func=write_list,
    name=_TOOL_NAME,
    description=WRITE_TODOS_TOOL_DESCRIPTION,
    handle_validation_error=_report_malformed,
)
"""The tool for use without an agent: `write_todos.invoke(call)`. It knows of no other calls."""
