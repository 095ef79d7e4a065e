"""The commands `worker`, `serve`, `submit`, `inbox`, `decide`, `drain` and `reindex`."""

from __future__ import annotations

import gc
import json
import re
import signal
import sqlite3
import subprocess
import sys
import webbrowser
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
import uvicorn
from starlette.testclient import TestClient
from typer.testing import CliRunner

from agent_factory import create_agent
from agent_factory.cli import console
from agent_factory.cli.app import app
from agent_factory.middleware import HumanInTheLoopMiddleware, Rule, ToolPolicy
from agent_factory.service import Service
from agent_factory.testing import ScriptedChatModel
from processes import Processes, exit_code
from tables import each
from waiting import until

EXAMPLE = Path(__file__).parents[2] / "examples" / "service"
SHOP = "shop.service:service"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder in which `shop.service` can be loaded, with its own database."""
    monkeypatch.chdir(EXAMPLE)
    monkeypatch.setenv("SHOP_DATABASE", f"sqlite:///{tmp_path}/desk.db")
    path = [*sys.path]
    yield tmp_path
    if "shop.service" in sys.modules:
        sys.modules["shop.service"].service.close()
    for name in [name for name in sys.modules if name.partition(".")[0] == "shop"]:
        del sys.modules[name]
    sys.path[:] = path


def run(*arguments: str) -> Any:
    result = CliRunner().invoke(app, arguments)
    if result.exit_code == 0:
        return result.output
    raise AssertionError(result.output)


def fails(*arguments: str) -> str:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2, result.output
    return " ".join(result.output.split())


def test_an_inbox_without_anything_and_messages_that_are_queued(folder: Path) -> None:
    for target in (SHOP, "shop/service.py:service"):
        assert run("inbox", target) == "Nothing waits for a decision.\n"
    assert json.loads(run("inbox", SHOP, "--json")) == []
    text = run("submit", SHOP, "desk", "Refund A1", "--thread", "t-17", "--no-wait")
    assert text.startswith("Thread t-17, run ")
    assert text.endswith(": queued.\n")
    again = run("submit", SHOP, "desk", "Hi", "--thread", "t-18", "--no-wait", "--json")
    assert json.loads(again)["status"] == "queued"
    assert "agent 'dekc': was not added" in fails("submit", SHOP, "dekc", "Hi")
    assert "wait 'nope': does not exist" in fails("decide", SHOP, "nope", "approve")
    assert "--args is not JSON" in fails("decide", SHOP, "nope", "edit", "--args", "{")


IMPATIENT = """
from agent_factory.service import Pace, Service
from shop.agent import desk_agent

service = Service({url!r}, pace=Pace(notice=0.0))
service.add("desk", desk_agent)
"""


@pytest.mark.long  # the warehouse of the example takes three seconds to answer
def test_a_message_says_what_it_waits_for(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """On standard error, also where the answer is JSON."""
    monkeypatch.syspath_prepend(EXAMPLE)
    (folder / "impatient.py").write_text(IMPATIENT.format(url=f"sqlite:///{folder}/desk.db"))
    target = f"{folder}/impatient.py:service"
    results: list[Any] = []

    def submit(*options: str) -> Thread:
        words = ["submit", target, "desk", "Refund A1", "--thread", "t-17", *options]
        thread = Thread(target=lambda: results.append(CliRunner().invoke(app, words)))
        thread.start()
        return thread

    first = submit("--json")
    until(lambda: "AF370" in caplog.text)
    service = sys.modules["impatient"].service
    service.start()
    first.join()
    held = submit()
    until(lambda: "AF371" in caplog.text)
    (wait,) = service.inbox().waits(thread="t-17")
    service.decide(wait.id, "reject", by="ann")
    held.join()
    run("submit", target, "desk", "Stop.", "--thread", "t-17", "--waiting", "interrupt")
    worker, inbox = (result.stderr for result in results)
    assert worker.startswith(f"Waiting for a worker: agent-factory worker {target}\n")
    assert inbox.startswith(f"Waiting for a decision: agent-factory inbox {target}\n")
    assert "Waiting" not in results[0].stdout
    assert "terminal" in [one.who for one in service.inbox().audit() if one.what == "withdraw"]
    assert "waiting: must be one of" in fails("submit", target, "desk", "Hi", "--waiting", "later")
    sys.modules.pop("impatient").service.close()


@each(
    "target, text",
    [
        ("shop", "'shop' names no service. Write module:name or file.py:name"),
        ("shop.nothing:service", "cannot be loaded: No module named 'shop.nothing'"),
        ("shop.service:nothing", "has no attribute 'nothing'"),
        ("shop.agent:desk_agent", "is not a Service, but"),
    ],
)
def test_a_target_that_is_not_a_service(folder: Path, target: str, text: str) -> None:
    assert text in fails("inbox", target)


BUILDERS = """
from agent_factory.service import Service
from shop.agent import desk_agent

