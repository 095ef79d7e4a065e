"""Trajectories: what a pattern allows, and at which step a run breaks it, and why."""

from __future__ import annotations

import re
import time
from itertools import permutations, product
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from stack_agents import agent_of, kept_agent

from agent_factory import AgentMiddleware, create_agent, hook_config, review, with_decisions
from agent_factory import middleware as m
from agent_factory.decisions import Decision, DecisionFile, Jump
from agent_factory.errors import ArgumentError
from agent_factory.prebuilt import agent_tool, create_react_agent
from agent_factory.review.policy import Rule as PolicyRule
from agent_factory.review.policy import ToolPolicy
from agent_factory.structured_output import ToolStrategy
from agent_factory.testing import (
    CassetteError,
    PatternError,
    ScriptedChatModel,
    StepKind,
    TrajectoryMismatch,
    TrajectoryStep,
    assert_trajectory,
    record,
    trajectory_of,
)
from agent_factory.testing.trajectory_patterns import (
    Choice,
    Ordered,
    Repeat,
    Rule,
    StepPattern,
    parse,
)
from agent_factory.testing.trajectory_steps import recorded_trajectory
from samples import THREAD, Answer
from tables import each

ASK: Any = {"messages": [("user", "Please.")]}


def call(name: str, result: str | None = "done", **args: Any) -> tuple[str, str | None, Any]:
    """A call, and its result; without one, it is pending."""
    return name, result, args


def conversation(*turns: Any) -> list[BaseMessage]:
    """Messages: a text is an answer, a list of names or calls is a turn of parallel calls."""
    messages: list[BaseMessage] = [HumanMessage("Please.")]
    for number, turn in enumerate(turns):
        if isinstance(turn, str):
            messages.append(AIMessage(turn))
            continue
        calls = [c if isinstance(c, tuple) else call(c) for c in turn]
        made = [
            {"name": name, "args": args, "id": f"{number}-{i}"}
            for i, (name, _, args) in enumerate(calls)
        ]
        messages.append(AIMessage("", tool_calls=made))
        messages += [
            ToolMessage(
                result.removeprefix("!"),
                tool_call_id=f"{number}-{i}",
                status="error" if result.startswith("!") else "success",
            )
            for i, (_, result, _) in enumerate(calls)
            if result is not None
        ]
    return messages


BROKEN: list[tuple[str, list[Any], int | None, str]] = [
    # the run of a pattern; the step that breaks it; why
    ("never delete", [["search"], ["delete"], "Done."], 5, "which `never delete` forbids"),
    ("never pay(euros>100)", [[call("pay", euros=50)], [call("pay", euros=101)]], 5, "forbids"),
    ("never pay -> ok", [[call("pay", "!no")], [call("pay")]], 5, "forbids"),
    ("search < refund", [["refund"], ["search"]], 3, "before search, which"),
    ("search+ < refund", [["refund"], "Done."], 3, "refund was called before search"),
    ("search < refund", [["search", "refund"]], 4, "in the same turn as search (step 3)"),
    ("search < refund", [["search"], "Done."], None, "ended, and `search < refund` after step 3"),
    (
        "search < refund",
        [["search"], ["search"], ["refund"]],
        5,
        "search was called after search (step 3), where",
    ),
    ("refund", [["refund"], ["refund"]], 5, "allows 1, not 2"),
    ("search{,3}", [["search"] * 5], 6, "allows 3, not 4"),
    ("search{2,}", ["Done."], None, "`search{2,}` expects search"),
    ("only search+ < refund", [["search"], ["mail"], ["refund"]], 5, "allows no other calls"),
    ("any* < refund", [["refund"], ["mail"]], None, "after step 5 expects any or refund"),
    ("refund(euros<=50)", [[call("refund", euros=90)]], 3, "euros is 90, not refund(euros<=50)"),
    ('refund(order="A1")', [[call("refund", order="A2")]], 3, "order is 'A2'"),
    ("refund(vip=true)", [[call("refund", vip=1)]], 3, "vip is 1"),
    ('search(query~"tea")*', [[call("search", query="a cup")]], 3, "query is 'a cup'"),
    ("search -> ok", [[call("search", "!no line")]], 3, "its result is error, not search -> ok"),
    ('search -> "tea"', [[call("search", "coffee")]], 3, "its result is 'ok: coffee'"),
    ("refund -> ok", [[call("refund", None)]], 3, "its result is pending"),
    ("model{,2}", [["a"], ["b"], "Done."], 6, "answer came, and `model{,2}` allows 2, not 3"),
    ("(search | browse)+ < refund", [["browse"], ["mail"], ["search", "refund"]], 8, "same turn"),
    (
        "search < refund | answer",
        [["search"], "Done."],
        4,
        "answer came after search (step 3), where",
    ),
    ("pay < mail, never drop", [["mail"], ["drop"], ["pay"]], 3, "mail was called before pay"),
]


