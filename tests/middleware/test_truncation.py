"""Laws of cuts: no result without its call, nothing lost, order kept."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from agent_factory import ModelRequest, run
from agent_factory.middleware import SummarizationMiddleware
from agent_factory.middleware._shared.transcript import pages
from agent_factory.middleware.summarization import (
    cut_by_count,
    cut_by_tokens,
    safe_cuts,
)
from agent_factory.testing import ScriptedChatModel
from samples import message_count


@st.composite
def histories(draw: st.DrawFn) -> list[BaseMessage]:
    """Conversations in which results may be missing, late, repeated or strays."""
    messages: list[BaseMessage] = []
    open_calls: list[str] = []
    for index in range(draw(st.integers(0, 25))):
        kind = draw(st.sampled_from(["human", "ai", "calls", "invalid", "tool", "system"]))
        if kind == "tool":
            known = st.sampled_from(open_calls) if open_calls else st.just("stray")
            call = draw(st.one_of(known, st.sampled_from(["stray", "c0", "c1"])))
            messages.append(ToolMessage(f"{index}", tool_call_id=call))
        elif kind in ("calls", "invalid"):
            ids = draw(st.lists(st.sampled_from(["c0", "c1", "c2", "c3"]), min_size=1, max_size=3))
            open_calls += ids
            calls: list[Any] = [{"name": "f", "args": {}, "id": call} for call in ids]
            bad: list[Any] = [{"name": "f", "args": "{", "id": c, "error": ""} for c in ids]
            made = {"tool_calls": calls} if kind == "calls" else {"invalid_tool_calls": bad}
            messages.append(AIMessage(f"{index}", **made))
        else:
            makers = {"human": HumanMessage, "ai": AIMessage, "system": SystemMessage}
            messages.append(makers[kind](f"{index}"))
    return messages


def parted(messages: list[Any], cut: int) -> bool:
    """Whether a kept result belongs to a call that goes: the nearest one before it."""
    for position in range(cut, len(messages)):
        if isinstance(messages[position], ToolMessage):
            for earlier in range(position - 1, -1, -1):
                message = messages[earlier]
                if isinstance(message, AIMessage) and messages[position].tool_call_id in [
                    call["id"] for call in (*message.tool_calls, *message.invalid_tool_calls)
                ]:
                    if earlier < cut:
                        return True
                    break
    return False


@given(histories())
def test_a_safe_cut_separates_no_result_from_its_call_and_no_safe_cut_is_missed(
    messages: list[Any],
) -> None:
    wanted = [cut for cut in range(len(messages)) if not parted(messages, cut)]
    assert safe_cuts(messages) == wanted


@given(histories(), st.integers(1, 30))
def test_a_cut_by_count_keeps_at_least_what_was_asked_for(messages: Any, keep: int) -> None:
    cut = cut_by_count(messages, keep)
    assert not parted(messages, cut)
    assert len(messages) - cut >= min(keep, len(messages))
    assert not [c for c in safe_cuts(messages) if cut < c <= len(messages) - keep]


@given(histories(), st.integers(0, 30))
def test_a_cut_by_tokens_keeps_as_much_as_fits_and_at_least_the_last_part(
    messages: Any, budget: int
) -> None:
    cut = cut_by_tokens(messages, budget, len)
    assert not parted(messages, cut)
    later = [c for c in safe_cuts(messages) if c > cut]
    assert len(messages) - cut <= budget or not later
    assert all(len(messages) - c > budget for c in safe_cuts(messages) if c < cut)


@given(histories(), st.integers(1, 10))
def test_order_is_kept_and_nothing_is_lost_outside_the_summarized_part(
    messages: Any, keep: int
) -> None:
    middleware = SummarizationMiddleware(
        ScriptedChatModel(),
        trigger=("messages", 1),
        keep=("messages", keep),
        summarizer=message_count,
    )
    sent: list[Any] = []
    request: Any = ModelRequest(model=FakeListChatModel(responses=[]), messages=messages)
    run(middleware.around_model(request), lambda inner: sent.extend(inner.messages))
    summary = [m for m in sent if m.additional_kwargs.get("lc_source") == "summarization"]
    stayed = [m for m in sent if m not in summary]
    gone = [m for m in messages if all(m is not other for other in stayed)]
    assert len(summary) == bool(gone)
    assert stayed == [m for m in messages if all(m is not other for other in gone)]
    assert not any(isinstance(m, SystemMessage) for m in gone)
    assert len(stayed) >= min(keep, len(messages))
    if gone:
        assert f"{len(gone)} messages" in summary[0].text


@given(st.lists(st.text(min_size=1, max_size=40)), st.integers(1, 20))
def test_pages_hold_every_character_in_order_within_their_limit(
    lines: list[str], limit: int
) -> None:
    found = list(pages(lines, limit, len))
    made = [page for _, page in found]
    assert all(page.split("\n")[0] in lines[first] for first, page in found)
    assert "".join(made).replace("\n", "") == "".join(lines).replace("\n", "")
    assert all(len(page.replace("\n", "")) <= limit for page in made)
