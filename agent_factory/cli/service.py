"""`agent-factory worker`, `serve`, `submit`, `inbox`, `decide` and more: a service."""

from __future__ import annotations

import gc
import importlib
import inspect
import json as json_format
import logging
import os
import signal
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import SpinnerColumn, TimeElapsedColumn

from agent_factory.cli import console
from agent_factory.cli.console import AsJson, Cells
from agent_factory.cli.error_reports import EXIT_FOUND, CommandError
from agent_factory.cli.loading import result_of, root_and_name
from agent_factory.errors import sentence

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from agent_factory.review import StandingApproval
    from agent_factory.service import Service, Wait

Target = Annotated[
    str,
    typer.Argument(
        metavar="SERVICE",
        help="Where the service is, or a function that builds it: module:name or file.py:name.",
    ),
]
Tenant = Annotated[str | None, typer.Option(help="Only threads of this tenant.")]
Slots = Annotated[int, typer.Option(help="Runs at once; the same for all workers.")]
Grace = Annotated[float, typer.Option(help="Seconds to wait for runs when it is stopped.")]

ENGINE = "AGENT_FACTORY_ENGINE"
"""Variable of the environment with the URL of the engine, for all commands."""

EngineUrl = Annotated[
    str | None,
    typer.Option(
        envvar=ENGINE,
        help="Gives out the jobs: embedded, temporal://host:7233 or restate://host:8080.",
    ),
]

MetricsToken = Annotated[
    str | None,
    typer.Option(
        envvar="AGENT_FACTORY_METRICS_TOKEN",
        help="Who sends this as a bearer token may read /metrics; without it, only this machine.",
    ),
]

EXAMPLES = """\
agent-factory worker shop.service:service --slots 32
agent-factory worker shop/service.py:service"""


def load_service(target: str, engine: str | None = None) -> Service:
    """The service of a target, or the result of a function; the module stays imported."""
    from agent_factory.service import Service

    value = _named("service", target)
    if inspect.isroutine(value):
        try:
            value = result_of(target, value, "a service")
        except ImportError as error:
            raise _not_loaded(target, error) from error
    if not isinstance(value, Service):
        raise CommandError(
            f"{target} is not a Service, but {type(value).__name__}. Write "
            "service = Service('sqlite:///desk.db') there."
        )
    # All commands need the engine: that of `decide` gives out a job, for example.
    if engine := engine or os.environ.get(ENGINE):
        value.use(engine)
    return value


def _named(what: str, target: str) -> object:
    """The value of a target; the module stays imported."""
    place, _, name = target.rpartition(":")
    if not place or not name:
        raise CommandError(
            f"{target!r} names no {what}. Write module:name or file.py:name, such as "
            f"shop.service:{what}."
        )
    root, module = root_and_name(Path(place).resolve()) if place.endswith(".py") else ("", place)
    # Not taken back, unlike in `load`: a running service may import more.
    sys.path.insert(0, str(root or Path.cwd()))
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise _not_loaded(target, error) from error


def _not_loaded(target: str, error: Exception) -> CommandError:
    # LangChain's messages end with a full stop, messages of imports do not.
    return CommandError(f"{target} cannot be loaded: {str(error).removesuffix('.')}.", error)


def worker(
    service: Target,
    slots: Slots = 8,
    grace: Grace = 30.0,
    engine: EngineUrl = None,
    port: Annotated[
        int | None, typer.Option(help="Answer /live, /ready and /metrics at this port.")
    ] = None,
    host: Annotated[str, typer.Option(help="The address for that.")] = "127.0.0.1",
    metrics_token: MetricsToken = None,
) -> None:
    """Run jobs of a service until a stop (Ctrl-C, SIGTERM) or a drain.

    A worker takes over the runs of dead workers. On Postgres, start as many as you like.
    """
    # Each look at an engine is a request. The module of the service may set another level.
    logging.getLogger("httpx").setLevel(logging.WARNING)
    loaded_service = load_service(service, engine)
    health = None
    if port is not None:
        # Before the worker takes jobs: the port may be taken.
        health, port = health_thread(loaded_service, host, port, metrics_token)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    signals = _signals()
    loaded_service.start(slots=slots)
    if health is not None:
        health.start()  # not earlier: only a started worker is ready
        console.write(f"Health at http://{host}:{port}/ready.")
    console.write(
        f"Worker {loaded_service.worker_id} runs up to {slots} jobs at once. Ctrl-C stops it."
    )
    # Output to a pipe is buffered, and a script may wait for this line.
    sys.stdout.flush()
    with _memory_at_rest():
        while not signals and not loaded_service.is_drained:
            time.sleep(0.1)
    del signals[:1]  # the request to stop, which a drained worker has not got
    console.write("Stopping; runs that are under way may end.")
    end(loaded_service, grace, signals)


