"""The grammar of guarantees: what each sentence is read into, and which texts are refused."""

from __future__ import annotations

import re
from typing import Any

import pytest

from agent_factory.errors import SpecError
from agent_factory.guarantees import GuaranteeSyntaxError, parse
from agent_factory.guarantees.sentences import (
    FORMS,
    AtMost,
    LoopPasses,
    ModelPasses,
    OnlyAfter,
    PathPasses,
    SeesLast,
    ToolPasses,
)
from environments import ROOT
from tables import each


@each(
    "text, clause",
    [
        ("tool refund passes Review", ToolPasses("refund", ("Review",))),
        ("tool send_* passes a person", ToolPasses("send_*", ("a person",))),
        ("tool clerk/refund passes a guard", ToolPasses("clerk/refund", ("a guard",))),
        ("tool x passes Limit[search]", ToolPasses("x", ("Limit[search]",))),
        ("model passes Budget*", ModelPasses(("Budget*",))),
        ("every loop passes a limit", LoopPasses(("a limit",))),
        ("every loop passes Review", LoopPasses(("Review",))),
        (
            "no path from A.before_model to tools skips model",
            PathPasses("A.before_model", "tools", ("model",)),
        ),
        ("Review sees tool_calls last", SeesLast("Review", "tool_calls")),
        ("PII sees answers last", SeesLast("PII", "answers")),
        ("tool refund only after tool check", OnlyAfter("refund", "check")),
        ("at most 5 model calls", AtMost(5, "model calls", "run")),
        ("at most 5 model calls a thread", AtMost(5, "model calls", "thread")),
        ("at most 0.5 USD a run", AtMost(0.5, "USD", "run")),
        ("at most 30 model calls a ledger", AtMost(30, "model calls", "ledger")),
        ("at most 3 jobs under way a thread", AtMost(3, "jobs under way", "thread")),
        ("at most 3 tool calls", AtMost(3, "tool calls", "run")),
        ("at most 3 calls of search", AtMost(3, "tool calls", "run", "search")),
        ("at most 900 input tokens a thread", AtMost(900, "input tokens", "thread")),
    ],
)
def test_each_form_is_read_into_its_clause(text: str, clause: Any) -> None:
    assert parse(text).clauses == (clause,)


def test_unless_names_more_members_and_joins_sentences_and_spaces_do_not_matter() -> None:
    clause = parse("tool refund passes Review unless Admin or a guard").clauses[0]
    assert clause == ToolPasses("refund", ("Review", "Admin", "a guard"))
    guarantee = parse("model passes A unless B and at most 2 calls of x a thread")
    assert guarantee.clauses == (ModelPasses(("A", "B")), AtMost(2, "tool calls", "thread", "x"))
    guarantee = parse("  tool  refund passes\n a person. ")
    assert str(guarantee) == "tool refund passes a person"


def test_the_page_has_the_forms_with_their_meaning() -> None:
    page = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")
    rows = [f"| `{form.text}` | {form.says} | {form.leaves_open} |" for form in FORMS]
    assert "\n".join(rows) in page


@each(
    "text",
    [
        "",
        "refund passes Review",
        "tool refund",
        "tool refund passes",
        "tool refund passes Review Admin",
        "tool refund passes Review, Admin",
        "every loop ends",
        "no path from start skips A",
        "Review sees everything last",
        "at most many model calls",
        "at most -1 model calls",
        "at most 5 calls",
        "at most 5 model calls a day",
        "Model passes A",
        "tool a passes B and",
    ],
)
def test_what_is_not_a_sentence_is_refused_with_the_forms(text: str) -> None:
    with pytest.raises(GuaranteeSyntaxError) as caught:
        parse(text)
    beginnings = {form.text: re.split(" (?=[A-Z])", form.text)[0] for form in FORMS}
    near = [form for form, words in beginnings.items() if text.lower().startswith(f"{words} ")]
    assert caught.value.hint.startswith(f"Write one of: {'; '.join(near or beginnings)}. ")
    words = ("a person", "a guard", "unless MEMBER", "and", "a thread", "a ledger")
    assert all(f"'{word}'" in caught.value.hint for word in words)
    assert "USD" in caught.value.hint
    assert caught.value.code == "AF128"
    assert isinstance(caught.value, SpecError)


@each(
    "text, words",
    [
        # The error names the part that is wrong.
        ("tool a passes B and tool b passed C", "not a sentence: 'tool b passed C'"),
        # `unless` is for sentences about paths, and followed by members.
        ("at most 5 model calls unless A", "not about paths"),
        ("tool a only after tool b unless C", "not about paths"),
        ("A sees answers last unless B", "not about paths"),
        ("tool a passes B unless it rains", "a member or a condition after `unless`: 'it rains'"),
        (5, "is not a string"),
    ],
)
def test_a_part_that_is_wrong_is_named(text: Any, words: str) -> None:
    with pytest.raises(GuaranteeSyntaxError, match=words):
        parse(text)
