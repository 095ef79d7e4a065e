"""Pages as plain HTTP: what a browser without JavaScript sends and gets. tests/web drives one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Literal

import pytest
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from starlette.requests import Request
from starlette.testclient import TestClient

from agent_factory import create_agent
from agent_factory.middleware import HumanInTheLoopMiddleware, Rule, ToolPolicy
from agent_factory.serve import Principal, create_app
from agent_factory.service import Service
from agent_factory.service.inbox import Wait
from agent_factory.testing import ScriptedChatModel

ARGS: dict[str, Any] = {"order": "A1", "euros": 40, "parts": ["lid"], "note": "x\ny", "free": False}
EDIT = {
    "arg.order": "B2",
    "arg.euros": "12.50",
    "arg.count": "2",
    "arg.parts": '["lid", "handle"]',
    "arg.note": "first\r\nsecond",
    "arg.free": "true",
    "arg.how": '"cash"',
}


def refund(
    order: str,
    euros: float,
    parts: list[str],
    note: str,
    count: int = 1,
    free: bool = False,
    how: Literal["card", "cash"] = "card",
    comment: str | None = None,
) -> str:
    """Pay money back.

    More about it.
    """
    return f"{order} {euros} {parts} {note!r} {count} {free} {how} {comment}"


def answer(messages: list[BaseMessage]) -> AIMessage:
    if isinstance(messages[-1], ToolMessage):
        return AIMessage(f"Done: {messages[-1].text}")
    return AIMessage("", tool_calls=[{"name": "refund", "args": ARGS, "id": "c-1"}])


def who(request: Request) -> Principal:
    name = request.headers["x-user"]
    return Principal("acme", name, frozenset({"office"} if name == "olga" else ()))


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    options: dict[str, Any] = {"checkpointer": InMemorySaver()}
    with Service(f"sqlite:///{tmp_path_factory.mktemp('pages')}/desk.db") as made:
        for name, rule in {
            "desk": Rule("refund", "ask", remember=90),
            "office": Rule("refund", "ask", reviewers=["office"]),
        }.items():
            asks = HumanInTheLoopMiddleware(ToolPolicy(rule))
            model = ScriptedChatModel([answer] * 1000)
            made.add(name, create_agent(model, [refund], middleware=[asks], **options))
        yield made


@pytest.fixture
def client(service: Service) -> TestClient:
    return client_of(service)


def client_of(service: Service, **options: Any) -> TestClient:
    return TestClient(create_app(service, who, **options), headers={"x-user": "ann"})


@pytest.fixture
def asks(service: Service) -> Callable[..., Wait]:
    """Start a run that waits for a decision."""

    def start(agent: str = "desk") -> Wait:
        run = service.submit(agent, message="Refund it", tenant="acme")
        run.result(timeout=30)
        (wait,) = service.inbox("acme").waits(thread=run.thread_id)
        return wait

    return start


def send(client: TestClient, path: str, page: str = "/inbox", **fields: Any) -> Any:
    """Send a form of a page, with its token."""
    (token, *_) = re.findall(r'name="csrf_token" value="([^"]+)"', client.get(page).text)
    return client.post(path, data={"csrf_token": token, **fields})


def result_of(service: Service, wait: Wait) -> str:
    """What the tool has returned, once the run has ended."""
    service.run(wait.run, tenant="acme").result(timeout=30)
    message = service.state(wait.thread_id).values["messages"][-2]
    return str(message.text)


def test_arguments_are_edited_in_a_form(
    service: Service, client: TestClient, asks: Callable[..., Wait]
) -> None:
    wait = asks()
    shown = client.get(f"/inbox/{wait.id}").text
    assert "Pay money back." in shown
    assert "More about it" not in shown
    assert '<option value="&#34;cash&#34;"' in shown
    answer = send(client, f"/inbox/{wait.id}/decision", decision="edit", **EDIT)
    assert "Approved with changes" in answer.text
    text = "B2 12.5 ['lid', 'handle'] 'first\\nsecond' 2 True cash None"
    assert result_of(service, wait).splitlines()[0] == text


@pytest.mark.parametrize(
    ("field", "text", "error"),
    [
        ("euros", "much", "Enter a number, not &#39;much&#39;."),
        ("count", "1.5", "Enter a whole number, not &#39;1.5&#39;."),
        ("parts", "[lid", "This is not JSON: "),
        ("parts", "3", "3 is not of type &#39;array&#39;."),
        ("euros", " ", "This is required."),
        ("how", '"coins"', "&#39;coins&#39; is not one of [&#39;card&#39;, &#39;cash&#39;]."),
    ],
)
def test_a_wrong_value_is_shown_with_its_field(
    client: TestClient, asks: Callable[..., Wait], field: str, text: str, error: str
) -> None:
    wait = asks()
    path = f"/inbox/{wait.id}/decision"
    shown = send(client, path, decision="edit", **EDIT | {f"arg.{field}": text}).text
    assert "Some arguments are not valid." in shown
    assert f'id="f-{wait.id}-{field}-error">{error}' in shown
    assert 'value="B2"' in shown  # what was entered stays
    assert "Approve these arguments" in shown


def test_decisions_that_cannot_be_made(client: TestClient, asks: Callable[..., Wait]) -> None:
    path = f"/inbox/{asks().id}/decision"
    answer = send(client, path, decision="respond", respond=" ")
    assert "Write the answer first." in answer.text
    answer = send(client, path, decision="remember", seconds="long")
    assert "Say for how long." in answer.text
    answer = send(client, path, decision="shrug")
    assert answer.status_code == 422
    assert "decision must be one of approve, edit, reject, respond." in answer.text
    answer = send(client, "/inbox/decisions", decision="respond")
    assert "decision must be approve or reject." in answer.text
    answer = client.get("/inbox/nothing")
    assert answer.status_code == 404
    assert "This could not be done" in answer.text


def test_later_calls_are_approved_and_revoked(
    service: Service, client: TestClient, asks: Callable[..., Wait]
) -> None:
    wait = asks()
    path = f"/inbox/{wait.id}/decision"
    fields = {"decision": "remember", "seconds": "90", "calls": "any", "thread": "1"}
    assert "Approved" in send(client, path, **fields).text
    assert result_of(service, wait).startswith("A1 ")
    (approval,) = service.approvals(tenant="acme")
    assert (approval.by, approval.thread) == ("ann", wait.thread_id)
    path = f"/inbox/approvals/{approval.id}/revoke"
    assert send(client, path, page="/inbox/approvals").status_code == 200
    assert not service.approvals(tenant="acme")


def test_several_are_decided_at_once(client: TestClient, asks: Callable[..., Wait]) -> None:
    first, second, third = asks(), asks(), asks("office")
    ids = [first.id, second.id, third.id]
    shown = send(client, "/inbox/decisions", decision="reject", reason="Not now", wait=ids).text
    assert "2 of 3 rejected." in shown
    assert "&#39;ann&#39; may not decide about this call." in shown


def test_a_wait_is_claimed_and_released(client: TestClient, asks: Callable[..., Wait]) -> None:
    wait = asks()
    assert "claimed by ann" in send(client, f"/inbox/{wait.id}/claim").text
    assert wait.id in client.get("/inbox?mine=1").text
    assert "Claim it" in send(client, f"/inbox/{wait.id}/release").text
    assert wait.id not in client.get("/inbox?mine=1").text


def test_the_inbox_is_filtered(client: TestClient, asks: Callable[..., Wait]) -> None:
    desk, office = asks(), asks("office")
    for query, found in {
        "agent=office": {office.id},
        f"text={desk.thread_id}": {desk.id},
        "tool=nothing": set(),
    }.items():
        shown = client.get(f"/inbox/rows?{query}").text
        assert {one for one in (desk.id, office.id) if one in shown} == found


def test_only_who_may_decide_sees_the_form(service: Service, asks: Callable[..., Wait]) -> None:
    """Others see the call, and that they may not decide."""
    client, wait = client_of(service), asks("office")
    for path in (f"/inbox/{wait.id}", f"/studio/threads/{wait.thread_id}"):
        shown = client.get(path).text
        assert "You may not decide about this." in shown
        assert "Reject the call" not in shown
        assert "Reject the call" in client.get(path, headers={"x-user": "olga"}).text
    row = re.compile(rf'value="{wait.id}" aria-label="[^"]+" disabled')
    assert row.search(client.get("/inbox").text)
    assert not row.search(client.get("/inbox", headers={"x-user": "olga"}).text)
    nobody = client_of(service, may_decide=lambda principal, wait: False)
    shown = nobody.get(f"/inbox/{asks().id}").text
    assert "You may not decide about this." in shown


def test_a_failure_is_a_page(
    service: Service, client: TestClient, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("secret")

    monkeypatch.setattr(Service, "inbox", fail)
    answer = client.get("/inbox")
    assert answer.status_code == 500
    assert answer.headers["content-type"].startswith("text/html")
    (number,) = re.findall(r"The server has failed. Its log says why, under (\w+)\.", answer.text)
    assert "secret" not in answer.text
    assert number in caplog.text
    part = client.get("/inbox/rows", headers={"hx-request": "true"})
    assert part.text.startswith('<p class="problem" role="alert">The server has failed.')


def test_a_thread_is_begun_and_written_to(service: Service, client: TestClient) -> None:
    fields = {"agent": "desk", "text": "Refund it, please"}
    shown = send(client, "/studio/threads", page="/studio", **fields)
    thread = shown.url.path.removeprefix("/studio/threads/")
    service.thread(thread, tenant="acme")
    page = f"/studio/threads/{thread}"
    for path in ("", "/parts", "/parts?only=head", "/history", "?from=0"):
        assert client.get(page + path).status_code == 200
    until_waiting = service.submit("desk", message="And again", thread=thread, tenant="acme")
    assert until_waiting.thread_id == thread
    assert "Refund it, please" in client.get(page).text
    assert client.get("/studio?text=please").text.count("Refund it, please") == 1
    assert send(client, f"{page}/cancel", page=page).status_code == 200
    assert client.get("/studio/agents/desk").status_code == 200
    assert "may be remembered" in client.get("/studio/agents/desk/policy").text
    assert client.get("/studio/agents/desk/plan.svg").text.startswith("<svg")
    assert client.get("/studio/agents/nobody").status_code == 404


def test_what_was_said_is_shown_before_the_run_begins(
    service: Service, client: TestClient, tmp_path: Any
) -> None:
    with_no_worker = Service(f"sqlite:///{tmp_path}/idle.db")
    with_no_worker.add("desk", service.agents["desk"])
    run = with_no_worker.submit("desk", message="Are you there?", tenant="acme")
    assert [message.text for message in run.messages] == ["Are you there?"]
    shown = client_of(with_no_worker).get(f"/studio/threads/{run.thread_id}").text
    with_no_worker.close()
    conversation = shown.partition('id="conversation"')[2]
    assert conversation.count("Are you there?") == 1
    assert "No messages" not in conversation
