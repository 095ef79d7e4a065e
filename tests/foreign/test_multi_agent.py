"""langgraph-supervisor and langgraph-swarm, with agents of others and with ours."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command, interrupt
from langgraph_supervisor import create_forward_message_tool, create_handoff_tool, create_supervisor
from langgraph_swarm import create_handoff_tool as create_swarm_handoff
from langgraph_swarm import create_swarm
from pydantic import BaseModel

from foreign.stories import Library, calls
from samples import add_tool as add

# langgraph's create_react_agent, which langgraph-supervisor calls, is deprecated.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@tool
def search(query: str) -> str:
    """Search the web."""
    return f"All about {query}."


@tool
def confirm(what: str) -> str:
    """Ask the user."""
    return f"The user says {interrupt(what)}."


def made_by(factory: str) -> Any:
    """Return a function that makes agents: `make(library, model, tools, name)`."""

    def make(library: Library, model: Any, tools: Any, name: str) -> Any:
        return getattr(library, factory)(model, tools, name=name)

    return make


@pytest.fixture(params=["create_agent", "create_react_agent"])
def make(request: pytest.FixtureRequest) -> Any:
    return made_by(request.param)


def to(name: str) -> Any:
    return f"transfer_to_{name}", {}


ADD = calls(("add", {"a": 2, "b": 3}))
SEARCH = calls(("search", {"query": "tea"}))


@pytest.mark.parametrize("mode", ["full_history", "last_message"])
def test_a_supervisor_delegates_and_answers(alike: Any, make: Any, mode: Any) -> None:
    def build(library: Library, script: Any) -> Any:
        math = make(library, script(ADD, "It is 5."), [add], "math")
        research = make(library, script(SEARCH, "It is a drink."), [search], "research")
        model = script(calls(to("math")), calls(to("research")), "5, and a drink.")
        graph = create_supervisor([math, research], model=model, prompt="Lead.", output_mode=mode)
        return graph.compile(checkpointer=InMemorySaver())

    story = alike(build)
    texts = [message["content"] for message in story.state["messages"]]
    assert texts[-1] == "5, and a drink."
    assert ("All about tea." in texts) == (mode == "full_history")


def test_two_handoffs_in_a_turn(each: Any, make: Any) -> None:
    """langchain's agents lose one of them; ours pass both on."""

    def build(library: Library, script: Any) -> Any:
        math = make(library, script(ADD, "It is 5."), [add], "math")
        research = make(library, script(SEARCH, "It is a drink."), [search], "research")
        model = script(calls(to("math"), to("research")), "5, and a drink.")
        return create_supervisor([math, research], model=model, parallel_tool_calls=True).compile()

    theirs, *ours = each(build)
    assert sum(text in str(theirs.outcomes) for text in ("It is 5.", "It is a drink.")) == 1
    for story in ours:
        texts = [message["content"] for message in story.outcomes[0]["messages"]]
        assert texts.index("It is 5.") < texts.index("It is a drink.") < len(texts) - 1


def test_a_supervisor_remembers_earlier_turns(alike: Any, make: Any) -> None:
    def build(library: Library, script: Any) -> Any:
        math = make(library, script(ADD, "It is 5.", ADD, "Still 5."), [add], "math")
        model = script(calls(to("math")), "5.", calls(to("math")), "Still 5.")
        graph = create_supervisor([math], model=model, output_mode="full_history")
        return graph.compile(checkpointer=InMemorySaver(), store=InMemoryStore())

    story = alike(build, "2 + 3?", "Sure?")
    assert "2 + 3?" in str(story.seen[0][-1])


def test_a_supervisor_of_supervisors(alike: Any, make: Any) -> None:
    def build(library: Library, script: Any) -> Any:
        math = make(library, script(ADD, "It is 5."), [add], "math")
        team = create_supervisor(
            [math], model=script(calls(to("math")), "The team says 5."), supervisor_name="lead"
        ).compile(name="team")
        research = make(library, script(), [search], "research")
        top = create_supervisor([team, research], model=script(calls(to("team")), "5."))
        return top.compile(checkpointer=InMemorySaver())

    assert alike(build).state["messages"][-1]["content"] == "5."


