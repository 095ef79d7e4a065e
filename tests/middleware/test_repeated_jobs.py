"""Jobs that begin again in another process, with a store of the test in place of a service."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from threading import Event
from typing import Any, Literal

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.runtime import Runtime

from agent_factory import agent_tool, background, background_on_loss, before_model, create_agent
from agent_factory import middleware as m
from agent_factory.errors import ArgumentError
from agent_factory.testing import ScriptedChatModel
from samples import THREAD, in_memory
from tables import each

WAIT = 60.0
ASK = [{"name": "clerk", "args": {"request": "Pay!"}}]
PAY = [{"name": "pay", "args": {}}]
JOB = m.BackgroundJob(tool="clerk", arguments="{}", owner=("", 1, ""), started=0, deadline=9)
CALL = m.BackgroundCall(
    id="job",
    job=JOB,
    call={"name": "clerk", "args": {"request": "Pay!"}, "id": "call", "type": "tool_call"},
    runtimes={},
    stores=[],
)
OF_JOB: Any = {"configurable": {"thread_id": "1:job"}}


class Jobs:
    """A store that keeps the calls of jobs and their results."""

    thread, run = "1", "message"

    def __init__(self) -> None:
        self.calls: list[m.BackgroundCall | None] = []
        self.attempt, self.results, self.ended = 1, list[str](), Event()

    def begin(
        self, id: str, lost: HumanMessage, most: int, call: m.BackgroundCall | None
    ) -> Literal["begun"]:
        self.calls.append(call)
        return "begun"

    def keeps(self, id: str, attempt: int | None = None) -> bool:
        return attempt in (None, self.attempt)

    def end(self, id: str, message: HumanMessage, attempt: int) -> None:
        if self.keeps(id, attempt):
            self.results.append(message.text.splitlines()[-1])
            self.ended.set()

    def drop(self, id: str) -> bool:
        return False


def agent_of(tool: Any, *steps: Any) -> Any:
    """An agent with a background tool."""
    model, stack = ScriptedChatModel(list(steps)), [m.BackgroundMiddleware()]
    return create_agent(model, [tool], middleware=stack, **in_memory())


@pytest.fixture(params=[False, True], ids=["sync", "async"])
def repeated(request: pytest.FixtureRequest) -> Callable[..., str]:
    """Begins the job again, and returns its result."""

    def repeat(clerk: Any, call: m.BackgroundCall = CALL, **options: Any) -> str:
        jobs, asynchronous = Jobs(), request.param
        jobs.attempt = 2
        tool = agent_tool(clerk, name="clerk", description="Pays.", **options)
        agent = agent_of(background(tool, on_loss="repeat"))

        async def begin() -> None:
            options: Any = {"config": THREAD, "runtime": Runtime(), "asynchronous": asynchronous}
            m.repeat_job(agent, jobs, call, attempt=2, timeout=WAIT, **options)
            assert await asyncio.to_thread(jobs.ended.wait, WAIT)

        asyncio.run(begin())
        (result,) = jobs.results
        return result

    return repeat


class Bank:
    """A tool that counts how often it has paid."""

    def __init__(self) -> None:
        self.payments = 0

    def pay(self) -> str:
        """Pay."""
        self.payments += 1
        return "paid"


def requests(seen: list[list[str]], answer: Any) -> Callable[[Any], Any]:
    """A step of a model that notes the messages that it gets."""

    def step(messages: Any) -> Any:
        seen.append([message.text for message in messages])
        return answer

    return step


def cut_short(messages: Any) -> Any:
    raise ConnectionError("the worker has died")


def test_a_subagent_with_a_saver_goes_on_where_it_was(repeated: Callable[[Any], str]) -> None:
    bank, seen, saver = Bank(), list[list[str]](), InMemorySaver()
    first = create_agent(ScriptedChatModel([PAY, cut_short]), [bank.pay], checkpointer=saver)
    with pytest.raises(ConnectionError):
        first.invoke({"messages": "Pay!"}, OF_JOB)
    model = ScriptedChatModel([requests(seen, "It is paid.")])
    assert repeated(create_agent(model, [bank.pay], checkpointer=saver)) == "It is paid."
    assert (bank.payments, seen) == (1, [["Pay!", "", "paid"]])


def test_a_subagent_with_several_requests_goes_on_with_those_that_are_left(
    repeated: Callable[..., str],
) -> None:
    bank, seen, saver = Bank(), list[list[str]](), InMemorySaver()
    texts = {"requests": ["Pay!", "Wait."]}
    one_by_one: Any = {**OF_JOB, "max_concurrency": 1}

    @before_model
    def dies_at_the_second(state: Any, runtime: Any) -> None:
        seen.append([message.text for message in state["messages"]])
        if len(seen) == 2:
            raise SystemExit

    model, stack = ScriptedChatModel(["It is done."] * 3), [dies_at_the_second]
    clerk = create_agent(model, [bank.pay], middleware=stack, checkpointer=saver)
    tool = agent_tool(clerk, name="clerk", description="Pays.", max_requests=2)
    with pytest.raises(SystemExit):
        tool.invoke(texts, one_by_one)
    call: Any = {**CALL, "call": {**CALL["call"], "args": texts}}
    assert repeated(clerk, call, max_requests=2) == "It is done."
    assert len(seen) == 3
    assert seen[2] == seen[1] != seen[0]


@each("saver", [None, InMemorySaver()])
def test_a_subagent_without_a_checkpoint_begins_with_its_request(
    repeated: Callable[[Any], str], saver: Any
) -> None:
    seen = list[list[str]]()
    model = ScriptedChatModel([requests(seen, "It is paid.")])
    if saver is not None:
        saver.delete_thread("1:job")
    assert repeated(create_agent(model, checkpointer=saver)) == "It is paid."
    assert seen == [["Pay!"]]


def test_an_agent_inside_of_the_subagent_begins_with_its_request(
    repeated: Callable[[Any], str],
) -> None:
    """It has the same thread, and that has checkpoints: those of the subagent."""
    saver, seen = InMemorySaver(), list[list[str]]()
    bank = create_agent(ScriptedChatModel([requests(seen, "Done.")]), checkpointer=saver)
    tool = agent_tool(bank, name="bank", description="Pays.")
    call = [{"name": "bank", "args": {"request": "Send it."}}]
    first = create_agent(ScriptedChatModel([cut_short]), [tool], checkpointer=saver)
    with pytest.raises(ConnectionError):
        first.invoke({"messages": "Pay!"}, OF_JOB)
    clerk = create_agent(ScriptedChatModel([call, "It is paid."]), [tool], checkpointer=saver)
    assert repeated(clerk) == "It is paid."
    assert seen == [["Send it."]]


async def test_a_task_of_this_process_ends_when_its_job_begins_again() -> None:
    """As where a worker was taken for dead, and has seen it."""
    begins, ends = asyncio.Event(), list[str]()

    async def clerk(request: str) -> str:
        """Pays."""
        begins.set()
        try:
            await asyncio.Event().wait()
        finally:
            ends.append(request)
        return "It is paid."

    agent = agent_of(background(clerk, on_loss="repeat"))
    options: Any = {"timeout": WAIT, "config": THREAD, "runtime": Runtime(), "asynchronous": True}
    jobs = Jobs()
    jobs.attempt = 2
    m.repeat_job(agent, jobs, CALL, attempt=2, **options)
    first = {task for task in asyncio.all_tasks() if task.get_name() == "background job"}
    await asyncio.wait_for(begins.wait(), WAIT)
    m.repeat_job(agent, jobs, CALL, attempt=3, **options)
    over, _ = await asyncio.wait(first, timeout=WAIT)
    assert (over, ends) == (first, ["Pay!"])
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()


@each("on_loss", ["report", "repeat"])
def test_a_store_gets_the_call_of_a_job_that_may_be_repeated(on_loss: Any) -> None:
    def clerk(request: str) -> str:
        """Pays."""
        return "It is paid."

    jobs = Jobs()
    agent = agent_of(background(clerk, on_loss=on_loss), ASK, "I wait.")
    with m.jobs_of_run(jobs):
        agent.invoke({"messages": "Hello"}, THREAD)
    assert jobs.ended.wait(WAIT)
    (call,) = jobs.calls
    if call is not None:
        assert (call["call"]["args"], call["job"]["tool"]) == ({"request": "Pay!"}, "clerk")
        lost = [m.lost_message(call, n).text.partition(", is lost")[2] for n in (1, 2)]
        assert [text.partition(":")[0] for text in lost] == ["", " after 2 attempts"]
    assert (call is None) == (on_loss == "report")


@each("on_loss", ["retry", "", None, True, ["repeat"]])
def test_what_happens_on_loss_is_one_of_two_words_that_a_tool_has(on_loss: Any) -> None:
    problem = r'must be "report" or "repeat", got .*on_loss="repeat"'
    with pytest.raises(ArgumentError, match=problem):
        background(Bank().pay, on_loss=on_loss)
    tool = background(Bank().pay)
    assert background_on_loss(tool) == "report"
    assert background_on_loss(background(Bank().pay, on_loss="repeat")) == "repeat"
    assert background_on_loss(Bank().pay) is None
