"""Approvals in a service: bound to what was approved, for reviewers, and standing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import pytest
from langchain_core.messages import BaseMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from typer.testing import CliRunner

from agent_factory import agent_tool, client_tool, create_agent
from agent_factory.cli.app import app
from agent_factory.errors import ArgumentError
from agent_factory.middleware import HumanInTheLoopMiddleware, Rule, ToolPolicy
from agent_factory.review import DecisionNotAllowed, InvalidAnswer, InvalidDecision
from agent_factory.service import AlreadyDecided, DecisionForbidden, NotFound, Service
from agent_factory.service.waits import Wait
from agent_factory.testing import ScriptedChatModel
from samples import call_of, last_text, tool_results

WEEK = 7 * 86400
WAIT = 60


def desk(ran: list[Any], *rules: Rule, description: str = "Pay.", **options: Any) -> Any:
    """An agent that pays as many euros as the user says."""

    def pay(euros: int, to: str = "Ann") -> str:
        ran.append(euros)
        return f"Paid {euros}."

    pay.__doc__ = description

    def look(euros: int) -> str:
        """Look."""
        ran.append(f"look {euros}")
        return "Seen."

    def answer(messages: list[BaseMessage]) -> Any:
        if isinstance(messages[-1], ToolMessage):
            return "Done."
        euros = next(int(m.text) for m in reversed(messages) if isinstance(m, HumanMessage))
        name = "look" if any(rule.tool == "look" for rule in rules) else "pay"
        return [{"name": name, "args": {"euros": euros}, "id": f"call-{len(messages)}"}]

    return create_agent(
        ScriptedChatModel([answer] * 100),
        [pay, look],
        middleware=[HumanInTheLoopMiddleware(ToolPolicy(*rules, Rule("look", "allow")))],
        ignore=["AF211", "AF222"],
        **options,
    )


@pytest.fixture
def ran() -> list[Any]:
    """The amounts that were paid."""
    return []


def asked(service: Service, euros: int, thread: str | None = None, tenant: str = "") -> Wait:
    """What is asked after a message about these euros."""
    run = service.submit("desk", thread=thread, message=str(euros), tenant=tenant)
    for _ in run.stream():
        pass
    (wait,) = service.inbox(tenant).waits(thread=run.thread_id)
    return wait


def asked_by(service: Service, ran: list[Any], *rules: Rule, euros: int = 5) -> Wait:
    """What an agent with these rules asks."""
    service.add("desk", desk(ran, *rules))
    service.start()
    return asked(service, euros)


def test_a_decision_that_is_not_about_the_call_or_cannot_be_stored_is_refused(
    service: Service, ran: list[Any]
) -> None:
    wait = asked_by(service, ran, Rule("pay", "ask"))
    with pytest.raises(DecisionNotAllowed, match="the decision names the digest 'other'"):
        service.decide(wait.id, "approve", by="ann", digest="other")
    with pytest.raises(InvalidDecision, match="must be a string"):
        service.decide(wait.id, "respond", by="ann", message=5)
    with pytest.raises(ArgumentError, match="has message, and an argument names it again"):
        service.decide(wait.id, {"type": "reject", "message": "No."}, by="ann", message="Yes.")
    with pytest.raises(InvalidDecision, match="is stored as JSON: "):
        service.decide(wait.id, "edit", args={"euros": 5, "to": b"Ann"}, by="ann")
    assert service.inbox().get(wait.id).decided_at is None
    service.decide(wait.id, "approve", by="ann", digest=wait.digest).result(WAIT)
    assert ran == [5]


@pytest.mark.parametrize("stop", [{}, {"interrupt_before": ["tools"]}], ids=["", "at a pause"])
def test_a_new_version_of_a_tool_asks_again(url: str, ran: list[Any], stop: dict[str, Any]) -> None:
    """Also where the run was stopped, and the rule asks nobody."""
    rule = Rule("pay", "allow" if stop else "ask")
    with Service(url) as old:
        old.add("desk", desk(ran, rule, **stop))
        first = asked(old, 5, thread="t-1")
    with Service(url) as new:
        new.add("desk", desk(ran, rule, description="Pay twice.", **stop))
        run = new.decide(first.id, "approve", by="ann", digest=None if stop else first.digest)
        for _ in run.stream():
            pass
        (second,) = new.inbox().waits(thread="t-1")
        assert (second.kind, ran) == ("pause" if stop else "review", [])
        assert second.args == first.args
        if not stop:
            assert second.call_digest != first.call_digest
        new.decide(second.id, "approve", by="ann").result(WAIT)
    assert ran == [5]


def test_only_reviewers_decide(service: Service, ran: list[Any]) -> None:
    wait = asked_by(service, ran, Rule("pay", "ask", reviewers=["finance", "@eve"]))
    assert wait.reviewers == ("@eve", "finance")
    with pytest.raises(DecisionNotAllowed, match=r"'ann' may not decide .* @eve, finance"):
        service.decide(wait.id, "approve", by="ann", roles=["support"])
    for name, roles in (("finance", []), ("bob", ["@eve", "eve"]), ("@eve", [])):
        with pytest.raises(DecisionNotAllowed, match=f"'{name}' may not decide"):
            service.decide(wait.id, "approve", by=name, roles=roles)
    with pytest.raises(DecisionNotAllowed, match="'ann' may not decide"):
        service.resume(wait.thread_id, {"decisions": [{"type": "approve"}]}, by="ann")
    service.decide(wait.id, "approve", by="ann", roles=["finance"]).result(WAIT)
    service.decide(asked(service, 6).id, "approve", by="eve").result(WAIT)
    assert ran == [5, 6]


def test_a_standing_approval_lets_later_calls_run(service: Service, ran: list[Any]) -> None:
    service.add("desk", desk(ran, Rule("pay", "ask", remember=WEEK)))
    service.start()
    wait = asked(service, 5, tenant="acme")
    assert wait.remember == WEEK
    with pytest.raises(DecisionNotAllowed, match="'seconds' from 0 to 604800"):
        service.decide(wait.id, "approve", by="ann", remember={"seconds": WEEK + 1})
    too_high = {"seconds": 60, "when": {"euros": {">": 5}}}
    with pytest.raises(DecisionNotAllowed, match="does not hold for the approved call"):
        service.decide(wait.id, "approve", by="ann", remember=too_high)
    remember = {"seconds": 60, "when": {"euros": {"<=": 5}}, "by": "somebody else"}
    service.decide(wait.id, "approve", by="ann", remember=remember).result(WAIT)
    (approval,) = service.approvals(tenant="acme")
    assert (approval.by, approval.agent, approval.when) == ("ann", "desk", {"euros": {"<=": 5}})
    service.submit("desk", message="4", tenant="acme").result(WAIT)
    assert ran == [5, 4]
    assert asked(service, 6, tenant="acme").args == {"euros": 6}
    assert asked(service, 4, tenant="other").args == {"euros": 4}
    assert service.approvals(tenant="other") == []
    with pytest.raises(NotFound):
        service.revoke(approval.id, by="bob", tenant="other")
    assert service.approvals()[0].uses == 1
    revoked = service.revoke(approval.id, by="bob", tenant="acme")
    assert revoked.revoked_by == "bob"
    assert service.revoke(approval.id, by="cid") == revoked
    assert service.approvals() == []
    assert asked(service, 4, tenant="acme").args == {"euros": 4}
    assert ran == [5, 4]
    said = {entry.what: entry for entry in service.inbox("acme").audit()}
    assert (said["remember"].who, said["remember"].detail["when"]) == ("ann", "euros <= 5")
    used = {"approval": approval.id, "tool": "pay", "args": {"euros": 4}}
    assert (said["allow"].who, said["allow"].detail) == ("ann", used)
    assert said["revoke"].who == "bob"
    assert service.inbox("other").audit() == []


@pytest.mark.long
def test_a_standing_approval_ends_in_time_and_with_the_tool(url: str, ran: list[Any]) -> None:
    rules = [Rule("pay", "ask", remember=WEEK)]
    with Service(url) as service:
        service.add("desk", desk(ran, *rules))
        short = {"seconds": 0.001, "when": {}}
        service.decide(asked(service, 5).id, "approve", by="ann", remember=short).result(WAIT)
        wait = asked(service, 5)
        assert service.approvals() == []
        assert len(service.approvals(active=False)) == 1
        long = {"seconds": 60, "when": {}}
        service.decide(wait.id, "approve", by="ann", remember=long).result(WAIT)
        service.submit("desk", message="6").result(WAIT)
    assert ran == [5, 5, 6]
    with Service(url) as service:
        service.add("desk", desk(ran, *rules, description="Pay twice."))
        assert asked(service, 5).args == {"euros": 5}
    assert ran == [5, 5, 6]


def test_approvals_are_listed_and_revoked_in_the_terminal(
    service: Service, ran: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from agent_factory.cli import service as commands

    def shown(command: str, *words: str) -> str:
        result = CliRunner().invoke(app, [command, "shop:service", *words], env={"COLUMNS": "200"})
        assert result.exit_code == (2 if "nothing" in words else 0), result.output
        return " ".join(result.output.split())

    monkeypatch.setattr(commands, "load_service", lambda _: service)
    service.add("desk", desk(ran, Rule("pay", "ask", reviewers=["finance"], remember=WEEK)))
    service.start()
    assert shown("approvals") == "There are no standing approvals."
    wait = asked(service, 5)
    remember = {"seconds": 60, "when": {"euros": {"<=": 5}}, "thread": True}
    decided = service.decide(wait.id, "approve", by="ann", roles=["finance"], remember=remember)
    decided.result(WAIT)
    (approval,) = json.loads(shown("approvals", "--json"))
    assert (approval["by"], approval["thread"]) == ("ann", wait.thread_id)
    assert f"{approval['id']} desk pay euros <= 5, in {wait.thread_id} ann 20" in shown("approvals")
    assert "'nothing': does not exist" in shown("approvals", "--revoke", "nothing")
    ended = shown("approvals", "--revoke", approval["id"], "--by", "bob")
    expected = "Revoked: pay with euros <= 5, approved by ann. Such calls are asked about again."
    assert ended == expected
    assert "revoked by bob" in shown("approvals", "--all")
    again = asked(service, 4)
    shown("decide", again.id, "approve", "--by", "cid", "--role", "finance")
    service.run(again.run).result(WAIT)
    assert ran == [5, 4]


# Who may decide about what


def test_the_right_to_decide_is_about_the_call_that_runs(service: Service, ran: list[Any]) -> None:
    wait = asked_by(service, ran, Rule("look", "ask"), Rule("pay", "allow"), euros=7)
    questions: list[tuple[str, dict[str, Any]]] = []

    def may_decide(about: Wait) -> bool:
        questions.append((about.tool, dict(about.args)))
        return about.tool == "look" and about.args["euros"] < 10

    def decide(action: dict[str, Any]) -> Any:
        decision = {"type": "edit", "edited_action": action}
        return service.decide(wait.id, decision, by="eve", may_decide=may_decide)

    with pytest.raises(DecisionForbidden):
        service.inbox(may_decide=lambda _: False).decide(wait.id, {"type": "approve"}, by="eve")
    for name, euros in (("pay", 7), ("look", 70)):
        with pytest.raises(DecisionForbidden, match="'eve' may not decide about this call"):
            decide({"name": name, "args": {"euros": euros}})
        assert questions[-2:] == [("look", {"euros": 7}), (name, {"euros": euros})]
    assert (ran, service.inbox().get(wait.id).decided_at) == ([], None)
    decide({"name": "look", "args": {"euros": 8}}).result(WAIT)
    assert ran == ["look 8"]
    entry = service.inbox().audit(thread=wait.thread_id)[0]
    assert (entry.who, entry.what, entry.detail["runs"]["args"]) == ("eve", "edit", {"euros": 8})


def test_a_decision_needs_the_name_of_a_person(service: Service, ran: list[Any]) -> None:
    wait = asked_by(service, ran, Rule("pay", "ask"))
    inbox = service.inbox()
    thread = wait.thread_id
    acts: list[Callable[[Any], object]] = [
        lambda by: service.submit("desk", thread=thread, message="1", waiting="interrupt", by=by),
        lambda by: service.run(wait.run).cancel(by=by),
        lambda by: service.threads.update_state(thread, {"messages": []}, by=by),
        lambda by: service.threads.copy(thread, by=by),
        lambda by: service.threads.delete(thread, by=by),
        lambda by: service.decide(wait.id, "approve", by=by),
        lambda by: service.resume(wait.thread_id, {"decisions": [{"type": "approve"}]}, by=by),
        lambda by: inbox.claim(wait.id, by=by),
        lambda by: inbox.release(wait.id, by=by),
    ]
    for act, name in product(acts, ["", "  ", None, 5]):
        with pytest.raises(ArgumentError, match="must be the name of the one who does this, got"):
            act(name)
    assert (ran, inbox.audit(thread=wait.thread_id)) == ([], [])


def test_a_decision_that_an_agent_inside_refuses_can_be_made_again(
    service: Service, ran: list[Any]
) -> None:
    """The tools of an agent inside are not known when a person decides."""
    inner = desk(ran, Rule("pay", "ask"), name="payer")
    call = {"name": "payer", "args": {"request": "5"}, "id": "c-1"}

    def answer(messages: list[BaseMessage]) -> Any:
        return "Done." if isinstance(messages[-1], ToolMessage) else [call]

    tools = [agent_tool(inner, description="Pays.")]
    service.add("desk", create_agent(ScriptedChatModel([answer] * 100), tools, ignore=["AF211"]))
    service.start()
    wait = asked(service, 5)
    assert wait.tool == "pay"
    *_, end = service.decide(wait.id, "edit", args={"euro": 6}, by="ann").stream()
    assert end["data"]["status"] == "waiting"
    assert "'euro' is not an argument (did you mean 'euros'?)" in end["data"]["error"]
    assert "'euro' is not an argument" in str(service.threads.get(wait.thread_id).error)
    (again,) = service.inbox().waits(thread=wait.thread_id)
    assert (again.id, again.decided_at, ran) == (wait.id, None, [])
    what = [entry.what for entry in service.inbox().audit(thread=wait.thread_id)]
    assert what == ["refused", "edit"]
    service.decide(wait.id, "edit", args={"euros": 6}, by="ann").result(WAIT)
    assert ran == [6]


# Calls that wait for the client of their thread


TITLE = client_tool("title", "The title of the page.")


@pytest.fixture(params=[False, True], ids=["sync", "async"])
def titled(sqlite_url: str, request: pytest.FixtureRequest) -> Iterator[Service]:
    model = ScriptedChatModel([[call_of("title", 1), call_of("title", 2)], "Done."] * 9)
    agent = create_agent(model, [TITLE], checkpointer=InMemorySaver())
    with Service(sqlite_url) as service:
        service.add("desk", agent, asynchronous=request.param)
        service.add("hasty", agent, asynchronous=request.param, review_within=0.05)
        yield service


def test_results_come_through_the_inbox_of_the_thread(titled: Service) -> None:
    run = titled.submit("desk", thread="t", message="Go")
    run.result(timeout=60)
    inbox = titled.inbox(may_decide=lambda wait: False)
    waits = {wait.call_id: wait for wait in inbox.waits(thread="t")}
    assert [(wait.kind, wait.tool, wait.allowed) for wait in waits.values()] == [
        ("client", "title", ("respond",))
    ] * 2
    assert (inbox.waits(), inbox.count(), inbox.tools()) == ([], 0, [])
    first, second = (waits[id] for id in ("call_1", "call_2"))
    for decision, error in (
        ({"type": "approve"}, DecisionNotAllowed),
        ({"type": "respond", "message": 5}, InvalidAnswer),
        ({"type": "respond"}, InvalidAnswer),
    ):
        with pytest.raises(error):
            inbox.decide(first.id, decision, by="page")
    for _ in range(2):  # the same result again changes nothing
        inbox.decide(first.id, {"type": "respond", "message": "A"}, by="page")
    with pytest.raises(AlreadyDecided):
        inbox.decide(first.id, {"type": "respond", "message": "B"}, by="page")
    inbox.decide(second.id, {"type": "respond", "message": {"error": "gone"}}, by="page")
    assert tool_results(run.result(timeout=60)) == [("A", "success"), ("gone", "error")]


def test_a_result_resumes_the_thread_as_a_command_does(titled: Service) -> None:
    run = titled.submit("desk", thread="t", message="Go")
    waiting = run.result(timeout=60)["__interrupt__"]
    with pytest.raises(InvalidAnswer, match="must be a text, content blocks or an error"):
        titled.resume("t", {waiting[0].id: 5, waiting[1].id: "B"}, by="page")
    by_id = {interrupt.id: interrupt.value["id"] for interrupt in waiting}
    titled.resume("t", by_id, by="page", may_decide=lambda wait: False)
    assert [text for text, _ in tool_results(run.result(timeout=60))] == ["call_1", "call_2"]
    with pytest.raises(NotFound, match="waits for no answer"):
        titled.resume("t", by_id, by="page")


def test_a_client_that_does_not_answer_in_time(titled: Service) -> None:
    run = titled.submit("hasty", thread="t", message="Go")
    end: Any = run.result(timeout=60)
    while "__interrupt__" in end:
        titled.inbox().expire({})
        end = run.result(timeout=60)
    text = "The client has not sent a result of this call in time."
    assert tool_results(end) == [(text, "error")] * 2
    assert last_text(end) == "Done."