def test_a_supervisor_has_own_tools_handoffs_and_an_answer(alike: Any, make: Any) -> None:
    class Answer(BaseModel):
        number: int

    def build(library: Library, script: Any) -> Any:
        math = make(library, script(ADD, "It is 5."), [add], "math")
        delegate = create_handoff_tool(
            agent_name="math", name="delegate", description="Let somebody add."
        )
        model = script(SEARCH, calls(("delegate", {})), "Five.", '{"number": 5}')
        graph = create_supervisor(
            [math],
            model=model,
            tools=[search, delegate],
            response_format=Answer,
            add_handoff_back_messages=False,
            include_agent_name="inline",
        )
        return graph.compile()

    story = alike(build)
    assert story.outcomes[0]["messages"][-1]["content"] == "Five."


def test_a_supervisor_forwards_a_message(alike: Any, make: Any) -> None:
    def build(library: Library, script: Any) -> Any:
        math = make(library, script(ADD, "It is 5."), [add], "math")
        forward = calls(("forward_message", {"from_agent": "math"}))
        graph = create_supervisor(
            [math],
            model=script(calls(to("math")), forward),
            tools=[create_forward_message_tool("supervisor")],
        )
        return graph.compile()

    assert alike(build).outcomes[0]["messages"][-1]["content"] == "It is 5."


def test_an_agent_of_a_supervisor_asks_the_user(alike: Any, make: Any) -> None:
    def build(library: Library, script: Any) -> Any:
        asking = make(
            library, script(calls(("confirm", {"what": "Pay?"})), "Paid."), [confirm], "payer"
        )
        graph = create_supervisor([asking], model=script(calls(to("payer")), "Done."))
        return graph.compile(checkpointer=InMemorySaver())

    story = alike(build, "Pay.", Command(resume="yes"))
    assert story.outcomes[0]["interrupts"] == ["Pay?"]
    assert story.state["messages"][-1]["content"] == "Done."


def swarm(library: Library, make: Any, alice: Any, bob: Any) -> Any:
    """Two agents that hand over to each other."""
    agents = [
        make(library, alice, [add, create_swarm_handoff(agent_name="Bob")], "Alice"),
        make(library, bob, [search, create_swarm_handoff(agent_name="Alice")], "Bob"),
    ]
    return create_swarm(agents, default_active_agent="Alice").compile(checkpointer=InMemorySaver())


def test_a_swarm_stays_with_the_agent_that_was_handed_to(alike: Any, make: Any) -> None:
    def build(library: Library, script: Any) -> Any:
        alice = script(ADD, calls(to("bob")))
        bob = script(SEARCH, "Bob here.", "Still Bob.")
        return swarm(library, make, alice, bob)

    story = alike(build, "2 + 3, then Bob.", "Who are you?")
    assert story.state["active_agent"] == "Bob"
    assert story.state["messages"][-1]["content"] == "Still Bob."


def handing_over_while_adding(make: Any) -> Any:
    """langgraph-swarm passes the messages on as they were when the tool was called."""

    def build(library: Library, script: Any) -> Any:
        alice = script(calls(("add", {"a": 2, "b": 3}), to("bob")))
        return swarm(library, make, alice, script("Bob here."))

    return build


@pytest.mark.parametrize("factory", ["create_agent", "create_react_agent"])
def test_our_agents_pass_on_the_result_of_a_call_next_to_a_handoff(each: Any, factory: str) -> None:
    """Langchain's agent loses it, and langgraph's refuses the history."""
    theirs, *ours = each(handing_over_while_adding(made_by(factory)))
    if factory == "create_agent":
        assert theirs.results == ["Successfully transferred to Bob"]  # the model sees it like that
    else:
        (outcome,) = theirs.outcomes
        assert "do not have a corresponding ToolMessage" in outcome["error"]["text"]
    for story in ours:
        assert story.results == ["5", "Successfully transferred to Bob"]
        assert story.state["messages"][-1]["content"] == "Bob here."