@contextmanager
def _memory_at_rest() -> Iterator[None]:
    """Leave loaded objects out of garbage collections, which took 7 % of the time of a message."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _signals() -> list[int]:
    """Ctrl-C and SIGTERM from now on, in place of exceptions: runs may end first."""
    signals: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        # No Event: the interrupted code may hold its lock.
        signal.signal(number, lambda number, _: signals.append(number))
    return signals


def end(service: Service, grace: float, signals: list[int]) -> None:
    """End a service, and the process if runs are under way after the grace, or at a signal."""
    # In another thread: an exception of a handler would end `stop` before runs are given back.
    stopped = ThreadPoolExecutor(1).submit(service.stop, seconds=grace)
    while not stopped.done() and not signals:
        time.sleep(0.05)
    have_ended = stopped.result() if stopped.done() else service.stop(seconds=0)
    service.close()
    if not have_ended:
        console.write("Some runs did not end in time; other workers go on with them.")
        sys.stdout.flush()
        # Python would wait for their threads, however long a tool takes.
        os._exit(0)


def health_thread(service: Service, host: str, port: int, token: str | None) -> tuple[Thread, int]:
    """A thread for requests about the health of a worker, and the port, taken from now on."""
    from agent_factory.serve.health import health_app
    from agent_factory.serve.metrics import export_metrics

    # After agent_factory.serve, which names a missing extra.
    import uvicorn  # isort: skip

    export_metrics()
    config = uvicorn.Config(
        health_app(service, token), host=host, port=port, log_level="warning", ws="none"
    )
    server = uvicorn.Server(config)
    sockets = [config.bind_socket()]
    thread = Thread(target=server.run, args=(sockets,), name="agent-factory-health", daemon=True)
    return thread, sockets[0].getsockname()[1]


def serve(
    service: Target,
    host: Annotated[str, typer.Option(help="The address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port.")] = 2024,
    slots: Slots = 8,
    no_worker: Annotated[
        bool, typer.Option("--no-worker", help="Serve only; workers run elsewhere.")
    ] = False,
    authenticate: Annotated[
        str | None, typer.Option(help="A function that says who makes a request: module:name.")
    ] = None,
    only: Annotated[str | None, typer.Option(help="The parts to serve: langgraph,inbox.")] = None,
    origin: Annotated[
        list[str] | None,
        typer.Option(help="A server whose pages may make requests, such as https://example.com."),
    ] = None,
    webhook: Annotated[
        list[str] | None,
        typer.Option(
            help="A server to which the outcome of a run may be sent, such as "
            "https://hooks.example.com; once for each."
        ),
    ] = None,
    webhook_secret: Annotated[
        str | None,
        typer.Option(
            envvar="AGENT_FACTORY_WEBHOOK_SECRET", help="Signs what is sent to a webhook."
        ),
    ] = None,
    grace: Grace = 30.0,
    engine: EngineUrl = None,
    metrics_token: MetricsToken = None,
) -> None:
    """Serve the agents of a service over HTTP, to clients of LangGraph's API.

    A worker runs inside. Without --authenticate, only requests from this machine are served.
    """
    from agent_factory.serve import Webhooks, create_app
    from agent_factory.serve.metrics import export_metrics

    loaded_service = load_service(service, engine)
    who: Any = None if authenticate is None else _named("function", authenticate)
    application = create_app(
        loaded_service,
        authenticate=who,
        only=None if only is None else only.split(","),
        origins=origin or (),
        webhooks=Webhooks(webhook or (), secret=webhook_secret),
        metrics_token=metrics_token,
    )
    export_metrics()
    if not no_worker:
        loaded_service.start(slots=slots)
    if who is None and host not in ("127.0.0.1", "::1", "localhost"):
        console.write("Only requests from this machine are served. --authenticate lets others in.")
    place = f"http://{host}:{port}" if port else f"a free port of {host}"
    ready = f"Serving {', '.join(loaded_service.agents)} at {place}. Ctrl-C stops it."
    run_server(loaded_service, application, host, port, grace, ready)


def run_server(
    service: Service, application: Starlette, host: str, port: int, grace: float, *ready: str
) -> None:
    """Serve an application until a stop, then end the worker and the service."""
    import uvicorn

    # A stopped uvicorn raises the signal again, and the default handler would end the process
    # before the worker may end its runs.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    try:
        console.write("\n".join(ready))  # now: a script may answer with SIGTERM
        sys.stdout.flush()
        with _memory_at_rest():
            uvicorn.run(
                application,
                host=host,
                port=port,
                # uvicorn chooses a free port for port 0, and logs the number.
                log_level="warning" if port else "info",
                access_log=False,
                # No route has WebSockets, and uvicorn imports a package for them.
                ws="none",
                # uvicorn takes whole seconds.
                timeout_graceful_shutdown=int(grace),
            )
    # Also if the port is taken: uvicorn exits then, and a worker is running already.
    finally:
        end(service, grace, _signals())


def drain(
    service: Target,
    worker: Annotated[str | None, typer.Option(help="Only this worker.")] = None,
    seconds: Annotated[float, typer.Option(help="The longest time to wait for them.")] = 600.0,
    json: AsJson = False,
) -> None:
    """Let workers end after their runs, and wait for the end: before an update."""
    loaded_service = load_service(service)
    workers = left = set(loaded_service.drain(worker))
    end = time.monotonic() + seconds
    columns = (SpinnerColumn(), "{task.description}", TimeElapsedColumn())
    with console.progress_bar(*columns) as bar:
        task = bar.add_task("")
        while left and time.monotonic() < end:
            bar.update(task, description=f"{console.counted(len(left), 'worker')} left")
            time.sleep(0.2)
            # An ended worker has no row.
            left = workers & {entry["id"] for entry in loaded_service.workers()}
    gone = workers - left
    lines = [f"Drained {console.counted(len(gone), 'worker')}."]
    lines += [f"Still there: {name}" for name in sorted(left)]
    data = {"drained": sorted(gone), "left": sorted(left)}
    console.report(data, "\n".join(lines), json=json)
    if left:
        raise typer.Exit(EXIT_FOUND)


def reindex(service: Target, json: AsJson = False) -> None:
    """Write the tables of threads and waits again from the checkpoints."""
    loaded_service = load_service(service)
    number = sum(1 for _ in console.with_progress(loaded_service.reindex(), "Indexing threads"))
    waiting = loaded_service.inbox().count()
    decisions = f"{console.counted(waiting, 'decision')} {'is' if waiting == 1 else 'are'} open"
    text = f"Indexed {console.counted(number, 'thread')}; {decisions}."
    console.report({"threads": number, "waits": waiting}, text, json=json)


def submit(
    service: Target,
    agent: Annotated[str, typer.Argument(help="The name of the agent.")],
    message: Annotated[str, typer.Argument(help="What the user says.")],
    thread: Annotated[str | None, typer.Option(help="The thread; without it, a new one.")] = None,
    message_id: Annotated[str | None, typer.Option(help="The same id is the same run.")] = None,
    tenant: Annotated[str, typer.Option(help="Whose thread it is.")] = "",
    waiting: Annotated[
        str | None,
        typer.Option(
            help="If the thread waits for a decision: queue holds the message until then, "
            "interrupt sends it now and withdraws the question, reject refuses it."
        ),
    ] = None,
    by: Annotated[str, typer.Option(help="Who submits it, for the audit.")] = "terminal",
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Do not wait for the answer.")] = False,
    json: AsJson = False,
) -> None:
    """Give a message to an agent of a service, and show the answer as it arrives."""
    loaded_service = load_service(service)
    options: Any = {"message_id": message_id, "tenant": tenant, "waiting": waiting, "by": by}
    run = loaded_service.submit(agent, thread=thread, message=message, **options)
    has_text = False
    if not (json or no_wait):
        console.note(f"Thread {run.thread_id}, run {run.id}.")
    for part in () if no_wait else run.stream():
        if part["type"] == "waiting_for":
            what = part["data"]["what"]
            command = "worker" if what == "a worker" else "inbox"
            remark = f"Waiting for {what}: agent-factory {command} {service}"
            print(remark, file=sys.stderr, flush=True)
        elif json:
            continue
        elif part["type"] == "messages" and part["data"][0].type == "AIMessageChunk":
            print(part["data"][0].text, end="", flush=True)
            has_text = has_text or bool(part["data"][0].text)
    # An answer has no line break at the end.
    print("\n" * has_text, end="")
    status = run.status
    if json:
        console.write_json({"run": run.id, "thread": run.thread_id, "status": status})
    elif no_wait:
        console.write(f"Thread {run.thread_id}, run {run.id}: {status}.")
    elif status == "waiting":
        for wait in loaded_service.inbox().waits(thread=run.thread_id):
            console.write(f"{wait.tool} waits for a decision: {wait.id}")
    if status == "failed":
        reason = loaded_service.threads.get(run.thread_id).error
        raise CommandError(sentence(f"The run has failed: {reason}"))


def inbox(
    service: Target,
    tenant: Tenant = None,
    tool: Annotated[str | None, typer.Option(help="Only calls of this tool.")] = None,
    limit: Annotated[int, typer.Option(help="The most to show.")] = 50,
    json: AsJson = False,
) -> None:
    """Show the open decisions of the threads of a service, the most urgent first."""
    loaded_service = load_service(service)
    waits = loaded_service.inbox(tenant).waits(tool=tool, limit=limit)
    # Eighty columns have little room, and most calls have no reviewers.
    has_reviewers = any(wait.reviewers for wait in waits)

    def cells(wait: Wait) -> Cells:
        due = "" if wait.deadline is None else console.local_time(wait.deadline, "%H:%M")
        reviewers = {"reviewers": ", ".join(sorted(wait.reviewers))} if has_reviewers else {}
        return {
            "id": wait.id,
            "thread": wait.thread_id,
            "tool": wait.tool,
            "arguments": ", ".join(f"{name}={value!r}" for name, value in wait.args.items()),
            "since": console.local_time(wait.created_at, "%H:%M"),
            "due": due,
            **reviewers,
            "claimed by": wait.claimed_by or "",
        }

    console.show_rows(waits, cells, empty="Nothing waits for a decision.", json=json)
    if not json and (total := loaded_service.inbox(tenant).count()) > len(waits):
        console.write(f"{len(waits)} of {total}; --limit shows more.")


def decide(
    service: Target,
    wait: Annotated[str, typer.Argument(metavar="ID", help="What is decided, from `inbox`.")],
    decision: Annotated[str, typer.Argument(help="approve, edit, reject or respond.")],
    by: Annotated[str, typer.Option(help="Who decides, for the audit.")] = "terminal",
    message: Annotated[
        str | None, typer.Option("--message", "-m", help="The reason, or the answer.")
    ] = None,
    args: Annotated[str | None, typer.Option(help="All arguments for `edit`, as JSON.")] = None,
    role: Annotated[list[str] | None, typer.Option(help="A role of the one who decides.")] = None,
    tenant: Tenant = None,
    json: AsJson = False,
) -> None:
    """Decide about a waiting call. A worker continues the run."""
    loaded_service = load_service(service)
    try:
        arguments = None if args is None else json_format.loads(args)
    except ValueError as error:
        hint = """Write all arguments, such as --args '{"order_id": "A1", "euros": 5}'."""
        raise CommandError(f"--args is not JSON: {error}. {hint}") from error
    options: Any = {"roles": role or (), "message": message, "args": arguments, "tenant": tenant}
    run = loaded_service.decide(wait, decision, by=by, via="cli", **options)
    data = {"run": run.id, "thread": run.thread_id, "status": run.status}
    text = f"Decided: {decision}. Thread {run.thread_id} continues."
    console.report(data, text, json=json)


def approvals(
    service: Target,
    revoke: Annotated[
        str | None, typer.Option(metavar="ID", help="End this standing approval.")
    ] = None,
    by: Annotated[str, typer.Option(help="Who ends it, for the audit.")] = "terminal",
    everything: Annotated[
        bool, typer.Option("--all", help="Also those that are revoked or have expired.")
    ] = False,
    tenant: Tenant = None,
    json: AsJson = False,
) -> None:
    """Show standing approvals, by which calls run without a question, or end an approval."""
    loaded_service = load_service(service)
    if revoke is not None:
        approval = loaded_service.revoke(revoke, by=by, tenant=tenant)
        text = f"Revoked: {approval}. Such calls are asked about again."
        console.report(asdict(approval), text, json=json)
        return
    rows = loaded_service.approvals(tenant=tenant, active=not everything)

    def cells(row: StandingApproval) -> Cells:
        until = console.local_time(row.expires_at)
        until = until if row.revoked_at is None else f"revoked by {row.revoked_by}"
        return {
            "id": row.id,
            "agent": row.agent,
            "tool": row.tool,
            "arguments": f"{row.condition}, in {row.thread}" if row.thread else row.condition,
            "by": row.by,
            "until": until,
            "uses": str(row.uses),
        }

    console.show_rows(rows, cells, empty="There are no standing approvals.", json=json)