@each("pattern, turns, step, why", BROKEN)
def test_a_broken_run_is_explained_at_the_step_that_breaks_it(
    pattern: str, turns: list[Any], step: int | None, why: str
) -> None:
    with pytest.raises(TrajectoryMismatch) as caught:
        assert_trajectory(conversation(*turns), pattern)
    text = str(caught.value)
    assert caught.value.step == step
    assert why in caught.value.reasons[0]
    if step is None:
        assert re.search(r"\n>  +\(the end of the run\)", text)
    else:
        assert caught.value.reasons[0].startswith(f"step {step}: ")
        assert [line for line in text.splitlines() if re.match(rf"> +{step}  ", line)]


@each(
    "pattern, turns",
    [
        ("search* < refund, never delete", [["search", "search"], ["mail"], ["refund"], "Done."]),
        ("search+ < refund < search*", [["search"], ["refund"], ["search"]]),
        ("only (search | browse)* < refund", [["browse", "search"], ["refund"]]),
        ("user < model+ < answer", [["a"], "Done."]),
        ("refund(euros<=50, order='A1')", [[call("refund", euros=50, order="A1")]]),
        ("refund(euros!=50.5)*", [[call("refund", euros=50)], [call("refund", euros=True)]]),
        ('tag(names=["a", {"b": null}])', [[call("tag", names=["a", {"b": None}])]]),
        ("(search -> error)* < search -> ok", [[call("search", "!no")] * 2, ["search"]]),
        ('search -> "not found", answer -> "sorry"', [[call("search", "!not found")], "So sorry."]),
        ("never refund -> ok, refund -> pending", [[call("refund", None)]]),
        ('"answer" < answer', [["answer"], "Done."]),
        ("get-weather < mcp:mail/send", [["get-weather"], ["mcp:mail/send"]]),
    ],
)
def test_a_run_that_matches_passes(pattern: str, turns: list[Any]) -> None:
    assert_trajectory(conversation(*turns), pattern)


def test_each_broken_rule_is_named_and_marked() -> None:
    run = conversation(["mail"], ["drop"], ["pay"])
    with pytest.raises(TrajectoryMismatch) as caught:
        assert_trajectory(run, "never drop, pay < mail, refund")
    assert str(caught.value) == (
        "the run does not match `never drop, pay < mail, refund`:\n"
        "- step 3: mail was called before pay, which `pay < mail` expects first.\n"
        "- step 5: drop was called, which `never drop` forbids.\n"
        "- the run ended, and `refund` expects refund.\n\n"
        "  1  user: Please.\n"
        "  2  model: calls mail\n"
        "> 3  mail() -> ok: done\n"
        "  4  model: calls drop\n"
        "> 5  drop() -> ok: done\n"
        "  6  model: calls pay\n"
        "  7  pay() -> ok: done\n"
        ">    (the end of the run)"
    )


def test_of_a_long_run_the_steps_around_the_mark_are_shown() -> None:
    run = conversation(*[["search"]] * 100, ["delete"], *[["search"]] * 100, "Done.")
    with pytest.raises(TrajectoryMismatch) as caught:
        assert_trajectory(run, "never delete")
    lines = str(caught.value).splitlines()
    assert "> 203  delete() -> ok: done" in lines
    assert "    ... 195 more" in lines
    assert len(lines) < 20
    assert len(str(trajectory_of(run)).splitlines()) < 10


