"""The public names and signatures: a change here is a change for every user."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from importlib import import_module
from typing import Any

import pytest

import agent_factory

PARTS = (
    *("middleware", "prebuilt", "review", "serve", "service", "stack", "structured_output"),
    *("telemetry", "testing", "testing.providers"),
)
MODULES = [agent_factory, *(import_module(f"agent_factory.{part}") for part in PARTS)]


def public_names(module: Any) -> list[str]:
    if hasattr(module, "__all__"):
        return sorted(module.__all__)
    return sorted(
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    )


def line(name: str, value: Any) -> str:
    """The name, with the signature where it is ours and not a dependency's."""
    if not str(getattr(value, "__module__", "")).startswith("agent_factory"):
        return name
    if isinstance(value, type):
        value = vars(value).get("__init__")
    if not callable(value):
        return name
    return f"{name}{re.sub(' at 0x[0-9a-f]+', '', str(inspect.signature(value)))}"


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_names_and_signatures_are_pinned(module: Any, snapshot: Any) -> None:
    names = public_names(module)
    assert [line(name, getattr(module, name)) for name in names] == snapshot


def test_every_lazy_name_is_there_and_unknown_ones_are_refused() -> None:
    for name in agent_factory.__all__:
        assert getattr(agent_factory, name) is not None
        assert name in dir(agent_factory)
    with pytest.raises(AttributeError, match="no attribute 'creat_agent'"):
        _ = agent_factory.creat_agent


def test_type_checkers_find_every_name_of_the_built_ins() -> None:
    """They read `from .budget import *` and the like, so each module has to list its names."""
    for home, names in agent_factory.middleware._HOME.items():
        module = import_module(home, agent_factory.middleware.__name__)
        for name in names.split():
            assert name in module.__all__, f"{home}.{name}"
            assert name in dir(agent_factory.middleware)


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = (
        "import sys, agent_factory, agent_factory.middleware\n"
        "heavy = [m for m in ('langgraph', 'langchain_core', 'pydantic') if m in sys.modules]\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


FIRST = """
import os, sys
import langchain_core.language_models, langchain_core.tools, langgraph.graph, langgraph.prebuilt

for line in sys.stdin.read().splitlines():
    if os.fork() == 0:
        try:
            exec(line)
        except BaseException as error:
            os.write(1, f"{line}: {error!r}".encode())
        os._exit(0)
    os.wait()
"""


@pytest.mark.night
@pytest.mark.timeout(600)  # some 200 processes, each of which imports the library
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the processes are forks, which POSIX has")
def test_each_name_can_be_the_first_that_a_process_imports() -> None:
    # One name of each module: the others are imported in the same way.
    names = {
        (module.__name__, getattr(getattr(module, name), "__module__", name)): name
        for module in MODULES
        for name in public_names(module)
    }
    lines = [f"from {package} import {name}" for (package, _), name in names.items()]
    command = [sys.executable, "-W", "ignore", "-c", FIRST]
    done = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("", "")
