"""BackgroundMiddleware: calls return at once, results arrive once, and nothing hangs."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from threading import Event
from typing import Any

import pytest
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, StructuredTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt

from agent_factory import (
    AgentMiddleware,
    Sleep,
    ToolRuntime,
    agent_tool,
    background,
    background_timeout,
    create_agent,
    hook_config,
    labels_of,
    plan_agent,
    tool_labels,
    topology_of,
)
from agent_factory import middleware as mw
from agent_factory.errors import AgentFactoryWarning, SpecError
from agent_factory.guarantees import counterexamples
from agent_factory.middleware.background.jobs import this_process
from agent_factory.middleware.background.work import Work, under_way
from agent_factory.testing import Reply, ScriptedChatModel, assert_valid_history
from processes import Processes, exit_code
from samples import Answer, User, add, in_memory, last_text, prices, texts, tool_results, types
from tables import each
from waiting import run_virtually, until

ONE: Any = {"configurable": {"thread_id": "1"}}
HELLO: Any = {"messages": "Hello"}
WORK = [{"name": "work", "args": {}}]
ASK = [{"name": "clerk", "args": {"request": "Go"}}]
DONE = ["Done."] * 10
"""Answers of a model that is called once more if a result arrives late."""
AT_ONCE = 1e-9
"""A limit in seconds that passes before work which waits for an event."""


@pytest.fixture
def over() -> Iterator[Event]:
    """An event for which work may wait; it is set when the test is over."""
    event = Event()
    yield event
    event.set()


@pytest.fixture
def long_work(over: Event) -> Any:
    """Work that ends when an event is set, or the test is over."""

    def work() -> str:
        """Work until the agent has gone on."""
        return str(over.wait(60))

    return work


def work() -> str:
    """Work."""
    return "finished"


class Endless:
    """Async work without end, and an event for its end."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()

    async def work(self) -> str:
        """Work."""
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.set()
        return ""


def agent_with(steps: list[Any], *tools: Any, **options: Any) -> Any:
    """An agent whose model has these steps, and whose tools work in the background."""
    settings = options.pop("settings", {})
    own = [each if isinstance(each, BaseTool) else background(each) for each in tools]
    options = {"middleware": [mw.BackgroundMiddleware(**settings)], **in_memory(), **options}
    return create_agent(ScriptedChatModel(steps), own, **options)


def results(result: Any) -> list[tuple[str, str]]:
    """How the jobs have ended whose results were read, and what is said of each."""
    return [
        (m.additional_kwargs["background"]["ending"], m.text.partition("]\n")[2] or m.text)
        for m in result["messages"]
        if m.name == "background"
    ]


def job_id(result: Any, number: int = 0) -> str:
    """The id of a job, as its handle names it."""
    return ids_in(result["messages"])[number]


def setting(event: Event, answer: Any) -> Callable[[Any], Any]:
    """A step of a model that sets an event, and gives an answer."""

    def step(messages: Any) -> Any:
        event.set()
        return answer(messages) if callable(answer) else answer

    return step


def has_mailbox(saver: Any) -> bool:
    """Whether a result was put into the saver."""
    return any("mailbox" in namespace for _, namespace, _ in [*saver.writes])


def ids_in(messages: Any) -> list[str]:
    """The ids of jobs, as their handles name them."""
    return [m.text.split()[5].rstrip(".") for m in messages if m.text.startswith("Started in")]


# Results


def test_a_call_returns_a_handle_and_its_result_arrives_as_a_message(call: Any) -> None:
    def render(page: int) -> str:
        """Render a page."""
        return f"Page {page} is rendered."

    agent = agent_with([[{"name": "render", "args": {"page": 1}}], *DONE], render)
    result = call(agent, HELLO, ONE)
    id = job_id(result)
    handle = f"Started in the background as {id}. Its result arrives as a message; go on meanwhile."
    assert tool_results(result) == [(handle, "success")]
    message = next(m for m in result["messages"] if m.name == "background")
    assert (message.type, message.id) == ("human", id)
    assert message.text == (
        f'[Background job {id}, render({{"page": 1}}), has ended. What follows is its result, not '
        "a message of the user:]\nPage 1 is rendered."
    )
    assert message.additional_kwargs["lc_source"] == "background"
    assert last_text(result) == "Done."
    assert set(result) == {"messages"}
    assert_valid_history(result["messages"])


