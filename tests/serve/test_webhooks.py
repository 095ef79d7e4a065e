"""Webhooks: the outcome of a run is sent where the server allows it, and nowhere else."""

from __future__ import annotations

import hmac
import logging
import socket
from base64 import b64encode
from collections.abc import Iterator
from hashlib import sha256
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from receivers import Receiver, receiving
from sqlalchemy import func, select, update
from starlette.exceptions import HTTPException
from starlette.testclient import TestClient

from agent_factory.errors import ArgumentError
from agent_factory.serve import Webhooks, create_app
from agent_factory.serve import webhooks as serving
from agent_factory.service import Pace, Service
from agent_factory.service.tables import webhooks as table
from serve.forms import local_client
from serve.langgraph_desk import HI, running_service, said
from service.paces import NEVER
from service.stored import tables_of
from tables import each
from waiting import until

FAIL: Any = {"messages": [{"role": "user", "content": "fail"}]}
LOCAL = "http://127.0.0.1"
HEADER = b"HTTP/1.1 200 OK\r\nX: "
"""The begin of an answer whose header goes on."""


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


QUICK = Pace(deliver=0.05, retries=(0.05, 0.05))


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with running_service(f"sqlite:///{tmp_path}/desk.db", QUICK) as service:
        yield service


def client_of(service: Service, *origins: str, **options: Any) -> TestClient:
    """A client of an application whose webhooks may go to private addresses, too."""
    return local_client(service, webhooks=Webhooks(origins, private=True, **options))


def left(service: Service) -> int:
    """How many webhooks are still to be sent."""
    return int(tables_of(service).value(select(func.count()).select_from(table)))


def wait_for_none(service: Service) -> None:
    until(lambda: not left(service))


def test_the_outcome_of_a_run_is_sent_when_it_ends_or_pauses(
    service: Service, receiver: Receiver
) -> None:
    client = client_of(service, receiver.url)
    url = f"{receiver.url}/done?key=1"
    thread = client.post("/threads", json={}).json()["thread_id"]
    body = {"assistant_id": "desk", "input": HI, "webhook": url, "metadata": {"m": 1}}
    run = client.post(f"/threads/{thread}/runs", json=body).json()
    (paused,) = receiver.wait(1)
    assert (paused["run_id"], paused["status"]) == (run["run_id"], "interrupted")
    assert paused["values"]["__interrupt__"][0]["value"]["action_requests"]
    assert (paused["metadata"], paused["error"]) == ({"m": 1}, None)
    assert paused["webhook_sent_at"] >= paused["updated_at"]
    resume = {"resume": {"decisions": [{"type": "approve"}]}}
    client.post(
        f"/threads/{thread}/runs", json={"assistant_id": "desk", "command": resume, "webhook": url}
    )
    ended = receiver.wait(2)[1]
    assert (ended["status"], said(ended["values"])[-1]) == ("success", "Done.")
    body = {"assistant_id": "echo", "input": FAIL, "webhook": url}
    client.post("/runs", json=body)
    failed = receiver.wait(3)[2]
    error = {"error": "ValueError", "message": "the model is out of order"}
    assert (failed["status"], failed["error"], failed["values"]) == ("error", error, None)
    wait_for_none(service)


def test_what_is_sent_is_signed(service: Service, receiver: Receiver) -> None:
    client = client_of(service, receiver.url, secret="s3cret")
    client.post("/runs", json={"assistant_id": "echo", "input": HI, "webhook": receiver.url})
    receiver.wait()
    headers, body = receiver.requests[0]
    assert headers["content-type"] == "application/json"
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    digest = b64encode(hmac.new(b"s3cret", signed, sha256).digest()).decode()
    assert headers["webhook-signature"] == f"v1,{digest}"
    # "whsec_" says that the rest is base64.
    coded = Webhooks(secret="whsec_" + b64encode(b"s3cret").decode())
    names = ("id", "timestamp", "signature")
    assert coded._signature("x", b"{}").keys() == {f"webhook-{name}" for name in names}


