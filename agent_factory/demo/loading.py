"""Load the model and the saver of the demo."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from langchain_core.language_models import BaseChatModel
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from agent_factory import init_model
from agent_factory.demo import DemoError
from agent_factory.demo.desk import EXAMPLES
from agent_factory.local_model import LocalChatModel


def load(console: Console, model: str) -> BaseChatModel:
    """Load the chat model, with a progress bar on a terminal and a line elsewhere.

    Args:
        console: Where to print.
        model: "local" for the embedded model, or "provider:name".

    Raises:
        ImportError: The model's packages are not installed; the message names them.
        LocalModelError: The embedded model cannot be loaded.
    """
    if not console.is_terminal:
        console.print("Loading the model ...")
    columns = (SpinnerColumn(), TextColumn("Loading the model"), BarColumn(), TimeElapsedColumn())
    bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    with bar:
        bar.add_task("", total=None)
        return LocalChatModel(examples=EXAMPLES).load() if model == "local" else init_model(model)


@contextmanager
def saver_of(folder: Path) -> Iterator[Any]:
    """The saver of a folder's thread, on `thread.sqlite`.

    Raises:
        DemoError: The extra `sqlite` is not installed.
        sqlite3.Error: The file cannot be opened.
    """
    try:
        from langgraph.checkpoint.sqlite import SqliteSaver
    except ImportError as error:
        raise DemoError(
            "The demo needs langgraph-checkpoint-sqlite, which is not installed. "
            "Install it with: pip install 'agent-factory[sqlite]'"
        ) from error
    with SqliteSaver.from_conn_string(str(folder / "thread.sqlite")) as saver:
        yield saver