def test_a_run_that_does_not_wait_leaves_results_to_the_next_run(
    over: Event, long_work: Any
) -> None:
    options: Any = {"checkpointer": InMemorySaver(), "settings": {"wait": False}}
    agent = agent_with([WORK, "Later.", "Now."], long_work, **options)
    result = agent.invoke(HELLO, ONE)
    assert (last_text(result), results(result)) == ("Later.", [])
    over.set()
    until(lambda: has_mailbox(options["checkpointer"]))
    result = agent.invoke(HELLO, ONE)
    assert types(result)[4:] == ["human", "human", "ai"]
    assert results(result) == [("done", "True")]


PICTURE = {"type": "image", "base64": "aGk=", "mime_type": "image/png"}


@each(
    "outcome, ending, text",
    [
        ([PICTURE], "done", "has ended"),
        (OSError("down"), "failed", "OSError: down"),
        (Command(update={"messages": []}), "failed", "The tool returned a Command"),
        ("ask", "failed", "It asked for an answer, and nobody can be asked in the background."),
    ],
)
def test_what_the_tool_returns_or_raises_is_its_result(
    call: Any, outcome: Any, ending: str, text: str
) -> None:
    def work() -> Any:
        """Work."""
        if isinstance(outcome, Exception):
            raise outcome
        return interrupt("May I?") if outcome == "ask" else outcome

    message = call(agent_with([WORK, *DONE], work), HELLO, ONE)["messages"][-2]
    assert message.additional_kwargs["background"]["ending"] == ending
    assert text in message.text
    assert ("has failed" in message.text) is (ending == "failed")
    if ending == "done":
        assert message.content[1:] == [PICTURE]


def test_arguments_that_do_not_fit_are_answered_at_once(call: Any) -> None:
    calls = [{"name": "add", "args": {"a": "x", "b": 1}}]
    result = call(agent_with([calls, "Sorry."], add), HELLO, ONE)
    assert "valid integer" in tool_results(result)[0][0]
    assert results(result) == []


def test_a_message_of_the_run_that_failed_is_read_once(call: Any) -> None:
    agent = agent_with([WORK, RuntimeError("down"), *DONE], work)
    with pytest.raises(RuntimeError, match="down"):
        call(agent, HELLO, ONE)
    result = call(agent, None, ONE)
    assert results(result) == [("done", "finished")]
    assert last_text(result) == "Done."


class ReadOnly(InMemorySaver):
    """A saver that lets nobody write into a mailbox."""

    def put(self, config: Any, *args: Any) -> Any:
        if "mailbox" in config["configurable"]["checkpoint_ns"]:
            raise PermissionError("only workers write")
        return super().put(config, *args)


@each("make_saver", [lambda: None, ReadOnly])
def test_a_result_that_no_saver_takes_is_read_in_this_process(call: Any, make_saver: Any) -> None:
    agent = agent_with([WORK, *DONE], work, checkpointer=make_saver(), ignore=["AF211"])
    assert results(call(agent, HELLO, ONE)) == [("done", "finished")]


@pytest.mark.long
def test_a_thread_that_is_deleted_meanwhile_keeps_nothing(over: Event, long_work: Any) -> None:
    saver = InMemorySaver()

    agent = agent_with([WORK, "Later."], long_work, checkpointer=saver, settings={"wait": False})
    id = job_id(agent.invoke(HELLO, ONE))
    saver.delete_thread("1")
    over.set()
    until(lambda: not under_way(id))
    assert not any([*saver.storage["1"].values(), *saver.writes.values()])


def test_a_fork_from_before_the_call_does_not_read_its_result() -> None:
    agent = agent_with([WORK, *DONE], work)
    agent.invoke(HELLO, ONE)
    begin = [s for s in agent.get_state_history(ONE) if not s.values.get("messages")][-1]
    assert texts(agent.invoke({"messages": "Other"}, begin.config)) == ["Other", "Done."]


class Skips(AgentMiddleware[Any, Any]):
    """Jumps over the first call of a tool."""

    is_over = False

    @hook_config(can_jump_to=["model"])
    def after_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        if self.is_over or not any(c["name"] == "look" for c in state["messages"][-1].tool_calls):
            return None
        self.is_over = True
        return {"jump_to": "model"}


