"""Fixtures that many tests share; `call` and `collect` run each test sync and async."""

from __future__ import annotations

import asyncio
import gc
import os
import shutil
import signal
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from families import OURS, THEIRS, shown
from hypothesis import HealthCheck, settings
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.prebuilt import ToolNode as LangGraphToolNode
from langgraph.runtime import Runtime

import agent_factory
from agent_factory import ToolNode, review
from agent_factory.testing import ScriptedChatModel
from processes import Processes, owned
from samples import new_thread

Run = Callable[..., Any]

SLOW = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
settings.register_profile(
    "test", max_examples=30, deadline=None, derandomize=True, suppress_health_check=SLOW
)
# A night draws other examples than the night before: `make crossings` names its seed.
settings.register_profile("night", max_examples=30, deadline=None, suppress_health_check=SLOW)
settings.register_profile("prove", max_examples=2000, deadline=None, suppress_health_check=SLOW)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "test"))
# For laws whose every example builds agents and runs them: `@settings.get_profile("costly")`.
FEW = 10 if settings.get_current_profile_name() != "prove" else settings().max_examples
settings.register_profile("costly", settings(), max_examples=FEW)


def _interrupt(signum: int, frame: object) -> None:
    raise KeyboardInterrupt


# With Python's own handler of Ctrl-C, each `asyncio.run` replaces and restores it, which takes a
# twentieth of the tests' time.
if (
    threading.current_thread() is threading.main_thread()
    and signal.getsignal(signal.SIGINT) is signal.default_int_handler
):
    signal.signal(signal.SIGINT, _interrupt)


# Typer builds all commands again for each call, which takes a hundredth of a second.
with suppress(ImportError):
    import typer.main
    import typer.testing

    typer.testing._get_command = cache(typer.main.get_command)  # type: ignore[attr-defined]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Exclude modules and tests from garbage collection, which saves a tenth of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(100_000, 50, 50)
        gc.enable()


pytest_plugins = ("measuring", "outcomes", "tiers")  # in this order: the second imports the first


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Ignore build warnings in tests of built-ins, which try every order."""
    builtins = Path(__file__).parent / "middleware"
    for item in items:
        if builtins in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("ignore::agent_factory.AgentFactoryWarning"))


@pytest.hookimpl(wrapper=True, optionalhook=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> Generator[None, Any, Any]:
    """Let the limit come again: after the first time, hypothesis runs the example once more."""
    result = yield
    if signal.getitimer(signal.ITIMER_REAL)[0]:  # in the main thread it is a signal
        signal.setitimer(signal.ITIMER_REAL, settings.timeout, settings.timeout)
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, Any, Any]:
    """Fail a skipped test where CI says that every tool is installed."""
    return _no_skip((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, Any, Any]:
    """Fail a skipped module likewise."""
    return _no_skip((yield))


def _no_skip(report: Any) -> Any:
    if report.skipped and os.environ.get("REQUIRE_TOOLS") and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"REQUIRE_TOOLS is set, and this was skipped: {report.longrepr}"
    return report


MEMORY = Path("/dev/shm")


def pytest_configure(config: pytest.Config) -> None:
    """Keep temporary folders in memory where there is room.

    On a disk, a commit of a database waits for it, which takes half the time of the tests of the
    service.
    """
    if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > 2**32:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


@pytest.fixture
def quick_gc() -> None:
    """Exclude what earlier tests left from `gc.collect()`, which takes half a second for it."""
    gc.freeze()


@pytest.fixture(params=["sync", "async"])
def call(request: pytest.FixtureRequest) -> Run:
    """Call an agent's `invoke` or `ainvoke`: `call(agent, input, config)`."""

    def sync(agent: Any, *args: Any, **kwargs: Any) -> Any:
        return agent.invoke(*args, **kwargs)

    def a(agent: Any, *args: Any, **kwargs: Any) -> Any:
        return asyncio.run(agent.ainvoke(*args, **kwargs))

    return sync if request.param == "sync" else a


@pytest.fixture
def processes() -> Iterator[Processes]:
    """Processes of a test: each is ended and waited for, whatever happens in the test."""
    with owned() as processes:
        yield processes


@pytest.fixture
def thread() -> str:
    """The id of a new thread."""
    return new_thread()


@pytest.fixture
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty current folder."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(params=["batched", "per_call"])
def mode(request: pytest.FixtureRequest) -> Any:
    """How the middleware for reviews asks: once for all calls of a turn, or once for each."""
    return request.param


@pytest.fixture(params=[False, True], ids=["steps", "fused"])
def fused(request: pytest.FixtureRequest) -> Any:
    """Whether an agent runs a whole loop in one step of the graph."""
    return request.param


@pytest.fixture
def send(call: Run) -> Run:
    """Run an agent on some messages, or on one that asks it to continue."""

    def send(agent: Any, messages: Any = None, config: Any = None) -> Any:
        return call(agent, {"messages": messages or [HumanMessage("Go on")]}, config)

    return send


