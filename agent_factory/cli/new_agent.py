"""`agent-factory new agent`: the first files of a product."""

from __future__ import annotations

import re
import sys
from importlib.util import find_spec
from keyword import iskeyword
from pathlib import Path
from string import Template
from typing import Annotated, Final

import typer

from agent_factory.cli import console
from agent_factory.cli.console import AsJson
from agent_factory.cli.error_reports import CommandError, ShowTraceback
from agent_factory.cli.loading import load_builder
from agent_factory.errors import requirement

_AGENT = '''"""The agent: its tools, its middleware, and how it is built."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agent_factory import AgentMiddleware, create_agent
from agent_factory.middleware import (
    ModelCallLimitMiddleware,
    ModelRetryMiddleware,
    ToolErrorMiddleware,
)
from langchain_core.language_models import BaseChatModel

MODEL = "openai:gpt-5-mini"
"""The model that answers users. Any chat model of LangChain works."""

PROMPT = "You answer questions about orders. Look an order up before you answer."

ORDERS = {"A-1001": "arrives on Thursday"}


def find_order(order_id: str) -> str:
    """Find out when an order arrives. The id is on the receipt, as in A-1001."""
    if order_id not in ORDERS:
        raise LookupError(f"There is no order {order_id}.")
    return f"Order {order_id} {ORDERS[order_id]}."


TOOLS: list[Callable[..., Any]] = [find_order]


def stack() -> list[AgentMiddleware[Any, Any]]:
    """The middleware of the agent, the outermost first."""
    return [
        ModelCallLimitMiddleware(run_limit=20),  # a loop ends, and says why
        ToolErrorMiddleware(),  # the model reads what went wrong, and goes on
        ModelRetryMiddleware(),  # a provider that is down for a moment is asked again
    ]


def build_agent(model: str | BaseChatModel = MODEL) -> Any:
    """The agent. Tests pass another model."""
    return create_agent(
        model,
        TOOLS,
        system_prompt=PROMPT,
        middleware=stack(),
        name="$name",
    )
'''

_TESTS = '''"""What the agent does, with a model that follows a script."""

from __future__ import annotations

from typing import Any

from agent_factory.testing import assert_trajectory, assert_valid_history

from $name.agent import build_agent

QUESTION: Any = {"messages": [("user", "When does my order arrive?")]}


def find_order(order_id: str) -> list[Any]:
    """A step in which the model calls the tool."""
    return [{"name": "find_order", "args": {"order_id": order_id}}]


def test_the_plan(topology_snapshot: Any, scripted_model: Any) -> None:
    assert build_agent(scripted_model([])) == topology_snapshot


def test_it_looks_an_order_up(sync_or_async: Any, scripted_model: Any) -> None:
    agent = build_agent(scripted_model([find_order("A-1001"), "On Thursday."]))
    result = sync_or_async.invoke(agent, QUESTION)
    assert_trajectory(result, "only find_order -> ok < answer", agent=agent)
    assert result["messages"][-1].text == "On Thursday."


def test_it_goes_on_after_an_error(sync_or_async: Any, scripted_model: Any) -> None:
    steps = [find_order("B-2"), find_order("A-1001"), "On Thursday."]
    agent = build_agent(scripted_model(steps))
    result = sync_or_async.invoke(agent, QUESTION)
    assert_trajectory(result, "find_order -> error < find_order -> ok < answer")
    assert_valid_history(result["messages"])


def test_a_loop_ends(sync_or_async: Any, scripted_model: Any) -> None:
    agent = build_agent(scripted_model([find_order("A-1001")] * 20))
    result = sync_or_async.invoke(agent, QUESTION)
    assert_trajectory(result, "find_order{20}, answer")
'''

_PROJECT = """[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "$name"
version = "0.1.0"
description = "An agent that answers questions about orders."
requires-python = ">=3.11"
dependencies = [
    # agent-factory is on no public index. This is where it was installed from; where others
    # install $name, too, write an address that they can reach, such as git+https://...
    "$library",
    "langchain",
    "langchain-openai",
]

[project.optional-dependencies]
dev = ["$library_for_tests", "mypy", "ruff"]
studio = ["$library_for_studio"]

[tool.setuptools]
packages = ["$name"]

[tool.pytest.ini_options]
pythonpath = ["."]
testpaths = ["tests"]
filterwarnings = ["error::agent_factory.AgentFactoryWarning"]

[tool.mypy]
strict = true
files = ["$name", "tests"]

[tool.ruff.lint]
select = ["E", "F", "I", "UP", "B", "RUF"]

[tool.ruff.lint.isort]
known-third-party = ["agent_factory"]
"""

