"""`agent-factory studio`: see an agent work in a browser."""

from __future__ import annotations

import webbrowser
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Timer
from typing import Annotated

import typer

from agent_factory.cli.loading import load_agent
from agent_factory.cli.service import run_server

GRACE = 2.0
"""Seconds to wait for runs when it is stopped."""

EXAMPLES = """\
agent-factory studio shop.agent:agent
agent-factory studio shop/agent.py --db shop.db"""


def studio(
    agents: Annotated[
        list[str],
        typer.Argument(metavar="AGENT...", help="Where agents are: module:name or file.py:name."),
    ],
    host: Annotated[str, typer.Option(help="The address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port.")] = 2024,
    db: Annotated[
        Path | None,
        typer.Option(help="A file that keeps the threads; without it, they end with the command."),
    ] = None,
    slots: Annotated[int, typer.Option(help="Runs at once.")] = 8,
    no_open: Annotated[bool, typer.Option("--no-open", help="Do not open a browser.")] = False,
) -> None:
    """See agents work in a browser: messages, plan, decisions, cost, reviews, earlier moments.

    A worker and SQLite are inside: no service and no database are needed. Only this machine can
    see the pages.
    """
    from agent_factory import topology_of
    from agent_factory.errors import ArgumentError
    from agent_factory.serve import create_app
    from agent_factory.serve.principal import local_principal
    from agent_factory.service import Service

    with ExitStack() as stack:
        folder = None if db else stack.enter_context(TemporaryDirectory(prefix="agent-factory-"))
        file = db.resolve() if db else Path(str(folder), "studio.db")
        service = Service(f"sqlite:///{file}")
        for target in agents:
            variable, agent = load_agent(target)
            # "LangGraph" is the default name of a graph.
            name = variable if agent.name in ("LangGraph", *service.agents) else agent.name
            try:
                has_plan = bool(topology_of(agent))
            except ArgumentError:  # of another library: the studio shows nodes without reasons
                has_plan = False
            service.add(name, agent, decisions=has_plan)
        # With local_principal, which is the default, `create_app` does not warn.
        application = create_app(service, local_principal, rate_limit=None)
        service.start(slots=slots)
        address = f"http://{host}:{port}/studio"
        ready = [f"The studio is at {address}. Ctrl-C stops it."]
        if db is None:
            ready.append("Threads end with it; --db FILE keeps them.")
        if not no_open:
            # The server below blocks, so a timer opens the browser. As a daemon, the timer does not
            # delay the end of a failed command.
            timer = Timer(1.0, webbrowser.open, [address])
            timer.daemon = True
            timer.start()
        run_server(service, application, host, port, GRACE, *ready)