def test_a_result_does_not_come_between_a_call_and_its_result(over: Event, long_work: Any) -> None:
    saver = InMemorySaver()

    def look() -> str:
        """Look."""
        return "looked"

    def step(messages: Any) -> Any:
        over.set()
        until(lambda: has_mailbox(saver))
        return [{"name": "look", "args": {}}]

    stack = [mw.BackgroundMiddleware(), Skips()]
    agent = agent_with(
        [WORK, step, step, "Done."], long_work, tool(look), middleware=stack, checkpointer=saver
    )
    result = agent.invoke(HELLO, ONE)
    assert types(result)[3:] == ["ai", "tool", "ai", "tool", "human", "ai"]
    assert_valid_history(result["messages"])


def test_a_run_waits_after_a_structured_answer(call: Any, over: Event, long_work: Any) -> None:
    steps = [WORK, setting(over, Answer(number=1)), *[Answer(number=2)] * 2]
    result = call(agent_with(steps, long_work, response_format=Answer), HELLO, ONE)
    assert results(result) == [("done", "True")]
    assert result["structured_response"] == Answer(number=2)


def test_an_agent_inside_of_another_reads_its_own_results(call: Any) -> None:
    def last_result(messages: Any) -> str:
        return next((m.text.splitlines()[-1] for m in messages if m.name == "background"), "")

    options: Any = {"checkpointer": None, "name": "clerk", "ignore": ["AF211"]}
    inner = agent_with([WORK, *[last_result] * 2], work, **options)
    result = call(agent_with([ASK, "Done."], agent_tool(inner, description="A.")), HELLO, ONE)
    assert texts(result)[2:] == ["finished", "Done."]


def test_a_call_that_another_layer_answers_starts_nothing(call: Any) -> None:
    class Denies(AgentMiddleware[Any, Any]):
        def wrap_tool_call(self, request: Any, handler: Any) -> Any:
            return ToolMessage("no", tool_call_id=request.tool_call["id"])

        async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
            return self.wrap_tool_call(request, handler)

    def work() -> str:
        """Work."""
        pytest.fail("it ran")

    for stack in ([mw.BackgroundMiddleware(), Denies()], [Denies(), mw.BackgroundMiddleware()]):
        result = call(agent_with([WORK, "Done."], work, middleware=stack), HELLO, ONE)
        assert texts(result) == ["Hello", "", "no", "Done."]


def test_a_layer_with_a_timeout_leaves_the_work_alone(
    call: Any, over: Event, long_work: Any
) -> None:
    retry = mw.ToolRetryMiddleware(timeout=60, initial_delay=0)
    for stack in ([mw.BackgroundMiddleware(), retry], [retry, mw.BackgroundMiddleware()]):
        steps = [WORK, setting(over, "I wait."), *DONE]
        result = call(agent_with(steps, long_work, middleware=stack), HELLO, ONE)
        assert results(result) == [("done", "True")]


# What the work gets


def test_the_work_has_the_context_the_store_and_the_state_of_its_call(call: Any) -> None:
    variable: ContextVar[str] = ContextVar("variable", default="")

    class Sets(AgentMiddleware[Any, Any]):
        def around_tool(self, request: Any) -> Any:
            variable.set("set")
            return (yield request)

    def work(runtime: ToolRuntime[Any, Any]) -> str:
        """Work."""
        store: Any = runtime.store
        thread = runtime.config["configurable"]["thread_id"]
        item = store.get(("prices",), "lamp").value
        count = len(runtime.state["messages"])
        return f"{runtime.context.name} {item} {count} {thread[:2]} {variable.get()}"

    stack = [Sets(), mw.BackgroundMiddleware()]
    agent = agent_with([WORK, *DONE], work, store=prices(), context_schema=User, middleware=stack)
    result = call(agent, HELLO, ONE, context=User("ada"))
    assert results(result) == [("done", "ada {'price': 39} 2 1: set")]


def test_the_work_does_not_write_into_the_streams_of_the_run(collect: Any) -> None:
    agent = agent_with([ASK, *DONE], clerk_tool(["I am the clerk."]))
    parts = collect(agent, HELLO, ONE, stream_mode="messages")
    assert not any("clerk." in message.text for message, _ in parts if message.type != "human")
    # The result itself is a message of the thread.
    assert results(agent.get_state(ONE).values) == [("done", "I am the clerk.")]


# Limits


