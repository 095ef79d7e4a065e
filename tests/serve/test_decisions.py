"""Every decision and every mistake, by every way in: the same verdict, the same text."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from html import unescape
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from langgraph.pregel.remote import RemoteGraph
from langgraph.types import Command
from langgraph_sdk import get_sync_client
from typer.testing import CliRunner

from agent_factory import review
from agent_factory.cli.app import app
from agent_factory.serve.errors import in_json_words
from agent_factory.service import Service
from samples import combinations
from serve.refund_desk import MISTAKES, OUTCOMES, RAN, Mode, make_desk, make_service
from serve.route_examples import AG_UI, a2a, mcp, said
from service.stored import backend_of
from tables import each

HI: Any = {"messages": [{"role": "user", "content": "Refund A1"}]}
BY = "ann"
KINDS = ("approve", "edit", "reject", "respond")
INEXPRESSIBLE = object()
"""What a way in answers for a decision that cannot be said there."""


class Refused(Exception):
    """A decision was refused, with this text."""


def parts_of(decision: Any) -> tuple[Any, Any, Any, dict[str, Any]]:
    """The type, the edited action and the message of a decision, and its other parts."""
    parts = dict(decision) if isinstance(decision, dict) else {}
    known = (parts.pop(name, None) for name in ("type", "edited_action", "message"))
    return *known, parts


@dataclass
class Way:
    """A way in: the thread of one run that waits for a decision."""

    mode: Mode
    service: Service
    url: str
    folder: Path
    thread: str = field(default_factory=lambda: uuid4().hex)
    via: str | None = None  # in the audit; None where there is none

    def ask(self) -> None:
        """Bring a refund before a person."""
        self.service.submit(self.mode, thread=self.thread, message="Refund A1").result(60)

    def decide(self, decision: Any) -> Any:
        """Decide; raise Refused if it is refused."""
        raise NotImplementedError

    def attempt(self, work: Callable[[], Any]) -> None:
        try:
            work()
        except (review.ReviewError, ValueError) as error:
            raise Refused(str(error)) from error

    def asked(self) -> list[str]:
        """The tools that are asked about now."""
        return [wait.tool for wait in self.service.inbox().waits(thread=self.thread)]

    def end(self) -> None:
        """Wait until the run has gone as far as it can."""
        self.service.threads.runs(self.thread)[0].result(60)

    @property
    def wait(self) -> Any:
        (wait,) = self.service.inbox().waits(thread=self.thread)
        return wait


class InProcess(Way):
    def ask(self) -> None:
        self.agent = make_desk(self.mode)
        self.place: Any = {"configurable": {"thread_id": self.thread}}
        self.agent.invoke(HI, self.place)

    def asked(self) -> list[str]:
        return [call.name for call in review.pending(self.agent, self.place).calls]

    def end(self) -> None:
        pass

    def answer(self, decision: Any) -> Any:
        return {"decisions": [decision]} if self.mode == "batched" else decision


class Resume(InProcess):
    """`Command(resume=...)`."""

    def invoke(self, command: Any) -> Any:
        return self.agent.invoke(command, self.place)

    def decide(self, decision: Any) -> Any:
        if self.answer(decision) == {}:
            return INEXPRESSIBLE  # LangGraph takes it for no answer
        self.attempt(lambda: self.invoke(Command(resume=self.answer(decision))))
        # A decision that names another call is not read: this call is asked about again.
        is_old = isinstance(decision, dict) and "digest" in decision and self.asked() == ["refund"]
        return INEXPRESSIBLE if is_old else None


class AsyncResume(Resume):
    """`Command(resume=...)` in an async run."""

    def invoke(self, command: Any) -> Any:
        return asyncio.run(self.agent.ainvoke(command, self.place))


class Decide(InProcess):
    """`review.decide`."""

    def decide(self, decision: Any) -> Any:
        self.attempt(lambda: review.decide(self.agent, self.place, {"call-1": decision}))


class Functions(InProcess):
    """`review.approve`, `edit`, `reject` and `respond`."""

    def decide(self, decision: Any) -> Any:
        parts = dict(decision) if isinstance(decision, dict) else {}
        kind, call = parts.pop("type", None), (self.agent, self.place)
        action = parts.get("edited_action") or {}
        if kind == "approve" and not parts:
            work = lambda: review.approve(*call)  # noqa: E731
        elif kind == "reject" and parts.keys() <= {"message"}:
            work = lambda: review.reject(*call, **parts)  # noqa: E731
        elif kind == "respond":
            work = lambda: review.respond(*call, parts["message"])  # noqa: E731
        elif kind == "edit" and "args" in action:
            work = lambda: review.edit(*call, action["args"], name=action["name"])  # noqa: E731
        else:
            return INEXPRESSIBLE
        self.attempt(work)


class ServiceDecide(Way):
    """`Service.decide`, with a whole decision."""

    def decide(self, decision: Any) -> Any:
        if isinstance(decision, str):
            return INEXPRESSIBLE  # it means the type there
        self.attempt(lambda: self.service.decide(self.wait.id, decision, by=BY))


class ServiceParts(Way):
    """`Service.decide`, with the parts as arguments."""

    def decide(self, decision: Any) -> Any:
        parts = dict(decision) if isinstance(decision, dict) else {}
        kind, action = parts.pop("type", None), parts.pop("edited_action", None)
        known = parts.keys() <= {"message", "digest", "remember"}
        if kind is None or not known or (action is not None and action["name"] != "refund"):
            return INEXPRESSIBLE
        if action is not None and "args" not in action:
            return INEXPRESSIBLE
        args = None if action is None else action["args"]
        self.attempt(lambda: self.service.decide(self.wait.id, kind, args=args, by=BY, **parts))


class ServiceResume(Way):
    """`Service.resume`."""

    def decide(self, decision: Any) -> Any:
        answer = {"decisions": [decision]}
        self.attempt(lambda: self.service.resume(self.thread, answer, by=BY))


class CommandLine(Way):
    """`agent-factory decide`."""

    def decide(self, decision: Any) -> Any:
        kind, action, message, parts = parts_of(decision)
        other_tool = action is not None and (action["name"] != "refund" or "args" not in action)
        if kind is None or parts or other_tool or not isinstance(message, str | None):
            return INEXPRESSIBLE
        options = ["--by", BY]
        options += [] if message is None else ["--message", message]
        options += [] if action is None else ["--args", json.dumps(action["args"])]
        (self.folder / "refund_service.py").write_text(
            "from serve.refund_desk import make_service\n"
            f"service = make_service({backend_of(self.service).database.url!r})\n"
        )
        target = f"{self.folder}/refund_service.py:service"
        path = [*sys.path]
        try:
            result = CliRunner(env={"COLUMNS": "1000"}).invoke(
                app, ["decide", target, self.wait.id, kind, *options]
            )
            sys.modules.pop("refund_service").service.close()
        finally:
            sys.path[:] = path
        if result.exit_code:
            raise Refused(" ".join(result.output.split()))


class Form(Way):
    """The forms of a page, without JavaScript."""

    def decide(self, decision: Any) -> Any:
        kind, action, message, parts = parts_of(decision)
        other_tool = action is not None and action.get("name") != "refund"
        if kind not in KINDS or parts or other_tool or not isinstance(message, str | None):
            return INEXPRESSIBLE
        if kind == "edit" and (action is None or "args" not in action):
            return INEXPRESSIBLE
        with httpx.Client(base_url=self.url) as client:
            fields = {"digest": self.wait.digest, "decision": kind}
            fields |= {} if message is None else {"message": str(message)}
            arguments = {} if action is None else action.get("args", {})
            fields |= {f"arg.{name}": str(value) for name, value in arguments.items()}
            page = f"/inbox/{self.wait.id}"
            answer = client.post(f"{page}/decision", data=fields)
        if answer.status_code == 303:
            return None
        problem = re.findall(r'class="problem"[^>]*>([^<]+)<', answer.text)
        assert problem, answer.text
        raise Refused(unescape(problem[0]))


class Sdk(Way):
    """LangGraph's client for Python."""

    def decide(self, decision: Any) -> Any:
        with get_sync_client(url=self.url) as client:
            command: Any = {"resume": {"decisions": [decision]}}
            try:
                client.runs.wait(self.thread, self.mode, command=command)
            except Exception as error:
                raise Refused(refusal_in(error)) from error