@each(
    "pattern, column, why",
    [
        ("", 1, "expected a step, got the end. Write the name of a tool"),
        ("search <", 9, "expected a step, got the end"),
        ("search < < refund", 10, "expected a step, got `<`"),
        ("search refund", 8, "expected `<`, `|`, `,` or the end, got `refund`. Write `a < b`"),
        ("search**", 8, "got `*`. Remove it."),
        ("(search | browse", 17, "expected `)` for the `(` in column 1"),
        ("never search < refund", 7, "expected steps after `never`, got an order"),
        ("search{3,1}", 7, "expected numbers in rising order, got `{3,1}`"),
        ("a < refund(euros", 17, "expected a comparison after `euros`, got the end"),
        ("refund(euros<=fifty)", 15, "Write a number, a text in quotes"),
        ("refund(<=5)", 8, "expected the name of an argument, got `<=`"),
        ("search -> eror", 11, "expected a result, got `eror`. Did you mean error?"),
        ("search ; refund", 8, "';' cannot be read. Put the name of a tool in quotes"),
        ("a, b{5000}", 4, "the rule is too large"),
        ("((a{99}){99}){99}", 1, "the rule is too large"),
    ],
)
def test_a_pattern_that_cannot_be_read_is_refused_at_its_column(
    pattern: str, column: int, why: str
) -> None:
    with pytest.raises(PatternError) as caught:
        assert_trajectory(conversation("Done."), pattern)
    text = str(caught.value)
    assert caught.value.column == column
    assert text.startswith(f"column {column}: ")
    assert why in text
    assert text.splitlines()[-1] == f"{' ' * (column + 3)}^"


def test_a_rule_with_many_optional_steps_is_read_at_once() -> None:
    """Each of them may be left out, so nearly each pair of them may follow one another."""
    (rule,) = parse("(search?){900}")
    steps = [TrajectoryStep(StepKind.TOOL, "search", turn) for turn in range(901)]
    began = time.monotonic()
    assert rule.check(steps[1:]) is None
    assert rule.check(steps) is not None
    assert time.monotonic() - began < 30  # of 160 seconds by an automaton


# What a run may be


class Guard(AgentMiddleware):
    """Ends the run before a refund is paid."""

    @hook_config(can_jump_to=["end"])
    def after_model(self, state: Any, runtime: Any) -> Jump | None:
        names = [made["name"] for made in state["messages"][-1].tool_calls]
        return Jump("end", reason="refunds are for people") if "refund" in names else None


def search(query: str = "") -> str:
    """Search."""
    if not query:
        raise ValueError("empty")
    return "tea"


def refund(euros: int = 5) -> str:
    """Refund."""
    return "paid"


def calls(*names: str, **args: Any) -> list[Any]:
    return [{"name": name, "args": args} for name in names]


def logged(call: Any, steps: list[Any], *stack: Any, **options: Any) -> tuple[Any, Any, Any]:
    """The result of a run, its decision log, and the agent."""
    log: list[Decision] = []
    options = {"tools": [search, refund], **options}
    made = create_agent(ScriptedChatModel(steps), middleware=stack, decisions=log.append, **options)
    return call(made, ASK, THREAD), log, made


def test_a_decision_log_has_hooks_layers_and_calls(call: Any) -> None:
    steps = [ConnectionError("down"), calls("search", "search", query="tea"), calls("refund")]
    _, log, agent = logged(call, steps, Guard(), m.ModelRetryMiddleware(initial_delay=0))
    assert_trajectory(
        log,
        "ModelRetryMiddleware.around_model -> repeated < search{2} < Guard.after_model -> jumped, "
        "never refund, model{2}, never answer",
    )
    assert_trajectory(log, 'Guard.after_model(reason="refunds are for people")', agent=agent)
    with pytest.raises(TrajectoryMismatch) as caught:
        assert_trajectory(log, "never Guard.after_model -> jumped")
    assert "Guard.after_model jumped, which" in caught.value.reasons[0]
    with pytest.raises(PatternError, match=r"Did you mean Guard\.after_model"):
        assert_trajectory(log, "never Guard.after_modle", agent=agent)


