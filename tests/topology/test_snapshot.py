"""Snapshots of plans, the pytest plugin, and a product's own repository that uses both."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_factory import create_agent, plan_agent
from agent_factory.errors import ArgumentError
from agent_factory.hooks.decorators import before_model
from agent_factory.middleware import HumanInTheLoopMiddleware, ModelCallLimitMiddleware
from agent_factory.testing import ScriptedChatModel, check_middleware, each_stack
from agent_factory.testing.snapshots import TopologyExtension, plan_of
from samples import refund
from tables import each

PRODUCT = Path(__file__).resolve().parents[2] / "examples" / "product"

Pytest = Callable[..., tuple[int, str]]


@pytest.fixture
def product(tmp_path: Path) -> Path:
    """A copy of the example's repository."""
    ignored = shutil.ignore_patterns("__pycache__", ".*")
    return shutil.copytree(PRODUCT, tmp_path / "product", ignore=ignored)


@pytest.fixture
def run(product: Path) -> Pytest:
    """Run pytest there: its exit code, and what it printed."""

    def pytest_(*arguments: str) -> tuple[int, str]:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--color=no"]
        command += ["-o", "asyncio_default_fixture_loop_scope=function", *arguments]
        env = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST")}
        done = subprocess.run(command, cwd=product, capture_output=True, text=True, env=env)
        return done.returncode, done.stdout + done.stderr

    return pytest_


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


@pytest.mark.long
def test_a_products_own_tests_pass(run: Pytest) -> None:
    code, out = run("-k", "not laws")
    assert (code, "13 passed" in out, "4 snapshots passed" in out) == (0, True, True), out


