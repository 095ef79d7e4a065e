"""All routes: no tenant sees another one, no private key leaves, and no request fails."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Annotated, Any, NotRequired, get_args
from urllib.parse import quote, urlencode
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from sqlalchemy import select, text
from starlette.applications import Starlette
from starlette.testclient import TestClient

from agent_factory import AgentMiddleware, AgentState, PrivateStateAttr, create_agent
from agent_factory.middleware import HumanInTheLoopMiddleware, Rule, ToolPolicy
from agent_factory.serve import Principal, create_app
from agent_factory.serve.langgraph.protocol import CHANNELS
from agent_factory.serve.langgraph.requests import StreamMode
from agent_factory.service import Service, tables
from agent_factory.service.database import Database
from agent_factory.testing import ScriptedChatModel
from serve.accounts import who
from serve.forms import wrong_tags
from serve.langgraph_desk import HI
from serve.route_examples import (
    AG_UI,
    ANSWER,
    ENDLESS,
    EXAMPLES,
    PUBLIC,
    Form,
    Sent,
    examples,
    filled,
    first_parts,
    send,
)
from service.databases import new_postgres
from service.stored import tables_of
from tables import each

FORM = "application/x-www-form-urlencoded"
SECRET = "the-secret-of-acme"
TABLES = (
    *(tables.threads, tables.runs, tables.waits, tables.audit, tables.approvals),
    *(tables.assistants, tables.assistant_versions, tables.schedules),
)
BOB = {"x-user": "bob@globex"}


def echo(messages: list[BaseMessage]) -> AIMessage:
    return AIMessage(f"You said: {messages[-1].text}")


def ask(messages: list[BaseMessage]) -> AIMessage:
    if isinstance(messages[-1], ToolMessage):
        return AIMessage("Done.")
    return AIMessage(
        "", tool_calls=[{"name": "pay", "args": {"to": messages[-1].text}, "id": "c-1"}]
    )


def pay(to: str) -> str:
    """Pay somebody."""
    return f"Paid {to}."


@dataclass(frozen=True)
class World:
    """A service with two tenants, and the ids of what they have."""

    service: Service
    url: str
    client: TestClient
    app: Starlette
    own: Mapping[str, str]
    foreign: Mapping[str, str]

    common = ("agent", "name", "namespace")
    """Ids that are those of all tenants."""

    def rows(self) -> list[Any]:
        """All that is known of acme."""
        database = Database(self.url)
        with database.read() as connection:
            found: list[Any] = [
                row
                for table in TABLES
                for row in connection.execute(
                    select(table).where(table.c.tenant == "acme").order_by(*table.primary_key)
                )
            ]
            found.append(self.service.store("acme").get(("a",), "k"))
            mine = ", ".join(f"'{self.foreign[name]}'" for name in ("thread", "waiting"))
            counted = f"select count(*) from checkpoints where thread_id in ({mine})"
            found.append(connection.execute(text(counted)).scalar())
        database.close()
        return found


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def world(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    url = f"sqlite:///{tmp_path_factory.mktemp('routes')}/desk.db"
    if request.param == "postgres":
        url = new_postgres(request.getfixturevalue("postgres_server"))
    asks = [HumanInTheLoopMiddleware(ToolPolicy(Rule("pay", "ask", remember=3600)))]
    saver = InMemorySaver()
    with Service(url) as service:
        service.add("echo", create_agent(ScriptedChatModel([echo] * 100_000), checkpointer=saver))
        model = ScriptedChatModel([ask] * 100_000)
        service.add("desk", create_agent(model, [pay], middleware=asks, checkpointer=saver))
        app = create_app(service, who, metrics_token="metrics")
        client = TestClient(app, headers=BOB)
        own, foreign = (things_of(service, tenant) for tenant in ("globex", "acme"))
        yield World(service, url, client, app, own, foreign)


def things_of(service: Service, tenant: str) -> dict[str, str]:
    """A thread with a run and its checkpoint, and one that waits."""
    word = SECRET if tenant == "acme" else "public <x-tag onclick='alert(1)'>"
    thread = service.threads.create(metadata={"topic": word}, tenant=tenant).id
    run = service.submit("echo", thread=thread, message=word, tenant=tenant, metadata={"m": word})
    run.result(60)
    service.store(tenant).put(("a",), "k", {"x": word})
    waiting = service.submit("desk", message=word, tenant=tenant)
    waiting.result(60)
    (wait,) = service.inbox(tenant).waits(thread=waiting.thread_id)
    other = service.submit("desk", message=f"{word} {uuid4().hex}", tenant=tenant)
    other.result(60)
    (known,) = service.inbox(tenant).waits(thread=other.thread_id)
    service.decide(known.id, "approve", by=word, remember={"seconds": 60}).result(60)
    echo: Any = {"agent": "echo", "assistant": "echo", "options": {}, "by": word, "thread": thread}
    cron = service.crons(tenant).create("0 3 * * *", **echo)
    return {
        "thread": thread,
        "run": run.id,
        "checkpoint": service.threads.state(thread).config["configurable"]["checkpoint_id"],
        "waiting": waiting.thread_id,
        "waiting_run": waiting.id,
        "wait": wait.id,
        "digest": wait.digest,
        "interrupt": service.threads.state(waiting.thread_id).interrupts[0].id,
        "approval": service.approvals(tenant=tenant)[0].id,
        "agent": "echo",
        "assistant": service.assistants(tenant).create("echo", metadata={"topic": word}).id,
        "cron": cron.id,
        "name": "app.css",
        "namespace": "model",
    }


@pytest.mark.long
def test_each_example_is_answered(world: World) -> None:
    """So what is refused below is refused since it is another tenant's."""
    ids = {**world.own, **things_of(world.service, "globex")}
    for method, path, body in examples(world.app):
        # Nothing waits there, no run is there to be cancelled or has failed, a thread that is at
        # work begins no branch, and it can be deleted once.
        refused = "/runs/(.*/)?cancel$|/(retry|answers|versions)$|POST .*/delete$"
        if body is not ANSWER and not re.search(refused, f"{method} {path}"):
            answer = send(world.client, method, filled(path, ids), filled(body, ids))
            context = (method, path, body, answer.text)
            assert answer.status_code < 400, context
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["content-security-policy"].startswith("default-src 'none'; ")
            kind = answer.headers.get("content-type", "").partition(";")[0]
            if kind == "text/html":
                assert wrong_tags(answer.text) == [], context