def test_a_decision_log_and_the_messages_have_the_same_calls(call: Any) -> None:
    steps = [[*calls("search"), *calls("refund")], "Done."]
    result, log, _ = logged(call, steps, handle_tool_errors=True)
    for run in (result, log):
        assert_trajectory(run, "search -> error, refund -> ok, only any{2}, model < answer")
    of_log = [(step.kind, step.name) for step in trajectory_of(log).steps]
    assert of_log == [(step.kind, step.name) for step in trajectory_of(result).steps[1:]]


def test_a_decision_log_has_the_calls_of_subagents(call: Any) -> None:
    log: list[Decision] = []
    paying = ScriptedChatModel([calls("refund"), "Paid."])
    inner = create_agent(paying, [refund], name="billing", decisions=log.append)
    billing = agent_tool(inner, description="Pays.")
    model = ScriptedChatModel([calls("billing", request="Pay."), "Done."])
    result = call(create_agent(model, [billing], decisions=log.append), ASK)
    assert_trajectory(log, "billing < refund < answer{2}")
    assert_trajectory(result, "only billing < answer")
    with pytest.raises(TrajectoryMismatch):
        assert_trajectory(log, "never refund")


def test_a_middleware_with_a_name_in_brackets_can_be_named(call: Any) -> None:
    log: list[Decision] = []
    agent = agent_of(["Hi."], m.PIIMiddleware("email"), decisions=log.append)
    call(agent, {"messages": [("user", "I am ann@example.com.")]})
    assert_trajectory(log, "PIIMiddleware[email].before_model -> wrote", agent=agent)
    with pytest.raises(ArgumentError, match="does not say when its model answered"):
        assert_trajectory(log, "never answer")


def test_a_file_of_decisions_is_read(tmp_path: Path, call: Any) -> None:
    path = tmp_path / "decisions.jsonl"
    model = ScriptedChatModel([calls("search", query="tea"), "Done."])
    with DecisionFile(path) as file:
        call(create_agent(model, [search], decisions=file), ASK)
    assert_trajectory(path, "search -> ok < answer")
    assert_trajectory(str(path), "search -> ok < answer")


def test_a_recording_is_read_with_its_results_and_knows_its_tools(
    tmp_path: Path, call: Any
) -> None:
    path = tmp_path / "run.jsonl"
    steps = [calls("search"), calls("search", "search", query="tea"), calls("refund"), "Done."]
    agent = create_agent(
        record(ScriptedChatModel(steps), path), [search, refund], handle_tool_errors=True
    )
    result = call(agent, ASK)
    assert_trajectory(path, "search -> error < (search -> ok){2} < refund, answer")
    assert trajectory_of(path).steps == trajectory_of(result).steps
    with pytest.raises(PatternError, match=r"Did you mean refund\?"):
        assert_trajectory(path, "never refnud")


def test_equal_calls_of_a_recording_have_their_own_results(tmp_path: Path, call: Any) -> None:
    count = iter(range(9))

    async def asearch(query: str) -> str:
        return f"result {next(count)}"

    def search(query: str) -> str:
        return f"result {next(count)}"

    tool = StructuredTool.from_function(search, asearch, name="search", description="Search.")
    path = tmp_path / "run.jsonl"
    twice = calls("search", "search", query="tea")
    steps = [calls("search", query="tea"), twice, [*twice, *calls("search", query="cup")], "Done."]
    result = call(create_agent(record(ScriptedChatModel(steps), path), [tool]), ASK)
    assert trajectory_of(path).steps == trajectory_of(result).steps


def test_a_call_without_a_result_does_not_take_that_of_another() -> None:
    made = [{"name": "a", "args": {"n": n}, "id": f"call_1_{n}"} for n in (1, 2)]
    seen = [{"type": "ai", "content": "", "tool_calls": made}]
    seen.append({"type": "tool", "content": "one", "tool_call_id": "call_1_1", "name": "a"})
    entries: list[Any] = [
        {"request": {}, "answer": {"content": "", "tool_calls": made}},
        {"request": {"messages": seen}, "answer": {"content": "Done."}},
    ]
    shown = [str(step) for step in recorded_trajectory(entries).steps if step.kind == "tool"]
    assert shown == ["a(n=1) -> ok: one", "a(n=2) -> pending"]


