"""The stream mode "events": alone, and as agent-inbox uses it, whose requests are repeated here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import interrupt

from agent_factory import create_agent
from agent_factory.service import Service
from serve.langgraph_desk import HI, caller, said
from serve.protocol_desk import protocol_service
from tables import each


def mail(to: str) -> str:
    """Send a mail."""
    request = {"action": "mail", "args": {"to": to}}
    allowed = dict.fromkeys(("allow_accept", "allow_edit", "allow_respond", "allow_ignore"), True)
    (answer,) = interrupt([{"action_request": request, "config": allowed, "description": "May I?"}])
    return f"They said {answer['type']}."


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with protocol_service(f"sqlite:///{tmp_path_factory.mktemp('events')}/desk.db") as service:
        agent = create_agent(caller("mail", to="Ann"), [mail], checkpointer=InMemorySaver())
        service.add("mailer", agent)
        yield service


def events_of(parts: Any) -> list[Any]:
    return [part.data for part in parts if part.event == "events"]


def kinds(events: list[Any]) -> list[tuple[str, str]]:
    return [(event["event"], event["name"]) for event in events]


def test_the_agent_its_nodes_models_and_tools_have_events(client: Any, thread: str) -> None:
    parts = [*client.runs.stream(thread, "payer", input=HI, stream_mode="events")]
    assert {part.event for part in parts} == {"metadata", "events"}
    events = events_of(parts)
    model = "scriptedchatmodel"
    assert kinds(events) == [
        ("on_chain_start", "payer"),
        ("on_chain_start", "model"),
        ("on_chat_model_stream", model),
        ("on_chat_model_end", model),
        ("on_chain_stream", "model"),
        ("on_chain_end", "model"),
        ("on_chain_start", "tools"),
        ("on_tool_start", "pay"),
        ("on_tool_end", "pay"),
        ("on_chain_stream", "tools"),
        ("on_chain_end", "tools"),
        ("on_chain_start", "model"),
        ("on_chat_model_stream", model),
        ("on_chat_model_stream", model),
        ("on_chat_model_end", model),
        ("on_chain_stream", "model"),
        ("on_chain_end", "model"),
        ("on_chain_end", "payer"),
    ]
    assert events[7]["data"] == {"input": {"euros": 5}}
    assert events[8]["data"]["output"]["content"] == "Paid 5."
    assert events[7]["parent_ids"] == [events[0]["run_id"], events[6]["run_id"]]
    assert events[14]["data"]["output"]["content"] == "Done."
    assert events[14]["parent_ids"] == [events[0]["run_id"], events[11]["run_id"]]
    assert events[1]["metadata"]["langgraph_node"] == "model"
    assert said(events[-1]["data"]["output"])[-1] == "Done."


def test_they_are_the_same_when_a_stream_is_joined_again(client: Any, thread: str) -> None:
    modes = ["events", "updates"]
    parts = [*client.runs.stream(thread, "payer", input=HI, stream_mode=modes)]
    (run,) = client.runs.list(thread)
    again = [*client.runs.join_stream(thread, run["run_id"], stream_mode=modes)]
    assert [part.data for part in again] == [part.data for part in parts]
    # The last event of each part has its id; the others are sent again.
    ends = [at for at in range(1, len(parts)) if parts[at].id != parts[at - 1].id]
    for cut in ends[:-1]:
        place: dict[str, Any] = {"stream_mode": modes, "last_event_id": parts[cut].id}
        rest = client.runs.join_stream(thread, run["run_id"], **place)
        assert [part.data for part in rest] == [part.data for part in parts[cut + 1 :]]


def test_agents_inside_have_events_too(client: Any, thread: str) -> None:
    events = events_of(client.runs.stream(thread, "outer_echo", input=HI, stream_mode="events"))
    nodes = [name for kind, name in kinds(events) if kind == "on_chain_start"]
    assert nodes == ["outer_echo", "inner", "model"]
    outer, node, *_, model = [event for event in events if event["event"] == "on_chain_start"]
    assert model["parent_ids"] == [outer["run_id"], node["run_id"]]


@pytest.mark.parametrize("agent", ["echo", "lender"])
def test_a_failure_has_an_error_and_no_end(client: Any, thread: str, agent: str) -> None:
    said = {"messages": [{"role": "user", "content": "fail"}]}
    parts = [*client.runs.stream(thread, agent, input=said, stream_mode="events")]
    assert parts[-1].event == "error"
    events = events_of(parts)
    assert ("on_chain_end", agent) not in kinds(events)
    errors = [event["data"] for event in events if event["event"] == "on_tool_error"]
    expected = [{"error": "no money", "input": {"euros": 5}}]
    assert errors == (expected if agent == "lender" else [])


# agent-inbox


class Inbox:
    """The requests of agent-inbox's page, as its client for JavaScript sends them."""

    def __init__(self, http: httpx.Client, agent: str) -> None:
        self.http, self.agent = http, agent

    def threads(self, status: str) -> list[Any]:
        body = {"metadata": {"graph_id": self.agent}, "limit": 10, "offset": 0, "status": status}
        threads: list[Any] = self._post("/threads/search", **body).json()
        return threads

    def answer(self, thread: str, answer: Any) -> httpx.Response:
        body = {"command": {"resume": answer}, "stream_mode": "events", "assistant_id": self.agent}
        return self._post(f"/threads/{thread}/runs/stream", **body)

    def ignore(self, thread: str, answer: Any) -> None:
        self._post(f"/threads/{thread}/runs", command={"resume": answer}, assistant_id=self.agent)

    def resolve(self, thread: str) -> None:
        self._post(f"/threads/{thread}/state", values=None, as_node="__end__")

    def _post(self, place: str, **body: Any) -> httpx.Response:
        return self.http.post(place, json=body).raise_for_status()