@pytest.mark.long
def test_no_route_shows_or_changes_what_another_tenant_has(world: World) -> None:
    before = world.rows()
    threads_of_acme = [world.foreign, {**world.foreign, "thread": world.foreign["waiting"]}]
    for foreign, (method, path, body) in product(threads_of_acme, examples(world.app)):
        names = [n for n in foreign.keys() - world.common if f"{{{n}}}" in f"{path} {body}"]
        # Each mixture of own and foreign ids.
        for chosen in product([True, False], repeat=len(names)):
            if names and not any(chosen):
                continue
            picked = dict(zip(names, chosen, strict=True))
            ids = {name: (foreign if picked.get(name) else world.own)[name] for name in world.own}
            sent_path, sent = filled(path, ids), filled(body, ids)
            answer = send(world.client, method, sent_path, sent)
            context = (method, sent_path, sent, answer.text)
            assert answer.status_code < 500, context
            # A checkpoint that is not one of the thread is an empty state.
            in_path = [name for name in names if f"{{{name}}}" in path and name != "checkpoint"]
            if any(picked[name] for name in in_path):
                assert answer.status_code == 404, context
            shown, given = f"{answer.text} {answer.headers}", f"{sent_path} {sent}"
            for value in {SECRET, *foreign.values()} - {*world.own.values()}:
                if value not in given:
                    assert value not in shown, context
    assert world.rows() == before


