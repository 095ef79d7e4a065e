"""A conversation with an agent, printed while it happens."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command, Interrupt
from rich.console import Console
from rich.padding import Padding
from rich.panel import Panel
from rich.text import Text

from agent_factory.demo.desk import DECLINED
from agent_factory.demo.reviewer import Decide
from agent_factory.demo.typewriter import Typewriter

ANSWERS = {
    "approve": {"type": "approve"},
    "reject": {"type": "reject", "message": DECLINED},
}
"""What a paused run is told of a decision."""


class Conversation:
    """One thread with an agent, shown on a console.

    Args:
        agent: The agent.
        config: The thread.
        console: Where to print.
        decide: Answers reviews.
    """

    def __init__(
        self,
        agent: CompiledStateGraph[Any, Any, Any, Any],
        config: Mapping[str, Any],
        console: Console,
        decide: Decide,
    ) -> None:
        self._agent = agent
        self._config: Any = config
        self._console = console
        self._decide = decide
        self._desk = Typewriter(console, Text("Desk ", style="bold green"))

    def messages(self) -> list[BaseMessage]:
        """What the thread holds."""
        return list(self._agent.get_state(self._config).values.get("messages", ()))

    def go_on(self) -> None:
        """Finish what an earlier process left open: a review, or a run that was stopped."""
        left = self._agent.get_state(self._config)
        if left.tasks:  # `next` does not name a task whose results are in, but not yet applied
            self._console.print("\nAn earlier run stopped in the middle; here it goes on.")
            self._run(self._review(left.interrupts) if left.interrupts else None)

    def say(self, text: str) -> None:
        """The customer says something; everything that follows is shown."""
        self._console.print(Text.assemble("\n", ("Customer ", "bold cyan"), text))
        self._run({"messages": [("user", text)]})

    def _run(self, given: Any) -> None:
        """Run until nothing is left to do, nor to decide."""
        while paused := self._stream(given):
            given = self._review(paused)

    def _stream(self, given: Any) -> tuple[Interrupt, ...]:
        """Show a run until it ends or pauses; why it paused."""
        paused: tuple[Interrupt, ...] = ()
        stream: Any = self._agent.stream(given, self._config, stream_mode=["messages", "updates"])
        # A stream left open by an error would keep the process from ending.
        with closing(stream):
            for mode, chunk in stream:
                if mode == "messages":
                    self._token(chunk[0])
                else:
                    paused = chunk.get("__interrupt__", paused)
                    self._update(chunk)
        return paused

    def _token(self, message: BaseMessage) -> None:
        if isinstance(message, AIMessage):
            self._desk.write(message.text)

    def _update(self, chunk: Mapping[str, Any]) -> None:
        self._desk.end()
        for node, update in chunk.items():
            if isinstance(update, Mapping):
                self._messages(node, update.get("messages", ()))

    def _messages(self, node: str, messages: Iterable[BaseMessage]) -> None:
        # The summary was made before the call that the same update brings.
        for message in sorted(messages, key=_is_summary, reverse=True):
            if _is_summary(message):
                self._summary(message.text)
            if isinstance(message, AIMessage) and node == "model":
                self._calls(message)
            if isinstance(message, ToolMessage):
                self._aside(f"{message.name} -> {message.text}")

    def _summary(self, text: str) -> None:
        self._console.print(
            Panel(
                Text(text),
                title="SummarizationMiddleware: older messages became this one",
                subtitle="in the model's own words; a small one may be wrong",
                style="dim",
            )
        )

    def _calls(self, message: AIMessage) -> None:
        for call in message.tool_calls:
            self._aside(f"calls {_written(call['name'], call['args'])}")

    def _aside(self, text: str) -> None:
        self._console.print(Padding(Text(text, style="dim"), (0, 0, 0, 2), expand=False))

    def _review(self, paused: Sequence[Interrupt]) -> Command[Any]:
        """Have every call decided that the run waits for."""
        actions = paused[0].value["action_requests"]
        return Command(resume={"decisions": [self._decision(action) for action in actions]})

    def _decision(self, action: Mapping[str, Any]) -> Mapping[str, Any]:
        call = _written(action["name"], action["args"])
        title = "HumanInTheLoopMiddleware: the run is paused"
        self._console.print(
            Panel(Text(f"{call}\n{action['description']}"), title=title, border_style="yellow")
        )
        return ANSWERS[self._decide()]


def _is_summary(message: BaseMessage) -> bool:
    return message.additional_kwargs.get("lc_source") == "summarization"


def _written(name: str, arguments: Mapping[str, Any]) -> str:
    """A call as code."""
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"