def test_calls_above_the_limit_are_answered_with_an_error(
    call: Any, over: Event, long_work: Any
) -> None:
    steps = [WORK * 3, setting(over, "I wait."), *DONE]
    result = call(agent_with(steps, long_work, settings={"max_running": 2}), HELLO, ONE)
    (refused,) = (text for text, status in tool_results(result) if status == "error")
    assert refused.startswith("Error: 2 background jobs are under way")
    assert results(result) == [("done", "True")] * 2


def test_each_thread_has_its_own_limit(long_work: Any) -> None:
    settings = {"max_running": 1, "wait": False}
    agent = agent_with([WORK, "Later.", WORK, "Later."], long_work, settings=settings)
    for id in ("1", "2"):
        result = agent.invoke(HELLO, {"configurable": {"thread_id": id}})
        assert tool_results(result)[0][1] == "success"


def test_work_that_takes_too_long_is_reported_and_counts_as_under_way(
    call: Any, long_work: Any
) -> None:
    def step(messages: Any) -> Any:
        """Begin again as soon as the first job has timed out."""
        is_late = any(message.name == "background" for message in messages)
        is_refused = messages[-1].type == "tool" and is_late
        return WORK if is_late and not is_refused else "I wait."

    tool_ = background(long_work, timeout=AT_ONCE)
    result = call(agent_with([WORK, *[step] * 9], tool_, settings={"max_running": 1}), HELLO, ONE)
    ((ending, text),) = results(result)
    assert ending == "timed out"
    assert "did not end in 0 seconds, and has no result. It is not known whether" in text
    assert [status for _, status in tool_results(result)] == ["success", "error"]


@each("wait", [True, False])
def test_async_work_that_takes_too_long_is_cancelled_also_if_no_run_waits(wait: bool) -> None:
    async def main() -> Any:
        result = await agent.ainvoke(HELLO, ONE)
        assert endless.ended.is_set() is wait
        await endless.ended.wait()
        return result

    endless = Endless()
    tool_ = background(endless.work, timeout=60)
    agent = agent_with([WORK, *DONE], tool_, settings={"wait": wait})
    result = run_virtually(main())
    assert [ending for ending, _ in results(result)] == ["timed out"] * wait


def test_sync_work_ends_when_it_writes_its_progress_after_its_time(over: Event) -> None:
    ended = Event()

    def work(runtime: ToolRuntime) -> str:
        """Write progress without end."""
        try:
            while not over.is_set():
                runtime.stream_writer("more")
        finally:
            ended.set()
        return ""

    agent_with([WORK, *DONE], background(work, timeout=AT_ONCE)).invoke(HELLO, ONE)
    assert ended.wait(60)


# Tools of the model


def asking(name: str) -> Callable[[Any], Any]:
    """A step that calls a tool with the id of the first job."""
    return lambda messages: [{"name": name, "args": {"id": ids_in(messages)[0]}}]


def test_the_model_can_look_at_the_progress_of_a_job(call: Any, over: Event) -> None:
    written = Event()

    def work(runtime: ToolRuntime) -> str:
        """Work."""
        runtime.stream_writer("page 3 of 9")
        written.set()
        return str(over.wait(60))

    def check(messages: Any) -> Any:
        written.wait(60)
        return asking("check_background")(messages)

    steps = [WORK, check, setting(over, "I wait."), asking("check_background"), "D"]
    result = call(agent_with(steps, work), HELLO, ONE)
    _, (first, _), (second, _) = tool_results(result)
    assert first.startswith(f"work ({job_id(result)}) is under way for ")
    assert first.endswith("seconds. Its last progress: page 3 of 9")
    ended = f"No job {job_id(result)} is under way, or its result was read. Under way: none."
    assert second == ended


def test_a_job_that_has_ended_says_so(call: Any, over: Event, long_work: Any) -> None:
    saver = InMemorySaver()

    class Waits(AgentMiddleware[Any, Any]):
        def around_tool(self, request: Any) -> Any:
            while request.tool_call["name"] != "work" and not has_mailbox(saver):
                yield Sleep(0.001)
            return (yield request)

    def ask(messages: Any) -> Any:
        over.set()
        return [*asking("check_background")(messages), *asking("cancel_background")(messages)]

    stack = [mw.BackgroundMiddleware(), Waits()]
    agent = agent_with([WORK, ask, "Done."], long_work, checkpointer=saver, middleware=stack)
    result = call(agent, HELLO, ONE)
    text = f"work ({job_id(result)}) has ended. How it has ended arrives as a message."
    assert [text for text, _ in tool_results(result)[1:]] == [text, text]
    assert results(result) == [("done", "True")]


