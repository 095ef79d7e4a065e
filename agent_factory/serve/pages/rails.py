"""Rails: the lines at the left of a history, a column for each branch."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

PATH = 0
"""The column of the branch that the thread is on."""


@dataclass(slots=True)
class Lane:
    """A column, from the row that it begins at down to the row that it comes from.

    Args:
        parent: The id that its next row has; None if no branch uses it.
        is_drawn: Whether a row above has begun it.
        order: Grows with each row; the highest is that of the oldest row.
    """

    parent: str | None
    is_drawn: bool = True
    order: int = 0


class Rails:
    """The columns of a history that is read from its newest row to its oldest.

    >>> rails = Rails(["c3"])
    >>> rails.row({"c3"}, "c1")
    ('dot first',)
    >>> rails.row({"c2"}, "c1")
    ('line', 'dot first')
    >>> rails.row({"c1"}, None)
    ('dot last', 'join')

    Args:
        parents: The ids that the first rows of the columns have; "" for a free column.
        is_drawn: Whether rows of a page before this one have begun them.
    """

    def __init__(self, parents: Iterable[str], *, is_drawn: bool = False) -> None:
        self._lanes = [Lane(parent or None, is_drawn and bool(parent)) for parent in parents]
        self._count = 0
        self.column = PATH

    @property
    def parents(self) -> Sequence[str]:
        """The ids that the next rows of the columns have."""
        return [lane.parent or "" for lane in self._lanes]

    def row(
        self, ids: Collection[str], parent: str | None, *, joins: bool = True
    ) -> tuple[str, ...]:
        """Add a row, and return what each column shows of it, as classes of a style.

        `column` is the one with the dot then.

        Args:
            ids: The ids that rows above know it by.
            parent: The id of the row that it comes from; None if it is the first of the thread.
            joins: Whether all branches that come from it end here. A row that is a part of one
                branch alone goes to the one that has begun first.
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
        # A column that has ended is free for the next branch, so that few columns are enough.
        for index in joined:
            self._lanes[index] = Lane(None, is_drawn=False)
        self._lanes[self.column] = Lane(parent, parent is not None, self._count)
        # Free columns at the right would leave room that nothing uses.
        while len(self._lanes) > 1 and self._lanes[-1].parent is None:
            self._lanes.pop()
        return tuple(cells)
