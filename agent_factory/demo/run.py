"""Run the demo: load the model, serve a customer, and let a second process go on."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from langchain_core.language_models import BaseChatModel
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

from agent_factory import init_model, topology_of
from agent_factory.demo.desk import EXAMPLES, LATER, QUESTIONS, THREAD, build_desk
from agent_factory.demo.shop import Shop
from agent_factory.demo.show import Conversation, decider


def run_demo(
    *,
    console: Console,
    decide: str | None = None,
    workspace: Path | None = None,
    ask: str | None = None,
    model: str = "local",
) -> None:
    """Serve one customer, and show every step.

    Args:
        console: Where to print.
        decide: The answer to reviews; None asks at the terminal.
        workspace: A folder for the shop and the thread; None makes one for this run.
        ask: Only this question, on the thread that the workspace holds.
        model: "local" for the embedded model, or "provider:name".

    Raises:
        ImportError: An extra is missing; the message names it.
    """
    if workspace is None:
        with tempfile.TemporaryDirectory(prefix="agent-factory-demo-") as folder:
            _serve(console, decide, Path(folder), ask, model)
    else:
        _serve(console, decide, workspace, ask, model)


def _serve(
    console: Console, decide: str | None, workspace: Path, ask: str | None, model: str
) -> None:
    chat = load(console, model)
    with _saver(workspace) as saver:
        agent = build_desk(chat, Shop(workspace).open(), saver)
        conversation = Conversation(agent, THREAD, console, decider(console, decide))
        if ask is not None:
            known = len(agent.get_state(THREAD).values.get("messages", ()))
            console.print(f"\n[bold]Process {os.getpid()}[/] found {known} messages in the thread.")
            conversation.say(ask)
            return
        console.rule("The plan")
        console.print(topology_of(agent).render(), markup=False, highlight=False)
        console.rule("A customer")
        for question in QUESTIONS:
            conversation.say(question)
        console.rule("A second process")
    _second_process(console, workspace, decide, model)


def load(console: Console, model: str) -> BaseChatModel:
    """The chat model, with a progress bar while it loads.

    Raises:
        ImportError: An extra is missing; the message names it.
    """
    if model != "local":
        return init_model(model)
    from agent_factory.local_model import LocalChatModel

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        progress.add_task("Loading the model", total=None)
        chat = LocalChatModel(examples=EXAMPLES)
        chat.load()
        chat.invoke("Hello")  # the first words are the slowest
    return chat


@contextmanager
def _saver(workspace: Path) -> Iterator[Any]:
    try:
        from langgraph.checkpoint.sqlite import SqliteSaver
    except ImportError as error:
        raise ImportError(
            "The demo keeps its thread in SQLite: pip install 'agent-factory[sqlite]'"
        ) from error
    with SqliteSaver.from_conn_string(str(workspace / "thread.sqlite")) as saver:
        yield saver


def _second_process(console: Console, workspace: Path, decide: str | None, model: str) -> None:
    """Ask once more, in a process that knows only the folder."""
    command = [sys.executable, "-m", "agent_factory.cli", "demo", "--workspace", str(workspace)]
    options = ["--ask", LATER, "--model", model, "--decide", decide or "approve"]
    done = subprocess.run(
        [*command, *options],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    console.print(done.stdout, markup=False, highlight=False, end="")
    if done.returncode != 0:
        raise RuntimeError(f"The second process failed:\n{done.stderr}")