def test_the_model_can_cancel_a_job_whose_result_is_dropped(
    call: Any, over: Event, long_work: Any
) -> None:
    steps = [WORK, asking("cancel_background"), setting(over, "Done.")]
    result = call(agent_with(steps, long_work), HELLO, ONE)
    assert tool_results(result)[1][0].startswith(f"work ({job_id(result)}) is cancelled")
    assert results(result) == []
    assert last_text(result) == "Done."


async def test_async_work_that_is_cancelled_ends() -> None:
    endless = Endless()
    agent = agent_with([WORK, asking("cancel_background"), "Done."], endless.work)
    result = await agent.ainvoke(HELLO, ONE)
    assert tool_results(result)[1][0] == f"work ({job_id(result)}) is cancelled, and has no result."
    await asyncio.wait_for(endless.ended.wait(), 60)


# With people


@pytest.mark.parametrize("say", [mw.steer, mw.follow_up])
def test_what_the_user_says_is_answered_while_the_work_is_under_way(
    call: Any, over: Event, say: Any
) -> None:
    def work() -> str:
        """Work. The user says something meanwhile."""
        waiting.wait(60)
        say(agent, ONE, "And then?")
        return str(over.wait(60))

    waiting = Event()
    yes = setting(over, lambda messages: f"Yes: {messages[-1].text}")
    stack = [mw.SteeringMiddleware(), mw.BackgroundMiddleware()]
    agent = agent_with([WORK, setting(waiting, "I wait."), yes, "Done."], work, middleware=stack)
    result = call(agent, HELLO, ONE)
    assert texts(result)[3:6] == ["I wait.", "And then?", "Yes: And then?"]
    assert results(result) == [("done", "True")]


@pytest.mark.parametrize("when", ["waiting", "working"])
def test_a_run_that_is_cancelled_cancels_its_jobs(call: Any, over: Event, when: str) -> None:
    def work() -> str:
        """Work until the test is over."""
        if when == "waiting":
            waiting.wait(60)
            mw.cancel(agent, ONE)
        return str(over.wait(60))

    def answer(messages: Any) -> Any:
        waiting.set()
        if when == "working":
            mw.cancel(agent, ONE)
            return [{"name": "check_background", "args": {"id": "1"}}]
        return "I wait."

    waiting = Event()
    agent = agent_with(
        [WORK, answer, "Done."],
        work,
        middleware=[mw.SteeringMiddleware(), mw.BackgroundMiddleware()],
    )
    result = call(agent, HELLO, ONE)
    assert results(result) == []
    result = call(agent, HELLO, ONE)
    assert [ending for ending, _ in results(result)] == ["cancelled"]
    assert last_text(result) == "Done."


def test_it_is_decided_once_how_a_job_ends() -> None:
    job: Any = lost_job(("host", 1, "token"))
    work = Work("4f2a", job, "1", None)
    assert [work.cancel(), work.cancel(), work.settle()] == [True, False, False]
    with pytest.raises(asyncio.CancelledError):
        work.write("more")
    assert work.progress is None


# Lost work


def lost_job(owner: Any, deadline: float = 4e9) -> dict[str, Any]:
    return {
        "tool": "work",
        "arguments": "{}",
        "owner": owner,
        "started": deadline - 600,
        "deadline": deadline,
    }


