"""The bench of clients: programs that run against our server and `langgraph dev`.

`clients.toml` names the clients and their versions. A program prints a JSON line for each check;
`differences` compares the results of both servers, field by field, and `differences.toml` gives the
reason of each difference that is known.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from socket import create_server
from typing import Any

import httpx

from clients.agents import AGENTS
from environments import outside
from processes import owned
from waiting import until

FOLDER = Path(__file__).parent
PROGRAMS, MODULE = FOLDER / "programs", FOLDER / "agents.py"
ROOT = FOLDER.parent.parent
PAGE = ROOT / "docs" / "service" / "clients.md"
BEGIN, END = "<!-- begin: UPDATE_DOCS=1 make clients -->", "<!-- end -->"
HEAD = ("| client | points here by | checks | differs |", "|---|---|---|---|")
UV = Path(sys.executable).parent / "uv"

Results = Mapping[str, Any]
"""Lines of checks by their names."""

# Values that differ from run to run, or from server to server.
VARIABLE = (
    (re.compile(r"(lc_run--|run-|own-|call_)?[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12}"), "ID"),
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?"), "TIME"),
    (re.compile(r"https?://(127\.0\.0\.1|localhost):\d+"), "URL"),
)


@dataclass(frozen=True)
class Client:
    """A client, and the program that uses it."""

    key: str
    package: str
    version: str
    point: str
    use: str = ""
    program: str = ""
    service: str = "service"
    dev: bool = False
    smoke: bool = False

    @property
    def name(self) -> str:
        """The client and its version, as the page has them."""
        return f"{self.use} `{self.package}` {self.version}".strip()

    @property
    def command(self) -> list[str | Path]:
        """The command of the program; the URL of a server follows."""
        (program,) = PROGRAMS.glob(f"{self.program or self.key}.*")
        if program.suffix == ".mjs":
            return ["node", program]
        return [*with_packages({self.package: self.version}), "python", program]

    def results(self, url: str) -> Results:
        """Result of each check at a server, without variable parts."""
        options: Any = {"capture_output": True, "text": True, "env": outside(), "timeout": 900}
        program = subprocess.run([*self.command, url], **options)
        assert program.returncode == 0, program.stderr
        lines = [json.loads(line) for line in program.stdout.splitlines() if line.startswith("{")]
        print(program.stderr, file=sys.stderr)
        return {line.pop("check"): normalized(line) for line in lines}


def versions(table: str) -> dict[str, Any]:
    """A table of `clients.toml`."""
    return dict(tomllib.loads((FOLDER / "clients.toml").read_text())[table])


def clients() -> dict[str, Client]:
    """The clients of `clients.toml`."""
    npm = versions("npm")
    return {
        key: Client(key, **{"version": npm.get(row["package"]), **row})
        for key, row in versions("clients").items()
    }


def npm_package() -> dict[str, Any]:
    """The package.json of the programs for Node.js; those of no smoke are for development."""
    smoke = {client.package for client in clients().values() if client.smoke}
    others = {client.package for client in clients().values()} - smoke
    kinds: dict[str, dict[str, str]] = {"dependencies": {}, "devDependencies": {}}
    for name, version in versions("npm").items():
        kinds["devDependencies" if name in others else "dependencies"][name] = version
    return {"name": "agent-factory-clients", "private": True, "type": "module", **kinds}


def with_packages(packages: Mapping[str, str]) -> list[str | Path]:
    """Command of uv that runs another command with packages, without this environment."""
    pins = [f"--with={name}=={version}" for name, version in packages.items()]
    return [UV, "run", "-q", "--no-project", "--python", sys.executable, *pins]


def normalized(value: Any) -> Any:
    """A JSON value without ids, times and addresses."""
    if isinstance(value, dict):
        return {normalized(key): normalized(item) for key, item in value.items()}
    if isinstance(value, list):
        return [normalized(item) for item in value]
    if isinstance(value, str):
        for expression, word in VARIABLE:
            value = expression.sub(word, value)
    return value


def leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """The fields of a JSON value with their paths."""
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from leaves(item, f"{path}.{key}")
    elif isinstance(value, list) and value:
        for index, item in enumerate(value):
            yield from leaves(item, f"{path}.{index}")
    else:
        yield path, value


MISSING = "(missing)"


def differences(ours: Results, expected: Results) -> dict[str, tuple[Any, Any]]:
    """Fields that differ, with both values; the error of a check differs from any other."""
    fields, others = (
        {path: value for check, line in each.items() for path, value in leaves(line, check)}
        for each in (ours, expected)
    )
    errors = {f"{check}.error" for check in (*ours, *expected)}
    pairs = {
        path: (fields.get(path, MISSING), others.get(path, MISSING)) for path in fields | others
    }
    return {path: pair for path, pair in pairs.items() if pair[0] != pair[1] or path in errors}


def known_differences(key: str) -> dict[str, str]:
    """Patterns of paths of the known differences of a client, with their reasons."""
    rows = tomllib.loads((FOLDER / "differences.toml").read_text()).get(key, ())
    return {pattern: row["reason"] for row in rows for pattern in row["at"]}


def problems(key: str, ours: Results, expected: Results) -> list[str]:
    """Differences without a row in `differences.toml`, and rows without a difference."""
    pairs, known = differences(ours, expected), known_differences(key)
    new = [
        f"new: {path}: ours {pair[0]!r}, expected {pair[1]!r}"
        for path, pair in pairs.items()
        if not any(fnmatchcase(path, pattern) for pattern in known)
    ]
    gone = [
        f"gone, remove the pattern: {pattern!r}"
        for pattern in known
        if not any(fnmatchcase(path, pattern) for path in pairs)
    ]
    return new + gone


def row(client: Client, ours: Results) -> str:
    """The row of a client in the page."""
    known = known_differences(client.key)
    works = [check for check in ours if f"{check}.error" not in known]
    reasons = ". ".join(dict.fromkeys(known.values()))
    count = len(ours) if len(works) == len(ours) else f"{len(works)} of {len(ours)}"
    cells = (client.name, f"`{client.point}`", f"{count}: {'; '.join(works)}", reasons or "-")
    return f"| {' | '.join(cells)} |"


def page_rows() -> dict[str, str]:
    """Rows of the table in the page, by the client."""
    table = PAGE.read_text().partition(BEGIN)[2].partition(END)[0]
    return {line[2:].partition(" |")[0]: line for line in table.splitlines() if "`" in line}


def write_row(client: Client, line: str) -> None:
    """Put the row of a client in its place in the page, and drop rows of other versions."""
    rows = page_rows() | {client.name: line}
    lines = [rows[each.name] for each in clients().values() if each.name in rows]
    before, _, rest = PAGE.read_text().partition(BEGIN)
    table = "\n".join([BEGIN, *HEAD, *lines, END])
    PAGE.write_text(before + table + rest.partition(END)[2])


def our_server(folder: Path, service: str) -> AbstractContextManager[str]:
    """`agent-factory serve` with a service of the module of agents."""
    module = f"{MODULE}:{service}"
    command = [sys.executable, "-m", "agent_factory.cli", "serve", module, "--port={port}"]
    return running(
        command, folder, {**os.environ, "AGENTS_DATABASE": f"sqlite:///{folder}/agents.db"}
    )


def langgraph_dev(folder: Path) -> AbstractContextManager[str]:
    """`langgraph dev` with the same agents."""
    graphs = {name: f"{MODULE}:{name}" for name in AGENTS}
    (folder / "langgraph.json").write_text(json.dumps({"dependencies": ["."], "graphs": graphs}))
    packages = with_packages(versions("langgraph_dev"))
    options = ["--no-browser", "--no-reload", "--n-jobs-per-worker", "8", "--port={port}"]
    return running([*packages, "langgraph", "dev", *options], folder, outside(PYTHONPATH=str(ROOT)))


@contextmanager
def running(
    command: Sequence[object], folder: Path, env: Mapping[str, str], health: str = "/ok"
) -> Iterator[str]:
    """The URL of a server, which writes to a file: a pipe that nobody reads gets full.

    The command has "{port}" where the port belongs.
    """
    with closing(create_server(("127.0.0.1", 0))) as probe:
        port = probe.getsockname()[1]
    url, log = f"http://127.0.0.1:{port}", folder / "log"
    with owned() as processes, log.open("w") as output:
        options: Any = {"cwd": folder, "env": env, "stdout": output, "stderr": output}
        words = [str(word).replace("{port}", str(port)) for word in command]
        process = processes.start(words, **options)
        until(lambda: process.poll() is not None or answers(url + health))
        assert process.poll() is None, log.read_text()
        yield url
        # Else killed: a worker would wait for the model of a cancelled run.
        if command[0] == UV:  # which passes the signal on to the server
            process.terminate()
            process.wait()


def answers(url: str) -> bool:
    """Return True once a server answers."""
    try:
        return httpx.get(url).is_success
    except httpx.TransportError:
        return False


if __name__ == "__main__":
    (FOLDER / "package.json").write_text(json.dumps(npm_package(), indent=2) + "\n")
