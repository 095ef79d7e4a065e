"""Background tools: tools whose calls return at once, and whose results arrive later."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, get_args

from langchain_core.tools import BaseTool

from agent_factory.errors import ArgumentError, SpecError, describe
from agent_factory.tools.client_tool import ClientTool
from agent_factory.tools.registry import BACKGROUND, as_tool
from agent_factory.topology.model import OnLoss

_OWNER: Final = "BackgroundMiddleware"

_REMARK = (
    "It works in the background: a call returns an id at once, and its result arrives later as a "
    "message. Go on meanwhile with what does not need the result."
)
"""Text for the model after the description of the tool."""


def background(
    tool: BaseTool | Callable[..., Any], *, timeout: float = 600.0, on_loss: OnLoss = "report"
) -> BaseTool:
    """Return a tool whose calls return at once, and whose result arrives as a message.

    The agent needs `BackgroundMiddleware`, which does the work in this process. Name, arguments and
    labels stay, and the description says how the tool works. A tool of `agent_tool`
    makes a subagent in the background. Outside of an agent, the tool works as before.

    Args:
        tool: A function with a docstring, or a tool.
        timeout: The longest time of one call, in seconds. An unfinished call is reported to the
            model as an error then.
        on_loss: The fate of a call in a service whose worker has died or was stopped. "report": the
            model reads that the call is lost, with an unknown effect. "repeat": another worker
            makes the call again, within the same `timeout`, until three workers have died during
            the call. The work may be done twice then, so the tool must allow this. Without a
            service, lost calls are reported.

    Raises:
        ArgumentError: The tool cannot work in the background, `timeout` is not positive, or
            `on_loss` is neither "report" nor "repeat".

    >>> from agent_factory import create_agent
    >>> from agent_factory.middleware import BackgroundMiddleware
    >>> from agent_factory.testing import ScriptedChatModel
    >>> from langgraph.checkpoint.memory import InMemorySaver
    >>> def render(page: int) -> str:
    ...     "Render a page."
    ...     return f"Page {page} is rendered."
    >>> model = ScriptedChatModel([[{"name": "render", "args": {"page": 1}}], "I wait.", "Done."])
    >>> agent = create_agent(
    ...     model,
    ...     [background(render)],
    ...     middleware=[BackgroundMiddleware()],
    ...     checkpointer=InMemorySaver(),
    ... )
    >>> thread = {"configurable": {"thread_id": "1"}}
    >>> result = agent.invoke({"messages": "Render page 1."}, thread)
    >>> print(result["messages"][-2].text.splitlines()[-1])
    Page 1 is rendered.
    """
    entry = as_tool(tool, "background")
    subject = f"background {entry.name!r}"
    if isinstance(entry, ClientTool):
        reason = "is run by the client of the agent, and waits for it already."
        raise ArgumentError(subject, reason, "Pass the client tool itself.", code="AF112")
    if entry.return_direct:
        reason = "has return_direct, so its result would end a run that has gone on."
        raise ArgumentError(subject, reason, "Leave return_direct out.", code="AF112")
    # In Python, True is an int, and NaN is neither more nor less than a number.
    is_number = isinstance(timeout, int | float) and not isinstance(timeout, bool)
    if not is_number or not math.isfinite(timeout) or timeout <= 0:
        reason = f"timeout must be a positive number of seconds, got {describe(timeout)}."
        raise ArgumentError(subject, reason, "Write background(tool, timeout=600).")
    if on_loss not in get_args(OnLoss):
        reason = f'on_loss must be "report" or "repeat", got {describe(on_loss)}.'
        raise ArgumentError(subject, reason, 'Write background(tool, on_loss="repeat").')
    if background_timeout(entry) is not None:
        raise ArgumentError(subject, "is a background tool already.", "Wrap the tool once.")
    settings = {"timeout": float(timeout), "on_loss": on_loss}
    update = {
        "description": f"{entry.description}\n\n{_REMARK}",
        "extras": {**(entry.extras or {}), BACKGROUND: settings},
    }
    return entry.model_copy(update=update)


def background_timeout(tool: object) -> float | None:
    """Return the longest time of a call of a background tool, in seconds; None for other tools.

    >>> background_timeout(background(print, timeout=5))
    5.0
    >>> background_timeout(print)
    """
    seconds: float | None = _settings(tool).get("timeout")
    return seconds


def background_on_loss(tool: object) -> OnLoss | None:
    """Return the fate of a lost call of a background tool; None for other tools.

    >>> background_on_loss(background(print, on_loss="repeat"))
    'repeat'
    >>> background_on_loss(print)
    """
    on_loss: OnLoss | None = _settings(tool).get("on_loss")
    return on_loss


def _settings(tool: object) -> dict[str, Any]:
    extras = tool.extras if isinstance(tool, BaseTool) else None
    return (extras or {}).get(BACKGROUND) or {}


def background_without_worker(
    tools: Iterable[BaseTool], members: Iterable[Any]
) -> Iterator[SpecError]:
    """Find background tools in a stack without the middleware for their work."""
    if any(base.__name__ == _OWNER for member in members for base in type(member).__mro__):
        return
    for tool in tools:
        if background_timeout(tool) is not None:
            reason = f"works in the background, which {_OWNER} does, and it is not in the stack."
            hint = f"Add {_OWNER}() to `middleware`."
            yield SpecError(tool.name, reason, hint, code="AF118")