@pytest.mark.parametrize("on_loss", ["report", "repeat"])
def test_jobs_of_a_process_that_has_ended_are_reported_once_by_name(
    processes: Processes, on_loss: Any
) -> None:
    """Whatever the tool says: without a service, none of them begins again."""
    host, number, token = this_process()
    ended = processes.start([sys.executable, "-c", ""])
    exit_code(ended)
    owners = {
        "dead": [host, ended.pid, token],
        "earlier": [host, number, "token of an earlier process"],
        "closed": [host, number, token],
        "elsewhere": ["another host", number, token],
        "alive": [host, os.getppid(), "token of another process"],
    }

    def work() -> str:
        """Work."""
        raise AssertionError

    tool_ = background(work, on_loss=on_loss)
    agent = agent_with(["Hello.", "One.", "Two.", "Three."], tool_, settings={"wait": False})
    agent.invoke(HELLO, ONE)
    jobs = {id: lost_job(owner) for id, owner in owners.items()}
    agent.update_state(ONE, {"background_jobs": jobs})
    result = agent.invoke(HELLO, ONE)
    texts_of_lost = [text for ending, text in results(result) if ending == "lost"]
    lost = [f"[Background job {id}" for id in ("dead", "earlier", "closed")]
    assert [text.split(",")[0] for text in texts_of_lost] == lost
    assert "work({}), is lost: the process or event loop that did it has ended." in texts_of_lost[0]
    # Nobody here can know about the others, before their time is up.
    late = {id: lost_job(owners[id], 1000.0) for id in ("elsewhere", "alive")}
    agent.update_state(ONE, {"background_jobs": late})
    result = agent.invoke(HELLO, ONE)
    assert [ending for ending, _ in results(result)][3:] == ["lost", "timed out"]
    assert "did not end in 600 seconds" in results(result)[-1][1]
    assert len(results(agent.invoke(HELLO, ONE))) == 5


def test_work_in_an_event_loop_that_ends_is_reported_as_cancelled() -> None:
    endless = Endless()
    agent = agent_with([WORK, "Later.", "Done."], endless.work, settings={"wait": False})
    asyncio.run(agent.ainvoke(HELLO, ONE))
    result = asyncio.run(agent.ainvoke(HELLO, ONE))
    assert [ending for ending, _ in results(result)] == ["cancelled"]
    assert endless.ended.is_set()


def test_work_whose_event_loop_was_closed_is_lost() -> None:
    steps = [WORK, "Later.", WORK, "Done."]
    agent = agent_with(steps, Endless().work, settings={"wait": False, "max_running": 1})
    loop = asyncio.new_event_loop()
    loop.run_until_complete(agent.ainvoke(HELLO, ONE))
    tasks = asyncio.all_tasks(loop)
    loop.close()
    result = asyncio.run(agent.ainvoke(HELLO, ONE))
    assert [ending for ending, _ in results(result)] == ["lost"]
    # It does not count as one under way.
    assert [status for _, status in tool_results(result)] == ["success", "success"]
    for task in tasks:
        # Not to be warned of: its loop cannot end it any more.
        task._log_destroy_pending = False  # type: ignore[attr-defined]


ENDLESS = """
import asyncio, threading
from langgraph.checkpoint.memory import InMemorySaver
from agent_factory import background, create_agent
from agent_factory.middleware import BackgroundMiddleware
from agent_factory.testing import ScriptedChatModel

def work() -> str:
    "Work without end."
    threading.Event().wait()

agent = create_agent(
    ScriptedChatModel([[{"name": "work", "args": {}}], "Later."] * 2),
    [background(work)],
    middleware=[BackgroundMiddleware(wait=False)],
    checkpointer=InMemorySaver(),
)
thread = {"configurable": {"thread_id": "1"}}
print(agent.invoke({"messages": "Go"}, thread)["messages"][-1].text)
print(asyncio.run(agent.ainvoke({"messages": "Go"}, thread))["messages"][-1].text)
"""


@pytest.mark.long
def test_a_process_ends_while_work_is_under_way_in_threads_of_both_modes() -> None:
    command = [sys.executable, "-W", "error", "-c", ENDLESS]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True)
    assert (ended.stdout, ended.stderr) == ("Later.\n" * 2, "")


# Subagents


def clerk_tool(steps: list[Any], *tools: Any, **options: Any) -> BaseTool:
    clerk = create_agent(ScriptedChatModel(steps), tools, name="clerk", **options)
    return background(agent_tool(clerk, description="Does work."))


def ask_person() -> str:
    """Ask a person."""
    return str(interrupt("May I?"))


def test_a_subagent_with_its_own_saver_has_a_thread_for_each_job(call: Any) -> None:
    saver = InMemorySaver()
    tool_ = clerk_tool(["It is paid.", "It is paid."], checkpointer=saver)
    result = call(agent_with([ASK * 2, *DONE], tool_, checkpointer=saver), HELLO, ONE)
    assert results(result) == [("done", "It is paid.")] * 2
    assert {*saver.storage} == {"1", *(f"1:{id}" for id in ids_in(result["messages"]))}