_README = """# $name

An agent of agent_factory. `$name/agent.py` has its tools, its middleware, its prompt and its
model.

```sh
pip install -e '.[dev]'
pytest                                # a scripted model: no key, no network
agent-factory show $name.agent:stack  # what runs when
```

To talk to it in a browser, with a model of OpenAI:

```sh
pip install -e '.[studio]'
export OPENAI_API_KEY=...
agent-factory studio $name.agent:build_agent
```

- A test fails if the plan of the agent changes. If that is intended: `pytest --snapshot-update`.
- To keep what a real model did, run `record_agent(build_agent(), "tests/recordings/name.jsonl")`
  once, as an agent. After a change of the agent, `agent-factory replay $name.agent:build_agent
  tests/recordings` shows which recorded runs it changes.
"""

FILES: Final = {
    "README.md": _README,
    "pyproject.toml": _PROJECT,
    ".gitignore": "__pycache__/\n.venv/\n*.egg-info/\n",
    "$name/__init__.py": '"""An agent that answers questions about orders."""\n',
    "$name/agent.py": _AGENT,
    "$name/py.typed": "",
    "tests/test_agent.py": _TESTS,
}
"""The files of a product, by their paths, without the snapshot of its plan."""

SNAPSHOT: Final = "tests/__snapshots__/test_agent/test_the_plan.topology"

LONGEST_NAME: Final = 30
"""The most characters of a name: with more, lines of the files would be too long."""

EXAMPLES = """Examples:

agent-factory new agent desk

agent-factory new agent order_desk --dir products"""


def agent(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="The package, in snake_case: order_desk.")
    ],
    directory: Annotated[
        Path, typer.Option("--dir", metavar="DIR", help="The folder to write into.")
    ] = Path(),
    json: AsJson = False,
    traceback: ShowTraceback = False,
) -> None:
    """Write a product: an agent with a stack, tests, a snapshot of its plan, a trajectory.

    order_desk becomes a folder of that name. Its tests pass and it is fully typed. Nothing is
    overwritten.
    """
    from agent_factory import topology_of
    from agent_factory.testing import ScriptedChatModel

    proposal = re.sub(r"\W+", "_", name).strip("_").lower()
    if not name.isidentifier() or iskeyword(name) or name != proposal:
        good = proposal.isidentifier() and not iskeyword(proposal)
        hint = f"Did you mean {proposal}?" if good else "Write one such as order_desk."
        raise CommandError(f"{name!r} is not a valid package name; use snake_case. {hint}")
    if len(name) > LONGEST_NAME:
        raise CommandError(
            f"A package name may have {LONGEST_NAME} characters, and {name} has {len(name)}."
        )
    if name in sys.stdlib_module_names or name == "tests" or find_spec(name) is not None:
        raise CommandError(
            f"A package {name} would hide another one of that name. Add a word: {name}_agent."
        )
    if not directory.is_dir():
        raise CommandError(
            f"The folder {directory} does not exist. Create it, or use another --dir."
        )
    folder = directory / name
    if folder.exists():
        raise CommandError(f"{folder} exists and is not changed. Use another name or --dir.")
    values = {
        "name": name,
        "library": requirement(),
        "library_for_tests": requirement("cli", "testing"),
        "library_for_studio": requirement("serve"),
    }
    files = []
    try:
        for path, text in FILES.items():
            file = folder / Template(path).substitute(values)
            file.parent.mkdir(parents=True, exist_ok=True)
            content = Template(text).substitute(values)
            file.write_text(content, encoding="utf-8", newline="\n")
            files.append(str(file))
        # The snapshot is the plan of the agent that was just written, so it is loaded from there.
        build = load_builder(f"{folder / name / 'agent.py'}:build_agent")
        plan = topology_of(build(ScriptedChatModel([])))
        snapshot = folder / SNAPSHOT
        snapshot.parent.mkdir(parents=True)
        snapshot.write_text(plan.to_snapshot(), encoding="utf-8", newline="\n")
    except OSError as error:
        raise CommandError(f"{folder} cannot be written: {error}.", error) from None
    files.append(str(snapshot))
    if json:
        console.write_json({"package": name, "files": files})
        return
    console.write(f"Wrote {folder} with {len(files)} files.")
    console.write(f"Try it: cd {folder} && python -m pytest")