services = []


def build_service(url={url!r}):
    services.append(Service(url))
    services[-1].add("desk", desk_agent)
    return services[-1]


def of(url): ...
def nothing(): ...
async def later(): ...
def without_langchain(): raise ImportError("Install langchain.")
"""


def test_a_function_may_build_the_service(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(EXAMPLE)
    file = folder / "builders.py"
    file.write_text(BUILDERS.format(url=f"sqlite:///{folder}/desk.db"))
    assert run("inbox", f"{file}:build_service") == "Nothing waits for a decision.\n"
    module = sys.modules["builders"]
    assert run("audit", "builders:build_service") == "The audit has no entries.\n"
    assert len(module.services) == 2
    assert "of must be callable without arguments, but needs url." in fails("inbox", "builders:of")
    assert "later is asynchronous. Use a service, or" in fails("inbox", "builders:later")
    assert "nothing is not a Service, but NoneType." in fails("inbox", "builders:nothing")
    text = fails("inbox", "builders:without_langchain")
    assert text.endswith("builders:without_langchain cannot be loaded: Install langchain.")
    for service in sys.modules.pop("builders").services:
        service.close()


def test_the_inbox_shows_reviewers_if_any(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    policy = ToolPolicy(Rule("refund", "ask", reviewers=["finance", "@ann"]))
    pay = [{"name": "refund", "args": {"order": "A1"}}]

    def refund(order: str) -> str:
        """Refund an order."""
        return order

    def agent_with(rules: Any) -> Any:
        layers = [HumanInTheLoopMiddleware(rules)]
        model = ScriptedChatModel([pay])
        return create_agent(model, [refund], middleware=layers, ignore=["AF211"])

    run("inbox", SHOP)
    service = sys.modules["shop.service"].service
    service.add("free", agent_with({"refund": True}))
    service.add("finance", agent_with(policy))
    with service:
        service.submit("free", message="Refund A1", thread="t-1").result(60)
        assert "reviewers" not in run("inbox", SHOP)
        service.submit("finance", message="Refund A1", thread="t-2").result(60)
    header, *rows = run("inbox", SHOP).splitlines()
    assert header.split()[-3:] == ["reviewers", "claimed", "by"]
    assert {row.split()[1]: "@ann, finance" in row for row in rows} == {"t-1": False, "t-2": True}


def test_the_audit(folder: Path) -> None:
    assert run("audit", SHOP) == "The audit has no entries.\n"
    head = f"0:{'0' * 64}"
    assert run("audit", SHOP, "--verify") == f"The audit is intact. Its head is {head}\n"
    run("submit", SHOP, "desk", "Refund A1", "--thread", "t-17", "--no-wait")
    service = sys.modules["shop.service"].service
    service.threads.delete("t-17", by="ann")
    lines = run("audit", SHOP, "--thread", "t-17").splitlines()
    assert re.search(r"^ 2 +\d{4}-\d\d-\d\d \d\d:\d\d:\d\d +t-17 +ann +delete +$", lines[1])
    of_ann = json.loads(run("audit", SHOP, "--who", "ann", "--json"))
    assert [entry["what"] for entry in of_ann] == ["delete", "cancel"]
    assert json.loads(run("audit", SHOP, "--who", "bob", "--json")) == []
    newest, oldest = json.loads(run("audit", SHOP, "--json"))
    assert (oldest["what"], newest["what"]) == ("cancel", "delete")
    found = json.loads(run("audit", SHOP, "--verify", "--json"))
    head = found["head"]
    assert head.startswith("2:")
    assert found == {"head": head, "wrong_entry": None, "error": None}
    with sqlite3.connect(folder / "desk.db") as connection:
        connection.execute("drop trigger service_audit_delete")
        connection.execute("delete from service_audit where id = 2")
    connection.close()
    assert json.loads(run("audit", SHOP, "--thread", "other", "--json")) == []
    for options in ([], ["--json"]):
        result = CliRunner().invoke(app, ["audit", SHOP, "--head", head, *options])
        assert result.exit_code == 1
        assert "entry 2 of the audit: is missing" in result.output
    assert json.loads(result.output)["wrong_entry"] == 2
    assert "must be the number of an entry and a hash" in fails("audit", SHOP, "--head", "x")


def test_a_service_is_served(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def run_server(application: Any, **options: Any) -> None:
        client = TestClient(application, base_url="http://localhost", client=("127.0.0.1", 5))
        chat = {"Origin": "http://localhost:3000"}
        answer = client.get("/assistants/desk", headers=chat)
        allowed = answer.headers.get("access-control-allow-origin")
        # What the service has loaded is left out of garbage collections while it is served.
        frozen = gc.get_freeze_count() > 10_000
        asked[:] = [answer.json()["name"], allowed, options["port"], frozen]
        body = {"assistant_id": "desk", "input": {}, "webhook": "https://evil.example/"}
        asked.append(client.post("/runs", json=body).json()["detail"])

    monkeypatch.setattr(uvicorn, "run", run_server)
    text = run("serve", SHOP, "--port", "3000", "--origin", "http://localhost:3000")
    assert text == "Serving desk at http://127.0.0.1:3000. Ctrl-C stops it.\n"
    assert asked[:-1] == ["desk", "http://localhost:3000", 3000, True]
    assert "this server sends none" in asked[-1]
    assert gc.get_freeze_count() == 0
    text = run("serve", SHOP, "--no-worker", "--host", "0.0.0.0")
    assert "Only requests from this machine are served. --authenticate lets others in." in text
    run("serve", SHOP, "--webhook", "https://hooks.example.com")
    assert "may name only the servers that this server allows" in asked[-1]
    assert "must be a list of origins" in fails("serve", SHOP, "--origin", "localhost")
    assert "must be a list of origins" in fails("serve", SHOP, "--webhook", "localhost")
    assert "'who' names no function" in fails("serve", SHOP, "--authenticate", "who")


@pytest.fixture
def handlers() -> Iterator[None]:
    """The handlers of signals are those of before when a test has ended."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_server_says_that_it_serves_once_it_takes_signals(
    folder: Path, monkeypatch: pytest.MonkeyPatch, handlers: None
) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    taken: list[Any] = []
    monkeypatch.setattr(console, "write", lambda _: taken.append(signal.getsignal(signal.SIGTERM)))
    monkeypatch.setattr(uvicorn, "run", lambda *_, **__: None)
    run("serve", SHOP)
    assert len(taken) == 1
    assert signal.SIG_DFL not in taken