def test_a_review_is_a_step_while_it_waits_and_afterwards(call: Any) -> None:
    log: list[Decision] = []
    agent = kept_agent(
        [calls("refund"), "Done."],
        m.HumanInTheLoopMiddleware({"refund": True}),
        tools=[refund],
        decisions=log.append,
    )
    waiting = call(agent, ASK, THREAD)
    assert_trajectory(waiting, "refund -> pending, review -> pending, never answer")
    assert_trajectory(log, "review")
    assert_trajectory(agent.get_state(THREAD), "review -> pending")
    done = call(agent, Command(resume={"decisions": [{"type": "approve"}]}), THREAD)
    assert_trajectory(done, "model < review < refund -> ok < answer")
    assert "HumanInTheLoopMiddleware" in str(trajectory_of(done))


@each("kind", ["batched", "per_call", "flow guard"])
def test_a_step_has_the_arguments_that_a_person_has_edited(kind: str, call: Any) -> None:
    if kind == "flow guard":
        rule = PolicyRule("refund", "ask", allowed_decisions=["edit"])
        guard: Any = m.FlowGuardMiddleware(ToolPolicy(rule))
    else:
        guard = m.HumanInTheLoopMiddleware({"refund": True}, interrupt_mode=cast("Any", kind))
    agent = kept_agent([calls("refund", euros=90), "Done."], guard, tools=[refund])
    call(agent, {"messages": [("user", "Hi")]}, THREAD)
    done = review.edit(agent, THREAD, {"euros": 45})
    assert_trajectory(done, "refund(euros=45) -> ok < answer, never refund(euros=90)")


@pytest.mark.parametrize("content", [None, "Here it is."])
def test_a_structured_answer_is_the_answer(content: str | None, call: Any) -> None:
    strategy = ToolStrategy(Answer, tool_message_content=content)
    model = ScriptedChatModel([calls("refund"), Answer(number=5)])
    log: list[Any] = []
    options: Any = {"response_format": strategy, "decisions": log.append}
    agent = create_agent(model, [refund], checkpointer=InMemorySaver(), **options)
    done = call(agent, {"messages": [("user", "Hi")]}, THREAD)
    runs: list[Any] = [done, agent.get_state(THREAD)]
    for run in [*runs, *([] if content else [done["messages"]])]:
        assert_trajectory(run, "refund -> ok < answer, model{2}")
        assert_trajectory(run, "refund -> ok < Answer(number=5) -> ok, answer")
    assert_trajectory(log, "refund -> ok < answer")


def test_what_a_hook_or_a_client_writes_is_not_from_the_model(call: Any) -> None:
    limit = m.ModelCallLimitMiddleware(run_limit=2, exit_behavior="end")
    agent = agent_of(ScriptedChatModel([calls("search", query="x")] * 3), limit, tools=[search])
    done = call(agent, {"messages": [("user", "Hi"), ("ai", "Hello."), ("user", "Search.")]})
    assert_trajectory(done, "model{2}, answer{2}")
    assert "  2  answer: not from the model: Hello." in str(trajectory_of(done))


def test_a_review_inside_of_layers_is_one_step(call: Any) -> None:
    review = m.HumanInTheLoopMiddleware({"refund": True}, interrupt_mode="per_call")
    stack = [m.ToolErrorMiddleware(), m.ToolRetryMiddleware(), review]
    options: Any = {"checkpointer": InMemorySaver(), "ignore": ["AF204"]}
    _, log, _ = logged(call, [calls("refund")], *stack, **options)
    assert_trajectory(log, "review")


def test_what_a_layer_does_around_a_call_is_in_the_turn_of_the_call(call: Any) -> None:
    results = [ConnectionError("busy"), "tea"]

    def look() -> str:
        """Look."""
        if isinstance(found := results.pop(0), Exception):
            raise found
        return str(found)

    retry = m.ToolRetryMiddleware(initial_delay=0)
    _, log, _ = logged(call, [calls("look"), "Done."], retry, tools=[look])
    assert_trajectory(log, "look, ToolRetryMiddleware.around_tool -> repeated < answer")
    with pytest.raises(TrajectoryMismatch, match="in the same turn as look"):
        assert_trajectory(log, "look < ToolRetryMiddleware.around_tool -> repeated")