@each("saver", [None, True, InMemorySaver()])
def test_a_subagent_that_asks_a_person_fails_and_says_why(call: Any, saver: Any) -> None:
    steps = [[{"name": "ask_person", "args": {}}], "Paid."]
    tool_ = clerk_tool(steps, ask_person, checkpointer=saver)
    result = call(agent_with([ASK, *DONE], tool_), HELLO, ONE)
    ((ending, text),) = results(result)
    assert ending == "failed"
    reason = "checkpointer=True cannot be used" if saver is True else "clerk: was interrupted"
    assert reason in text
    assert last_text(result) == "Done."


def test_a_sync_subagent_that_is_cancelled_ends_at_its_next_call(over: Event) -> None:
    ended, begun = Event(), Event()

    def look() -> str:
        """Look."""
        begun.set()
        return ""

    class Ends(AgentMiddleware[Any, Any]):
        def around_agent(self, state: Any, runtime: Any) -> Any:
            try:
                return (yield state)
            finally:
                ended.set()

    def again(messages: Any) -> Any:
        return "Done." if over.is_set() else [{"name": "look", "args": {}}]

    def stop(messages: Any) -> Any:
        begun.wait(60)
        return asking("cancel_background")(messages)

    tool_ = clerk_tool([again] * 100_000, look, middleware=[Ends()])
    result = agent_with([ASK, stop, "Done."], tool_).invoke(HELLO, ONE)
    assert "is cancelled" in tool_results(result)[1][0]
    assert ended.wait(60)


def test_the_handler_of_a_ledger_counts_the_models_of_background_work(call: Any) -> None:
    ledger = mw.Ledger(mw.Limits())
    agent = agent_with([ASK, *DONE], clerk_tool([Reply("It is paid.", usage=(1_000_000, 1))]))
    handler = ledger.handler({"ScriptedChatModel": mw.Price(input=1, output=1)})
    call(agent, HELLO, {**ONE, "callbacks": [handler]})
    assert 1_000_000 < ledger.spent.input_tokens < 2_000_000


# Mistakes


def test_a_background_tool_and_the_middleware_need_each_other() -> None:
    with pytest.raises(SpecError, match=r"work: works in the background.*is not in the stack") as e:
        plan_agent(tools=[background(work)])
    assert e.value.code == "AF118"
    assert "Add BackgroundMiddleware() to `middleware`." in str(e.value)
    own = type("Own", (mw.BackgroundMiddleware,), {})
    plan_agent(tools=[background(work)], middleware=[own()], checkpointer=InMemorySaver())
    with pytest.warns(AgentFactoryWarning, match=r"^\[AF212\] BackgroundMiddleware: does nothing"):
        plan_agent(tools=[tool(work)], middleware=[mw.BackgroundMiddleware()], ignore=["AF211"])
    # The plan of a stack: its tools are not known.
    plan_agent(middleware=[mw.BackgroundMiddleware()], ignore=["AF211"])


def test_jobs_under_way_bound_no_run_and_are_limited_in_a_sentence() -> None:
    tools, stack = [background(work)], [mw.BackgroundMiddleware(max_running=3)]
    plan = plan_agent(tools=tools, middleware=stack, checkpointer=InMemorySaver())
    assert all(bound.most is None for bound in plan.bounds().rows)
    assert not counterexamples(plan, ["at most 3 jobs under way a thread"])
    few, loop = counterexamples(plan, ["at most 2 jobs under way", "every loop passes a limit"])
    assert few.reason == "The limit of BackgroundMiddleware is 3."
    assert "without a limit" in loop.reason
    assert counterexamples(plan, ["model passes a limit"])
    assert not counterexamples(plan_agent(tools=[tool(work)]), ["at most 2 jobs under way"])


def test_a_background_tool_keeps_what_it_is() -> None:
    original = tool_labels("untrusted")(tool(work))
    wrapped = background(original, timeout=5)
    assert (wrapped.name, wrapped.args, labels_of(wrapped)) == ("work", {}, ("untrusted",))
    assert (background_timeout(wrapped), background_timeout(original)) == (5.0, None)
    assert wrapped.description.startswith("Work.\n\nIt works in the background")
    # Outside of an agent it works as it did.
    assert wrapped.invoke({}) == "finished"
    inside = [StructuredTool.from_function(lambda: "", name="inside", description="I.")]
    shown = topology_of(agent_with([], clerk_tool([], *inside))).tools
    assert "clerk/inside" in [tool.name for tool in shown]
