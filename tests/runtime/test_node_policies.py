"""Policies of nodes: retries, timeouts and caches, as LangGraph's `add_node` takes them."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from langgraph.cache.memory import InMemoryCache
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import NodeTimeoutError
from langgraph.types import CachePolicy, RetryPolicy, TimeoutPolicy

from agent_factory import AgentMiddleware, NodePolicy, create_agent, create_react_agent, plan_agent
from agent_factory.errors import ArgumentError, SpecError
from agent_factory.middleware import (
    HumanInTheLoopMiddleware,
    ModelCallLimitMiddleware,
    OnceMiddleware,
)
from agent_factory.testing import ScriptedChatModel
from samples import THREAD, call_of, last_text, tool_results
from tables import each
from waiting import run_virtually

ASK: Any = {"messages": [("user", "Well?")]}
CALLS: Any = [{"name": "find", "args": {"query": "a"}, "id": "1"}]
BOTH: Any = [*CALLS, {"name": "find", "args": {"query": "b"}, "id": "2"}]
AGAIN = NodePolicy(retry_policy=RetryPolicy(initial_interval=0, jitter=False, max_attempts=3))

FUSED = each("fused", [False, True, "turn"])
THREADS = each("saver", [False, True])


class Flaky:
    """A tool, a layer and a hook that fail as often as each of them is to fail."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.ran: list[str] = []

    def run(self, name: str) -> None:
        self.ran.append(name)
        if len(self.ran) <= self.failures:
            raise ConnectionError(name)


def find_with(flaky: Flaky) -> Any:
    def find(query: str) -> str:
        """Find something."""
        flaky.run(query)
        return f"found {query}"

    return find


class Counting(AgentMiddleware):
    """Hooks that note that they ran, and a layer that may fail."""

    def __init__(self, flaky: Flaky) -> None:
        super().__init__()
        self.flaky = flaky
        self.hooks: list[str] = []

    def before_model(self, state: Any, runtime: Any) -> None:
        self.hooks.append("before")

    def after_model(self, state: Any, runtime: Any) -> None:
        self.hooks.append("after")

    def around_model(self, request: Any) -> Any:
        self.flaky.run("model")
        return (yield request)


@FUSED
@THREADS
def test_a_hook_runs_again_the_model_is_asked_again_and_other_hooks_run_once(
    call: Any, fused: Any, saver: bool
) -> None:
    counting, loads = Counting(Flaky(2)), Flaky(2)

    class Loading(AgentMiddleware):
        def before_agent(self, state: Any, runtime: Any) -> None:
            loads.run("load")

    model = ScriptedChatModel(["Well."])
    options: Any = {"node_policies": {"model": AGAIN, "Loading.before_agent": AGAIN}}
    options |= {"fused": fused, "checkpointer": InMemorySaver() if saver else None}
    agent = create_agent(model, middleware=[counting, Loading()], **options)
    assert call(agent, ASK, THREAD)["messages"][-1].text == "Well."
    assert (counting.flaky.ran, loads.ran) == (["model"] * 3, ["load"] * 3)
    assert (counting.hooks, len(model.requests)) == (["before", "after"], 1)


@FUSED
@THREADS
def test_a_tool_runs_again_and_parallel_calls_do_not(call: Any, fused: Any, saver: bool) -> None:
    flaky = Flaky(0)

    def find(query: str) -> str:
        """Find something."""
        flaky.run(query)
        if flaky.ran.count("b") == 1 and query == "b":
            raise ConnectionError
        return f"found {query}"

    agent = create_agent(
        ScriptedChatModel([BOTH, "Done."]),
        [find],
        node_policies={"tools": AGAIN},
        fused=fused,
        checkpointer=InMemorySaver() if saver else None,
    )
    results = tool_results(call(agent, ASK, THREAD))
    assert [text for text, _ in results] == ["found a", "found b"]
    assert sorted(flaky.ran) == ["a", "b", "b"]


@each("fused", [False, True, "turn"])
@each("node", ["model", "tools"])
def test_a_node_with_a_timeout_runs(fused: Any, node: str) -> None:
    policies = {node: NodePolicy(timeout=60)}
    script = ScriptedChatModel([[call_of("find", query="a")], "Well."])
    options: Any = {"node_policies": policies, "fused": fused}
    limit = ModelCallLimitMiddleware(run_limit=3)
    agent = create_agent(script, [find_with(Flaky(0))], middleware=[limit], **options)
    assert last_text(asyncio.run(agent.ainvoke(ASK))) == "Well."


@each("fused", [False, True, "turn"])
def test_a_node_that_takes_too_long_is_stopped(fused: Any) -> None:
    async def find(query: str) -> str:
        """Find something."""
        await asyncio.sleep(3600)
        return query

    policies = {"tools": NodePolicy(timeout=60)}
    agent = create_agent(ScriptedChatModel([CALLS]), [find], node_policies=policies, fused=fused)
    with pytest.raises(NodeTimeoutError):
        run_virtually(agent.ainvoke(ASK))


def conversation(state: Any) -> str:
    return str([(message.type, message.text) for message in state["messages"]])