def test_a_second_signal_ends_the_grace_however_soon_it_comes(
    folder: Path, monkeypatch: pytest.MonkeyPatch, handlers: None
) -> None:
    graces: list[float | None] = []
    has_hurried = Event()

    def stop(self: Any, *, seconds: float | None = None) -> bool:
        graces.append(seconds)
        if seconds == 0:
            has_hurried.set()
        has_hurried.wait(60)
        return True  # else the process ends

    twice = [signal.SIGTERM] * 2
    monkeypatch.setattr(Service, "start", lambda *_, **__: [*map(signal.raise_signal, twice)])
    monkeypatch.setattr(Service, "stop", stop)
    run("worker", SHOP, "--grace", "600")
    assert graces == [600, 0, None]  # the last by `close`


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a browser sees of the studio, instead of a server that stays."""
    pages: list[str] = []

    def run_server(application: Any, **options: Any) -> None:
        client = TestClient(application, base_url="http://localhost", client=("127.0.0.1", 5))
        # On a slow machine, the timer has opened the browser before.
        agents = [page for page in pages if not page.startswith("http")]
        form = {"agent": agents[0] if agents else "", "text": "Hello"}
        pages.append(client.get("/studio").text)
        if form["agent"]:
            pages.append(client.post("/studio/threads", data=form).text)

    monkeypatch.setattr(uvicorn, "run", run_server)
    monkeypatch.setattr(webbrowser, "open", pages.append)
    return pages


AGENT = """
from langgraph.graph import START, MessagesState, StateGraph

