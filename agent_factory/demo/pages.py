"""What the demo explains beside the conversation."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from agent_factory import Topology
from agent_factory.demo.shop import dollars

SMALL = "SmolLM2, a model of 135 million parameters inside this process"


def introduce(console: Console, folder: Path, model: str, *, kept: bool) -> None:
    """Say what will happen, and where.

    Args:
        console: Where to print.
        folder: The workspace.
        model: As `--model` names it.
        kept: Whether the workspace outlives this run.
    """
    who = SMALL if model == "local" else model
    fate = "kept" if kept else "removed at the end; keep one with --workspace DIR"
    console.print(
        Text.assemble(
            ("The support desk of a small shop. ", "bold"),
            "An agent answers a customer with three tools. "
            f"Which one to call, and with what, is decided by {who}.\n\n"
            f"Workspace: {folder} ({fate})",
        )
    )
    table = Table.grid(padding=(0, 2))
    table.add_row("  shop.sqlite", "orders and refunds, which the tools read and write")
    table.add_row("  policies", "texts, which a tool searches")
    table.add_row("  thread.sqlite", "the conversation, as a LangGraph checkpoint")
    console.print(table)


def show_plan(console: Console, topology: Topology) -> None:
    """The plan of the agent: each node, and where a run may go from there."""
    console.rule("The plan")
    console.print(
        "The stack of middleware became this graph: from each node, where a run may go.\n"
    )
    text = topology.render()
    if max(map(len, text.splitlines())) > console.width:
        text = text.replace(" -> ", "\n    -> ").replace(" call: ", " call:\n    ")
    console.print(Text(text))


def show_refunds(console: Console, refunds: list[tuple[str, int]]) -> None:
    """The table of refunds, as the database has it at the end."""
    console.rule("The database")
    if not refunds:
        console.print("The table refunds of shop.sqlite is empty: nothing was paid back.")
        return
    table = Table(title="refunds in shop.sqlite", title_justify="left")
    table.add_column("order")
    table.add_column("amount", justify="right")
    for order, cents in refunds:
        table.add_row(order, dollars(cents))
    console.print(table)
