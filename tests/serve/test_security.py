"""What protects the server: headers, limits, other sites, forms, roles, and errors."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any
from unittest.mock import Mock

import httpx
import pytest
from stack_agents import kept_agent
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from agent_factory.errors import ArgumentError
from agent_factory.middleware import HumanInTheLoopMiddleware
from agent_factory.serve import Principal, create_app
from agent_factory.serve.security import (
    HEADERS,
    RateLimiter,
    RequestGuard,
    SecurityHeaders,
    read_form,
)
from agent_factory.service import Service, ServiceThreads
from agent_factory.service.errors import DatabaseUnavailable
from samples import pay
from serve.accounts import who
from serve.langgraph_desk import caller
from serve.route_examples import ACCEPT, rpc, scope_of
from servers import served
from tables import each

ANN = {"x-user": "ann@acme"}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with Service(f"sqlite:///{tmp_path_factory.mktemp('security')}/desk.db") as made:
        agent = kept_agent(
            caller("pay", euros=5), HumanInTheLoopMiddleware({"pay": True}), tools=[pay]
        )
        made.add("desk", agent)
        yield made


@pytest.fixture
def client_of(service: Service) -> Callable[..., TestClient]:
    """A client of an application with these options, which ann@acme uses."""

    def make(**options: Any) -> TestClient:
        url = options.pop("url", "http://desk.example")
        app = create_app(service, **{"authenticate": who, **options})
        return TestClient(app, url, headers=ANN)

    return make


@pytest.fixture
def client(client_of: Callable[..., TestClient]) -> TestClient:
    return client_of()


@each(
    "path, headers, status",
    [
        ("/ok", {}, 200),
        ("/threads/nope", {}, 404),
        ("/nowhere", {}, 404),
        ("/ok", {"x-user": ""}, 200),
        ("/threads/nope", {"x-user": ""}, 401),
    ],
)
def test_headers_of_each_response(client: TestClient, path: str, headers: Any, status: int) -> None:
    """Only HTTPS promises HTTPS."""
    answer = client.get(path, headers=headers)
    assert answer.status_code == status
    assert {name: answer.headers.get(name) for name in HEADERS} == HEADERS
    assert "script-src 'self';" in answer.headers["content-security-policy"]
    assert answer.headers["cache-control"] == "no-store"
    assert "strict-transport-security" not in answer.headers
    assert "access-control-allow-origin" not in answer.headers
    answer = TestClient(client.app, "https://desk.example").get("/ok")
    assert answer.headers["strict-transport-security"] == "max-age=31536000"


def test_a_response_keeps_its_own_headers() -> None:
    async def file(_: Request) -> Response:
        return PlainTextResponse("x", headers={"ETag": '"1"', "Referrer-Policy": "origin"})

    app = Starlette(routes=[Route("/file", file)], middleware=[Middleware(SecurityHeaders)])
    headers = TestClient(app).get("/file").headers
    assert "cache-control" not in headers
    assert headers["referrer-policy"] == "origin"


def test_a_body_that_is_too_long(service: Service) -> None:
    """Also if it comes in chunks."""
    chunks = [b'{"metadata": {"a": "', *[b"x" * 50] * 10, b'"}}']
    headers = {**ANN, "Content-Type": "application/json"}
    with served(service, authenticate=who, body_limit=100) as url:
        short = httpx.post(f"{url}/threads", json={"metadata": {"a": "x" * 50}}, headers=headers)
        assert short.status_code == 200
        for content in (b"".join(chunks), iter(chunks)):
            answer = httpx.post(f"{url}/threads", content=content, headers=headers)
            assert answer.status_code == 413
            assert answer.json() == {"detail": "The body has more than 100 bytes."}
            assert answer.headers["x-content-type-options"] == "nosniff"


@each("kind", ["", "text/plain", "application/x-www-form-urlencoded"])
def test_a_body_that_is_not_sent_as_json(client: TestClient, kind: str) -> None:
    answer = client.post("/threads/count", content="{}", headers={"Content-Type": kind})
    assert (answer.status_code, answer.json()["detail"]) == (
        415,
        f"Send the body as application/json, not as {kind!r}.",
    )
    json_with_charset = {"Content-Type": "Application/JSON; charset=utf-8"}
    answer = client.post("/threads/count", content="{}", headers=json_with_charset)
    assert answer.status_code == 200


EVIL = {"Origin": "https://evil.example"}
OWN = {"Origin": "http://desk.example"}


@each(
    "headers, status",
    [
        ({}, 200),  # not a browser
        (OWN, 200),
        ({**OWN, "Sec-Fetch-Site": "same-origin"}, 200),
        ({"Sec-Fetch-Site": "none"}, 200),
        (EVIL, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://["}, 403),
        ({"Origin": "http://desk.example:81"}, 403),
        ({**EVIL, "Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({**OWN, "Sec-Fetch-Site": "same-site"}, 403),
    ],
)
def test_a_request_of_another_site(client: TestClient, headers: Any, status: int) -> None:
    assert client.post("/threads/count", json={}, headers=headers).status_code == status
    assert client.get("/ok", headers=headers).status_code == 200


@each(
    "query", ["cancel_on_disconnect=1", "a=1&cancel%5Fon_disconnect=true", "cancel_on_disconnect"]
)
def test_an_address_that_ends_a_run_is_not_for_other_sites(client: TestClient, query: str) -> None:
    """A browser asks for it for a picture of a page, and ends the run when the page is closed."""
    path = f"/threads/t/runs/r/stream?{query}"
    for headers, status in (
        (EVIL, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        (OWN, 404),
        ({}, 404),
    ):
        assert client.get(path, headers=headers).status_code == status
    assert client.get("/threads/t/runs/r/stream", headers=EVIL).status_code == 404


def test_a_site_that_is_allowed(client_of: Callable[..., TestClient]) -> None:
    client = client_of(origins=["https://chat.example"])
    chat = {"Origin": "https://chat.example", "Sec-Fetch-Site": "cross-site"}
    answer = client.post("/threads/count", json={}, headers=chat)
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == "https://chat.example"
    assert "Content-Location" in answer.headers["access-control-expose-headers"]
    asks = {**chat, "Access-Control-Request-Method": "POST"}
    asks["Access-Control-Request-Headers"] = "x-api-key,content-type"
    assert client.options("/threads/count", headers=asks).status_code == 200
    assert client.options("/threads/count", headers={**asks, **EVIL}).status_code == 400
    assert client.post("/threads/count", json={}, headers=EVIL).status_code == 403


@pytest.fixture
def forms() -> Starlette:
    async def send(request: Request) -> Response:
        return PlainTextResponse((await read_form(request))["answer"])

    return Starlette(routes=[Route("/", send, methods=["POST"])])


def test_a_form_of_another_site(forms: Starlette) -> None:
    client = TestClient(forms, "http://desk.example")
    for headers in ({}, OWN):
        assert client.post("/", data={"answer": "é"}, headers=headers).text == "é"
    assert client.post("/", data={"answer": "yes"}, headers=EVIL).status_code == 403


def test_a_form_of_a_site_that_may_make_requests(client_of: Callable[..., TestClient]) -> None:
    client = client_of(origins=["https://chat.example"])
    chat = {"Origin": "https://chat.example", "Sec-Fetch-Site": "cross-site"}
    form = {"agent": "desk", "text": "Hello"}
    assert client.post("/studio/threads", data=form, headers=chat).status_code == 403
    assert client.post("/studio/threads", data=form, headers=OWN).status_code == 200


def test_what_is_not_a_form(forms: Starlette) -> None:
    client = TestClient(forms)
    assert client.post("/", json={"answer": "abc"}).status_code == 415
    many = {str(number): "x" for number in range(1001)}
    assert client.post("/", data=many).status_code == 422


def test_an_authentication_that_answers_itself(client_of: Callable[..., TestClient]) -> None:
    client = client_of(authenticate=lambda _: RedirectResponse("/login"))
    answer = client.get("/threads/nope", follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (307, "/login")

    async def refuse(_: Request) -> Principal:
        raise HTTPException(401, "Your key has expired.", {"WWW-Authenticate": "Bearer"})

    answer = client_of(authenticate=refuse).get("/threads/nope")
    assert (answer.status_code, answer.json()) == (401, {"detail": "Your key has expired."})
    assert answer.headers["www-authenticate"] == "Bearer"


@each("header", ["Forwarded", "Via", "X-Forwarded-For", "X-Real-IP"])
def test_only_this_machine_is_served_without_authentication_and_a_proxy_is_another(
    service: Service, header: str, caplog: pytest.LogCaptureFixture
) -> None:
    app = create_app(service)
    assert "Nobody is authenticated" in caplog.text
    client = TestClient(app, "http://localhost", client=("127.0.0.1", 1))
    assert client.get("/assistants/desk").status_code == 200
    assert client.get("/assistants/desk", headers={header: "1"}).status_code == 403
    assert client.get("/info").json()["version"]
    other_host = client.get("/assistants/desk", headers={"host": "desk.example"})
    assert other_host.status_code == 403
    assert "the server needs --authenticate" in other_host.json()["detail"]


def test_who_may_decide(client_of: Callable[..., TestClient], service: Service) -> None:
    asked = []

    def may_decide(principal: Principal, wait: Any) -> bool:
        asked.append((principal.name, wait.tool, wait.args))
        return "approver" in principal.roles

    client = client_of(may_decide=may_decide)
    run = service.submit("desk", message="Pay.", tenant="acme")
    run.result(60)
    approve = {"resume": {"decisions": [{"type": "approve"}]}}
    path, body = f"/threads/{run.thread_id}/runs/wait", {"assistant_id": "desk", "command": approve}
    answer = client.post(path, json=body)
    assert answer.status_code == 403
    assert "'ann@acme' may not decide about this call" in answer.json()["detail"]
    assert run.status == "waiting"
    assert asked == [("ann@acme", "pay", {"euros": 5})]
    answer = client.post(path, json=body, headers={"x-role": "approver"})
    assert answer.json()["messages"][-1]["content"] == "Done."


def test_who_may_claim(service: Service) -> None:
    run = service.submit("desk", message="Pay.", tenant="acme")
    run.result(60)
    inbox = service.inbox("acme", may_decide=lambda wait: wait.tool != "pay")
    (wait,) = inbox.waits(thread=run.thread_id)
    for method in (inbox.claim, inbox.release):
        with pytest.raises(PermissionError, match=r"\[AF369\] pay: 'ann' may not decide"):
            method(wait.id, by="ann")
    assert service.inbox().get(wait.id).claimed_by is None
    service.threads.delete(run.thread_id)


@pytest.mark.parametrize("path", ["/threads/some%0Athread", "/studio/threads/some%0Athread"])
@pytest.mark.parametrize(
    ("error", "status", "text"),
    [
        (ZeroDivisionError("secret"), 500, "The server has failed."),
        (DatabaseUnavailable("the database", "secret"), 503, "The database is not available now."),
    ],
)
def test_an_error_stays_inside(
    client: TestClient,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    path: str,
    error: Exception,
    status: int,
    text: str,
) -> None:
    monkeypatch.setattr(ServiceThreads, "get", Mock(side_effect=error))
    answer = client.get(path)
    assert answer.status_code == status
    (number,) = re.findall(rf"{text}.* Its log says why, under (\w+)\.", answer.text)
    (record,) = [one for one in caplog.records if number in one.getMessage()]
    assert record.levelno == logging.ERROR
    assert "\n" not in record.getMessage()
    assert record.exc_info is not None
    assert record.exc_info[1] is error
    assert "secret" not in answer.text
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_an_error_in_the_middle_of_a_response(caplog: pytest.LogCaptureFixture) -> None:
    """The client sees that the connection was closed."""

    async def fail(_: Request) -> Response:
        async def parts() -> AsyncIterator[str]:
            yield "x"
            raise ZeroDivisionError

        return StreamingResponse(parts())

    app = RequestGuard(
        Starlette(routes=[Route("/", fail)]), RateLimiter("address", None, lambda *_: 0.0), 100, ()
    )
    with pytest.raises(ZeroDivisionError):
        TestClient(app).get("/")
    assert "at GET '/'" in caplog.text


async def test_a_client_that_leaves(service: Service, caplog: pytest.LogCaptureFixture) -> None:
    messages = iter([{"type": "http.request", "body": b"{", "more_body": True}])
    send = Mock(side_effect=AssertionError)

    async def receive() -> Any:
        return next(messages, {"type": "http.disconnect"})

    request = httpx.Request("POST", "http://desk/threads", json={}, headers=ANN)
    await create_app(service, who)(scope_of(request), receive, send)
    assert caplog.text == ""
    send.assert_not_called()


HI = {"role": "user", "content": "Hi"}


@each("path", [f"/assistants/desk/graph?xray={'9' * 5000}", "/studio?offset=9999999999"])
def test_numbers_that_cannot_be_used(client: TestClient, path: str) -> None:
    answer = client.get(path)
    assert (answer.status_code, "at most 9 digits" in answer.text) == (422, True), answer.text


def test_the_place_of_a_run_whose_thread_has_an_odd_id(client: TestClient) -> None:
    body = {"assistant_id": "desk", "input": {"messages": [HI]}, "if_not_exists": "create"}
    for end in ("wait", "stream"):
        answer = client.post(f"/threads/%E2%82%AC%0A%3F-{end}/runs/{end}", json=body)
        place = f"/threads/%E2%82%AC%0A%3F-{end}/runs/"
        assert answer.headers["content-location"].startswith(place)


def test_a_thread_whose_id_is_taken_or_too_long(client: TestClient) -> None:
    body = {"thread_id": "taken"}
    assert client.post("/threads", json=body).status_code == 200
    assert client.post("/threads", json=body).status_code == 409
    other = client.post("/threads", json=body, headers={"x-user": "bob@globex"})
    assert (other.status_code, other.json()["detail"]) == (404, "thread 'taken': does not exist.")
    assert client.post("/threads", json={"thread_id": "x" * 255}).status_code == 200
    answer = client.post("/threads", json={"thread_id": "x" * 256})
    assert answer.status_code == 422
    assert "must have at most 255 characters, got 256" in answer.json()["detail"]


def test_a_stream_of_another_run(client: TestClient, service: Service) -> None:
    """The id of an event names a job; that of another thread is refused."""
    own, other = (
        service.submit("desk", message=text, tenant=tenant)
        for text, tenant in (("Pay.", "acme"), ("Pay secretly.", "globex"))
    )
    own.result(60)
    other.result(60)
    (first, *_) = other.stream()
    with pytest.raises(ArgumentError, match="is not the id of a part"):
        next(own.stream(after=first["id"]))
    path = f"/threads/{own.thread_id}/runs/{own.id}/stream"
    answer = client.get(path, headers={"Last-Event-ID": first["id"]})
    assert answer.status_code == 422
    assert "secretly" not in answer.text


def test_only_the_named_parts_are_served(service: Service, client_of: Any) -> None:
    wait = service.submit("desk", message="Pay", tenant="acme", by="ann@acme")
    wait.result(60)
    client = client_of(only=["langgraph", "mcp", "inbox"])
    paths = {route.path for route in client.app.routes}
    assert {"/threads", "/mcp", "/inbox", "/ok"} <= paths
    assert not [path for path in paths if path.startswith(("/studio", "/ag-ui", "/v1", "/a2a"))]
    (card,) = [one.id for one in service.inbox("acme").waits(thread=wait.thread_id)]
    pages = [
        client.get(path).text for path in ("/inbox", f"/inbox/{card}", "/inbox/audit", "/docs")
    ]
    assert not [page for page in pages if 'href="/studio' in page or "/studio/events" in page]
    # The studio decides in the inbox; a server without pages names no address.
    assert "/inbox" in {route.path for route in client_of(only={"studio"}).app.routes}
    call = rpc("tools/call", name="desk", arguments={"thread": wait.thread_id})
    for parts, url in ((["mcp", "inbox"], f"/inbox/{card}"), (["mcp"], "'url': None")):
        answer = client_of(only=parts).post("/mcp", json=call, headers=ACCEPT)
        assert url in str(json.loads(answer.text.partition("data: ")[2]))
    for wrong in ("inbox", [], ["inbxo"]):
        with pytest.raises(ArgumentError, match="must be some of langgraph, ag-ui"):
            create_app(service, only=wrong)


def test_a_client_finds_the_authorization_server(service: Service) -> None:
    server = "https://login.example.com"
    for servers, header in ([], "Bearer"), ([server], None):
        app = create_app(service, lambda _: None, authorization_servers=servers)
        client = TestClient(app, base_url="https://desk")
        refused = client.post("/mcp", json={})
        place = "/.well-known/oauth-protected-resource/mcp"
        expected = header or f'Bearer resource_metadata="https://desk{place}"'
        assert (refused.status_code, refused.headers["www-authenticate"]) == (401, expected)
        found = client.get(place)
        assert found.status_code == (404 if header else 200)
    shown = {"resource": "https://desk/mcp", "authorization_servers": [server]}
    assert shown.items() <= found.json().items()
    odd = client.get("/threads/%E2%82%AC%0D%0Ax: y").headers["www-authenticate"]
    assert odd.endswith('/threads/%E2%82%AC%0D%0Ax%3A%20y"')