from agent_factory import create_agent
from agent_factory.cli import console
from agent_factory.testing import ScriptedChatModel

desk = create_agent(ScriptedChatModel(["Hi."]))
agent = other = create_agent(ScriptedChatModel(["Hi."]), name="clerk")
builder = StateGraph(MessagesState)
builder.add_node("answer", lambda state: {})
builder.add_edge(START, "answer")


def make_graph():
    return builder.compile()
"""


@pytest.fixture
def agent(tmp_path: Path) -> str:
    (tmp_path / "studio_agents.py").write_text(AGENT)
    return str(tmp_path / "studio_agents.py")


def test_the_studio_of_agents_calls_them_by_their_names(agent: str, seen: list[str]) -> None:
    text = run("studio", f"{agent}:desk", f"{agent}:make_graph", "--port", "3000", "--no-open")
    assert text == (
        "The studio is at http://127.0.0.1:3000/studio. Ctrl-C stops it.\n"
        "Threads end with it; --db FILE keeps them.\n"
    )
    for words in ("<option>desk</option>", "<option>make_graph</option>", "a graph without a plan"):
        assert words in seen[0]
    seen.clear()
    run("studio", f"{agent}:agent", f"{agent}:other", "--no-open")
    assert "<option>clerk</option>" in seen[0]
    assert "<option>agent</option>" not in seen[0]
    assert "<option>other</option>" in seen[0]  # two agents cannot have one name


@pytest.mark.long
def test_the_studio_keeps_its_threads(agent: str, seen: list[str], tmp_path: Path) -> None:
    seen.append("desk")
    database = ["--db", f"{tmp_path}/s.db"]
    assert "Threads end" not in run("studio", f"{agent}:desk", *database)
    # A thread opens the browser, before or after the page is read.
    until(lambda: any(page.startswith("http") for page in seen))
    assert any("No threads yet." in page for page in seen)
    seen.clear()
    run("studio", f"{agent}:desk", *database, "--no-open")
    assert "Hello" in seen[0]


def test_what_is_not_an_agent_for_the_studio(agent: str, tmp_path: Path) -> None:
    assert "must be an agent, got" in fails("studio", f"{agent}:builder")
    assert "does not have 'dekc'" in fails("studio", f"{agent}:dekc")
    plan = tmp_path / "desk.topology"
    plan.write_text("")
    assert "is a plan. A plan cannot run" in fails("studio", str(plan))


SERVED = """
import uvicorn
from agent_factory.cli.app import app

startup = uvicorn.Server.startup

async def say_so(server, sockets=None):
    await startup(server, sockets)
    print("ready", server.servers[0].sockets[0].getsockname()[1], flush=True)

