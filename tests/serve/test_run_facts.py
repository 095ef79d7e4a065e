"""What clients of LangGraph's API learn of runs and threads: facts and events, and no constants."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any

import httpx
import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import interrupt

from agent_factory import create_agent
from agent_factory.service import NotFound, Service
from agent_factory.testing import ScriptedChatModel
from serve.agents import Notes
from serve.langgraph_desk import HI, REFUSED, caller, echo, said
from serve.protocol_desk import protocol_service
from tables import each

FAIL: Any = {"messages": [{"role": "user", "content": "fail"}]}
FAILURE = {"error": "ValueError", "message": "the model is out of order"}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with protocol_service(f"sqlite:///{tmp_path_factory.mktemp('facts')}/desk.db") as service:
        agent = create_agent(ScriptedChatModel([echo] * 1000), state_schema=Notes)
        service.add("notes", agent, configurable=["tier"], busy="reject")
        agent = create_agent(caller("mail", to="Ann"), [mail], checkpointer=InMemorySaver())
        service.add("mailer", agent)
        yield service


def test_a_run_says_what_was_asked_for(client: Any, thread: str) -> None:
    config = {"tags": ["a"], "recursion_limit": 9, "configurable": {"tier": "gold"}}
    run = client.runs.create(
        thread,
        "notes",
        input={**HI, "note": "tea"},
        config=config,
        context={"token": "secret"},
        stream_mode=["updates", "custom"],
        stream_subgraphs=True,
        multitask_strategy="interrupt",
    )
    assert run["multitask_strategy"] == "interrupt"
    kwargs = run["kwargs"]
    assert said(kwargs["input"]) == ["Hi"]
    assert kwargs["input"]["note"] == "tea"
    assert kwargs["config"] == config
    assert (kwargs["stream_mode"], kwargs["subgraphs"]) == (["custom", "updates"], True)
    assert "secret" not in str(run)
    client.runs.join(thread, run["run_id"])
    # What the agent does if nothing else is asked for.
    assert client.runs.create(thread, "notes", input=HI)["multitask_strategy"] == "reject"


def test_a_run_does_not_say_what_code_has_put_in(service: Service, client: Any) -> None:
    run = service.submit(
        "notes",
        message={"messages": ["Hi"], "note": "tea", "secret": "of-code"},
        config={"configurable": {"tier": "gold", "key": "of-code"}},
        context={"key": "of-code"},
    )
    run.result(60)
    shown = client.runs.get(run.thread_id, run.id)
    assert "of-code" not in str(shown)
    assert shown["kwargs"]["input"]["note"] == "tea"
    assert shown["kwargs"]["config"]["configurable"] == {"tier": "gold"}


@pytest.mark.long
def test_a_run_says_when_it_has_changed(client: Any, thread: str) -> None:
    created = client.runs.create(thread, "echo", input=HI, after_seconds=1)
    client.runs.join(thread, created["run_id"])
    ended = client.runs.get(thread, created["run_id"])
    assert ended["created_at"] == created["created_at"]
    times = [datetime.fromisoformat(run["updated_at"]) for run in (created, ended)]
    assert times[0] < times[1]


def test_an_error_keeps_its_type_wherever_it_is_shown(client: Any, url: str, thread: str) -> None:
    body = {"assistant_id": "echo", "input": FAIL}
    answer = httpx.post(f"{url}/threads/{thread}/runs/wait", json=body)
    assert answer.json() == {"__error__": FAILURE}
    joined = httpx.get(f"{url}{answer.headers['location']}")
    assert joined.json() == {"__error__": FAILURE}
    (row,) = client.threads.search(ids=[thread], select=["error"])
    assert row == {"error": FAILURE}
    with pytest.raises(Exception, match=r"^ValueError: the model is out of order$"):
        client.runs.wait(thread, "echo", input=FAIL)
    *_, last = client.runs.stream(thread, "echo", input=FAIL, stream_mode="updates")
    assert (last.event, last.data["error"]) == ("error", "ValueError")
    failed = client.threads.get(thread)
    assert (failed["status"], failed["error"]) == ("error", FAILURE)


def test_a_thread_says_when_its_state_has_changed(client: Any, thread: str) -> None:
    new = client.threads.get(thread)
    assert new["state_updated_at"] == new["created_at"]
    client.runs.wait(thread, "echo", input=HI)
    ended = client.threads.get(thread)
    assert ended["state_updated_at"] == client.threads.get_state(thread)["created_at"]
    changed = client.threads.update(thread, metadata={"a": 1})
    assert changed["state_updated_at"] == ended["state_updated_at"] < changed["updated_at"]
    (row,) = client.threads.search(ids=[thread], select=["state_updated_at"])
    assert row == {"state_updated_at": ended["state_updated_at"]}
    assert client.threads.update(thread, metadata={"a": 2}, return_minimal=True) is None


def test_a_run_that_has_ended_cannot_be_cancelled(client: Any, thread: str) -> None:
    later = client.runs.create(thread, "echo", input=HI, after_seconds=60)["run_id"]
    assert client.runs.cancel(thread, later, wait=True) == {}
    assert client.runs.get(thread, later)["status"] == "interrupted"
    client.runs.wait(thread, "echo", input=HI)
    run = client.runs.list(thread)[0]["run_id"]
    attempts: list[Callable[[], object]] = [
        lambda: client.runs.cancel(thread, run),
        lambda: client.runs.cancel(thread, run, wait=True, action="rollback"),
        lambda: client.runs.cancel_many(run_ids=[run]),
        lambda: client.runs.cancel_many(thread_id=thread, status="all"),
    ]
    for attempt in attempts:
        with pytest.raises(REFUSED, match="no such run to cancel"):
            attempt()
    assert client.runs.get(thread, run)["status"] == "success"


def test_runs_that_were_rolled_back_are_gone(client: Any, thread: str) -> None:
    client.runs.wait(thread, "desk", input=HI)
    client.runs.create(thread, "echo", input=HI, after_seconds=60)
    last = client.runs.create(
        thread, "echo", input=HI, multitask_strategy="rollback", after_seconds=0
    )
    client.runs.join(thread, last["run_id"])
    runs = client.runs.list(thread)
    # The run that waited had not to be rolled back: the second message has withdrawn its question.
    assert [run["status"] for run in runs] == ["success", "interrupted"]
    assert runs[0]["multitask_strategy"] == "rollback"


@pytest.mark.parametrize("agent", ["echo", "desk"])
def test_a_run_is_deleted_and_its_state_stays(
    client: Any, service: Service, thread: str, agent: str
) -> None:
    client.runs.wait(thread, agent, input=HI)
    run = client.runs.list(thread)[0]["run_id"]
    client.runs.delete(thread, run)
    with pytest.raises(REFUSED, match="does not exist"):
        client.runs.delete(thread, run)
    assert client.runs.list(thread) == []
    assert said(client.threads.get_state(thread)["values"])[0] == "Hi"
    # A run that waited was cancelled first.
    assert client.threads.get(thread)["status"] == "idle"
    assert service.inbox().waits(thread=thread) == []
    assert service.inbox().audit(thread=thread)[0].what == "delete run"
    assert said(client.runs.wait(thread, "echo", input=HI))[-1] == "You said: Hi"


def test_a_run_is_deleted_under_who_waits_for_it(service: Service) -> None:
    run = service.submit("echo", message="Hi", delay=60)
    run.delete(by="ann")
    with pytest.raises(NotFound):
        run.result(10)
    with pytest.raises(NotFound):
        run.delete()
    assert service.threads.get(run.thread_id).run is None


def test_lists_by_query(client: Any, url: str, thread: str) -> None:
    client.runs.wait(thread, "echo", input=HI)
    history = httpx.get(f"{url}/threads/{thread}/history?limit=2&select=next").json()
    assert history == client.threads.get_history(thread, limit=2, select=["next"])
    assert len(history) == 2
    place = client.threads.get_history(thread)[0]["checkpoint"]["checkpoint_id"]
    before = httpx.get(f"{url}/threads/{thread}/history?before={place}").json()
    assert before == client.threads.get_history(thread, before=place)
    client.threads.update(thread, metadata={"topic": "query"})
    query = 'metadata={"topic":"query"}&select=thread_id&select=status'
    rows = httpx.get(f"{url}/threads?{query}")
    assert rows.json() == [{"thread_id": thread, "status": "idle"}]
    assert "x-pagination-next" not in rows.headers
    client.threads.create(metadata={"topic": "query"})
    page = httpx.get(f"{url}/threads?{query}&limit=1").headers
    assert (page["x-pagination-total"], page["x-pagination-next"]) == ("2", "1")
    for query, text in (
        ("limit=0", "limit must be a number from 1 to 1000"),
        ("limit=x", "limit must be a number from 1 to 1000"),
        ("metadata={", "metadata is not JSON"),
        ("offest=1", "Did you mean 'offset'"),
        (f"offset={10**19}", "offset must be a number of at most 64 bits"),
        ("ids=a%00b", "ids.0 must not have the character U+0000"),
        (f'metadata={{"n":{10**19}}}', "metadata.n must be a number of at most 64 bits"),
        (f"/{thread}/runs?status=done", "status must be one of"),
    ):
        place = query if query.startswith("/") else f"?{query}"
        answer = httpx.get(f"{url}/threads{place}")
        assert (answer.status_code, text in answer.json()["detail"]) == (422, True), answer.text


def test_a_thread_gets_its_graph_later(client: Any, thread: str) -> None:
    with pytest.raises(REFUSED, match=r"has no graph yet.*metadata\.graph_id"):
        client.threads.update_state(thread, {"messages": []})
    client.threads.update(thread, metadata={"graph_id": "echo"})
    client.threads.update_state(thread, HI, as_node="model")
    assert said(client.threads.get(thread)["values"]) == ["Hi"]
    # A client sends the metadata that it has got.
    client.threads.update(thread, metadata=client.threads.get(thread)["metadata"])
    with pytest.raises(REFUSED, match="the thread is one of agent 'echo'"):
        client.threads.update(thread, metadata={"graph_id": "desk"})
    with pytest.raises(REFUSED, match="agent 'nobody'"):
        client.threads.create(graph_id="nobody")


def step(values: Any, node: str = "model") -> dict[str, Any]:
    """A superstep in which a node writes values."""
    return {"supersteps": [{"updates": [{"values": values, "as_node": node}]}]}


def test_supersteps(client: Any) -> None:
    one, two = ({"role": "user", "content": text} for text in ("One", "Two"))
    steps = [*step({"messages": [one]})["supersteps"], *step({"messages": [two]})["supersteps"]]
    thread = client.threads.create(graph_id="echo", supersteps=steps)
    assert said(thread["values"]) == ["One", "Two"]
    states = client.threads.get_history(thread["thread_id"])
    assert [said(state["values"]) for state in states] == [["One", "Two"], ["One"]]


@each(
    "options, text",
    [
        ({"supersteps": [{"updates": []}], "graph_id": "echo"}, "No updates provided"),
        ({**step({"messages": []}, "nobody"), "graph_id": "echo"}, "nobody does not exist"),
        ({**step({"jump_to": "end"}), "graph_id": "echo"}, "jump_to is not in the output"),
        (step({}), r"Send metadata\.graph_id"),
    ],
)
def test_states_that_cannot_be_written_create_no_thread(
    client: Any, options: Any, text: str
) -> None:
    before = client.threads.count()
    with pytest.raises(REFUSED, match=text):
        client.threads.create(**options)
    assert client.threads.count() == before


def test_of_requests_at_once_for_one_thread_one_creates_it(client: Any) -> None:
    seed = step({"messages": [{"role": "user", "content": "One"}]})
    body = {**seed, "metadata": {"graph_id": "echo"}}

    def at_once(**more: Any) -> list[int]:
        def create(_: int) -> int:
            return http.post("/threads", json={**body, **more}).status_code

        with ThreadPoolExecutor(8) as pool:
            return sorted(pool.map(create, range(8)))

    with httpx.Client(base_url=client.http.client.base_url) as http:
        for number in range(5):
            assert at_once(thread_id=f"raise-{number}") == [200] + [409] * 7
            assert at_once(thread_id=f"same-{number}", if_exists="do_nothing") == [200] * 8
            # Who does not create the thread neither writes to it nor deletes it.
            for name in ("raise", "same"):
                assert said(client.threads.get_state(f"{name}-{number}")["values"]) == ["One"]


def mail(to: str) -> str:
    """Send a mail."""
    request = {"action": "mail", "args": {"to": to}}
    allowed = dict.fromkeys(("allow_accept", "allow_edit", "allow_respond", "allow_ignore"), True)
    (answer,) = interrupt([{"action_request": request, "config": allowed, "description": "May I?"}])
    return f"They said {answer['type']}."


def events_of(parts: Any) -> list[Any]:
    return [part.data for part in parts if part.event == "events"]


def kinds(events: list[Any]) -> list[tuple[str, str]]:
    return [(event["event"], event["name"]) for event in events]


def test_the_agent_its_nodes_models_and_tools_have_events(client: Any, thread: str) -> None:
    parts = [*client.runs.stream(thread, "payer", input=HI, stream_mode="events")]
    assert {part.event for part in parts} == {"metadata", "events"}
    events = events_of(parts)
    model = "ScriptedChatModel"
    assert kinds(events) == [
        ("on_chain_start", "payer"),
        ("on_chain_start", "model"),
        ("on_chat_model_start", model),
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
        ("on_chat_model_start", model),
        ("on_chat_model_stream", model),
        ("on_chat_model_stream", model),
        ("on_chat_model_end", model),
        ("on_chain_stream", "model"),
        ("on_chain_end", "model"),
        ("on_chain_end", "payer"),
    ]
    assert events[8]["data"] == {"input": {"euros": 5}}
    assert events[9]["data"]["output"]["content"] == "Paid 5."
    assert events[8]["parent_ids"] == [events[0]["run_id"], events[7]["run_id"]]
    assert events[16]["data"]["output"]["content"] == "Done."
    assert events[16]["parent_ids"] == [events[0]["run_id"], events[12]["run_id"]]
    assert events[1]["metadata"]["langgraph_node"] == "model"
    assert said(events[-1]["data"]["output"])[-1] == "Done."
    assert said(events[0]["data"]["input"]) == ["Hi"]


def test_the_end_of_a_model_comes_after_its_last_chunk(client: Any, thread: str) -> None:
    """As on LangGraph's own server, also between events of other modes."""
    modes = ["events", "messages-tuple"]
    parts = [*client.runs.stream(thread, "echo", input=HI, stream_mode=modes)]
    names = [part.data["event"] if part.event == "events" else part.event for part in parts]
    at = names.index("on_chat_model_end")
    assert names[at - 2 : at] == ["on_chat_model_stream", "messages"]
    assert "messages" not in names[at:]


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
