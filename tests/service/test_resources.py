"""Assistants, crons, webhooks and deleted runs, on each database."""

from __future__ import annotations

import pytest

from agent_factory import create_agent
from agent_factory.service import AlreadyExists, NotFound, Service
from agent_factory.testing import ScriptedChatModel


@pytest.fixture(autouse=True)
def echo(service: Service) -> None:
    """The agent of these tests."""
    service.add("echo", create_agent(ScriptedChatModel(["Hello."] * 9)))


def test_assistants(service: Service) -> None:
    assistants = service.assistants("acme")
    made = assistants.create("echo", assistant="a-1", name="100% tea", metadata={"n": {"x": 1}})
    with pytest.raises(AlreadyExists):
        assistants.create("echo", assistant="a-1")
    second = assistants.change("a-1", name="Tea", context={"shop": "\N{TEACUP WITHOUT HANDLE}"})
    assert (second.version, second.created_at) == (2, made.created_at)
    assert second.updated_at > made.updated_at
    assert assistants.search(name="tea", metadata={"n": {"x": 1}}) == [second]
    assert assistants.search(name="%") == []  # a sign that is looked for, and no pattern
    assert [version.name for version in assistants.versions("a-1")] == ["Tea", "100% tea"]
    assert assistants.set_latest("a-1", 1).context == {}
    assistants.delete("a-1")
    with pytest.raises(NotFound):
        assistants.get("a-1")
    assert assistants.create("echo", assistant="a-1").version == 1


def test_crons(service: Service) -> None:
    crons = service.crons("acme")
    cron = crons.create(
        "0 3 * * *", agent="echo", assistant="echo", options={"message": "Hi"}, by="ann"
    )
    assert (crons.get(cron.id), service.crons().search()) == (cron, [])
    changed = crons.change(cron.id, enabled=False, metadata={"a": [1]})
    assert (changed.next_at, changed.metadata) == (None, {"a": [1]})
    assert crons.count(metadata={"a": [1]}, enabled=False) == 1
    assert crons.change(cron.id, enabled=True).next_at is not None
    crons.delete(cron.id)
    with pytest.raises(NotFound):
        crons.get(cron.id)


def test_webhooks_and_a_deleted_run(service: Service) -> None:
    run = service.submit("echo", message="Hi")
    created = run.info
    service.start()
    run.result(60)
    assert run.info.updated_at > created.created_at
    service.webhooks.add(run.id, "https://example.com")
    (webhook,) = service.webhooks.claim_due()
    assert (webhook.run.id, webhook.attempt) == (run.id, 1)
    assert service.webhooks.claim_due() == []
    run.delete(by="ann")
    with pytest.raises(NotFound):
        run.delete()
    assert service.threads.runs(run.thread_id) == []
    assert service.inbox().audit(thread=run.thread_id)[0].who == "ann"