uvicorn.Server.startup = say_so
app()
"""
"""A command that serves, and says at which port once it takes requests and signals."""


def command(*words: object) -> list[object]:
    """A command for another process, whose line with "ready" or "runs up to" is awaited."""
    served = ["-c", SERVED] if words[0] == "serve" else ["-m", "agent_factory.cli"]
    return [sys.executable, *served, *words]


@pytest.mark.long
@pytest.mark.timeout(600)  # it starts two processes, of which one waits until the other is dead
def test_the_first_steps(folder: Path, processes: Processes) -> None:
    """As docs/service/first_steps.md goes: with a worker that is killed while it works."""

    def worker(name: str) -> subprocess.Popen[str]:
        with (folder / name).open("w") as log:
            return processes.start(command("worker", SHOP), stdout=log, stderr=log)

    run("submit", SHOP, "desk", "Refund A1, please", "--thread", "t-17", "--no-wait")
    first = worker("first.log")
    service = sys.modules["shop.service"].service
    until(lambda: service.threads.get("t-17").status == "running")
    until(lambda: len(service.threads.state("t-17").values.get("messages", ())) > 1)
    first.kill()
    second = worker("second.log")
    until(lambda: json.loads(run("inbox", SHOP, "--json")))
    log = (folder / "second.log").read_text()
    assert "gave no sign of life; its runs are taken over" in log
    assert "Took over 1 runs of workers that have died" in log
    table = run("inbox", SHOP)
    (wait,) = json.loads(run("inbox", SHOP, "--json"))
    assert wait["id"] in table
    assert wait["args"] == {"order_id": "A1", "euros": 40}
    text = run("decide", SHOP, wait["id"], "approve", "--by", "ann")
    assert text == "Decided: approve. Thread t-17 continues.\n"
    until(lambda: service.threads.get("t-17").status == "idle")
    answer = service.threads.state("t-17").values["messages"][-1].text
    assert answer == "About order A1: 40 euros were paid back for order A1."
    text = run("submit", SHOP, "desk", "Thanks! Was A1 paid?", "--thread", "t-17")
    assert text == "Yes: 40 euros were paid back for order A1.\n"
    # Another message, whose answer is streamed to the terminal, up to its review.
    text = run("submit", SHOP, "desk", "Refund B2", "--thread", "t-18-of-a-customer-in-a-table")
    assert text.startswith("refund waits for a decision: ")
    # Eighty columns have no room for all of the row, and another command takes the id.
    assert text.split()[-1] in run("inbox", SHOP)
    assert run("reindex", SHOP) == "Indexed 2 threads; 1 decision is open.\n"
    assert json.loads(run("reindex", SHOP, "--json")) == {"threads": 2, "waits": 1}
    assert run("drain", SHOP) == "Drained 1 worker.\n"
    assert exit_code(second) == 0
    log = (folder / "second.log").read_text()
    assert "runs up to 8 jobs at once. Ctrl-C stops it." in log
    assert "Stopping; runs that are under way may end." in log
    assert json.loads(run("drain", SHOP, "--json")) == {"drained": [], "left": []}


SLOW = """
from threading import Event
from langchain_core.messages import AIMessage
from agent_factory import create_agent
from agent_factory.cli import console
from agent_factory.service import Service
from agent_factory.testing import ScriptedChatModel

def wait() -> str:
    "Wait, without end."
    while not Event().wait(0.05):
        with open("signs", "a") as file:
            file.write(".")

def answer(messages):
    call = {"name": "wait", "args": {}, "id": "c1"}
    return AIMessage("", tool_calls=[call]) if messages[-1].type == "human" else "Done."

service = Service("sqlite:///slow.db")
service.add("slow", create_agent(ScriptedChatModel([answer] * 9), [wait]))
"""


def signs(folder: Path) -> int:
    """How often the tool has said that it still waits."""
    return len((folder / "signs").read_text()) if (folder / "signs").exists() else 0


@pytest.mark.long
@pytest.mark.parametrize("name", ["worker", "serve"])
@pytest.mark.parametrize("grace", [0, 600])
def test_a_process_ends_after_its_grace_whatever_its_tools_do(
    tmp_path: Path, name: str, grace: int, processes: Processes
) -> None:
    """Its runs are not marked as failed: another worker goes on. Another signal ends the grace."""
    (tmp_path / "slow.py").write_text(SLOW)
    words = [name, "slow:service", "--grace", grace, *(["--port", 0] if name == "serve" else [])]
    ready = "ready" if name == "serve" else "runs up to"
    process = processes.start(command(*words), cwd=tmp_path, ready=ready)

    def wait() -> str:
        """Wait no more."""
        return "waited"

    with closing(Service(f"sqlite:///{tmp_path}/slow.db")) as service:
        service.add("slow", create_agent(ScriptedChatModel(["Done."]), [wait]))
        run = service.submit("slow", thread="t", message="Hi")
        until(lambda: signs(tmp_path))
        process.terminate()
        if grace:
            before = signs(tmp_path)
            until(lambda: signs(tmp_path) > before + 20)
            process.terminate()
        assert exit_code(process) == 0
        assert service.workers() == []
        assert service.threads.get("t").status == "queued"
        service.start()
        assert run.result(60)["messages"][-1].text == "Done."