@each("name", ["Manners", "RefundLimit", "Patience"])
def test_a_products_middleware_keeps_the_laws(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run here and not in a process: hypothesis first reads all modules of a new process."""
    monkeypatch.syspath_prepend(str(PRODUCT))
    try:
        make = getattr(importlib.import_module("desk.middleware"), name)
        check_middleware(make, tools=["find_order", "refund"], max_examples=2)
    finally:  # the name is free again for other tests
        for module in [m for m in sys.modules if m.partition(".")[0] == "desk"]:
            del sys.modules[module]


def test_changes_of_guards_and_limits_are_reported_first() -> None:
    review = HumanInTheLoopMiddleware({"refund": True})
    limits = [ModelCallLimitMiddleware(run_limit=most) for most in (5, 500)]
    stacks: list[list[Any]] = [[review, limits[0]], [limits[1]]]
    old, new = (plan_agent(tools=[refund], middleware=stack).to_snapshot() for stack in stacks)
    _, first, second, *rest = TopologyExtension().diff_lines(new, old)
    assert first.startswith("removed guard of refund by HumanInTheLoopMiddleware")
    assert second.startswith("changed limit of model calls a run")
    assert any(line.startswith("removed node") for line in rest)


@pytest.mark.long
def test_changes_are_reported_in_words_and_stored_on_request(product: Path, run: Pytest) -> None:
    folder = product / "tests" / "__snapshots__" / "test_desk_plans"
    edit(product / "desk" / "agent.py", "[Patience(), Manners(), ", "[Manners(), ")
    edit(folder / "test_the_agent.topology", "[pending calls]", "[whatever]")
    (folder / "test_a_family[bare].topology").unlink()
    (folder / "test_a_family[with retry].topology").write_bytes(b"\xff\xfe\x00")
    wrong = product / "tests" / "test_wrong.py"
    wrong.write_text(
        "def test_wrong(topology_snapshot):\n    assert 42 == topology_snapshot\n"
        "def test_no_stack(agent_stack): ...\n"
    )
    code, out = run("tests/test_desk_plans.py", "tests/test_wrong.py", "-vv")
    assert code == 1
    for words in (
        "removed node Patience.before_model: it was before model",
        "If this change is intended: pytest --snapshot-update",
        "[AF130] the stored plan: contradicts itself in line 4: the text has 'model -> tools  [w",
        "[AF130] the stored plan: does not hold the plan of an agent.",
        "does not exist!",
        "To store this plan: pytest --snapshot-update",
        "can only be compared with an agent or a plan, got int (42)",
        "decorate the test with @each_stack",
    ):
        assert words in out
    assert "agent_factory/testing" not in out, "the traceback ends in the test"

    wrong.unlink()
    code, out = run("tests/test_desk_plans.py", "--snapshot-update")
    assert (code, "1 snapshot generated. 3 snapshots updated" in out) == (0, True), out
    stored = folder / "test_the_agent.topology"
    assert stored.read_text().startswith("__start__ -> model\n")


def test_the_plugin_imports_nothing_heavy() -> None:
    code = "import pytest, sys; before = set(sys.modules); import agent_factory.testing.plugin; "
    code += "print(*sorted({m.partition('.')[0] for m in set(sys.modules) - before}))"
    env = {k: v for k, v in os.environ.items() if not k.startswith("COV")}
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
    assert out.stdout.split() == ["agent_factory"], out.stderr


@pytest.mark.long
def test_a_script_is_not_missed_after_a_test_that_failed(product: Path, run: Pytest) -> None:
    (product / "test_scripts.py").write_text(
        """import pytest

def test_failed(scripted_model):
    scripted_model(["Hi."])
    raise ValueError("mine")

@pytest.fixture
def broken(scripted_model):
    scripted_model(["Hi."])
    raise ValueError("mine")

def test_not_built(broken):
    pass

def test_left(scripted_model):
    scripted_model(["Hi."])
"""
    )
    _, out = run("test_scripts.py")
    assert "1 failed, 1 passed, 2 errors" in out, out
    assert out.count("ERROR at teardown") == 1, out  # the summary names it as well


def guard(state: Any, runtime: Any) -> None:
    """Look at the state."""


@each_stack({"bare": [], "guarded": lambda: [before_model(guard)]})
def test_an_agent_and_a_plan_equal_the_same_snapshot(
    agent_stack: Any, topology_snapshot: Any
) -> None:
    agent = create_agent(ScriptedChatModel(), middleware=agent_stack)
    assert agent == topology_snapshot(name=f"{len(agent_stack)}")
    assert plan_agent(middleware=agent_stack) == topology_snapshot(name=f"{len(agent_stack)}")


def test_another_plan_is_unequal_and_the_difference_is_reported_below_what_to_do() -> None:
    extension = TopologyExtension()
    stored = extension.serialize(plan_agent())
    now = extension.serialize(plan_agent(middleware=[before_model(guard)]))
    assert not extension.matches(serialized_data=now, snapshot_data=stored)
    assert list(extension.diff_lines(now, stored)) == [
        "If this change is intended: pytest --snapshot-update",
        "added node guard.before_model: before model",
    ]
    windows = stored.replace("\n", "\r\n")
    assert extension.matches(serialized_data=stored, snapshot_data=windows)
    odd = plan_agent(middleware=[before_model(name="a -> b")(guard)])
    assert list(extension.diff_lines(extension.serialize(odd), stored))[1:] == [
        "added node a -> b.before_model: before model"
    ]


def test_a_value_without_a_plan_and_a_family_that_names_no_stack_are_refused() -> None:
    with pytest.raises(
        ArgumentError, match="Compare it with what create_agent or plan_agent returns"
    ):
        plan_of("agent")
    families: Any = ({}, [], {"bare": 5})
    for stacks in families:
        with pytest.raises(ArgumentError, match="stack"):
            each_stack(stacks)


def test_a_test_runs_sync_and_async(sync_or_async: Any) -> None:
    agent = create_agent(ScriptedChatModel(["Hi!", "Hi!"]), middleware=[before_model(guard)])
    said = {"messages": [("user", "Hi")]}
    assert sync_or_async.invoke(agent, said)["messages"][-1].text == "Hi!"
    assert [list(chunk) for chunk in sync_or_async.stream(agent, said)] == [
        ["guard.before_model"],
        ["model"],
    ]
    assert sync_or_async.run_hook(before_model(guard), "before_model") is None
    assert str(sync_or_async) in ("sync", "async")
