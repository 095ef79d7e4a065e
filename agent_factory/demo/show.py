"""What the demo prints: each turn as it streams, reviews, summaries."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any

from langchain_core.messages import AIMessageChunk, BaseMessage, ToolMessage
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command
from rich.console import Console
from rich.markup import escape
from rich.panel import Panel
from rich.prompt import Prompt

Decide = Callable[[str], str]
"""What a reviewer is shown becomes "approve" or "reject"."""


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
        self._speaking = False

    def say(self, text: str) -> None:
        """The customer says something; everything that follows is shown."""
        self._console.print(f"\n[bold cyan]Customer[/] {escape(text)}")
        pending: Any = {"messages": [("user", text)]}
        while pending is not None:
            pending = self._run(pending)

    def _run(self, given: Any) -> Command[Any] | None:
        """Stream a run until it ends or pauses; the answer to a pause, if there was one."""
        answer = None
        stream: Any = self._agent.stream(given, self._config, stream_mode=["messages", "updates"])
        # A stream left open by an error would keep the process from ending.
        with closing(stream):
            for mode, chunk in stream:
                if mode == "messages":
                    self._token(chunk[0])
                elif "__interrupt__" in chunk:
                    answer = self._review(chunk["__interrupt__"][0].value)
                else:
                    self._update(chunk)
        self._end_line()
        return answer

    def _token(self, message: BaseMessage) -> None:
        if not isinstance(message, AIMessageChunk) or not message.text:
            return
        if not self._speaking:
            self._console.print("[bold green]Desk[/] ", end="")
            self._speaking = True
        self._console.print(message.text, end="", markup=False, highlight=False)

    def _end_line(self) -> None:
        if self._speaking:
            self._console.print()
            self._speaking = False

    def _update(self, chunk: Mapping[str, Any]) -> None:
        self._end_line()
        for node, update in chunk.items():
            for message in (update or {}).get("messages", ()):
                self._message(node, message)

    def _message(self, node: str, message: BaseMessage) -> None:
        if message.additional_kwargs.get("lc_source") == "summarization":
            self._console.print(Panel(escape(message.text), title="older turns became a summary"))
        for call in getattr(message, "tool_calls", ()) if node == "model" else ():
            self._aside(f"calls {_written(call['name'], call['args'])}")
        if isinstance(message, ToolMessage):
            self._aside(f"{message.name} -> {message.text}")

    def _aside(self, text: str) -> None:
        self._console.print(f"[dim]{escape(text)}[/]")

    def _review(self, request: Mapping[str, Any]) -> Command[Any]:
        self._end_line()
        decisions = []
        for action in request["action_requests"]:
            shown = _written(action["name"], action["args"])
            self._console.print(Panel(escape(shown), title="review", border_style="yellow"))
            decision = self._decide(shown)
            self._console.print(f"[yellow]Reviewer[/] {decision}")
            decisions.append({"type": decision})
        return Command(resume={"decisions": decisions})


def _written(name: str, arguments: Mapping[str, Any]) -> str:
    """A call as code."""
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"


def decider(console: Console, decide: str | None) -> Decide:
    """Who answers reviews: the given decision, the person at the terminal, or approval.

    Args:
        console: Where a person is asked.
        decide: "approve" or "reject", to ask nobody.
    """
    if decide is not None:
        return lambda _: decide
    if sys.stdin is not None and sys.stdin.isatty() and console.is_terminal:
        return lambda _: Prompt.ask("Decide", choices=["approve", "reject"], console=console)
    console.print("[dim]No terminal: reviews are approved. Choose with --decide.[/]")
    return lambda _: "approve"
