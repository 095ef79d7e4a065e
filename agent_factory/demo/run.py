"""Run the demo: load the model, serve a customer, and let a second process go on."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from langchain_core.messages import BaseMessage
from langgraph.graph.state import CompiledStateGraph
from rich.console import Console
from rich.text import Text

from agent_factory import topology_of
from agent_factory.demo import DemoError
from agent_factory.demo.conversation import Conversation
from agent_factory.demo.desk import LATER, QUESTIONS, THREAD, build_desk
from agent_factory.demo.interrupt import STOPPED, left_to_child
from agent_factory.demo.loading import load, saver_of
from agent_factory.demo.pages import introduce, show_plan, show_refunds
from agent_factory.demo.reviewer import decider
from agent_factory.demo.shop import Shop
from agent_factory.local_model.chat_model import LocalContextOverflowError, LocalModelError


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
        decide: The answer to reviews, "approve" or "reject"; None asks at the terminal.
        workspace: A folder for the shop and the thread; None makes one for this run.
        ask: Only this question, on the thread that the workspace holds.
        model: "local" for the embedded model, or "provider:name".

    Raises:
        DemoError: Something is not installed, or the workspace, the question or the model is
            of no use; the message says which, and what to change.
        SystemExit: Ctrl-C stopped the second process.
    """
    if model != "local" and ":" not in model:
        raise DemoError(f"--model {model} is none. Use local, or provider:name as in openai:gpt-5.")
    if ask is not None and not ask.strip():
        raise DemoError(f"--ask is empty. Ask something, as in --ask {LATER!r}")
    with _folder(workspace) as folder, explained(folder, model):
        _open(folder)
        demo = Demo(console, folder, decide, model)
        demo.serve(kept=workspace is not None) if ask is None else demo.answer(ask)


@contextmanager
def _folder(workspace: Path | None) -> Iterator[Path]:
    if workspace is None:
        with tempfile.TemporaryDirectory(prefix="agent-factory-demo-") as folder:
            yield Path(folder)
    else:
        yield workspace


def _open(folder: Path) -> None:
    try:
        Shop(folder).open()
    except OSError as error:
        raise _unusable(folder, error) from error


@contextmanager
def explained(folder: Path, model: str) -> Iterator[None]:
    """Errors of what is installed, of the workspace and of the model become a DemoError.

    Args:
        folder: The workspace.
        model: As `--model` names it.
    """
    try:
        yield
    except DemoError:
        raise
    except sqlite3.Error as error:
        raise _unusable(folder, error) from error
    except LocalContextOverflowError as error:
        raise DemoError(
            f"The thread in {folder} is too long for the embedded model: {error.tokens} tokens "
            f"of {error.limit}. Begin another one: --workspace DIR"
        ) from error
    except Exception as error:
        if model != "local":
            hint = "Without --model, the embedded model answers."
            raise DemoError(f"The model {model} failed: {error!r}. {hint}") from error
        if isinstance(error, ImportError | LocalModelError):
            raise DemoError(str(error)) from error
        raise  # a mistake of ours: there is nothing to change outside


def _unusable(folder: Path, error: Exception) -> DemoError:
    return DemoError(
        f"The workspace {folder} cannot be used: {error}. "
        "Name a folder that can be written: --workspace DIR"
    )


@dataclass(frozen=True)
class Demo:
    """The demo in a folder.

    Args:
        console: Where to print.
        folder: The workspace.
        decide: The answer to reviews; None asks at the terminal.
        model: As `--model` names it.
    """

    console: Console
    folder: Path
    decide: str | None = None
    model: str = "local"

    def answer(self, question: str) -> None:
        """Answer one question, on the thread that the folder holds."""
        with saver_of(self.folder) as saver:
            self._talk(self._desk(saver), [question])

    def serve(self, *, kept: bool) -> None:
        """Serve the customer, let a second process go on, and show what the database holds.

        Args:
            kept: Whether the folder outlives this run.
        """
        with saver_of(self.folder) as saver:
            introduce(self.console, self.folder, self.model, kept=kept)
            agent = self._desk(saver)
            show_plan(self.console, topology_of(agent))
            self.console.rule("A customer")
            self._talk(agent, QUESTIONS)
        self.console.rule("A second process")
        self.console.print("It is given the folder and a question, and goes on with the thread.")
        self._second_process()
        show_refunds(self.console, Shop(self.folder).refunds())

    def _desk(self, saver: Any) -> CompiledStateGraph[Any, Any, Any, Any]:
        return build_desk(load(self.console, self.model), Shop(self.folder), saver)

    def _talk(self, agent: Any, questions: Iterable[str]) -> None:
        """Say what the thread holds, finish what was left open there, and ask."""
        decide = decider(self.console, self.decide)
        talk = Conversation(agent, THREAD, self.console, decide)
        self.console.print(Text(f"Process {os.getpid()} found {_outline(talk.messages())}"))
        talk.go_on()
        for question in questions:
            talk.say(question)

    def _second_process(self) -> None:
        """Ask once more, in a process that knows only the folder."""
        command = [sys.executable, "-m", "agent_factory.cli", "demo", "--ask", LATER]
        options = ["--workspace", str(self.folder), "--model", self.model]
        decided = ["--decide", self.decide] if self.decide else []
        with left_to_child():
            code = subprocess.run([*command, *options, *decided], check=False).returncode
        if code == STOPPED:
            raise SystemExit(STOPPED)
        if code != 0:
            raise DemoError(f"The second process ended with code {code}; see what it said above.")


def _outline(messages: Sequence[BaseMessage]) -> str:
    if not messages:
        return "an empty thread."
    last = f" The last: {messages[-1].text}" if messages[-1].text else ""
    return f"a thread of {len(messages)} messages.{last}"
