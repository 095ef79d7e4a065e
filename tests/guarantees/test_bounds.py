"""Bounds: how each follows from limits, and that what random runs use is within them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from random import Random
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.errors import GraphRecursionError
from stack_agents import kept_agent

from agent_factory import AgentMiddleware, create_agent, hook_config, plan_agent, topology_of
from agent_factory import middleware as m
from agent_factory.errors import AgentFactoryError, ArgumentError
from agent_factory.prebuilt import agent_tool
from agent_factory.testing import ScriptedChatModel
from agent_factory.topology import Bounds, Topology, UsageLimit, load_topology
from samples import Declares, OwnModel, add_tool, find
from tables import each

PRICES = {
    "costly": m.Price(input=2.0, output=8.0, cache_write=3.0),
    "cheap": m.Price(input=1, output=1),
}


class JumpsBack(AgentMiddleware):
    """Sends the run back to the model a few times."""

    def __init__(self, times: int = 0) -> None:
        super().__init__()
        self.times = times

    @hook_config(can_jump_to=["model"])
    def after_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        self.times -= 1
        is_answer = not getattr(state["messages"][-1], "tool_calls", None)
        return {"jump_to": "model"} if self.times >= 0 and is_answer else None


def bounds_of(*middleware: Any, tools: Sequence[Any] = (find,), **options: Any) -> Bounds:
    return plan_agent(tools=tools, middleware=middleware).bounds(**options)


def clerk(*middleware: Any, tools: Sequence[Any] = (find,), **options: Any) -> BaseTool:
    agent = create_agent(ScriptedChatModel([]), tools, middleware=middleware)
    return agent_tool(agent, **{"name": "clerk", "description": "Finds things.", **options})


def test_the_lowest_limit_of_a_run_or_a_thread_bounds_the_calls_and_is_named() -> None:
    first = m.ModelCallLimitMiddleware(run_limit=5, name="First")
    bound = bounds_of(first, m.BudgetMiddleware(run=m.Limits(turns=3))).of("model calls")
    assert (bound.most, bound.by) == (3, ("BudgetMiddleware: at most 3 model calls a run",))
    assert bounds_of(first).of("model calls").most == 5
    thread = m.ModelCallLimitMiddleware(run_limit=5, thread_limit=4, name="L")
    bound = bounds_of(thread).of("model calls")
    assert (bound.most, bound.by) == (4, ("L: at most 4 model calls a thread",))


def test_without_a_limit_each_bound_says_what_to_add() -> None:
    for row in bounds_of().rows:
        assert row.most is None
        assert row.notes[0].startswith("Add "), row
    bound = bounds_of(m.BudgetMiddleware(run=m.Limits(seconds=30))).of("seconds")
    assert (bound.most, "may go over it" in bound.notes[0]) == (30, True)
    advice = "Add ToolCallLimitMiddleware(tool_name='find', run_limit=...)."
    assert bounds_of().of("calls of find").notes == (advice,)
    # Calls of the model do not bound calls of tools.
    bound = bounds_of(m.ModelCallLimitMiddleware(run_limit=5)).of("tool calls")
    assert (bound.most, bound.notes) == (None, ("Add ToolCallLimitMiddleware(run_limit=...).",))


def test_a_limit_of_all_tools_bounds_each_of_them_and_limits_of_each_tool_all() -> None:
    both = (find, add_tool)
    of_find = m.ToolCallLimitMiddleware(tool_name="find", run_limit=2)
    tools = bounds_of(m.ToolCallLimitMiddleware(run_limit=7), of_find, tools=both)
    numbers = [tools.of(what).most for what in ("tool calls", "calls of find", "calls of add")]
    assert numbers == [7, 2, 7]
    of_add = m.ToolCallLimitMiddleware(tool_name="add", run_limit=2)
    bound = bounds_of(of_find, of_add, tools=both).of("tool calls")
    assert (bound.most, len(bound.by)) == (4, 2)
    assert "adds while a run works" in bound.notes[-1]
    assert bounds_of(of_find, tools=both).of("tool calls").most is None


@each(
    "limits, tokens",
    [
        (m.Limits(total_tokens=100), [100, 100, 100]),
        (m.Limits(total_tokens=100, output_tokens=20), [100, 100, 20]),
        (m.Limits(input_tokens=50, output_tokens=20), [70, 50, 20]),
        (m.Limits(input_tokens=50), [None, 50, None]),
    ],
)
def test_tokens_bound_parts_and_vice_versa(limits: m.Limits, tokens: list[float | None]) -> None:
    rows = bounds_of(m.BudgetMiddleware(run=limits))
    names = ("tokens", "input tokens", "output tokens")
    assert [rows.of(name).most for name in names] == tokens
    for row in (rows.of(name) for name in names):
        assert row.most is None or "may go over it" in row.notes[0]


@each(
    "limits, usd",
    [
        (m.Limits(total_tokens=1_000_000), 8.0),
        (m.Limits(input_tokens=1_000_000, output_tokens=500_000), 3.0 + 4.0),
        (m.Limits(total_tokens=1_000_000, output_tokens=0), 3.0),
        (m.Limits(total_tokens=1_000_000, usd=0.5), 0.5),
        (m.Limits(output_tokens=1_000_000), None),
    ],
)
def test_tokens_at_the_highest_price_bound_dollars(limits: m.Limits, usd: float | None) -> None:
    budget = m.BudgetMiddleware(run=limits, prices=PRICES)
    bound = bounds_of(budget, prices=PRICES).of("USD")
    assert bound.most == usd
    assert usd in (None, 0.5) or "costly" in bound.notes[0]
    if limits.usd is None:
        assert bounds_of(budget).of("USD").most is None


def test_prices_of_another_form_are_refused() -> None:
    with pytest.raises(ArgumentError, match=r"Price\(input=\.\.\., output=\.\.\.\)"):
        bounds_of(prices={"costly": 3})


class Counts(Declares):
    """A limit of an author, in a layer around each call, which does not count failed attempts."""

    def __init__(self, unit: Any = "model calls") -> None:
        super().__init__()
        self.limits = (UsageLimit(5, unit),)

    def around_model(self, request: Any) -> Any:
        return (yield request)


def test_limits_of_the_built_ins_count_attempts_and_others_what_passes_them() -> None:
    other = ScriptedChatModel([])
    repeating = (
        m.ModelFallbackMiddleware(other),
        m.ModelRefusalMiddleware(other, other),
        m.AnswerGuardMiddleware(max_retries=1),
        m.ModelRetryMiddleware(max_retries=3),
    )
    bound = bounds_of(m.ModelCallLimitMiddleware(run_limit=5), *repeating).of("model calls")
    assert (bound.most, bound.attempts, bound.notes) == (5, 5, ())
    bound = bounds_of(Counts(), *repeating).of("model calls")
    assert (bound.most, bound.attempts) == (5, 5 * 2 * 3 * 2 * 4)
    assert "at most 240 in all" in bound.notes[0]
    assert bounds_of(*repeating, Counts()).of("model calls").attempts == 5
    retry = m.ToolRetryMiddleware(max_retries=2)
    assert bounds_of(Counts("tool calls"), retry).of("calls of find").attempts == 15


def test_failures_that_nothing_counts_leave_attempts_without_a_bound() -> None:
    limit = Counts("tool calls")
    tools = bounds_of(m.ToolErrorMiddleware(), limit).of("tool calls")
    assert (tools.most, tools.attempts) == (5, None)
    assert "ToolErrorMiddleware" in tools.notes[-1]
    retry = m.ModelRetryMiddleware(max_retries=0, on_failure="continue")
    assert bounds_of(retry, Counts()).of("model calls").attempts == 5
    # A hook may send the run back.
    back = bounds_of(JumpsBack(), retry, Counts()).of("model calls")
    assert (back.most, back.attempts) == (5, None)


def test_what_no_limit_counts_is_named() -> None:
    tokens, guard = Counts("tokens"), m.AnswerGuardMiddleware()
    summaries = m.SummarizationMiddleware(ScriptedChatModel([]), trigger=("messages", 50))
    notes = " ".join(bounds_of(summaries, tokens, guard).of("tokens").notes)
    assert "AnswerGuardMiddleware discard" in notes
    assert "SummarizationMiddleware make of a model themselves" in notes
    for stack in ([guard, tokens], [m.BudgetMiddleware(run=m.Limits(total_tokens=100)), guard]):
        assert "discard" not in " ".join(bounds_of(*stack).of("tokens").notes)


def test_a_limit_that_people_may_raise_says_so_and_by_how_much() -> None:
    asking = m.BudgetMiddleware(run=m.Limits(turns=3), exit_behavior="ask")
    bound = bounds_of(asking, m.ModelCallLimitMiddleware(run_limit=9)).of("model calls")
    assert bound.most == 3
    assert bound.by == ("BudgetMiddleware: at most 3 model calls a run, which people may raise",)
    assert bound.notes[0] == "Nobody can raise it above 9."
    firm = bounds_of(asking, m.ModelCallLimitMiddleware(run_limit=3)).of("model calls")
    assert firm.by == ("ModelCallLimitMiddleware: at most 3 model calls a run",)


def test_an_agent_inside_has_its_bound_in_each_run_of_its_tool_and_each_request() -> None:
    calls = m.ModelCallLimitMiddleware(run_limit=4)
    inner = clerk(calls, m.ToolCallLimitMiddleware(run_limit=3))
    outer = m.ModelCallLimitMiddleware(run_limit=5)
    runs = m.ToolCallLimitMiddleware(tool_name="clerk", run_limit=2)
    rows = bounds_of(outer, runs, m.ToolRetryMiddleware(max_retries=1), tools=(inner,))
    assert rows.of("model calls", "clerk").most == 4 * 2
    assert rows.of("tool calls", "clerk").most == 3 * 2
    assert rows.of("calls of find", "clerk").most == 3 * 2
    assert rows.of("model calls", "all").most == 5 + 8
    assert rows.of("model calls", "clerk").notes[0] == "4 in each of 2 runs."
    several = bounds_of(outer, runs, tools=(clerk(calls, max_requests=5),))
    bound = several.of("model calls", "clerk")
    assert (bound.most, bound.notes[0]) == (4 * 2 * 5, "4 in each of 10 runs.")
    bound = bounds_of(tools=(clerk(calls),)).of("model calls", "clerk")
    advice = "Add ToolCallLimitMiddleware(tool_name='clerk', run_limit=...)."
    assert (bound.most, bound.notes[1]) == (None, advice)


def test_a_ledger_that_agents_share_counts_once() -> None:
    def plan_of(*ledgers: m.Ledger) -> Topology:
        stacks: list[list[Any]] = [
            [m.ModelRetryMiddleware(max_retries=2), m.BudgetMiddleware(ledger=ledger)]
            for ledger in ledgers
        ]
        inner = []
        for name, stack in zip(("research", "write"), stacks[1:], strict=True):
            part = create_agent(ScriptedChatModel([]), [find], middleware=stack, name=name)
            inner.append(agent_tool(part, description="Does a part."))
        return plan_agent(tools=inner, middleware=stacks[0])

    one, two, three, again = (m.Ledger(m.Limits(turns=30)) for _ in range(4))
    shared, apart, mixed = plan_of(one, one, one), plan_of(one, two, three), plan_of(one, two, two)
    bounds = [each.bounds().of("model calls", "all") for each in (shared, apart, mixed)]
    assert [bound.most for bound in bounds] == [30, 90, 60]
    note = "Together at most 30 model calls a ledger (shared ledger 1), counted once."
    assert [note in bound.notes for bound in bounds] == [True, False, True]
    assert [limit.ledger for limit in shared.limits] == [1, 1, 1]
    assert [limit.ledger for limit in mixed.limits] == [0, 1, 1]
    assert '"ledger": ' not in apart.to_json()
    # Another process has other ledgers, and the same numbers.
    assert plan_of(again, again, again).to_snapshot() == shared.to_snapshot()
    assert shared.digest != apart.digest
    assert "(shared ledger 1), now at most 30 model calls a ledger" in str(shared.diff(apart))
    assert load_topology(shared.to_json()) == shared
    assert load_topology(shared.to_json()).bounds() == shared.bounds()


def test_a_ledger_bounds_all_runs_of_an_agent_inside_and_is_known_further_in() -> None:
    budget = m.BudgetMiddleware(ledger=m.Ledger(m.Limits(total_tokens=100)))
    inner = clerk(budget)
    assert bounds_of(tools=(inner,)).of("tokens", "clerk").most == 100
    middle = create_agent(ScriptedChatModel([]), [inner], name="desk")
    plan = plan_agent(tools=[agent_tool(middle, description="Asks.")], middleware=[budget])
    owners = ("BudgetMiddleware", "desk/clerk/BudgetMiddleware")
    assert [(limit.owner, limit.ledger) for limit in plan.limits] == [(o, 1) for o in owners]


def test_other_attempts_are_a_change_of_the_plan_and_not_of_its_digest() -> None:
    two, five = (plan_agent(middleware=[m.ModelRetryMiddleware(max_retries=n)]) for n in (2, 5))
    assert str(two.diff(five)) == (
        "changed layer ModelRetryMiddleware.around_model: was up to 3 attempts, now 6"
    )
    assert two.digest == five.digest


@each("value", [0, -1, "3", True])
def test_attempts_of_another_form_are_refused(value: Any) -> None:
    class Repeats(AgentMiddleware):
        most_attempts = value

        def around_model(self, request: Any) -> Any:
            return (yield request)

    with pytest.raises(ArgumentError, match="most_attempts"):
        plan_agent(middleware=[Repeats()])


class RandomModel(OwnModel):
    """Chat model that answers, calls tools and fails by chance, and records what it uses."""

    draw: Any
    tools: tuple[str, ...] = ()
    fails: bool = True
    max_requests: int | None = None
    requests: list[str] = []  # noqa: RUF012  # pydantic copies it
    usages: list[dict[str, int]] = []  # noqa: RUF012

    @property
    def model_name(self) -> str:
        return "costly"

    def _get_ls_params(self, stop: Any = None, **kwargs: Any) -> Any:
        return {"ls_model_name": "costly", "ls_provider": "test", "ls_model_type": "chat"}

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self.bind(offered=[tool.name for tool in tools])

    def _generate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        draw: Random = self.draw
        self.requests.append("request")
        if self.fails and draw.random() < 0.2:
            raise ConnectionError("down")
        offered = kwargs.get("offered", ())
        calls = []
        if offered and draw.random() < 0.85:
            names = draw.choices(offered, k=draw.randint(1, 4))
            many = {"requests": ["x"] * draw.randint(1, self.max_requests or 1)}
            request = {"request": "x"} if self.max_requests is None else many
            calls = [
                {"name": name, "args": request if name == "clerk" else {}, "id": f"{id_}"}
                for name, id_ in zip(names, draw.sample(range(10**9), len(names)), strict=True)
            ]
        usage: Any = {"input_tokens": draw.randint(1, 60), "output_tokens": draw.randint(1, 60)}
        usage["total_tokens"] = sum(usage.values())
        self.usages.append(usage)
        # AnswerGuardMiddleware asks again for an empty answer.
        text = "" if draw.random() < 0.2 else "Done."
        message = AIMessage(text, tool_calls=calls, usage_metadata=usage)
        return ChatResult(generations=[ChatGeneration(message=message)])


class RandomAgent:
    """An agent with a random stack, and what its run has used."""

    def __init__(self, seed: int) -> None:
        self.draw = Random(seed)
        self.started: list[str] = []
        self.done: list[str] = []
        self.model = RandomModel(draw=self.draw)
        self.fallback = RandomModel(draw=self.draw, requests=self.model.requests)
        self.fallback.requests, self.fallback.usages = self.model.requests, self.model.usages
        self.inner = RandomModel(draw=self.draw, fails=False)
        self.tools = [self.tool("look"), self.tool("pay")]
        if self.draw.random() < 0.4:
            inner = create_agent(
                self.inner,
                [self.tool("dig", "clerk/")],
                name="clerk",
                middleware=self.limits(inner=True),
                ignore=["AF211"],
            )
            most = self.draw.choice((None, 1, 3))
            self.model.max_requests = self.fallback.max_requests = most
            self.tools.append(agent_tool(inner, description="Works.", max_requests=most))
        self.agent = kept_agent(self.model, *self.stack(), tools=self.tools)

    def tool(self, name: str, where: str = "") -> BaseTool:
        def call() -> str:
            self.started.append(where + name)
            if not where and self.draw.random() < 0.15:
                raise ConnectionError("down")
            self.done.append(where + name)
            return "ok"

        return StructuredTool.from_function(call, name=name, description=f"{name}.")

    def limits(self, *, inner: bool = False) -> list[AgentMiddleware[Any, Any]]:
        draw, exits = self.draw, ("end", "answer")
        exit_behavior: Any = draw.choice(exits)
        after_tools: Any = draw.choice((*exits, "continue"))
        named = "dig" if inner else draw.choice(("look", "pay"))
        members: list[AgentMiddleware[Any, Any]] = [
            m.ModelCallLimitMiddleware(run_limit=draw.randint(1, 6), exit_behavior=exit_behavior),
            m.ToolCallLimitMiddleware(run_limit=draw.randint(0, 8), exit_behavior=after_tools),
            m.ToolCallLimitMiddleware(
                tool_name=named, run_limit=draw.randint(0, 4), exit_behavior="continue"
            ),
        ]
        amounts: dict[str, Any] = {
            "turns": draw.randint(1, 8),
            "tool_calls": draw.randint(0, 8),
            "total_tokens": draw.randint(50, 900),
            "output_tokens": draw.randint(50, 300),
            "usd": draw.uniform(0.0001, 0.003),
        }
        names = draw.sample(sorted(amounts), draw.randint(1, 5))
        budget = m.BudgetMiddleware(
            run=m.Limits(**{name: amounts[name] for name in names}),
            exit_behavior=exit_behavior,
            prices=PRICES,
        )
        return draw.sample([*members, budget], draw.randint(1, 4))

    def stack(self) -> list[AgentMiddleware[Any, Any]]:
        draw = self.draw
        on_failure: Any = draw.choice(("continue", "error"))
        waits: Any = {"initial_delay": 0.0, "max_delay": 0.0}
        others: list[AgentMiddleware[Any, Any]] = [
            m.ModelRetryMiddleware(max_retries=draw.randint(0, 2), on_failure=on_failure, **waits),
            m.ToolRetryMiddleware(max_retries=draw.randint(0, 2), **waits),
            m.ToolErrorMiddleware(),
            m.ModelFallbackMiddleware(self.fallback),
            m.AnswerGuardMiddleware(max_retries=draw.randint(0, 2)),
            JumpsBack(draw.randint(0, 3)),
        ]
        stack = [*self.limits(), *draw.sample(others, draw.randint(0, 6))]
        # Half of the stacks are in the order that a build asks for, the others in any.
        if draw.random() < 0.5:
            draw.shuffle(stack)
        return stack

    def run(self, *, is_async: bool) -> int:
        """Run the agent; return the turns that ended with an answer of a model."""
        turns = answers = 0

        def count(event: Any) -> None:
            nonlocal turns, answers
            if "model" in event and len(self.model.usages) > answers:
                turns, answers = turns + 1, len(self.model.usages)

        config: Any = {"configurable": {"thread_id": "1"}, "recursion_limit": 100}
        # In threads, runs of the clerk would draw numbers in any order.
        config |= {} if is_async else {"max_concurrency": 1}

        async def consume() -> None:
            async for event in self.agent.astream({"messages": "Go"}, config):
                count(event)

        # Whatever ends the run early: it has used what it has used.
        with suppress(ConnectionError, AgentFactoryError, GraphRecursionError):
            if is_async:
                asyncio.run(consume())
            else:
                for event in self.agent.stream({"messages": "Go"}, config):
                    count(event)
        return turns

    def excesses(self, turns: int) -> Iterator[str]:
        """What the run has used beyond a bound of the plan."""
        rows = topology_of(self.agent).bounds(PRICES).rows
        costs = [PRICES["costly"].of(usage) for usage in self.model.usages]
        own = Counter(name for name in self.started if "/" not in name)
        own_done = Counter(name for name in self.done if "/" not in name)
        inner = [name for name in self.done if "/" in name]
        used: dict[str, float] = {
            "model calls": turns,
            "tool calls": own_done.total(),
            **{f"calls of {name}": own_done[name] for name in ("look", "pay")},
            "USD": sum(costs[:-1]),
            "clerk: model calls": len(self.inner.requests),
            "clerk: tool calls": len(inner),
            "clerk: calls of dig": len(inner),
            "all: model calls": turns + len(self.inner.requests),
        }
        for name in ("input_tokens", "output_tokens", "total_tokens"):
            what = name.replace("total_", "").replace("_", " ")
            # The last call may go over the limit.
            used[what] = sum(usage[name] for usage in self.model.usages[:-1])
        attempts = {
            "model calls": len(self.model.requests),
            **{f"calls of {name}": own[name] for name in ("look", "pay")},
        }
        for row in rows:
            # Such a note says that the number does not hold what is used here.
            is_partial = any("discard" in note for note in row.notes)
            amount = used.get(row.name, 0)
            if row.most is not None and not is_partial and amount > row.most + 1e-9:
                yield f"{amount} used; {row}"
            if row.attempts is not None and attempts.get(row.name, 0) > row.attempts:
                yield f"{attempts[row.name]} attempts; {row}"


@pytest.mark.parametrize(
    "start",
    [
        pytest.param(start, marks=pytest.mark.long if start >= 80 else ())
        for start in range(0, 1000, 40)
    ],
)
@pytest.mark.filterwarnings("ignore::agent_factory.AgentFactoryWarning")
def test_what_random_runs_use_is_within_the_bounds(start: int) -> None:
    for seed in range(start, start + 40):
        agent = RandomAgent(seed)
        excesses = list(agent.excesses(agent.run(is_async=seed % 2 == 1)))
        assert not excesses, (seed, [type(m).__name__ for m in agent.stack()], excesses)
