"""Counterexamples as runs: stand-ins go the way on which a guarantee fails."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from agent_factory import AgentMiddleware, create_agent, hook_config, plan_agent, topology_of
from agent_factory.errors import ArgumentError
from agent_factory.guarantees import Counterexample, counterexamples
from agent_factory.middleware import HumanInTheLoopMiddleware, ModelCallLimitMiddleware
from agent_factory.prebuilt import agent_tool, create_react_agent
from agent_factory.testing import ScriptedChatModel, replay_counterexample
from agent_factory.topology.model import TopologyData
from samples import PassingFlows, Review, refund, search
from tables import each

# Members jump where a build warns about it, and some do nothing.
pytestmark = pytest.mark.filterwarnings("ignore::agent_factory.AgentFactoryWarning")


class Shortcut(AgentMiddleware):
    """May go straight to the tools."""

    @hook_config(can_jump_to=["tools"])
    def before_model(self, state: Any, runtime: Any) -> None:
        """Never jumps here."""


class Again(AgentMiddleware):
    """May go back to the model."""

    @hook_config(can_jump_to=["model"])
    def after_model(self, state: Any, runtime: Any) -> None:
        """Never jumps here."""


class Layers(PassingFlows, AgentMiddleware):
    """Has every layer."""

    def around_agent(self, state: Any) -> Any:
        return (yield state)


def no(plan: TopologyData, sentence: str) -> Counterexample:
    (counterexample,) = counterexamples(plan, [sentence])
    return counterexample


def test_a_tool_runs_and_the_review_is_not_visited() -> None:
    plan = plan_agent(
        tools=[refund, search], middleware=[Shortcut(), Layers(), Review()], ignore=["AF129"]
    )
    replay = replay_counterexample(no(plan, "tool refund passes Review"))
    run = replay.run()
    assert run.visits == (
        "Layers.around_agent",
        "Shortcut.before_model",
        "tools",
        "Layers.around_tool",
        "Shortcut.before_model",
        "model",
        "Layers.around_model",
        "Review.after_model",
    )
    assert run.tools == ("refund",)
    assert replay.model.steps == ["Done."]
    assert replay.messages[0].text == "Go"


def test_the_agent_of_stand_ins_has_the_nodes_and_edges_of_the_plan() -> None:
    limit = ModelCallLimitMiddleware(run_limit=5)
    stack: list[Any] = [Shortcut(), Layers(), Review(), limit, Again()]
    plan = plan_agent(tools=[refund, search], middleware=stack, ignore=["AF129", "AF217"])
    stand_in = topology_of(replay_counterexample(no(plan, "model passes X")).agent)
    for name in ("nodes", "edges", "hooks"):
        assert getattr(stand_in, name) == getattr(plan, name), name
    layers = [[(each.owner, each.call) for each in p.layers] for p in (stand_in, plan)]
    assert layers[0] == layers[1]


def test_a_run_goes_around_the_loop_that_has_no_limit() -> None:
    plan = plan_agent(tools=[refund], middleware=[Review()])
    run = replay_counterexample(no(plan, "every loop passes a limit")).run()
    assert run.visits[:4] == ("model", "Review.after_model", "model", "Review.after_model")


def test_a_layer_answers_calls_where_the_path_skips_the_tools() -> None:
    plan = plan_agent(tools=[refund], middleware=[Layers()])
    run = replay_counterexample(no(plan, "no path from model to model skips tools")).run()
    assert run.visits == ("Layers.around_agent", *("model", "Layers.around_model") * 2)
    assert run.tools == ()


def test_a_run_that_a_tool_stops_ends_at_the_tools() -> None:
    plan = plan_agent(tools=[refund])
    run = replay_counterexample(no(plan, "no path from tools to end skips model")).run()
    assert (run.visits, run.tools) == (("model", "tools"), ("refund",))


@each("stack", [[], [Again()], [ModelCallLimitMiddleware(run_limit=900)]])
def test_a_run_makes_one_call_of_the_model_more_than_allowed(stack: list[Any]) -> None:
    """More than the hundred jumps without anything new, after which an agent gives up."""
    plan = plan_agent(tools=[refund], middleware=stack)
    run = replay_counterexample(no(plan, "at most 120 model calls")).run()
    assert Counter(run.visits)["model"] == 121


def test_a_run_makes_one_call_of_a_tool_more_than_allowed_by_the_part_that_fails() -> None:
    plan = plan_agent(tools=[search, refund], middleware=[ModelCallLimitMiddleware(run_limit=9)])
    both = "at most 9 model calls and at most 2 tool calls"
    for sentence, tools in (
        ("at most 3 calls of refund", ("refund",) * 4),
        ("at most 0 tool calls", ("search",)),
        (both, ("search",) * 3),
    ):
        assert replay_counterexample(no(plan, sentence)).run().tools == tools


def test_a_tool_of_an_agent_inside_runs_in_a_stand_in() -> None:
    clerk = create_agent(ScriptedChatModel([]), [refund], name="clerk")
    refunds = agent_tool(clerk, description="Refunds.")
    boss = create_agent(ScriptedChatModel([]), [refunds], name="boss")
    plan = plan_agent(tools=[search, agent_tool(boss, description="Asks the clerk.")])
    replay = replay_counterexample(no(plan, "tool refund passes HumanInTheLoopMiddleware"))
    run = replay.run()
    assert run.tools == ("boss/clerk/refund",)
    assert run.visits == ("model", "tools", "model")
    assert replay.run() == run


def test_a_stand_in_has_no_name_that_a_build_refuses() -> None:
    """The plan was built with `ignore`, so its replay is, too."""
    review = HumanInTheLoopMiddleware({"refund": True})
    plan = plan_agent(tools=[refund], middleware=[review, Shortcut()], ignore=["AF211", "AF217"])
    counterexample = no(plan, "no path from start to tools skips model")
    assert replay_counterexample(counterexample).run().tools == ("refund",)


@each(
    "sentence, reason",
    [
        ("at most 1001 model calls", "takes more than 1001 calls; a replay makes at most 1,000."),
        ("at most 5 USD", "is about USD, of which a scripted model uses none."),
        (
            "tool web_search passes A",
            "is about 'web_search', which the provider of the model runs.",
        ),
    ],
)
def test_what_no_run_of_stand_ins_shows_is_refused(sentence: str, reason: str) -> None:
    plan = plan_agent(tools=[refund, {"type": "web_search"}])
    with pytest.raises(ArgumentError) as caught:
        replay_counterexample(no(plan, sentence))
    assert caught.value.reason == reason
    assert "str(counterexample)" in caught.value.hint


def test_plans_that_stand_ins_cannot_follow_are_refused() -> None:
    react = topology_of(create_react_agent(ScriptedChatModel([]), [refund]))
    with pytest.raises(ArgumentError, match="create_react_agent"):
        replay_counterexample(no(react, "tool refund passes A"))
    schema = {"title": "Answer", "type": "object", "properties": {"text": {"type": "string"}}}
    asks_again = plan_agent(response_format=schema)
    with pytest.raises(ArgumentError, match="goes the way model -> model"):
        replay_counterexample(no(asks_again, "every loop passes a limit"))