class Remote(Way):
    """LangGraph's RemoteGraph, which sends a whole Command."""

    def decide(self, decision: Any) -> Any:
        place: Any = {"configurable": {"thread_id": self.thread}}
        command: Any = Command(resume={"decisions": [decision]})
        with get_sync_client(url=self.url) as client:
            graph = RemoteGraph(self.mode, sync_client=client)
            try:
                graph.invoke(command, place)
            except Exception as error:
                raise Refused(refusal_in(error)) from error


class AgUi(Way):
    """AG-UI, with a whole decision as the payload."""

    def decide(self, decision: Any) -> Any:
        if not (isinstance(decision, dict) and "type" in decision):
            return INEXPRESSIBLE
        entry = {"interruptId": self.wait.id, "status": "resolved", "payload": decision}
        body = {**AG_UI, "threadId": self.thread, "messages": [], "resume": [entry]}
        answer = httpx.post(f"{self.url}/ag-ui/{self.mode}", json=body, timeout=60)
        if answer.status_code >= 400:
            raise Refused(answer.json()["detail"])


class Mcp(Way):
    """A form of MCP, as its user has filled it."""

    def decide(self, decision: Any) -> Any:
        kind, action, message, parts = parts_of(decision)
        other_tool = action is not None and action["name"] != "refund"
        if kind is None or parts or other_tool or not isinstance(message, str | None):
            return INEXPRESSIBLE
        if (message and kind not in ("reject", "respond")) or (action is None) == (kind == "edit"):
            return INEXPRESSIBLE  # the form has these fields for other decisions
        content = {"decision": kind, "message": message or ""}
        if action is not None:
            if "args" not in action:
                return INEXPRESSIBLE
            content["arguments"] = json.dumps(action["args"])
        forms = {self.wait.digest: {"action": "accept", "content": content}}
        sent = mcp("tools/call", self.mode, inputResponses=forms, requestState=self.wait.run)
        answer = httpx.post(f"{self.url}/mcp", json=sent.body, headers=sent.headers, timeout=60)
        result = answer.json()["result"]
        if result.get("isError"):
            raise Refused(result["content"][0]["text"])


