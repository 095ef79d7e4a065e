"""A conversation with the desk, printed as the messages arrive."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langgraph.types import Command, Interrupt
from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.panel import Panel
from rich.prompt import Prompt
from rich.text import Text

from agent_factory.demo import DemoError
from agent_factory.demo.desk import DECLINED, THREAD, Desk

Decide = Callable[[], str]
"""Returns "approve" or "reject" for each review."""

ANSWERS = {
    "approve": {"type": "approve"},
    "reject": {"type": "reject", "message": DECLINED},
}
"""The responses that resume a paused run."""


def decider(console: Console, decide: str | None) -> Decide:
    """The reviewer: a fixed decision, the person at the terminal, or approval without a person."""

    def ask() -> str:
        title = "[yellow]Reviewer[/], your decision"
        try:
            return Prompt.ask(title, choices=[*ANSWERS], case_sensitive=False, console=console)
        except EOFError as error:  # Ctrl-D
            console.print()
            raise DemoError(
                "The input ended before the refund was decided: answer approve or reject, "
                "or pass --decide."
            ) from error

    def decide_alone() -> str:
        why = "set by --decide" if decide else "no terminal to ask at; see --decide"
        console.print(f"[yellow]Reviewer[/] {decide or 'approve'} [dim]({why})[/]")
        return decide or "approve"

    # The output may be a terminal while the input is a pipe, where nobody can answer.
    person = console.is_terminal and sys.stdin is not None and sys.stdin.isatty()
    return ask if person and decide is None else decide_alone


class Conversation:
    """The thread with an agent, shown on a console."""

    def __init__(self, agent: Desk, console: Console, decide: Decide) -> None:
        self._agent = agent
        self._console = console
        self._decide = decide
        self._desk = Typewriter(console)

    def open(self) -> None:
        """Print the end of the thread, and finish a run of an earlier process."""
        left = self._agent.get_state(THREAD)
        messages = left.values.get("messages", ())
        summary = f"a thread of {len(messages)} messages." if messages else "an empty thread."
        if messages and messages[-1].text:
            summary += f" The last: {messages[-1].text}"
        self._console.print(Text(f"Process {os.getpid()} found {summary}"))
        if left.tasks:  # `next` lacks tasks whose results are saved but not applied yet
            self._console.print("\nAn earlier run stopped in the middle; it continues here.")
            self._run(self._review(left.interrupts) if left.interrupts else None)

    def say(self, text: str) -> None:
        """Send a message of the customer, and show the run."""
        self._console.print(Text.assemble("\n", ("Customer ", "bold cyan"), text))
        self._run({"messages": [("user", text)]})

    def _run(self, run_input: object) -> None:
        """Run until nothing is left to do and nothing to review."""
        while True:
            interrupts: tuple[Interrupt, ...] = ()
            stream: Any = self._agent.stream(run_input, THREAD, stream_mode=["messages", "updates"])
            # A stream left open by an error would keep the process from ending.
            with closing(stream):
                for mode, chunk in stream:
                    if mode == "updates":
                        interrupts = chunk.get("__interrupt__", interrupts)
                        self._show_update(chunk)
                    elif isinstance(chunk[0], AIMessage):
                        self._desk.write(chunk[0].text)
            if not interrupts:
                return
            run_input = self._review(interrupts)

    def _show_update(self, chunk: Mapping[str, object]) -> None:
        self._desk.end()
        for node, update in chunk.items():
            messages = update.get("messages", ()) if isinstance(update, Mapping) else ()
            # A summary is made before the model call, and arrives in the same update.
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
                    row = Padding(Text(line, style="dim"), (0, 0, 0, 2), expand=False)
                    self._console.print(row)

    def _review(self, interrupts: Sequence[Interrupt]) -> Command[Any]:
        """Ask for a decision about every waiting call."""
        decisions = []
        for action in interrupts[0].value["action_requests"]:
            call = _code(action["name"], action["args"])
            title = "HumanInTheLoopMiddleware: the run is paused"
            self._console.print(
                Panel(Text(f"{call}\n{action['description']}"), title=title, border_style="yellow")
            )
            decisions.append(ANSWERS[self._decide()])
        return Command(resume={"decisions": decisions})


def _is_summary(message: BaseMessage) -> bool:
    return message.additional_kwargs.get("lc_source") == "summarization"


def _code(name: str, arguments: Mapping[str, object]) -> str:
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"


class Typewriter:
    """Prints pieces of the answers of the desk, and breaks lines between words."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._line = ""
        self._word = ""
        self._speaks = False

    def write(self, text: str) -> None:
        """Print a piece; only complete words appear."""
        # The last piece may be half of a word, and waits for the next chunk.
        *words, self._word = re.split(r"(?<=\s)", self._word + text)
        for word in words:
            self._put(word)

    def end(self) -> None:
        """Print the rest, and end the line."""
        self._put(self._word)
        if self._speaks:
            self._console.print()
        self._line, self._word, self._speaks = "", "", False

    def _put(self, word: str) -> None:
        if word and not self._speaks:
            self._console.print("[bold green]Desk[/] ", end="")
            self._line, self._speaks = "Desk ", True
        if cell_len(self._line + word.rstrip()) > self._console.width:
            self._console.print()
            self._line = ""
        # soft_wrap: rich would wrap each word like the first of a line.
        self._console.print(Text(word), end="", soft_wrap=True)
        self._line = (self._line + word).rpartition("\n")[2]
