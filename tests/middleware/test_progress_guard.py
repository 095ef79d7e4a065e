"""A run that repeats itself ends; one that gets on is left alone."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import chain, cycle, pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import StructuredTool, tool
from pydantic import BaseModel
from recorded_loops import (
    LOOPS,
    REPETITIONS,
    STOPPED,
    Call,
    Loop,
    Repetition,
    Stage,
    c,
    failed,
    insists,
    none,
    play_loop,
)

from agent_factory import after_model, before_agent, before_model, create_agent, run
from agent_factory import middleware as m
from agent_factory.middleware.progress_guard.repetition import turns_of
from agent_factory.structured_output import ToolStrategy
from agent_factory.testing import ScriptedChatModel, assert_valid_history
from agent_factory.types import ModelRequest, ModelResponse
from samples import Answer
from tables import each

Run = Callable[..., Any]
GO: Any = {"messages": "Go"}
REMARK = "[You repeat yourself: "


def find_nothing(query: str) -> str:
    """Find nothing."""
    return "nothing"


def remarked(request: Any) -> bool:
    """Whether the last message of a request has a remark."""
    return REMARK in request[0][-1].text


@each("loop", LOOPS, ids=lambda loop: loop.name)
def test_a_loop_ends_within_two_calls_of_its_mark(loop: Loop, call: Run) -> None:
    guard = m.ProgressGuardMiddleware(**loop.guard)
    stage = Stage([*loop.before, *loop.repeated], [*loop.stack(), guard])
    if loop.ends_with_error:
        with pytest.raises(m.NoProgressError):
            stage.run(call, play_loop(loop))
        messages = stage.agent.get_state(stage.config).values["messages"]
    else:
        messages = stage.run(call, play_loop(loop))
        assert messages[-1].text == STOPPED
    assert_valid_history(messages)
    first = next(at for at, request in enumerate(stage.requests) if remarked(request))
    assert first == loop.mark, "the first remark comes with the request after the mark"
    assert stage.played == loop.mark + 2


@each("repetition", REPETITIONS, ids=lambda repetition: repetition.name)
def test_a_repetition_for_good_reason_is_left_alone(repetition: Repetition, call: Run) -> None:
    found = []
    for guards in ([], [m.ProgressGuardMiddleware(**repetition.guard)]):
        stage = Stage(list(chain(*repetition.runs)), [*repetition.stack(), *guards])
        for turns in repetition.runs:
            ends = [] if isinstance(turns[-1], str) else ["Done."]
            stage.run(call, [*turns, *ends])
            stage.player.assert_done()
        found.append([[(m.type, m.content) for m in messages] for messages, _ in stage.requests])
    assert found[0] == found[1]


# The three steps


SEARCH = c("search", "nothing", query="acme")
READ = c("read", "x = 1", path="a.py")


def played(
    call: Run, turns: Any, *, stack: Any = (), decisions: Any = None, **guard: Any
) -> tuple[Stage, list[Any]]:
    """A run that repeats its turns for ever, and its messages."""
    turns = turns if isinstance(turns, list) else [turns]
    stage = Stage(turns, [*stack, m.ProgressGuardMiddleware(**guard)], decisions)
    return stage, stage.run(call, cycle(turns))


def texts(messages: list[Any]) -> list[str]:
    return [m.text for m in messages if m.type == "tool"]


def test_first_a_remark_then_calls_are_withheld_then_an_answer(call: Run) -> None:
    stage, messages = played(call, SEARCH)
    results = texts(messages)
    assert results[:2] == ["nothing", "nothing"]
    assert results[2] == (
        "nothing\n\n[You repeat yourself: search was called 3 times in a row with the same result. "
        "The same call will not bring anything new. Use what you have, try something else, or "
        "answer and say what is missing.]"
    )
    assert "Such a call does not run any more." in results[3]
    assert results[4].startswith("This call did not run: search was called 4 times in a row")
    assert [m.status for m in messages if m.type == "tool"] == ["success"] * 4 + ["error"]
    assert stage.results.ran == 4
    last, kwargs = stage.requests[-1]
    assert "tools" not in kwargs
    assert "search was called 5 times in a row with the same result" in last[-1].text
    assert messages[-1].text == STOPPED


def test_spaces_around_a_text_make_no_other_call(call: Run) -> None:
    def padded(n: int) -> Call:
        pad = " " * n
        return c("search", "nothing", query=f"{pad}acme{pad}", tags=[{"a": f"x{pad}"}])

    stage, messages = played(call, [padded(n) for n in range(20)])
    assert stage.results.ran == 4
    assert "search was called 3 times in a row" in texts(messages)[2]
    inner = [c("search", "nothing", query=f"ac{' ' * n}me") for n in range(20)]
    stage = Stage(inner, [m.ProgressGuardMiddleware()])
    stage.run(call, [*inner, "Done."])
    assert stage.results.ran == 20


class Query(BaseModel):
    """A search."""

    query: str


@each("schema, runs", [(None, 9), (Query, 4)])
def test_arguments_that_a_tool_does_not_have_make_no_other_call(
    call: Run, schema: Any, runs: int
) -> None:
    ran: list[Any] = []

    def find(query: str, nonce: int = 0) -> str:
        """Find."""
        ran.append(query)
        return "nothing"

    tool = StructuredTool.from_function(find, args_schema=schema)
    calls = [[{"name": "find", "args": {"query": "acme", "nonce": n}}] for n in range(9)]
    model = ScriptedChatModel([*calls, "Done."])
    call(create_agent(model, [tool], middleware=[m.ProgressGuardMiddleware()]), GO)
    assert len(ran) == runs


def test_the_steps_come_when_they_are_set_to_come_and_equal_counts_skip_steps(call: Run) -> None:
    stage, messages = played(call, SEARCH, remark_after=1, withhold_after=4, answer_after=6)
    assert [REMARK in text for text in texts(messages)] == [False, *[True] * 4, False, False]
    assert (stage.results.ran, stage.played) == (5, 7)
    stage, messages = played(call, SEARCH, remark_after=3, withhold_after=3, answer_after=3)
    assert texts(messages) == ["nothing"] * 4
    assert stage.played == 4


def test_a_request_begins_with_the_request_before_it_and_the_log_names_the_cycle(call: Run) -> None:
    """So the provider finds it in its cache; tools come first in a prompt."""
    log: list[Any] = []
    stage, _ = played(call, [SEARCH, READ], decisions=log.append)
    for (before, kwargs), (after, more) in pairwise(stage.requests[:-1]):
        begin = after[: len(before)]
        assert [(m.type, m.content) for m in begin] == [(m.type, m.content) for m in before]
        assert more["tools"] == kwargs["tools"]
    reasons = [d.reason for d in log if d.middleware == "ProgressGuardMiddleware" and d.reason]
    assert reasons == [
        "remark: cycle search -> read, 2 times with the same results",
        "calls withheld: cycle read -> search, 2 times with the same results",
        "end: cycle search -> read, 3 times with the same results",
    ]


def test_only_the_calls_of_the_cycle_are_withheld(call: Run) -> None:
    other = c("search", "found", query="acme inc")
    turns: list[Any] = [*[SEARCH] * 4, [SEARCH, other], SEARCH, "Done."]
    results = texts(Stage(turns, [m.ProgressGuardMiddleware()]).run(call, turns))
    assert results[4].startswith("This call did not run")
    assert results[5:] == ["found", "nothing"], "something new has happened since"


def test_a_tool_that_fails_is_withheld_whatever_its_arguments(call: Run) -> None:
    turns: list[Any] = [failed("read", "no such file", path=str(number)) for number in range(9)]
    stage, messages = played(call, turns)
    results = texts(messages)
    assert "[You repeat yourself: read failed 5 times in a row with the same error." in results[4]
    assert results[6].startswith("This call did not run: read failed 6 times in a row")
    assert stage.results.ran == 6


def test_a_tool_that_does_not_exist_leads_to_the_names_of_those_that_do(call: Run) -> None:
    _, messages = played(call, [none("google", q="a"), none("browse", q="b"), SEARCH][:2])
    remark = next(text for text in texts(messages) if REMARK in text)
    assert "tools that are not offered were called 3 times in a row (google, browse)" in remark
    assert texts(messages)[4].startswith("This call did not run: tools that are not offered")
    assert remark.endswith(
        "Call only these: other. If none of them fits, answer and say what is missing.]"
    )


def test_the_run_can_end_with_a_message_or_with_an_error_that_keeps_the_work(call: Run) -> None:
    why = "search was called 5 times in a row with the same result"
    stage, messages = played(call, SEARCH, exit_behavior="end")
    assert messages[-1].text == f"I had to stop here: {why}."
    assert messages[-1].additional_kwargs == {"lc_source": "progress_guard"}
    assert len(stage.requests) == 5
    stage = Stage([SEARCH], [m.ProgressGuardMiddleware(exit_behavior="error")])
    with pytest.raises(
        m.NoProgressError, match=rf"^\[AF354\] the run: repeats itself: {why}"
    ) as ends:
        stage.run(call, cycle([SEARCH]))
    assert ends.value.repetition == why
    assert len(texts(stage.agent.get_state(stage.config).values["messages"])) == 5


@each(
    "name, args, times, remarks, tools",
    [
        ("search", {"query": "acme"}, 5, True, ["Answer"]),
        ("Answer", {"number": "many"}, 7, False, ["find_nothing", "Answer"]),
    ],
)
def test_a_structured_answer_may_still_be_given_and_its_retries_have_their_own_limit(
    call: Run, name: str, args: Any, times: int, remarks: bool, tools: Any
) -> None:
    model = ScriptedChatModel([*[[{"name": name, "args": args}]] * times, Answer(number=7)])
    options: Any = {"response_format": ToolStrategy(Answer, max_retries=9)}
    agent = create_agent(model, [find_nothing], middleware=[m.ProgressGuardMiddleware()], **options)
    result = call(agent, GO)
    assert result["structured_response"] == Answer(number=7)
    assert any(REMARK in m.text for m in result["messages"]) is remarks
    assert model.requests[-1].tools == tools


def test_after_the_end_no_jump_brings_the_tools_back(call: Run) -> None:
    """A hook that rejects the last answer gets another one, without tools."""
    rejected: list[str] = []

    @after_model(can_jump_to=["model"])
    def reject_once(state: Any, runtime: Any) -> Any:
        last = state["messages"][-1]
        if rejected or last.type != "ai" or last.tool_calls:
            return None  # the last message is a result if a call was withheld
        rejected.append(last.text)
        return {"jump_to": "model", "messages": [("user", "In English, please.")]}

    stage, messages = played(call, SEARCH, stack=[reject_once])
    assert rejected == [STOPPED]
    assert [m.text for m in messages[-2:]] == ["In English, please.", STOPPED]
    assert "tools" not in stage.requests[-1][1]


def test_an_answer_that_is_sent_back_for_ever_is_an_error(call: Run) -> None:
    with pytest.raises(m.NoProgressError, match="Let the hook that jumps back give up") as caught:
        played(call, "It is 5.", stack=insists())
    assert caught.value.repetition == "the same answer was given 5 times in a row"


# Where a run begins, and what survives


@before_agent
def remember(state: Any, runtime: Any) -> Any:
    return {"messages": [HumanMessage("Likes tea.", additional_kwargs={"lc_source": "memory"})]}


def test_a_message_of_the_user_starts_the_count_again(call: Run) -> None:
    """Also if the run began with something else."""
    stage = Stage([SEARCH], [remember, m.ProgressGuardMiddleware()])
    for words in ("Search", "Search again"):
        messages = stage.run(call, [SEARCH, SEARCH, "Done."], words)
    assert not any(REMARK in text for text in texts(messages))


@each("mark, reviews", [({}, False), ({"lc_source": "r"}, False), ({"lc_source": "r"}, True)])
def test_a_message_that_a_hook_writes_does_not(call: Run, mark: Any, reviews: bool) -> None:
    """A resumed run does not know what was added in it, so only the mark says who wrote."""

    @before_model
    def remind(state: Any, runtime: Any) -> Any:
        if state["messages"][-1].type == "tool":
            return {"messages": [HumanMessage("Be quick.", additional_kwargs=mark)]}
        return None

    stack = [remind, *[m.HumanInTheLoopMiddleware({"search": True})] * reviews]
    stage, messages = played(call, SEARCH, stack=stack)
    assert stage.played == 5
    assert_valid_history(messages)


SCHEMA = {"type": "function", "function": {"name": "schema"}}
OFFERED: Any = [tool(find_nothing), print, SCHEMA, {"type": "web_search", "name": "provider"}]


@each("name", ["dynamic", "find_nothing", "print", "schema", "provider"])
def test_a_tool_that_is_offered_in_any_form_or_that_a_layer_runs_is_not_unknown(name: str) -> None:
    """Layers offer functions and schemas, too, and run tools that no request offers."""
    history: list[Any] = [HumanMessage("Go", id="h")]
    for number in range(3):
        asked: Any = {"name": name, "args": {"n": number}, "id": str(number)}
        worked = name == "dynamic" and number < 2
        fields: Any = {"tool_call_id": str(number), "status": "success" if worked else "error"}
        history += [AIMessage("", tool_calls=[asked]), ToolMessage(f"result {number}", **fields)]
    shown: list[Any] = []

    def answer(request: Any) -> Any:
        shown.extend(request.messages)
        return ModelResponse([AIMessage("Done.")])

    request = ModelRequest(model=ScriptedChatModel([]), messages=history, tools=OFFERED)
    run(m.ProgressGuardMiddleware().around_model(request), answer)
    assert shown == history


def test_a_fork_counts_what_it_holds(call: Run) -> None:
    """A thread that goes on from an earlier checkpoint, with an agent that is built again."""
    stage, _ = played(call, SEARCH)
    past = [s for s in stage.agent.get_state_history(stage.config) if s.next == ("model",)]
    (before,) = [s for s in past if len(texts(s.values["messages"])) == 3]
    fork = Stage([SEARCH], [m.ProgressGuardMiddleware()])
    fork.agent.checkpointer = stage.agent.checkpointer
    fork.player.play(cycle([SEARCH]))
    result = call(fork.agent, None, {**before.config, "recursion_limit": 100})
    assert fork.played == 2, "the third call was made before"
    assert texts(result["messages"])[-1].startswith("This call did not run")


def test_only_the_last_turns_of_a_long_thread_are_read() -> None:
    """An agent that gets on costs the same after 10,000 messages as after ten."""
    history: list[Any] = []
    for n in range(5_000):
        asked: Any = {"name": "search", "args": {"query": n}, "id": str(n)}
        history += [AIMessage("", tool_calls=[asked]), ToolMessage("x", tool_call_id=str(n))]

    class Watched(list[Any]):
        read = 0

        def __getitem__(self, at: Any) -> Any:
            Watched.read += 1
            return super().__getitem__(at)

        def __iter__(self) -> Any:
            raise AssertionError("the whole history is read")

    state: Any = {"messages": Watched(history)}
    request = ModelRequest(model=ScriptedChatModel([]), messages=history, state=state)
    answer = ModelResponse([AIMessage("Done.")])
    assert run(m.ProgressGuardMiddleware().around_model(request), lambda _: answer) is answer
    assert 0 < Watched.read <= 2 * 5 + 3


# Laws


def new_turns() -> st.SearchStrategy[list[Any]]:
    """Turns of which each has a call that was not made in the four turns before it."""
    calls = st.builds(
        lambda name, number, result: c(name, result, number=number),
        st.sampled_from(["search", "read"]),
        st.sampled_from([0, 1, 2, 1.0, True, None, "1"]),
        st.sampled_from(["x", "y", ""]),
    )
    turns = st.lists(st.lists(calls, min_size=1, max_size=3), max_size=12)

    def is_new(turns: list[Any]) -> bool:
        for at, turn in enumerate(turns):
            before = [repr(call) for earlier in turns[max(0, at - 4) : at] for call in earlier]
            if all(repr(call) in before for call in turn):
                return False
        return True

    return turns.filter(is_new)


@settings.get_profile("costly")
@given(turns=new_turns())
def test_a_run_without_repetition_is_left_alone(call: Run, turns: list[Any]) -> None:
    guard = m.ProgressGuardMiddleware(remark_after=1, withhold_after=1, answer_after=1)
    found = []
    for stack in ([], [guard]):
        stage = Stage(turns, stack)
        stage.run(call, [*turns, "Done."])
        found.append([[(m.type, m.content) for m in messages] for messages, _ in stage.requests])
    assert found[0] == found[1]


def repeated_turns() -> st.SearchStrategy[Any]:
    """Turns before a loop, and up to four turns that are repeated for ever."""
    known = st.builds(
        lambda name, number, result: Call(name, {"number": number}, *result),
        st.sampled_from(["search", "read"]),
        st.integers(0, 2),
        st.sampled_from([("x", "success"), ("", "success"), ("down", "error")]),
    )
    calls = known | st.builds(lambda number: none("nobody", number=number), st.integers(0, 2))
    turns = st.lists(calls, min_size=1, max_size=2)
    return st.tuples(st.lists(turns, max_size=4), st.lists(turns, min_size=1, max_size=4))


@settings.get_profile("costly")
@given(turns=repeated_turns())
def test_what_counts_as_progress_repeats_nothing(call: Run, turns: Any) -> None:
    before, loop = turns
    messages = Stage([*before, *loop], []).run(call, [*before, *loop, *loop, "Done."])
    comparison = m.ProgressGuardMiddleware(remark_after=1, error_after=1)._comparison
    for at in range(len(messages)):
        seen, arguments = messages[:at], lambda name: None
        if comparison.is_progress(seen, arguments):
            turns = turns_of(seen, partial(len, seen))
            assert comparison.repetition(turns, arguments, {"search", "read"}) is None


@pytest.mark.long
@settings.get_profile("costly")
@given(
    exit_behavior=st.sampled_from(["answer", "end"]),
    turns=repeated_turns(),
    steps=st.lists(st.integers(1, 5), min_size=3, max_size=3),
)
def test_a_run_that_repeats_for_ever_ends(
    call: Run, exit_behavior: Any, turns: Any, steps: list[int]
) -> None:
    before, loop = turns
    names = ("remark_after", "withhold_after", "answer_after")
    counts: Any = dict(zip(names, sorted(steps), strict=True))
    guard = m.ProgressGuardMiddleware(**counts, exit_behavior=exit_behavior)
    stage = Stage([*before, *loop], [guard])
    assert_valid_history(stage.run(call, chain(before, cycle(loop))))
    # The turns before, the cycle once, the cycle again or the counts, and what comes after.
    answer = counts["answer_after"]
    assert stage.played <= len(before) + 2 * len(loop) + max(answer, len(loop)) + answer
