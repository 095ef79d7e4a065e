"""The pytest plugin of the package. Fixtures import modules at their first use.

Fixtures:
    topology_snapshot: `assert agent == topology_snapshot` passes while the plan is unchanged.
    sync_or_async: runs an agent, a hook or a layer; a test with this fixture runs sync and async.
    agent_stack: the stack of a test under `each_stack`.
    scripted_model: makes scripted models, and fails the test unless their scripts were used up.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from agent_factory.errors import require

if TYPE_CHECKING:
    from agent_factory.testing.fake_model import ScriptedChatModel
    from agent_factory.testing.harness import SyncOrAsync
    from agent_factory.testing.snapshots import TopologySnapshot


@pytest.fixture
def topology_snapshot(request: pytest.FixtureRequest) -> TopologySnapshot:
    """The stored plan of this test: `assert agent == topology_snapshot`."""
    require("testing", "topology_snapshot", "syrupy")
    from agent_factory.testing.snapshots import TopologyExtension, TopologySnapshot

    # Syrupy's fixture has read the options of the command line.
    plain = request.getfixturevalue("snapshot")
    return TopologySnapshot(
        session=plain.session,
        extension_class=TopologyExtension,
        test_location=plain.test_location,
        update_snapshots=plain.update_snapshots,
        update_new_snapshots_only=plain.update_new_snapshots_only,
    )


@pytest.fixture(params=["sync", "async"])
def sync_or_async(request: pytest.FixtureRequest) -> SyncOrAsync:
    """Runs agents, hooks and layers; the test runs once sync and once async."""
    from agent_factory.testing.harness import SyncOrAsync

    return SyncOrAsync(request.param)


@pytest.fixture
def agent_stack(request: pytest.FixtureRequest) -> list[object]:
    """The stack of a test under `each_stack`."""
    if not hasattr(request, "param"):
        pytest.fail("agent_stack: decorate the test with @each_stack({...}).", pytrace=False)
    stack = request.param
    # A function makes new middleware for each test.
    return list(stack() if callable(stack) else stack)


_FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note the failure of a test, for the fixtures at the end of the test."""
    report = yield
    if report.failed:
        item.stash[_FAILED] = True
    return report


@pytest.fixture
def scripted_model(request: pytest.FixtureRequest) -> Iterator[Callable[..., ScriptedChatModel]]:
    """Makes a `ScriptedChatModel`; the test fails if steps of the script are left."""
    from agent_factory.testing.fake_model import ScriptedChatModel

    models: list[ScriptedChatModel] = []

    def make(*args: Any, **kwargs: Any) -> ScriptedChatModel:
        models.append(ScriptedChatModel(*args, **kwargs))
        return models[-1]

    yield make
    # The failure of a test says more than the steps left by the failure.
    if request.node.stash.get(_FAILED, False):
        return
    for model in models:
        model.assert_done()
