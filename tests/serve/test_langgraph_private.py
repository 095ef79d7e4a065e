"""Keys of the state that are declared private do not leave by any route of LangGraph's API."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, NotRequired, get_args

import httpx
import pytest
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from sqlalchemy import text
from starlette.routing import Route

from agent_factory import AgentMiddleware, AgentState, PrivateStateAttr, create_agent
from agent_factory.middleware import HumanInTheLoopMiddleware
from agent_factory.serve import Principal, create_app
from agent_factory.serve.langgraph.protocol import CHANNELS
from agent_factory.serve.langgraph.requests import StreamMode
from agent_factory.service import Service
from agent_factory.testing import ScriptedChatModel
from servers import served

SECRET = "the combination is 7-4-1"
MODES = [*get_args(StreamMode)]
TENANT = "a-tenant-that-nobody-else-knows"
OWN_KEYS = ("agent_factory_run", "agent_factory_job", "agent_factory_agent", "agent_factory_tenant")
SAYS = {"id": "m-1", "role": "user", "content": "Hi"}
NOTHING: Any = {"tools": [], "context": [], "state": {}, "forwardedProps": {}}
HI: Any = {"messages": [{"role": "user", "content": "Hi"}]}


class VaultState(AgentState):
    vault: NotRequired[Annotated[str, PrivateStateAttr]]
    open_days: NotRequired[str]


class Vault(AgentMiddleware):
    """Keeps a secret in the state of the agent."""

    state_schema = VaultState

    def before_model(self, state: Any, runtime: Any) -> dict[str, Any]:
        return {"vault": SECRET, "open_days": "Monday"}


def caller(name: str) -> ScriptedChatModel:
    call = {"name": name, "args": {"topic": "vaults"}, "id": "call-1"}
    return ScriptedChatModel([AIMessage("", tool_calls=[call]), *["Done."] * 100])


def make_agents() -> dict[str, Any]:
    """An agent, one that runs it in a tool, and a graph that has it as a node."""

    def look(topic: str) -> str:
        """Look something up."""
        return topic

    inner = create_agent(caller("look"), [look], middleware=[Vault()])

    def delegate(topic: str) -> str:
        """Let another agent look something up."""
        messages = inner.invoke({"messages": [("user", topic)]})["messages"]
        return str(messages[-1].text)

    class Outer(MessagesState):
        vault: str  # not in the output schema

    graph: Any = StateGraph(Outer, output_schema=MessagesState)
    graph.add_node("lock", lambda _: {"vault": SECRET})
    graph.add_node("desk", create_agent(caller("look"), [look], middleware=[Vault()]))
    graph.add_edge(START, "lock")
    graph.add_edge("lock", "desk")
    stores: Any = {"checkpointer": InMemorySaver()}
    asks = HumanInTheLoopMiddleware({"look": True})
    return {
        "plain": create_agent(caller("look"), [look], middleware=[Vault(), asks], **stores),
        "delegates": create_agent(caller("delegate"), [delegate], middleware=[Vault()]),
        "graph": graph.compile(),
    }


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with Service(f"sqlite:///{tmp_path_factory.mktemp('private')}/desk.db") as made:
        for name, agent in make_agents().items():
            made.add(name, agent)
        yield made


def endless(thread: str, checkpoint: Any) -> list[tuple[str, str, Any, Any]]:
    """Requests for streams that have no end: of a thread, and of its events."""
    stream, headers = f"/threads/{thread}/stream", {"last-event-id": "-1"}
    since = {"channels": [*CHANNELS], "since": 0}
    return [("GET", stream, headers, None), ("POST", f"{stream}/events", {}, since)]


def first_events(client: httpx.Client, method: str, path: str, headers: Any, body: Any) -> str:
    """A stream until the run has ended or pauses."""
    text = ""
    with client.stream(method, path, headers=headers, json=body) as response:
        assert response.status_code == 200
        for line in response.iter_lines():
            text += f"{line}\n"
            if "Done." in line or "completed" in line or '"status":"interrupted"' in line:
                break
            if '"interrupted"' in line or "__interrupt__" in line:
                break
    return text


@pytest.mark.long
@pytest.mark.parametrize("agent", ["plain", "delegates", "graph"])
def test_a_secret_leaves_by_no_route_and_no_stream(service: Service, agent: str) -> None:
    principal = Principal(tenant=TENANT, name="ann")
    with (
        served(service, authenticate=lambda _: principal) as url,
        httpx.Client(base_url=url, timeout=60) as client,
    ):
        thread = client.post("/threads", json={}).json()["thread_id"]
        run = {"assistant_id": agent, "input": HI, "stream_mode": MODES, "stream_subgraphs": True}
        run["multitask_strategy"] = "interrupt"
        answers = [client.post(f"/threads/{thread}/runs/stream", json=run)]
        events = set(answers[0].text.split("event: ")[1:])
        assert {one.split("|")[0].split()[0] for one in events} >= {"values", "updates", "debug"}
        if agent != "plain":
            assert any("|" in one.split()[0] for one in events)  # those of the inner agent
        (known,) = client.get(f"/threads/{thread}/runs").json()
        checkpoint = client.get(f"/threads/{thread}/state").json()["checkpoint"]
        places = {
            "{thread}": thread,
            "{run}": known["run_id"],
            "{assistant}": agent,
            "{agent}": agent,
            "{checkpoint}": checkpoint["checkpoint_id"],
        }
        bodies = {
            "/state/checkpoint": {"checkpoint": checkpoint},
            "/state": {"values": {"messages": [{"role": "user", "content": "Thanks"}]}},
            "/runs/stream": run,
            "/runs/wait": run,
            "/runs": run,
            f"/ag-ui/{agent}": {"threadId": "ag-ui", "runId": "1", "messages": [SAYS], **NOTHING},
            "/v1/chat/completions": {"model": agent, "messages": [SAYS], "stream": True},
        }
        app = create_app(service)
        routes = sorted(
            (one for one in app.routes if isinstance(one, Route)), key=lambda one: one.path
        )
        for route in routes:
            path = route.path
            for name, value in places.items():
                path = path.replace(name, value)
            for method in sorted((route.methods or set()) - {"HEAD", "DELETE"}):
                body = next((body for end, body in bodies.items() if path.endswith(end)), {})
                given: Any = {} if method == "GET" else {"json": body}
                if not route.path.endswith(("/events", "{thread}/stream")):  # they have no end
                    answers.append(client.request(method, path, **given))
        # The pages show people whose tenant they work for; the protocols do not.
        texts: list[tuple[Any, str]] = [
            (answer.request.url, answer.text.replace(f"ann · {TENANT}", "")) for answer in answers
        ]
        texts += [(place, first_events(client, *place)) for place in endless(thread, checkpoint)]
        assert len(texts) == len(answers) + 2
        for place, seen in texts:
            for secret in (SECRET, TENANT, *OWN_KEYS):
                assert secret not in seen, (secret, place)
        assert sum(answer.is_success for answer in answers) > 20
        paths = {str(answer.url.path) for answer in answers if answer.is_success}
        assert paths >= {f"/ag-ui/{agent}", "/v1/chat/completions"}
        state = client.get(f"/threads/{thread}/state").json()["values"]
        assert "vault" not in state
        assert ("open_days" in state) == (agent != "graph")
    with service._backend.database.read() as connection:
        stored = connection.execute(text("select data from service_events")).scalars().all()
    assert stored
    assert not any(SECRET.encode() in data for data in stored)