@pytest.mark.long
def test_no_route_serves_somebody_who_is_not_known(world: World) -> None:
    before = world.rows()
    for method, path, body in examples(world.app):
        sent_path, sent = filled(path, world.foreign), filled(body, world.foreign)
        answer = send(world.client, method, sent_path, sent, {"x-user": ""})
        status = 200 if f"{method} {path}" in PUBLIC else 401
        assert answer.status_code == status, (method, path, answer.text)
    assert world.rows() == before


@pytest.mark.long
def test_no_route_takes_what_another_site_can_send(world: World) -> None:
    for method, path, body in examples(world.app):
        sent_path, sent = filled(path, world.own), filled(body, world.own)
        if method != "GET":
            answer = send(world.client, method, sent_path, sent, {"Origin": "https://evil.example"})
            assert answer.status_code == 403, (method, path, answer.text)
        if method != "GET" and sent is not None and not isinstance(sent, Form):
            sent = sent.body if isinstance(sent, Sent) else sent
            plain = {"Content-Type": "text/plain"}
            content = json.dumps(sent)
            answer = world.client.request(method, sent_path, content=content, headers=plain)
            assert answer.status_code == 415, (method, path, answer.text)


def test_a_page_that_has_followed_another_thread(world: World) -> None:
    """The id of its last event is not one of this thread, so it sees all events."""
    headers = {**BOB, "Last-Event-ID": f"{world.foreign['thread']}/00000001:1:0"}
    path = f"/studio/threads/{world.own['waiting']}/events"
    request = world.client.build_request("GET", path, headers=headers)
    answer = asyncio.run(first_parts(world.app, request, until=b"\ndata: "))
    assert "\ndata: " in answer.text
    assert SECRET not in answer.text


@pytest.mark.long
def test_no_route_decides_for_somebody_who_may_not(world: World) -> None:
    ids = things_of(world.service, "globex")
    app = create_app(world.service, who, may_decide=lambda principal, wait: False)
    client = TestClient(app, headers=BOB)
    refused = 0
    for method, path, body in examples(app):
        decides = body is ANSWER or any(one in f"{path} {body}" for one in ("{wait", "{interrupt"))
        if path != "/threads/prune" and decides:
            place = {**ids, "thread": ids["waiting"]}
            answer = send(client, method, filled(path, place), filled(body, place))
            refused += "may not decide about this call" in answer.text
    wait = world.service.inbox().get(ids["wait"])
    assert (wait.claimed_by, wait.decided_by) == (None, None)
    assert refused == 11  # a way to decide more is one more


@each("path", ["/threads/a%00b", "/threads/a%00b/state/c", "/threads/a/state/b%00"])
def test_a_nul_in_an_id(world: World, path: str) -> None:
    """Postgres takes none in a text."""
    assert world.client.get(path).status_code in (404, 422)


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([2**63, -(2**63) - 1, 10**400, 0, -1, 1e308])
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
    | st.sampled_from(["\0", "a\0b", "\ud800", "-1", "1" * 5000, "x" * 10_000, "../..", "%"])
)
NAMES = st.text(max_size=4) | st.sampled_from(
    [
        *("k", 'a"b', "a.b", "..", "$", "[0]", "it's", "\0", "\ud800"),
        *("messages", "$gt", "$regex", "role"),
    ]
)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
) | st.sampled_from([{f"k{n}": n for n in range(3000)}, [[]] * 3000, {"messages": None}])
RAW = st.sampled_from(
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'"',
        b"[" * 100_000,
        b'{"a":' * 5000,
        b"\xff\xfe",
        b'{"a": NaN}',
        b'{"a": 1, "a": 2}',
        "{}".encode("utf-16"),
        b"1" * 10_000,
    ]
) | st.binary(max_size=20)
VALUES = st.sampled_from(["", "0", "-1", "1", "9" * 30, "9" * 5000, "²", "\0", "true", "x", "ü"])
QUERIES = st.dictionaries(
    st.sampled_from(
        [
            *("limit", "offset", "status", "xray", "stream_mode", "action", "at", "before"),
            *("from", "thread"),
        ]
    ),
    VALUES,
)