def test_a_react_agent_is_read_too(call: Any) -> None:
    log: list[Decision] = []
    model = ScriptedChatModel([calls("search", query="tea"), "Done."] * 2)
    for version in ("v1", "v2"):
        log.clear()
        agent = with_decisions(create_react_agent(model, [search], version=version), log.append)
        call(agent, ASK)
        if version == "v2":
            assert_trajectory(log, "search < answer")
            continue
        with pytest.raises(ArgumentError, match="does not name the tools"):
            assert_trajectory(log, "search < answer")


def test_what_is_not_a_run_or_not_a_pattern_is_refused() -> None:
    for run in (None, 5, [], [5], {"text": "x"}, "nowhere.jsonl"):
        with pytest.raises((ArgumentError, FileNotFoundError)):
            assert_trajectory(run, "search")
    with pytest.raises(ArgumentError, match="pattern: must be a str, got list"):
        assert_trajectory("search", conversation("Done."))  # type: ignore[arg-type]


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    for content, why in (
        ("{}\n", "is not a cassette"),
        ('{"outcome": "passed", "hook": "x"}\n', "run.jsonl:1: is not a decision"),
    ):
        path.write_text(content)
        with pytest.raises(CassetteError, match=why):
            assert_trajectory(path, "search")
    with DecisionFile(path := tmp_path / "torn.jsonl") as file:
        create_agent(ScriptedChatModel(["Hi."]), [search], decisions=file).invoke(ASK)
    path.write_text(path.read_text() + '{"outcome": "pas')
    with pytest.raises(CassetteError, match=r"torn.jsonl:2: is not a decision"):
        assert_trajectory(path, "answer")


def test_a_question_that_a_run_cannot_answer_is_refused(call: Any) -> None:
    result, log, _ = logged(call, [calls("search", query="x"), "Done."])
    with pytest.raises(ArgumentError, match="has messages and no decisions"):
        assert_trajectory(result, "never Guard.after_model")
    with pytest.raises(ArgumentError, match="has no arguments of calls"):
        assert_trajectory(log, "never search(query='y')")


@each("pattern", ["never refnd", "serch < refund", "refunds?"])
def test_without_an_agent_a_name_is_compared_with_the_run(pattern: str) -> None:
    """Otherwise the rule would hold, although the run breaks what is meant."""
    run = conversation(["search"], ["refund"], "Done.")
    with pytest.raises(PatternError, match=r"Did you mean (refund|search)\? If .* pass agent=\."):
        assert_trajectory(run, pattern)
    assert_trajectory(run, "never delete, never reward")


def test_with_an_agent_names_are_checked_and_names_that_are_alike_differ(call: Any) -> None:
    def refunds() -> str:
        """List them."""
        return ""

    result, _, agent = logged(call, ["Hi."], tools=[search, refund, refunds])
    assert_trajectory(conversation(["refund"], "Done."), "never refunds", agent=agent)
    for pattern, why in (
        ("never refnud", "column 7: the agent has no tool 'refnud'. Did you mean refund?"),
        ("drop?", "the agent has no tool 'drop'. It has refund, refunds, search."),
    ):
        assert_trajectory(result, pattern)
        with pytest.raises(PatternError, match=re.escape(why)):
            assert_trajectory(result, pattern, agent=agent)


# The law: the automaton agrees with the definition, tried by brute force


def turns_of(max_calls: int = 3) -> st.SearchStrategy[list[list[tuple[str, str]]]]:
    one = st.tuples(st.sampled_from("abc"), st.sampled_from(["ok", "error"]))
    turns = st.lists(st.lists(one, min_size=1, max_size=max_calls), max_size=4)
    return turns.filter(lambda made: sum(map(len, made)) <= 6)


def atoms() -> st.SearchStrategy[str]:
    names = st.sampled_from(["a", "b", "c", "any"])
    return st.one_of(names, names.map("{} -> ok".format), names.map("{} -> error".format))


