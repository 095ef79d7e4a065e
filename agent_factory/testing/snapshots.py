"""Snapshots of plans: a readable file each, and a failure with the changes in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from langgraph.graph.state import CompiledStateGraph
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from agent_factory.errors import ArgumentError, describe
from agent_factory.factory.agent import topology_of
from agent_factory.topology.load import TopologyFileError, load_topology
from agent_factory.topology.topology import Topology

_FIRST = ("guard", "limit")
"""Parts whose changes come first in a report."""


class TopologyExtension(SingleFileSnapshotExtension):
    """Stores each plan in a `.topology` file, in the form of `Topology.to_snapshot`."""

    _write_mode = WriteMode.TEXT
    file_extension = "topology"

    def serialize(self, data: object, **_: object) -> str:
        """The content of a plan's file."""
        return plan_of(data).to_snapshot()

    def matches(self, *, serialized_data: Any, snapshot_data: Any) -> bool:
        """Return True if two files hold the same plan; LF and CRLF line breaks are the same."""
        return bool(serialized_data == snapshot_data.replace("\r\n", "\n"))

    def read_snapshot_data_from_location(
        self, *, snapshot_location: str, snapshot_name: str, session_id: str
    ) -> str | None:
        """The content of a file, even if it is not valid UTF-8, which `diff_lines` reports."""
        try:
            with open(snapshot_location, encoding="utf-8", errors="replace") as file:
                return file.read()
        except FileNotFoundError:
            return None

    def diff_lines(self, serialized_data: Any, snapshot_data: Any) -> Iterator[str]:
        """Instruction and the changes in words; for a new snapshot, the text of the plan."""
        now = load_topology(serialized_data)
        # The hint comes first, because pytest cuts long explanations at their end.
        if not snapshot_data:
            yield "To store this plan: pytest --snapshot-update"
            yield from now.render().split("\n")
            return
        yield "If this change is intended: pytest --snapshot-update"
        try:
            before = load_topology(snapshot_data, "the stored plan")
        except TopologyFileError as error:
            yield str(error)
        else:
            difference = before.diff(now)
            # The important changes first: pytest cuts after some lines.
            changes = sorted(difference.changes, key=lambda change: change.part not in _FIRST)
            yield from map(str, changes) if changes else [str(difference)]


def plan_of(value: object, *, settings: bool = False) -> Topology:
    """The plan of an agent, with settings on request; or the plan itself."""
    if isinstance(value, Topology):
        return value
    if isinstance(value, CompiledStateGraph):
        return topology_of(value, settings=settings)
    raise ArgumentError(
        "topology_snapshot",
        f"can only be compared with an agent or a plan, got {describe(value)}.",
        "Compare it with what create_agent or plan_agent returns.",
    )


class TopologySnapshot(SnapshotAssertion):
    """The fixture `topology_snapshot`: equal to an agent with the stored plan."""

    _settings = False

    def __call__(self, *, settings: bool = False, **options: Any) -> TopologySnapshot:
        """Choose the content of the next comparison: with `settings`, also of the middleware."""
        self._settings = settings
        super().__call__(**options)
        return self

    def __eq__(self, other: object) -> bool:
        __tracebackhide__ = True
        try:
            plan = plan_of(other, settings=self._settings)
        except ArgumentError as error:
            # Raised here, because syrupy shows errors of an extension with their own traceback.
            raise error.with_traceback(None) from None
        finally:
            # Also after an error: settings are chosen for a single comparison.
            self._settings = False
        return super().__eq__(plan)

    __hash__ = None  # type: ignore[assignment]  # equal to many things
