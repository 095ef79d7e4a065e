"""Keys of the state that are declared private do not leave by any route of LangGraph's API."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Annotated, Any, NotRequired, get_args

import pytest
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from sqlalchemy import text
from starlette.testclient import TestClient

from agent_factory import AgentMiddleware, AgentState, PrivateStateAttr, create_agent
from agent_factory.middleware import HumanInTheLoopMiddleware
from agent_factory.serve import Principal, create_app
from agent_factory.serve.langgraph.protocol import CHANNELS
from agent_factory.serve.langgraph.requests import StreamMode
from agent_factory.service import Service
from agent_factory.testing import ScriptedChatModel
from serve.langgraph_desk import HI
from serve.route_examples import AG_UI, examples, filled, first_parts, send

SECRET = "the combination is 7-4-1"
MODES = [*get_args(StreamMode)]
TENANT = "a-tenant-that-nobody-else-knows"
OWN_KEYS = ("agent_factory_run", "agent_factory_job", "agent_factory_agent", "agent_factory_tenant")


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


@pytest.mark.long
@pytest.mark.parametrize("name", ["plain", "delegates", "graph"])
def test_a_secret_leaves_by_no_route_and_no_stream(tmp_path: Path, name: str) -> None:
    with Service(f"sqlite:///{tmp_path}/desk.db") as service:
        for taken in ("echo", "desk"):  # the names in the examples
            service.add(taken, make_agents()[name])
        app = create_app(service, lambda _: Principal(TENANT, "ann"), metrics_token="metrics")
        client = TestClient(app, cookies={"agent_factory_csrf": "token"})
        thread = client.post("/threads", json={}).json()["thread_id"]
        run = {"assistant_id": "echo", "input": HI, "stream_mode": MODES, "stream_subgraphs": True}
        answers: list[tuple[str, Any]] = [
            ("stream", client.post(f"/threads/{thread}/runs/stream", json=run))
        ]
        events = set(answers[0][1].text.split("event: ")[1:])
        assert {one.split("|")[0].split()[0] for one in events} >= {"values", "updates", "debug"}
        if name != "plain":
            assert any("|" in one.split()[0] for one in events)  # those of the inner agent
        (known,) = client.get(f"/threads/{thread}/runs").json()
        state = client.get(f"/threads/{thread}/state").json()
        assert "vault" not in state["values"]
        assert ("open_days" in state["values"]) == (name != "graph")
        ids = {"thread": thread, "run": known["run_id"], "waiting_run": known["run_id"]}
        ids |= {"agent": "echo", "assistant": "echo", "name": "app.css", "namespace": "model"}
        ids |= {"waiting": thread, "checkpoint": state["checkpoint"]["checkpoint_id"]}
        for method, path, body in examples(app):
            if method != "DELETE" and not re.search("/(delete|prune)$", path):
                answer = send(client, method, filled(path, ids), filled(body, ids))
                answers.append((f"{method} {path}", answer))
        answer = client.post("/ag-ui/echo", json={**AG_UI, "threadId": "ag-ui"})
        answers.append(("POST /ag-ui/{agent}", answer))
        place = f"/threads/{thread}/stream"
        since = {"channels": [*CHANNELS], "since": 0}
        every = client.build_request("GET", place, headers={"last-event-id": "-1"})
        streams = [every, client.build_request("POST", f"{place}/events", json=since)]
        for request in streams:
            stream = asyncio.run(first_parts(app, request, until=b"Done."))
            assert "Done." in stream.text
            answers.append((str(request.url), stream))
        for where, answer in answers:
            # The pages show people whose tenant they work for; the protocols do not.
            seen = answer.text.replace(f"ann · {TENANT}", "")
            for secret in (SECRET, TENANT, *OWN_KEYS):
                assert secret not in seen, (secret, where)
        succeeded = {where for where, answer in answers if answer.is_success}
        assert len(succeeded) > 60
        assert succeeded >= {"POST /ag-ui/{agent}", "POST /v1/chat/completions"}
        with service._backend.database.read() as connection:
            stored = connection.execute(text("select data from service_events")).scalars().all()
        assert stored
        assert not any(SECRET.encode() in data for data in stored)
