"""A chat model that follows a script: no network, no chance, and every request on record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Self

from langchain_core.messages import BaseMessage
from pydantic import Field, PrivateAttr

from agent_factory.testing.fake_model import SpeakingModel, tool_name
from agent_factory.testing.responses import Said, ScriptError, Step, as_said


@dataclass(frozen=True)
class ModelCallRecord:
    """One request as the model received it.

    Args:
        messages: What it was shown, the system message included.
        tools: The names of the tools it was offered.
        kwargs: Everything else it was bound or called with.
    """

    messages: list[BaseMessage]
    tools: list[str] = field(default_factory=list)
    kwargs: dict[str, Any] = field(default_factory=dict)


class ScriptedChatModel(SpeakingModel):
    """Answers by a script, in order.

    A step is a text, a `Reply`, an AIMessage, a list of tool calls (dicts with `name` and `args`;
    ids are made where they are missing), a structured answer (a pydantic model or dataclass), an
    exception to raise, or a function of the messages that gives one of these. A request beyond the
    script fails, and so does `assert_done` while steps are left; a `with` block asks it at its end.

    >>> with ScriptedChatModel(["Hello!"]) as model:
    ...     model.invoke("Hi").text
    'Hello!'
    >>> model.requests[0].messages[0].text
    'Hi'
    """

    steps: list[Any] = Field(default_factory=list)
    _position: int = PrivateAttr(default=0)
    _requests: list[ModelCallRecord] = PrivateAttr(default_factory=list)
    _beyond: list[str] = PrivateAttr(default_factory=list)
    _lock: Any = PrivateAttr(default_factory=Lock)

    def __init__(self, steps: Sequence[Step | Any] = (), **kwargs: Any) -> None:
        super().__init__(**{"steps": list(steps), **kwargs})

    @property
    def requests(self) -> list[ModelCallRecord]:
        """Every request so far, in order."""
        return self._requests

    @property
    def position(self) -> int:
        """How many steps have been asked for."""
        return self._position

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def rewind(self, position: int = 0) -> None:
        """Go back to a step; the requests from there on are forgotten.

        Args:
            position: How many steps are to count as asked for.
        """
        with self._lock:
            self._position = position
            self._beyond.clear()
            del self._requests[position:]

    def assert_done(self) -> None:
        """Fail if steps of the script were never asked for, or something asked beyond them.

        A retrying layer may have caught the failure of a request beyond the script: it counts here.

        Raises:
            ScriptError: Steps are left, or there were too few.
        """
        if self._beyond:
            raise ScriptError(self._beyond[0])
        left = self.steps[self._position :]
        if left:
            raise ScriptError(f"{len(left)} steps were never asked for; the next is {left[0]!r}.")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: Any) -> None:
        if kind is None:
            self.assert_done()

    def _say(
        self, messages: list[BaseMessage], stop: list[str] | None, kwargs: dict[str, Any]
    ) -> Said:
        with self._lock:
            tools = [tool_name(tool) for tool in kwargs.get("tools", ())]
            rest = {key: value for key, value in kwargs.items() if key != "tools"}
            rest |= {} if stop is None else {"stop": stop}
            self._requests.append(ModelCallRecord(list(messages), tools, rest))
            if self._position >= len(self.steps):
                raise self._too_much(messages)
            step = self.steps[self._position]
            self._position += 1
            number = self._position
        return as_said(step, messages, tools, number)

    def _too_much(self, messages: list[BaseMessage]) -> ScriptError:
        last = messages[-1] if messages else None
        self._beyond.append(
            f"request {self._position + 1} has no step; the last message was {last!r}"
        )
        return ScriptError(self._beyond[-1])