@pytest.mark.parametrize(
    ("statuses", "count", "is_lost"),
    [([503, 429], 3, False), ([410], 1, True), ([307], 1, True), ([500] * 9, 3, True)],
)
def test_a_receiver_that_fails_gets_it_again_and_it_is_given_up_in_the_end(
    service: Service,
    receiver: Receiver,
    caplog: pytest.LogCaptureFixture,
    statuses: list[int],
    count: int,
    is_lost: bool,
) -> None:
    receiver.statuses = list(statuses)
    client = client_of(service, receiver.url)
    with caplog.at_level(logging.ERROR, "agent_factory.service"):
        client.post("/runs", json={"assistant_id": "echo", "input": HI, "webhook": receiver.url})
        receiver.wait(count)
        wait_for_none(service)
    assert len(receiver.requests) == count
    assert len({headers["webhook-id"] for headers, _ in receiver.requests}) == 1
    assert (f"answer is {statuses[0]}. It is not sent again." in caplog.text) is is_lost


def test_another_server_sends_what_one_has_left(
    service: Service, receiver: Receiver, tmp_path: Path
) -> None:
    # This one takes the request, and dies before it sends.
    run = service.submit("echo", message="Hi")
    run.result(60)
    service.webhooks.add(run.id, receiver.url)
    service.webhooks.add(run.id, receiver.url)  # asked twice for the same
    assert left(service) == 1
    other = Service(f"sqlite:///{tmp_path}/desk.db", pace=QUICK)
    other.add("echo", service.agents["echo"])
    client_of(other, receiver.url)
    assert receiver.wait()[0]["run_id"] == run.id
    wait_for_none(service)
    other.close()
    assert len(receiver.requests) == 1


def test_of_two_servers_one_sends_about_runs_that_have_ended(service: Service) -> None:
    """Nothing is sent about a run that works or was deleted."""
    works = service.submit("echo", message="Hi", delay=60)
    ended, gone = (service.submit("echo", message="Hi") for _ in range(2))
    for run in (ended, gone):
        run.result(60)
    for run in (works, ended, gone):
        service.webhooks.add(run.id, "https://example.com")
    gone.delete()
    claims = [service.webhooks.claim_due(), service.webhooks.claim_due()]
    assert [len(claim) for claim in claims] == [1, 0]
    # The clock of the database was set back by an hour. The first attempt ends later.
    tables_of(service).write(update(table).values(due=table.c.due + 3600))
    assert [webhook.attempt for webhook in service.webhooks.claim_due()] == [2]
    service.webhooks.finish(claims[0][0])
    assert left(service) == 2


