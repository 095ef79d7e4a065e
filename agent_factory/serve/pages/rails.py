"""Rails: the lines at the left of a history, a column for each branch."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

PATH = 0
"""The column of the branch that the thread is on."""


@dataclass(slots=True)
class Lane:
    """Column, from its first row down to the row where the branch begins.

    Args:
        parent: The id of the next row; None of a free column.
        is_drawn: Whether a row above has begun the column.
        order: Grows with each row.
    """

    parent: str | None
    is_drawn: bool = True
    order: int = 0


class Rails:
    """Columns of a history, from the newest row to the oldest.

    >>> rails = Rails(["c3"])
    >>> rails.row({"c3"}, "c1")
    ('dot first',)
    >>> rails.row({"c2"}, "c1")
    ('line', 'dot first')
    >>> rails.row({"c1"}, None)
    ('dot last', 'join')

    Args:
        parents: The ids of the first rows of the columns; "" for a free column.
        is_drawn: Whether rows of the page before have begun them.
    """

    def __init__(self, parents: Iterable[str], *, is_drawn: bool = False) -> None:
        self._lanes = [Lane(parent or None, is_drawn and bool(parent)) for parent in parents]
        self._count = 0
        self.column = PATH

    @property
    def parents(self) -> Sequence[str]:
        """The ids of the next rows of the columns."""
        return [lane.parent or "" for lane in self._lanes]

    def row(
        self, ids: Collection[str], parent: str | None, *, joins: bool = True
    ) -> tuple[str, ...]:
        """Add a row, and return the classes of the style of each column.

        `column` is the column of the dot afterwards.

        Args:
            ids: The ids by which rows above know the row.
            parent: The id of the row before; None of the first of the thread.
            joins: Whether all branches from this row end here; else the oldest branch has the row.
        """
        lanes = [index for index, lane in enumerate(self._lanes) if lane.parent in ids]
        if lanes and not joins:
            lanes = [max(lanes, key=lambda index: self._lanes[index].order)]
        if not lanes:
            # A new branch; the first column is kept for the path, which may be drawn later.
            free = (i for i, lane in enumerate(self._lanes) if lane.parent is None and i != PATH)
            lanes = [next(free, len(self._lanes))]
            if lanes[0] == len(self._lanes):
                self._lanes.append(Lane(None, is_drawn=False))
        self.column, *joined = lanes
        cells = []
        for index, lane in enumerate(self._lanes):
            cell = ""
            if index == self.column:
                cell = f"dot{'' if lane.is_drawn else ' first'}{'' if parent else ' last'}"
            elif index in joined:
                cell = "join" if lane.is_drawn else ""
            elif lane.parent is not None and lane.is_drawn:
                cell = "line"
            # The line from a branch to the dot passes the columns between them.
            if joined and self.column < index < max(joined):
                cell = f"{cell} over".strip()
            cells.append(cell)
        self._count += 1
        # A column that has ended serves the next branch.
        for index in joined:
            self._lanes[index] = Lane(None, is_drawn=False)
        self._lanes[self.column] = Lane(parent, parent is not None, self._count)
        # Free columns at the right would waste room.
        while len(self._lanes) > 1 and self._lanes[-1].parent is None:
            self._lanes.pop()
        return tuple(cells)