@pytest.fixture
def inbox(url: str) -> Iterator[Callable[[str], Inbox]]:
    """The page for an agent: `inbox("desk")`."""
    with httpx.Client(base_url=url, timeout=60) as http:
        yield lambda agent: Inbox(http, agent)


def waiting(client: Any, agent: str) -> str:
    thread = str(client.threads.create()["thread_id"])
    client.runs.wait(thread, agent, input=HI)
    return thread


def test_agent_inbox_answers_ignores_and_resolves(
    client: Any, inbox: Callable[[str], Inbox]
) -> None:
    thread, ignored, resolved = (waiting(client, "mailer") for _ in range(3))
    (found,) = [one for one in inbox("mailer").threads("interrupted") if one["thread_id"] == thread]
    ((asked,),) = found["interrupts"].values()
    args = asked["value"][0]["action_request"]
    stream = inbox("mailer").answer(thread, [{"type": "accept", "args": args}]).text
    assert '"event":"on_chain_start","name":"tools"' in stream
    assert "event: error" not in stream
    assert said(client.threads.get_state(thread)["values"])[2:] == ["They said accept.", "Done."]
    inbox("mailer").ignore(ignored, [{"type": "ignore", "args": None}])
    (run, *_) = client.runs.list(ignored)
    client.runs.join(ignored, run["run_id"])
    assert said(client.threads.get_state(ignored)["values"])[2] == "They said ignore."
    inbox("mailer").resolve(resolved)
    for status, ids in (("interrupted", set()), ("idle", {thread, ignored, resolved})):
        found = {one["thread_id"] for one in inbox("mailer").threads(status)}
        assert found & {thread, ignored, resolved} == ids


PAY: Any = {"action": "pay", "args": {"euros": 5}}
MORE: Any = {"action": "pay", "args": {"euros": 7}}


@each(
    "decision, expected",
    [
        ({"type": "approve", "args": PAY}, "Paid 5."),
        ({"type": "edit", "args": MORE}, "Paid 7."),
        ({"type": "reject", "args": "Too much."}, "Too much."),
    ],
)
def test_agent_inbox_decides_about_a_review(
    client: Any, inbox: Callable[[str], Inbox], decision: Any, expected: str
) -> None:
    thread = waiting(client, "desk")
    assert "event: error" not in inbox("desk").answer(thread, {"decisions": [decision]}).text
    assert said(client.threads.get_state(thread)["values"])[-2].startswith(expected)


def test_a_call_that_does_not_wait_is_not_approved(
    client: Any, inbox: Callable[[str], Inbox]
) -> None:
    thread = waiting(client, "desk")
    with pytest.raises(httpx.HTTPStatusError, match="422"):
        inbox("desk").answer(thread, {"decisions": [{"type": "approve", "args": MORE}]})
    assert client.threads.get(thread)["status"] == "interrupted"