def test_receivers_that_drip_hold_back_no_other(
    service: Service, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host has four requests at once, and the next when one of them ends."""
    monkeypatch.setattr(serving, "DEADLINE_SECONDS", NEVER)
    run = service.submit("echo", message="Hi")
    run.result(60)
    with receiving(HEADER) as slow:
        for number in range(6):
            service.webhooks.add(run.id, f"{slow.url}/{number}")
        client_of(service, slow.url, receiver.url)
        slow.wait(4)
        service.webhooks.add(run.id, receiver.url)
        receiver.wait()
        until(lambda: left(service) == 6)
        assert len(slow.requests) == 4
        slow.end.set()
        wait_for_none(service)


def test_an_answer_has_a_deadline_and_only_its_status_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with receiving(b"HTTP/1.1 200 OK\r\n\r\n") as slow:
        Webhooks(private=True).post(slow.url, "id", b"{}")
    monkeypatch.setattr(serving, "DEADLINE_SECONDS", 0.2)
    with receiving(HEADER) as slow, pytest.raises(TimeoutError, match="no answer within"):
        Webhooks(private=True).post(slow.url, "id", b"{}")


@pytest.mark.long
def test_a_cron_sends_the_outcome_of_its_runs(service: Service, receiver: Receiver) -> None:
    client = client_of(service, receiver.url)
    body = {"assistant_id": "echo", "input": HI, "schedule": "0 3 * * *", "webhook": receiver.url}
    cron = client.post("/runs/crons", json=body).json()
    service.crons().change(cron["cron_id"], schedule="* * * * * *")
    (sent, *_) = receiver.wait()
    service.crons().delete(cron["cron_id"])
    assert sent["metadata"]["cron_id"] == cron["cron_id"]


@each(
    "url",
    [
        "https://hooks.example.com.evil.org/",
        "https://evil.org/https://hooks.example.com/",
        "https://evil.org#hooks.example.com",
        "https://user:word@hooks.example.com/",
        "https://hooks.example.com@evil.org/",
        "https://hooks.example.com:8443/",
        "https://hooks.example.com:x/",
        "http://hooks.example.com/",
        "ftp://hooks.example.com/",
        "//hooks.example.com/",
        "/ok",
        "hooks",
        "",
        "https://example.org/",  # and not below it
        "https://[::1",
    ],
)
def test_a_url_that_is_not_allowed(url: str) -> None:
    hooks = Webhooks(["https://hooks.example.com", "https://*.example.org"])
    assert not hooks.allows(url)
    with pytest.raises(HTTPException, match="may name only the servers that this server allows"):
        hooks.check(url)
    for allowed in ("hooks.example.com/x?y=1", "HOOKS.example.com:443", "a.b.example.org/"):
        assert hooks.allows(f"https://{allowed}")


PRIVATE = """
127.0.0.1 10.0.0.1 172.16.0.1 192.168.1.1 169.254.169.254 100.64.0.1 0.0.0.0 224.0.0.1
255.255.255.255 ::1 :: fe80::1 fc00::1 ::ffff:127.0.0.1 ::ffff:10.0.0.1 64:ff9b::7f00:1
2002:7f00:1:: ff02::1
"""


@each("address", PRIVATE.split())
def test_addresses_that_are_not_public(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not serving._is_public(ip_address(address))
    for public_address in ("93.184.216.34", "2606:2800:220:1::", "64:ff9b::5db8:d822"):
        assert serving._is_public(ip_address(public_address))
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    public = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("93.184.216.34", 443))
    place = (family, socket.SOCK_STREAM, 6, "", (address, 443))
    # One public address among them does not help.
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [public, place])
    hooks = Webhooks(["https://hooks.example.com"])
    with pytest.raises(HTTPException, match="has no public address"):
        hooks.check("https://hooks.example.com/")
    with pytest.raises(Exception, match="has no public address"):
        hooks.post("https://hooks.example.com/", "id", b"{}")


def test_a_host_that_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", Mock(side_effect=socket.gaierror("no such host")))
    with pytest.raises(HTTPException, match="is not known"):
        Webhooks(["https://hooks.example.com"]).check("https://hooks.example.com/")


def test_the_request_goes_to_the_address_that_was_checked(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that is public when it is checked, and private when it is used."""
    resolve, asked = socket.getaddrinfo, list[str]()

    def answer(host: str, port: int, *rest: Any, **options: Any) -> Any:
        if host != "hooks.example.com":
            return resolve(host, port, *rest, **options)
        asked.append(host)
        address = "127.0.0.1" if len(asked) == 1 else "10.255.255.1"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")  # a proxy would resolve the name again
    origin = f"http://hooks.example.com:{receiver.url.rpartition(':')[2]}"
    Webhooks([origin], private=True).post(f"{origin}/done", "id", b"{}")
    assert asked == ["hooks.example.com"]
    assert receiver.requests[0][0]["host"] == origin.removeprefix("http://")


def test_an_origin_that_is_taken_away(service: Service, caplog: pytest.LogCaptureFixture) -> None:
    run = service.submit("echo", message="Hi")
    run.result(60)
    service.webhooks.add(run.id, f"{LOCAL}:9/")
    with caplog.at_level(logging.ERROR, "agent_factory.service"):
        client_of(service, f"{LOCAL}:8")
        wait_for_none(service)
    assert "does not allow it any more" in caplog.text


@each("origins", ["https://a.example", ["a.example"], ["https://a/path"], ["*"], ["https://a/"]])
def test_origins_that_are_none(service: Service, origins: Any) -> None:
    for name in ("webhooks", "origins"):
        with pytest.raises(ArgumentError, match="must be a list of origins"):
            create_app(service, **{name: origins})