@FUSED
@THREADS
def test_an_answer_comes_from_the_cache(call: Any, fused: Any, saver: bool) -> None:
    model, counting = ScriptedChatModel([CALLS, "Done."]), Counting(Flaky(0))
    tool = Flaky(0)
    agent = create_agent(
        model,
        [find_with(tool)],
        middleware=[counting],
        node_policies={
            "model": NodePolicy(cache_policy=CachePolicy(key_func=conversation)),
            "tools": NodePolicy(cache_policy=CachePolicy()),
        },
        cache=InMemoryCache(),
        fused=fused,
        checkpointer=InMemorySaver() if saver else None,
    )
    texts = [
        [m.text for m in call(agent, ASK, {"configurable": {"thread_id": thread}})["messages"]]
        for thread in ("1", "2")
    ]
    assert texts == [["Well?", "", "found a", "Done."]] * 2
    assert (len(model.requests), tool.ran) == (2, ["a"])
    assert counting.hooks == ["before", "after"] * 4


def test_the_plan_of_an_agent_takes_them_too() -> None:
    assert plan_agent(node_policies={"model": AGAIN}).nodes == ("model",)


QUICK: Any = {"initial_interval": 0, "jitter": False, "max_attempts": 3}


@each("policy", [QUICK, RetryPolicy(**QUICK)])
@each("version", ["v1", "v2"])
def test_create_react_agent_takes_a_retry_policy_for_all(
    call: Any, policy: Any, version: Any
) -> None:
    flaky, hook_runs = Flaky(2), Flaky(2)

    def hook(state: Any) -> Any:
        hook_runs.run("hook")
        return {"messages": []}

    model = ScriptedChatModel([ConnectionError("a"), CALLS, ConnectionError("b"), "Done."])
    agent = create_react_agent(
        model, [find_with(flaky)], pre_model_hook=hook, retry_policy=policy, version=version
    )
    result = call(agent, ASK)
    assert result["messages"][-1].text == "Done."
    assert (flaky.ran, hook_runs.ran, len(model.requests)) == (["a"] * 3, ["hook"] * 4, 4)


def test_a_policy_of_a_node_comes_before_the_one_for_all(call: Any) -> None:
    flaky = Flaky(1)
    agent = create_react_agent(
        ScriptedChatModel([CALLS]),
        [find_with(flaky)],
        retry_policy=QUICK,
        node_policies={"tools": NodePolicy()},
    )
    with pytest.raises(ConnectionError):
        call(agent, ASK)
    assert flaky.ran == ["a"]


def test_a_dict_with_another_field_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"retry_policy: has no field 'attempts'.*max_attempts"):
        create_react_agent(ScriptedChatModel([]), [], retry_policy={"attempts": 3})


@each(
    "argument, value",
    [
        ("retry_policy", 3),
        ("retry_policy", [RetryPolicy(), 3]),
        ("retry_policy.max_attempts", RetryPolicy(max_attempts="3")),  # type: ignore[arg-type]
        ("retry_policy.initial_interval", {"initial_interval": None}),
        ("cache_policy", 60),
        ("timeout", "a minute"),
        ("timeout", -1),
        ("timeout", TimeoutPolicy(run_timeout=0)),
    ],
)
def test_a_policy_of_another_type_is_refused(argument: str, value: Any) -> None:
    with pytest.raises(ArgumentError, match=f"^\\[AF101\\] {argument}: must be"):
        NodePolicy(**{argument.partition(".")[0]: value})


@each("timeout", [3, 1.5, timedelta(seconds=1), TimeoutPolicy(idle_timeout=1)])
def test_a_timeout_takes_the_forms_of_langgraph(timeout: Any) -> None:
    assert NodePolicy(timeout=timeout).timeout is timeout


@each("make", [create_agent, create_react_agent])
def test_policies_of_another_type_are_refused(make: Any) -> None:
    for policies in ([AGAIN], {"tools": RetryPolicy()}):
        with pytest.raises(ArgumentError, match=r"^\[AF101\] node_policies.*: must be"):
            make(ScriptedChatModel([]), [find_with(Flaky(0))], node_policies=policies)


@each("make", [create_agent, create_react_agent])
def test_a_policy_of_an_unknown_node_is_refused(make: Any) -> None:
    with pytest.raises(SpecError, match=r"^\[AF116\] node_policies: 'tolos'.*Its nodes are"):
        make(ScriptedChatModel([]), [find_with(Flaky(0))], node_policies={"tolos": AGAIN})


@each("node", ["HumanInTheLoopMiddleware.after_model", "tools"])
def test_a_decision_of_a_thread_is_not_cached_for_others(node: str) -> None:
    """langgraph 1.2.24 keeps the answer to an interrupt, and gives it to each thread."""
    asks: Any = HumanInTheLoopMiddleware({"find": True})
    policies = {node: NodePolicy(cache_policy=CachePolicy(key_func=str))}
    middleware = [asks if node != "tools" else OnceMiddleware({"find": "ask"})]
    with pytest.raises(SpecError, match=r"^\[AF132\] node_policies.*decided in another thread"):
        plan_agent(tools=[find_with(Flaky(0))], middleware=middleware, node_policies=policies)
    others: Any = {"model": policies[node]}
    plan_agent(tools=[find_with(Flaky(0))], middleware=middleware, node_policies=others)
