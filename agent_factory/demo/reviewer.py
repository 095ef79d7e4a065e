"""The reviewer of refunds."""

from __future__ import annotations

import sys
from collections.abc import Callable

from rich.console import Console
from rich.prompt import Prompt

from agent_factory.demo import DemoError

Decide = Callable[[], str]
"""Returns "approve" or "reject" for each review."""


def decider(console: Console, decide: str | None) -> Decide:
    """The reviewer: a fixed decision, the person at the terminal, or approval without one.

    Args:
        console: The console that asks the person.
        decide: "approve" or "reject" for every review, or None.
    """

    def fixed(decision: str, why: str) -> str:
        console.print(f"[yellow]Reviewer[/] {decision} [dim]({why})[/]")
        return decision

    def ask() -> str:
        choices = ["approve", "reject"]
        title = "[yellow]Reviewer[/], your decision"
        try:
            return Prompt.ask(title, choices=choices, case_sensitive=False, console=console)
        except EOFError as error:  # Ctrl-D
            console.print()
            raise DemoError(
                "The input ended before the refund was decided: answer approve or reject, "
                "or pass --decide."
            ) from error

    if decide is not None:
        return lambda: fixed(decide, "set by --decide")
    if console.is_terminal and sys.stdin is not None and sys.stdin.isatty():
        return ask
    return lambda: fixed("approve", "no terminal to ask at; see --decide")
