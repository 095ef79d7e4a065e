"""Requests of the client of a run: its tools, the tool to call, and the form of the answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.runnables.config import ensure_config

CLIENT_TOOLS: Final = "client_tools"
"""Key of `config["configurable"]`: the tools of the client, each a dict with `name`,
`description` and `parameters`, a JSON schema."""

CLIENT_TOOL_CHOICE: Final = "client_tool_choice"
"""Key of `config["configurable"]`: "required", or the name of the tool that the model has to call;
"auto" or None leave the choice to the model."""

CLIENT_TOOL_CHOICE_AT: Final = "client_tool_choice_at"
"""Key of `config["configurable"]`: the id of the last message of an input that ends with a result.
The choice holds for the answer to this message."""

CLIENT_RESPONSE_FORMAT: Final = "client_response_format"
"""Key of `config["configurable"]`: the JSON schema of the answer, as in `response_format`."""


def client_request(messages: Sequence[AnyMessage]) -> Mapping[str, Any] | None:
    """Return the client's requests since its last result in this turn; None without any.

    Args:
        messages: The messages of the thread.
    """
    return next((settings for settings, _ in _requests(messages)), None)


def _requests(messages: Sequence[AnyMessage]) -> Iterator[tuple[Mapping[str, Any], bool]]:
    """Yield the requests in results of the turn, the newest first; True if no model read them."""
    is_new = True
    for message in reversed(messages):
        if isinstance(message, HumanMessage):
            return
        is_new = is_new and not isinstance(message, AIMessage)
        artifact = getattr(message, "artifact", None)
        if isinstance(artifact, Mapping) and CLIENT_TOOLS in artifact:
            yield artifact, is_new


def settings_of(messages: Sequence[AnyMessage]) -> tuple[Mapping[str, Any], bool]:
    """Return the client's requests, and whether the model is asked for the first time since."""
    for settings in _requests(messages):
        return settings
    config: Mapping[str, Any] = ensure_config().get("configurable", {})
    if not messages:
        return config, True
    last, choice_at = messages[-1], config.get(CLIENT_TOOL_CHOICE_AT)
    # Before its first answer to a user, the model has neither an answer nor a result to read.
    is_first = not isinstance(last, AIMessage | ToolMessage)
    return config, is_first or (choice_at is not None and last.id == choice_at)
