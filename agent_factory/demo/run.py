"""Run the demo: load the model, serve a customer, and continue in a second process."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
from agent_factory.local_model import LocalContextOverflowError, LocalModelError


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
        ask: Ask only this question, on the thread of the workspace.
        model: "local" for the embedded model, or "provider:name".

    Raises:
        DemoError: A package is not installed, or the workspace, the question or the model
            cannot be used; the message says which, and what to change.
        SystemExit: Ctrl-C stopped the second process.
    """
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
            Shop(folder).open()
        except OSError as error:
            raise _unusable(folder, error) from error
        demo = Demo(console, folder, decide, model)
        demo.serve(kept=workspace is not None) if ask is None else demo.answer(ask)


@contextmanager
def explained(folder: Path, model: str) -> Iterator[None]:
    """Turn errors of packages, of the workspace and of the model into a DemoError.

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
            f"of {error.limit}. Start another one with --workspace DIR."
        ) from error
    except Exception as error:
        if model != "local":
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
        """Answer one question, on the thread of the folder."""
        with saver_of(self.folder) as saver:
            self._talk(self._desk(saver), [question])

    def serve(self, *, kept: bool) -> None:
        """Serve the customer, continue in a second process, and show the database.

        Args:
            kept: Whether the folder stays after the run.
        """
        with saver_of(self.folder) as saver:
            introduce(self.console, self.folder, self.model, kept=kept)
            agent = self._desk(saver)
            show_plan(self.console, topology_of(agent))
            self.console.rule("A customer")
            self._talk(agent, QUESTIONS)
        self.console.rule("A second process")
        self.console.print("It gets the folder and a question, and continues the thread.")
        command = [sys.executable, "-m", "agent_factory.cli", "demo", "--ask", LATER]
        command += ["--workspace", str(self.folder), "--model", self.model]
        if self.decide:
            command += ["--decide", self.decide]
        with left_to_child():
            code = subprocess.run(command, check=False).returncode
        if code == STOPPED:
            raise SystemExit(STOPPED)
        if code != 0:
            raise DemoError(f"The second process ended with code {code}; see its output above.")
        show_refunds(self.console, Shop(self.folder).refunds())

    def _desk(self, saver: Any) -> CompiledStateGraph[Any, Any, Any, Any]:
        return build_desk(load(self.console, self.model), Shop(self.folder), saver)

    def _talk(self, agent: Any, questions: Iterable[str]) -> None:
        """Print the end of the thread, finish what is open there, and ask."""
        decide = decider(self.console, self.decide)
        talk = Conversation(agent, THREAD, self.console, decide)
        messages = talk.messages()
        found = f"a thread of {len(messages)} messages." if messages else "an empty thread."
        if messages and messages[-1].text:
            found += f" The last: {messages[-1].text}"
        self.console.print(Text(f"Process {os.getpid()} found {found}"))
        talk.resume()
        for question in questions:
            talk.say(question)
