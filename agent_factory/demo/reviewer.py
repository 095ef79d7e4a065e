"""Who decides about a refund."""

from __future__ import annotations

import sys
from collections.abc import Callable

from rich.console import Console
from rich.prompt import Prompt

from agent_factory.demo import DemoError

Decide = Callable[[], str]
"""Gives "approve" or "reject", each time somebody has to decide."""


def decider(console: Console, decide: str | None) -> Decide:
    """Who answers reviews: the given decision, the person at the terminal, or approval.

    Args:
        console: Where a person is asked.
        decide: "approve" or "reject", to ask nobody.
    """
    if decide is not None:
        return lambda: _told(console, decide, "as --decide says")
    if console.is_terminal and sys.stdin is not None and sys.stdin.isatty():
        return lambda: _asked(console)
    return lambda: _told(console, "approve", "nobody to ask without a terminal; see --decide")


def _told(console: Console, decision: str, why: str) -> str:
    console.print(f"[yellow]Reviewer[/] {decision} [dim]({why})[/]")
    return decision


def _asked(console: Console) -> str:
    """The answer of the person at the terminal.

    Raises:
        DemoError: The input ended (Ctrl-D).
    """
    choices = ["approve", "reject"]
    try:
        return Prompt.ask(
            "[yellow]Reviewer[/], your decision",
            choices=choices,
            case_sensitive=False,
            console=console,
        )
    except EOFError as error:
        console.print()
        raise DemoError(
            "The input ended before the refund was decided: answer approve or reject, "
            "or give --decide beforehand."
        ) from error
