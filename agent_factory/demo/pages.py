"""The introduction, the plan and the database, as the demo prints them."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from agent_factory import Topology
from agent_factory.demo.shop import dollars

SMALL = "SmolLM2, a model of 135 million parameters in this process,"


def introduce(console: Console, folder: Path, model: str, *, kept: bool) -> None:
    """Print what will happen, and where.

    Args:
        console: Where to print.
        folder: The workspace.
        model: As `--model` names it.
        kept: Whether the workspace stays after the run.
    """
    who = SMALL if model == "local" else model
    fate = "kept" if kept else "removed at the end; keep one with --workspace DIR"
    console.print(
        Text.assemble(
            ("The support desk of a small shop. ", "bold"),
            "An agent answers a customer with three tools. "
            f"{who} decides which one to call, and with which arguments.\n\n"
            f"Workspace: {folder} ({fate})",
        )
    )
    table = Table.grid(padding=(0, 2))
    table.add_row("  shop.sqlite", "orders and refunds, which the tools read and write")
    table.add_row("  policies", "texts, which a tool searches")
    table.add_row("  thread.sqlite", "the conversation, as a LangGraph checkpoint")
    console.print(table)


def show_plan(console: Console, topology: Topology) -> None:
    """Print the plan of the agent: its nodes and edges."""
    console.rule("The plan")
    console.print(
        "create_agent planned this graph for the middleware: its edges, layers and tools.\n"
    )
    text = topology.render()
    if max(map(len, text.splitlines())) > console.width:
        text = text.replace(" -> ", "\n    -> ").replace(" call: ", " call:\n    ")
    console.print(Text(text))


def show_refunds(console: Console, refunds: list[tuple[str, int]]) -> None:
    """Print the table of refunds from the database."""
    console.rule("The database")
    if not refunds:
        console.print("The table refunds of shop.sqlite is empty: nothing was refunded.")
        return
    table = Table(title="refunds in shop.sqlite", title_justify="left")
    table.add_column("order")
    table.add_column("amount", justify="right")
    for order, cents in refunds:
        table.add_row(order, dollars(cents))
    console.print(table)