@pytest.fixture(params=["sync", "async"])
def act(request: pytest.FixtureRequest) -> Run:
    """Call a function of `review`, sync or async, on the thread "1": `act("approve", agent)`."""

    thread: Any = {"configurable": {"thread_id": "1"}}

    def sync(name: str, agent: Any, /, *args: Any, **kwargs: Any) -> Any:
        return getattr(review, name)(agent, thread, *args, **kwargs)

    def a(name: str, agent: Any, /, *args: Any, **kwargs: Any) -> Any:
        return asyncio.run(getattr(review, f"a{name}")(agent, thread, *args, **kwargs))

    return sync if request.param == "sync" else a


@pytest.fixture(params=["sync", "async"])
def collect(request: pytest.FixtureRequest) -> Run:
    """Stream an agent to a list, by `stream` or `astream`: `collect(agent, input, ...)`."""

    def sync(agent: Any, *args: Any, **kwargs: Any) -> list[Any]:
        return list(agent.stream(*args, **kwargs))

    async def gather(agent: Any, *args: Any, **kwargs: Any) -> list[Any]:
        return [chunk async for chunk in agent.astream(*args, **kwargs)]

    def a(agent: Any, *args: Any, **kwargs: Any) -> list[Any]:
        return asyncio.run(gather(agent, *args, **kwargs))

    return sync if request.param == "sync" else a


def plain(value: Any) -> Any:
    """A value without ids and response metadata, which differ from run to run."""
    if isinstance(value, BaseMessage):
        left_out = {"id", "response_metadata"} if isinstance(value, AIMessage) else {"id"}
        return value.model_dump(exclude=left_out)
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return repr(value)


def outcome(agent: Any, given: Any, call: Any) -> Any:
    """The result of a run: its state and interrupts, or its error."""
    try:
        result = dict(call(agent, given, {"configurable": {"thread_id": "1"}}))
    except Exception as error:
        return type(error).__name__, str(error)
    waiting = [interrupt.value for interrupt in result.pop("__interrupt__", ())]
    return plain(result), plain(waiting)


def story(
    create: Any, stack: Any, steps: Sequence[Any], inputs: Sequence[Any], call: Any, options: Any
) -> dict[str, Any]:
    """Everything visible of an agent: results, the thread's state, and the model's requests."""
    model = ScriptedChatModel(list(steps))
    agent = create(model, middleware=stack(), checkpointer=InMemorySaver(), **options)
    outcomes = [outcome(agent, given, call) for given in inputs]
    state = plain(agent.get_state({"configurable": {"thread_id": "1"}}).values)
    # The order of tools differs: here the tools of create_agent come first.
    seen = [(plain(r.messages), sorted(map(str, r.tools)), plain(r.kwargs)) for r in model.requests]
    return {"outcomes": outcomes, "state": state, "seen": seen}


@pytest.fixture
def spans(caplog: pytest.LogCaptureFixture) -> Iterator[Any]:
    """Spans of a run, which all end, and leave the context as it was."""
    from opentelemetry import context as contexts
    from spans import Spans

    spans, before = Spans(), contexts.get_current()
    yield spans
    assert not caplog.get_records("call"), "LangChain logs what a handler raises"
    spans.check()
    assert contexts.get_current() == before


@pytest.fixture
def alike(call: Run) -> Callable[..., dict[str, Any]]:
    """Run a stack in langchain's agent and in this one, and compare everything visible."""
    theirs = pytest.importorskip("langchain.agents", reason="the extra peer is not installed")

    def run(stack: Any, steps: Sequence[Any], *inputs: Any, **options: Any) -> dict[str, Any]:
        inputs = inputs or ({"messages": [("user", "Hi")]},)
        expected = story(theirs.create_agent, stack, steps, inputs, call, options)
        given = story(agent_factory.create_agent, stack, steps, inputs, call, options)
        assert given == expected
        return given

    return run


@pytest.fixture
def same(call: Run) -> Run:
    """Run a scenario of `(family, call)` with both families, and compare what it returns."""
    pytest.importorskip("langchain.agents", reason="the extra peer is not installed")

    def both(scenario: Run) -> Any:
        expected, given = (shown(scenario(family, call)) for family in (THEIRS, OURS))
        assert given == expected
        return given

    return both


@pytest.fixture(params=[LangGraphToolNode, ToolNode], ids=["langgraph", "ours"])
def kind(request: pytest.FixtureRequest) -> Any:
    """LangGraph's ToolNode, and the one of this package.

    Where they differ, a pair of tests says how, so that a change in LangGraph is noticed. The
    numbers in the names of tests are those of the contract.
    """
    return request.param


@pytest.fixture
def run(call: Run) -> Run:
    """Run a node outside a graph: `run(node, input, store=..., context=...)`."""

    def runs(node: Any, input: Any, config: Any = None, **known: Any) -> Any:
        return call(node, input, config or {}, runtime=Runtime(**known))

    return runs


@pytest.fixture
def ask() -> Callable[..., list[Any]]:
    """A history that ends with calls: `ask(("add", {"a": 1}), ...)`, with the ids "1", "2", ..."""

    def asks(*calls: tuple[str, dict[str, Any]]) -> list[Any]:
        numbered = enumerate(calls, start=1)
        asked = [{"name": name, "args": args, "id": str(id)} for id, (name, args) in numbered]
        return [AIMessage("", tool_calls=asked)]

    return asks