@st.composite
def changed(draw: st.DrawFn, example: Any) -> Any:
    """An example with another value at one place, or with one value more."""
    if isinstance(example, dict) and draw(st.integers(0, 4)):
        key = draw(st.sampled_from([*example, *example, "config", "metadata", "limit"]) | NAMES)
        return {**example, key: draw(changed(example.get(key)))}
    if isinstance(example, list) and example and draw(st.integers(0, 4)):
        return [draw(changed(example[0])), *example[1:]]
    return draw(JSON)


REQUESTS = st.sampled_from(
    [
        (*key.split(), body)
        for key, bodies in EXAMPLES.items()
        for body in bodies
        if key not in ENDLESS
    ]
)


@st.composite
def odd_requests(draw: st.DrawFn) -> dict[str, Any]:
    method, path, body = draw(REQUESTS)
    for name in ("thread", "run", "checkpoint", "assistant", "cron", "wait", "name"):
        odd = draw(st.sampled_from([None, None, "nope", "%", "a\0b", "x" * 3000, "ü"]))
        if odd is not None:
            path = path.replace(f"{{{name}}}", quote(odd, safe=""))
    after = draw(st.none() | VALUES | st.sampled_from(["a:b:c", f"{{thread}}/1:{'9' * 30}:0"]))
    body = body.body if isinstance(body, Sent) else body
    is_form = isinstance(body, Form)
    headers = {"Content-Type": FORM if is_form else "application/json"}
    if after is not None:
        headers["Last-Event-ID"] = quote(after)
    if body is None or isinstance(body, str) or draw(st.integers(0, 5)) == 0:
        content = draw(RAW)
    elif isinstance(body, Form):
        names = st.sampled_from([*body.fields, "text", "arg.to", "\0"])
        fields = {**body.fields, **draw(st.dictionaries(names, VALUES | st.text(max_size=8)))}
        content = urlencode(fields, errors="replace").encode()
    else:
        content = json.dumps(draw(changed(body))).encode()
    query = draw(QUERIES)
    return {"method": method, "url": path, "params": query, "content": content, "headers": headers}


# The worker uses `random` meanwhile.
@pytest.mark.filterwarnings("ignore::hypothesis.errors.HypothesisDeprecationWarning")
@given(odd_requests())
def test_no_request_makes_the_server_fail(world: World, request_: dict[str, Any]) -> None:
    thread = world.service.threads.create(tenant="globex").id
    ids = {**world.own, "thread": thread}
    content = request_["content"]
    for name, value in ids.items():
        content = content.replace(f"{{{name}}}".encode(), value.encode())
    answer = world.client.request(
        **{**request_, "url": filled(request_["url"], ids), "content": content}
    )
    assert answer.status_code < 500, answer.text
    assert "Traceback" not in answer.text
    assert "sqlalchemy" not in answer.text


COMBINATION = "the combination is 7-4-1"
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
        return {"vault": COMBINATION, "open_days": "Monday"}


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
    graph.add_node("lock", lambda _: {"vault": COMBINATION})
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
        client = TestClient(app)
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
            for secret in (COMBINATION, TENANT, *OWN_KEYS):
                assert secret not in seen, (secret, where)
        succeeded = {where for where, answer in answers if answer.is_success}
        assert len(succeeded) > 60
        assert succeeded >= {"POST /ag-ui/{agent}", "POST /v1/chat/completions"}
        stored = tables_of(service).values(text("select data from service_events"))
        assert stored
        assert not any(COMBINATION.encode() in data for data in stored)
