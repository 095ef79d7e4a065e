"""A conversation with an agent, printed while it happens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
"""The responses that resume a paused run."""


class Conversation:
    """One thread with an agent, shown on a console.

    Args:
        agent: The agent.
        config: The thread.
        console: Where to print.
        decide: Returns "approve" or "reject" for each review.
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
        """The messages of the thread."""
        return list(self._agent.get_state(self._config).values.get("messages", ()))

    def resume(self) -> None:
        """Finish a review or a run that an earlier process left open."""
        left = self._agent.get_state(self._config)
        if left.tasks:  # `next` lacks tasks whose results are saved but not applied yet
            self._console.print("\nAn earlier run stopped in the middle; it continues here.")
            self._run(self._review(left.interrupts) if left.interrupts else None)

    def say(self, text: str) -> None:
        """Send a message of the customer, and show the run."""
        self._console.print(Text.assemble("\n", ("Customer ", "bold cyan"), text))
        self._run({"messages": [("user", text)]})

    def _run(self, given: Any) -> None:
        """Run until nothing is left to do and nothing to review."""
        while True:
            paused: tuple[Interrupt, ...] = ()
            stream: Any = self._agent.stream(
                given, self._config, stream_mode=["messages", "updates"]
            )
            # A stream that an error leaves open would keep the process from ending.
            with closing(stream):
                for mode, chunk in stream:
                    if mode == "updates":
                        paused = chunk.get("__interrupt__", paused)
                        self._show_update(chunk)
                    elif isinstance(chunk[0], AIMessage):
                        self._desk.write(chunk[0].text)
            if not paused:
                return
            given = self._review(paused)

    def _show_update(self, chunk: Mapping[str, Any]) -> None:
        self._desk.end()
        for node, update in chunk.items():
            messages = update.get("messages", ()) if isinstance(update, Mapping) else ()
            # A summary is made before the model call whose update holds it.
            for message in sorted(messages, key=_is_summary, reverse=True):
                lines = []
                if _is_summary(message):
                    self._console.print(
                        Panel(
                            Text(message.text),
                            title="SummarizationMiddleware: this replaces older messages",
                            subtitle="written by the model; a small one may be wrong",
                            style="dim",
                        )
                    )
                if isinstance(message, AIMessage) and node == "model":
                    lines = [f"calls {_code(c['name'], c['args'])}" for c in message.tool_calls]
                if isinstance(message, ToolMessage):
                    lines = [f"{message.name} -> {message.text}"]
                for line in lines:
                    shown = Padding(Text(line, style="dim"), (0, 0, 0, 2), expand=False)
                    self._console.print(shown)

    def _review(self, paused: Sequence[Interrupt]) -> Command[Any]:
        """Ask for a decision about every call that the run waits for."""
        decisions = []
        for action in paused[0].value["action_requests"]:
            call = _code(action["name"], action["args"])
            title = "HumanInTheLoopMiddleware: the run is paused"
            self._console.print(
                Panel(Text(f"{call}\n{action['description']}"), title=title, border_style="yellow")
            )
            decisions.append(ANSWERS[self._decide()])
        return Command(resume={"decisions": decisions})


def _is_summary(message: BaseMessage) -> bool:
    return message.additional_kwargs.get("lc_source") == "summarization"


def _code(name: str, arguments: Mapping[str, Any]) -> str:
    """A call as code."""
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"
