"""The parts of the demo: the shop, its tools, the desk, who reviews, and what is printed."""

from __future__ import annotations

import io
import sqlite3
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver

from agent_factory import topology_of
from agent_factory.testing import ScriptedChatModel
from tables import each

pytest.importorskip("rich", reason="the extra cli is not installed")

from rich.console import Console

from agent_factory.demo import DemoError
from agent_factory.demo.conversation import Conversation, Decide, Typewriter, decider
from agent_factory.demo.desk import DECLINED, THREAD, build_desk
from agent_factory.demo.run import introduce, show_plan, show_refunds
from agent_factory.demo.shop import Shop, tools_of
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


def test_a_refund_is_a_row_in_the_file_of_the_shop(shop: Shop) -> None:
    assert shop.refund("a-1001 ", 2000)
    with sqlite3.connect(shop.folder / "shop.sqlite") as database:
        assert database.execute("select * from refunds").fetchall() == [("A-1001", 2000)]
    database.close()
    order = shop.order("A-1001")
    assert order is not None
    assert (order.price, order.left) == (3990, 1990)


@each("cents", [-1, 0, 3991, 2**70])
def test_a_refund_is_more_than_nothing_and_not_more_than_the_price(shop: Shop, cents: int) -> None:
    assert not shop.refund("A-1001", cents)
    assert shop.refunds() == []


def test_refunds_of_an_order_add_up_to_its_price_at_most_and_are_kept(shop: Shop) -> None:
    assert shop.refund("A-1001", 2000)
    assert not shop.refund("A-1001", 2000)
    assert shop.refund("A-1001", 1990)
    (shop.folder / "policies" / "returns.txt").write_text("Hats can be returned.\n")
    again = Shop(shop.folder).open()
    assert again.refunds() == [("A-1001", 2000), ("A-1001", 1990)]
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


def test_a_search_in_no_texts_or_in_unreadable_ones_finds_nothing(shop: Shop) -> None:
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


def test_an_approved_refund_is_paid(shop: Shop) -> None:
    talk, screen = conversation(shop, [REFUND, "Paid."])
    talk.say("20 dollars back, please.")
    assert "HumanInTheLoopMiddleware: the run is paused" in screen.text
    assert "refund_order(order_id='A-1001', amount=20)" in screen.text
    assert "a person decides if this call runs" in screen.text
    assert shop.refunds() == [("A-1001", 2000)]
    assert screen.text.endswith("Desk Paid.\n")


def test_a_rejected_refund_is_not_paid_and_is_reported_to_the_model(shop: Shop) -> None:
    model = ScriptedChatModel([REFUND, "Sorry."])
    talk, screen = conversation(shop, model, lambda: "reject")
    talk.say("20 dollars back, please.")
    assert shop.refunds() == []
    report = model.requests[-1].messages[-1]
    assert isinstance(report, ToolMessage)
    assert report.text == DECLINED
    assert DECLINED in screen.text


def test_every_call_of_a_message_is_reviewed(shop: Shop) -> None:
    decisions = iter(["reject", "approve"])
    other = [{"name": "refund_order", "args": {"order_id": "A-1002", "amount": 1}}]
    talk, screen = conversation(shop, [[*REFUND, *other], "Done."], lambda: next(decisions))
    talk.say("Money back!")
    assert screen.text.count("the run is paused") == 2
    assert shop.refunds() == [("A-1002", 100)]


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
