"""Snapshots of plans: one readable file each, and a failure that says what changed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from langgraph.graph.state import CompiledStateGraph
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from agent_factory.errors import AgentFactoryError, ArgumentError, describe
from agent_factory.factory.agent import topology_of
from agent_factory.topology.load import TopologyFileError, read_topology
from agent_factory.topology.topology import Topology

_UPDATE = "If that is meant: pytest --snapshot-update"


class TopologyExtension(SingleFileSnapshotExtension):
    """Keeps each plan as its text, in a `.topology` file."""

    _write_mode = WriteMode.TEXT
    file_extension = "topology"

    def serialize(self, data: Any, **_: Any) -> str:
        """The text of a plan."""
        return plan_of(data).render() + "\n"

    def matches(self, *, serialized_data: Any, snapshot_data: Any) -> bool:
        """Whether two texts are of the same plan; how their lines end does not matter."""
        return bool(_lines(serialized_data) == _lines(snapshot_data))

    def read_snapshot_data_from_location(
        self, *, snapshot_location: str, snapshot_name: str, session_id: str
    ) -> str | None:
        """The text of a file, whatever is in it."""
        try:
            with open(snapshot_location, encoding="utf-8", errors="replace") as file:
                return file.read()
        except FileNotFoundError:
            return None

    def diff_lines(self, serialized_data: Any, snapshot_data: Any) -> Iterator[str]:
        """What changed, in words; then, if it is new, the plan."""
        if not snapshot_data:
            yield from _lines(serialized_data)
            yield "To keep this plan: pytest --snapshot-update"
            return
        yield from _told(str(snapshot_data), str(serialized_data))
        yield _UPDATE


def _lines(text: Any) -> list[str]:
    return str(text).rstrip().splitlines()


def _told(stored: str, now: str) -> Iterator[str]:
    try:
        changes = read_topology(stored, "the stored plan").diff(read_topology(now))
    except TopologyFileError as error:
        yield str(error)
        return
    yield from str(changes).splitlines()


def plan_of(value: Any) -> Topology:
    """The plan of an agent, or the plan itself, if its text can be read back.

    Raises:
        ArgumentError: It is neither.
        TopologyFileError: A name in it cannot be told from the words around it.
    """
    if isinstance(value, Topology):
        plan = value
    elif isinstance(value, CompiledStateGraph):
        plan = topology_of(value)
    else:
        raise ArgumentError(
            "topology_snapshot",
            f"{describe(value)} is no agent and no plan.",
            "Compare what create_agent or plan_agent returned.",
        )
    read_topology(plan.render(), "the text of the plan")
    return plan


class TopologySnapshot(SnapshotAssertion):
    """The fixture `topology_snapshot`: equal to an agent whose plan is the stored one."""

    def __eq__(self, other: object) -> bool:
        __tracebackhide__ = True
        try:
            plan = plan_of(other)
        except AgentFactoryError as error:
            # Raised here: what the extension raises is shown as a traceback of its own.
            raise error.with_traceback(None) from None
        return super().__eq__(plan)

    __hash__ = None  # type: ignore[assignment]  # it is equal to many things