def patterns() -> st.SearchStrategy[str]:
    quantifiers = st.sampled_from(["", "*", "+", "?", "{2}", "{1,2}", "{,2}", "{2,}", "{0}"])

    def larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        several = st.lists(inner, min_size=2, max_size=3)
        return st.one_of(
            several.map(lambda parts: " < ".join(f"({part})" for part in parts)),
            several.map(lambda parts: " | ".join(f"({part})" for part in parts)),
            st.tuples(inner, quantifiers).map(lambda made: f"({made[0]}){made[1]}"),
        )

    trees = st.recursive(st.tuples(atoms(), quantifiers).map("".join), larger, max_leaves=4)
    nevers = st.lists(atoms(), min_size=1, max_size=2).map(lambda made: f"never {' | '.join(made)}")
    return st.one_of(trees, trees.map("only {}".format), nevers)


def fits(node: Any, steps: tuple[TrajectoryStep, ...]) -> bool:
    """Whether steps in this very order are what a part of a pattern describes: by definition."""
    if isinstance(node, StepPattern):
        return len(steps) == 1 and node.matches(steps[0])
    if isinstance(node, Choice):
        return any(fits(part, steps) for part in node.parts)
    cuts = range(len(steps) + 1)
    if isinstance(node, Ordered):
        first, rest = node.parts[0], node.parts[1:]
        if not rest:
            return fits(first, steps)
        return any(
            fits(first, steps[:cut])
            and fits(Ordered(rest), steps[cut:])
            and all(one.turn < other.turn for one, other in product(steps[:cut], steps[cut:]))
            for cut in cuts
        )
    assert isinstance(node, Repeat)
    if node.most == 0:
        return not steps
    if not steps and node.least == 0:
        return True
    if node.least > len(steps):  # some of the repetitions are empty
        return fits(node.part, ()) and fits(Repeat(node.part, len(steps), node.most), steps)
    fewer = Repeat(node.part, max(node.least - 1, 0), None if node.most is None else node.most - 1)
    # Without a step, a repetition that is not needed brings nothing.
    return any(
        fits(node.part, steps[:cut]) and fits(fewer, steps[cut:])
        for cut in (cuts if node.least else cuts[1:])
        if cut or node.least
    )


def holds(rule: Rule, steps: tuple[TrajectoryStep, ...]) -> bool:
    """Whether a run keeps a rule: whether its steps fit in any order that keeps the turns."""
    if rule.forbids:
        return not any(atom.matches(step) for step in steps for atom in rule.atoms)
    seen = [step for step in steps if rule.sees(step)]
    by_turn = [[s for s in seen if s.turn == turn] for turn in sorted({s.turn for s in seen})]
    orders = product(*(permutations(turn) for turn in by_turn))
    return any(fits(rule.tree, tuple(s for turn in order for s in turn)) for order in orders)


@given(patterns(), turns_of())
def test_a_rule_holds_if_brute_force_finds_an_order(
    pattern: str, turns: list[list[tuple[str, str]]]
) -> None:
    steps = tuple(
        TrajectoryStep(StepKind.TOOL, name, number, {}, outcome)
        for number, turn in enumerate(turns)
        for name, outcome in turn
    )
    (rule,) = parse(pattern)
    found = rule.check(steps)
    assert (found is None) == holds(rule, steps)
    if found is not None and found.index is not None and not rule.forbids:
        # The step is where it breaks: up to the turn before it, some run goes on from here.
        turn = steps[found.index].turn
        assert rule.sees(steps[found.index])
        early = rule.check(tuple(step for step in steps if step.turn < turn))
        assert early is None or early.index is None


@given(st.text(alphabet='ab<>|*+?(){},->="~ 12', max_size=12))
def test_any_text_is_a_pattern_or_is_refused_with_a_column(text: str) -> None:
    problem = None
    try:
        rules = parse(text)
    except PatternError as error:
        problem = error
    if problem is None:
        assert all(rule.atoms for rule in rules)
    else:
        assert 1 <= problem.column <= len(text) + 1
        assert problem.hint


@settings(max_examples=5)
@given(st.integers(50, 100))
def test_a_large_turn_takes_no_time(size: int) -> None:
    steps = [TrajectoryStep(StepKind.TOOL, "ab"[n % 2], 1, {}, "ok") for n in range(size)]
    (rule,) = parse("(a | b)* < a{,3}")
    assert rule.check(steps) is None
    (rule,) = parse(f"a{{{size}}}")
    assert rule.check(steps) is not None
