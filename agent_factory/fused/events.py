"""Events: what a fused run tells the caller of a stream about its nodes, in place of LangGraph.

LangGraph emits events for the steps that it takes. A fused step emits those of each of its nodes
itself, as they would be hook by hook, and says which of LangGraph's own they replace.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from agent_factory.fused.state_view import Preview
from agent_factory.state.updates import Pair

UPDATES, VALUES, CUSTOM, TASKS = "updates", "values", "custom", "tasks"

REPLACED = object()
"""Data of an event that stands for the next one of LangGraph in its mode, which is not shown."""


class Event(NamedTuple):
    """An event of a stream, in the namespace of its graph."""

    namespace: tuple[str, ...]
    mode: str
    data: Any


@dataclass(frozen=True, slots=True)
class Events:
    """The events that the caller of a stream wants of each node."""

    modes: Collection[str]
    keys: Sequence[str]  # of the state, in the order in which they are shown
    emit: Callable[[Event], Any]
    awaits: bool = False  # `emit` is asynchronous: the run waits until the caller took the event

    def of_node(
        self,
        namespace: tuple[str, ...],
        node: str,
        task: str,
        pairs: Sequence[Pair],
        preview: Preview | None,
    ) -> Iterator[Event]:
        """Yield the events of a node that has written `pairs`.

        That leads to `preview`; None if it leads nowhere, because the edge of the node has failed.
        """
        shown = [(key, value) for key, value in pairs if key in self.keys]
        if UPDATES in self.modes:
            update: Any = dict(shown) or None
            if len(shown) > 1 and max(Counter(key for key, _ in shown).values()) > 1:
                update = [{key: value} for key, value in shown]
            yield Event(namespace, UPDATES, {node: update})
        if TASKS in self.modes:
            # What the event protocol needs, to say that graphs which the node called have ended.
            ended: Any = {"id": task, "name": node, "error": None, "result": {}, "interrupts": []}
            yield Event(namespace, TASKS, ended)
        if VALUES in self.modes and shown and preview and not preview.opaque:
            state = preview.state()
            values = {key: state[key] for key in self.keys if key in state}
            yield Event(namespace, VALUES, values)

    def of_step(self, namespace: tuple[str, ...], preview: Preview) -> Iterator[Event]:
        """Yield what stands for LangGraph's events of the step that ends with `preview`."""
        if UPDATES in self.modes:
            yield Event(namespace, UPDATES, REPLACED)
        written = any(key in self.keys for key, _ in preview.writes())
        if VALUES in self.modes and written and not preview.opaque:
            yield Event(namespace, VALUES, REPLACED)


class EventStream:
    """A stream of events in the form that its caller has asked for."""

    def __init__(
        self, modes: Collection[str], *, single: bool, subgraphs: bool, version: str
    ) -> None:
        self._modes = modes
        self._single = single  # the caller has asked for one mode, and gets no names of modes
        self._subgraphs = subgraphs
        self._version = version
        self._replaced: dict[str, tuple[str, ...]] = {}
        self.early: deque[Event] = deque()  # what the caller sees before LangGraph's next event
        self.handover: Handover | None = None  # what the events of an asynchronous run pass

    def read(self, parts: Iterator[Any]) -> Iterator[Any]:
        """Yield what the caller sees of what LangGraph yields."""
        try:
            for part in parts:
                yield from self._early_parts()
                yield from self._shown(part)
        except Exception:
            yield from self._early_parts()
            raise
        yield from self._early_parts()  # LangGraph may have nothing to show for the last step

    async def aread(self, parts: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Yield what the caller sees of what LangGraph yields, and nodes hand over."""
        merged: Any = parts if self.handover is None else self.handover.merge(parts)
        async with aclosing(merged):
            async for part in merged:
                for shown in self._shown(part):
                    yield shown

    def _early_parts(self) -> Iterator[Any]:
        while self.early:
            yield from self._shown(self.early.popleft())

    def _shown(self, part: Any) -> Iterator[Any]:
        """Yield a part of LangGraph's stream, or an event of a node, if the caller sees it."""
        namespace, mode, data = self.read_part(part)
        if mode == CUSTOM and isinstance(data, Event):
            part, mode = data, data.mode
        if isinstance(part, Event):
            if part.data is REPLACED:
                self._replaced[mode] = part.namespace
                return
            part = self.form(part)
        elif mode in self._replaced and namespace in (None, self._replaced[mode]):
            del self._replaced[mode]
            return
        elif self._single and self._version != "v2":
            part = (namespace, data) if self._subgraphs else data
        if mode in self._modes:
            yield part

    def read_part(self, part: Any) -> tuple[tuple[str, ...] | None, str, Any]:
        """Return the namespace, the mode and the data of a part."""
        if isinstance(part, Event):
            return part
        if self._version == "v2":
            return part["ns"], part["type"], part["data"]
        namespace, mode, data = part if self._subgraphs else (None, *part)
        return namespace, mode, data

    def form(self, event: Event) -> Any:
        """Return an event in the form of LangGraph's stream."""
        namespace, mode, data = event
        if self._version == "v2":
            interrupts = {"interrupts": ()} if mode == VALUES else {}
            return {"type": mode, "ns": namespace, "data": data, **interrupts}
        named: list[Any] = [namespace] * self._subgraphs + [mode] * (not self._single)
        return (*named, data) if named else data


_END = object()


class Handover:
    """Hands what a run yields to its caller, one by one: the run waits until it was taken."""

    _offered: asyncio.Future[Any]
    _taken: asyncio.Future[None] | None = None

    async def offer(self, part: Any) -> None:
        """Hand over a part, and wait until the caller asks for the next one."""
        self._taken = asyncio.get_running_loop().create_future()
        self._offered.set_result(part)
        await self._taken

    async def merge(self, parts: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Yield these parts, and those that are offered while they are made."""
        make_future = asyncio.get_running_loop().create_future
        self._offered = make_future()
        run = asyncio.create_task(self._offer_all(parts))
        try:
            while (part := await self._offered) is not _END:
                yield part
                self._offered = make_future()
                if self._taken is not None:
                    self._taken.set_result(None)
            await run
        finally:
            run.cancel()
            with suppress(asyncio.CancelledError):
                await run

    async def _offer_all(self, parts: Any) -> None:
        try:
            async with aclosing(parts):
                async for part in parts:
                    await self.offer(part)
        finally:
            if not self._offered.done():
                self._offered.set_result(_END)