class A2a(Way):
    """A message of A2A, with a whole decision as data."""

    def decide(self, decision: Any) -> Any:
        if not (isinstance(decision, dict) and "type" in decision):
            return INEXPRESSIBLE
        message = {**said("", taskId=self.wait.run), "parts": [{"data": decision}]}
        sent = a2a("SendMessage", message=message)
        path = f"{self.url}/a2a/{self.mode}"
        answer = httpx.post(path, json=sent.body, headers=sent.headers, timeout=60).json()
        if "error" in answer:
            raise Refused(answer["error"]["message"])


WAYS: dict[type[Way], str | None] = {
    Resume: None,
    AsyncResume: None,
    Decide: None,
    Functions: None,
    ServiceDecide: "python",
    ServiceParts: "python",
    ServiceResume: "python",
    CommandLine: "cli",
    Form: "page",
    Sdk: "langgraph",
    Remote: "langgraph",
    AgUi: "ag-ui",
    Mcp: "mcp",
    A2a: "a2a",
}
"""The ways in, and what the audit calls them."""


def refusal_in(error: Any) -> str:
    """The text of a refusal in what a client of HTTP has raised."""
    return str(error.response.json()["detail"])


SERVICE = make_service


@pytest.fixture
def new(service: Service, url: str, tmp_path: Path) -> Callable[[type[Way], Mode], Way]:
    """A new thread for each way in: `new(Decide, "batched")`."""
    return lambda kind, mode: kind(mode, service, url, tmp_path, via=WAYS[kind])


MODES = ("batched", "per_call")


def ran_in(thread: str) -> list[tuple[str, dict[str, Any]]]:
    return [(tool, args) for place, tool, args in RAN if place == thread]


def refusal(way: Way, decision: Any) -> Any:
    """Why a decision is refused; INEXPRESSIBLE if it cannot be said there."""
    try:
        result = way.decide(decision)
    except Refused as error:
        return str(error)
    assert result is INEXPRESSIBLE, decision
    return result


def decisions_in(way: Way) -> list[Any]:
    """The decisions in the audit of a thread, the oldest first."""
    entries = way.service.inbox().audit(thread=way.thread)
    return [entry for entry in reversed(entries) if isinstance(entry.detail, dict)]


@pytest.mark.long
@pytest.mark.parametrize(("kind", "mode"), combinations(WAYS, MODES, every=2))
def test_a_mistake_is_refused_in_the_same_words_and_spends_nothing(
    new: Callable[..., Way], kind: type[Way], mode: Mode
) -> None:
    way, reference = new(kind, mode), new(Decide, mode)
    way.ask()
    reference.ask()
    refused = 0
    for decision, part in MISTAKES:
        expected = refusal(reference, decision)
        assert part in expected, decision
        text = refusal(way, decision)
        # Over HTTP, a hint that only Python can follow is left out.
        words = (expected, in_json_words(expected), in_json_words(part))
        assert text is INEXPRESSIBLE or any(word in text for word in words), decision
        refused += text is not INEXPRESSIBLE
        assert (ran_in(way.thread), way.asked()) == ([], ["refund"]), decision
    assert refused >= 4
    assert way.via is None or decisions_in(way) == []
    way.decide({"type": "approve"})
    way.end()
    assert ran_in(way.thread) == [("refund", {"order_id": "A1", "euros": 40})]


@pytest.mark.parametrize(("kind", "mode"), combinations(WAYS, MODES, every=2, first=1))
@each("decision, ran, asks", OUTCOMES)
def test_what_is_decided_is_what_happens(
    new: Callable[..., Way], kind: type[Way], mode: Mode, decision: Any, ran: Any, asks: list[str]
) -> None:
    way = new(kind, mode)
    way.ask()
    if way.decide(decision) is INEXPRESSIBLE:
        return
    way.end()
    assert ran_in(way.thread) == ([] if ran is None else [ran])
    assert way.asked() == asks
    if way.via is not None:
        (entry,) = decisions_in(way)
        runs, asked = entry.detail["runs"], entry.detail["call"]
        assert (entry.what, entry.detail["via"]) == (decision["type"], way.via)
        assert (asked["name"], asked["args"]) == ("refund", {"order_id": "A1", "euros": 40})
        if ran is not None:
            assert (runs["name"], runs["args"]) == ran
        elif not asks:
            assert runs is None
