"""`check_saver`: questions about any saver, with the answers of LangGraph's saver in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from inspect import iscoroutine
from typing import Any
from uuid import uuid4

from langchain_core.messages import BaseMessage
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt

from agent_factory import after_model, create_agent
from agent_factory.errors import ArgumentError, describe
from agent_factory.state.channels import supports_delta_channel
from agent_factory.testing.fake_model import ScriptedChatModel
from agent_factory.upstream import NO_TASK


@dataclass(frozen=True, slots=True)
class SaverReport:
    """Answers of a saver that differ from the answers of LangGraph's saver in memory.

    Attributes:
        saver: The name of the class.
        form: The form of checkpoints with `checkpoints="auto"`: "delta" or "full".
        lacks: Questions about methods that the saver does not have.
        differences: The expected and the actual answer, and the setting against it, by question.
    """

    saver: str
    form: str
    lacks: Sequence[str]
    differences: Mapping[str, str]

    def __str__(self) -> str:
        """The report in lines."""
        lines = [f"{self.saver}: {self.form} checkpoints, {len(QUESTIONS)} questions"]
        lines += [f"  lacks: {', '.join(self.lacks)}"] if self.lacks else []
        lines += [f"  {question}: {text}" for question, text in self.differences.items()]
        return "\n".join([*lines, f"{len(self.differences)} differ from the saver in memory."])


def _add(number: int) -> str:
    """Add a number."""
    return f"{number} was added"


def _pay(number: int) -> str:
    """Pay."""
    return f"{interrupt('Pay?')}: {number}"


def _answer(messages: list[BaseMessage]) -> Any:
    """Answer of the model: calls for a message such as "_add 12"."""
    tool, _, number = messages[-1].text.partition(" ")
    if messages[-1].type != "human" or not number:
        return f"Answer {len(messages)}"
    numbers = range(int(number)) if tool == "_add" else [int(number)]
    return [{"name": tool, "args": {"number": n}, "id": f"{len(messages)}-{n}"} for n in numbers]


class _Killed(BaseException):
    """End of a process, for `except Exception`."""


class _Desk:
    """A saver with new threads. Each call has another agent, as each process has."""

    def __init__(self, saver: BaseCheckpointSaver[Any]) -> None:
        self.saver, self.id = saver, uuid4().hex

    def thread(self, name: str = "a", **keys: Any) -> Any:
        """Config of a thread, with metadata for filters."""
        place = {"thread_id": f"{self.id}-{name}", "checkpoint_ns": "", **keys}
        return {"configurable": place, "metadata": {"desk": self.id, "name": name}}

    def agent(self, hook: Any = lambda state, runtime: None) -> Any:
        """Agent with a hook after the model."""
        stack: Any = [after_model(hook, name="hook")]
        model = ScriptedChatModel([_answer] * 9)
        return create_agent(model, [_add, _pay], middleware=stack, checkpointer=self.saver)

    def say(self, *inputs: Any, name: str = "a", **options: Any) -> _Desk:
        """Run a turn for each input."""
        for input in inputs:
            input = {"messages": input} if isinstance(input, str) else input
            self.agent().invoke(input, self.thread(name), **options)
        return self

    def two(self) -> _Desk:
        """Run two threads."""
        return self.say("One", "Two").say("Three", name="b")

    def state(self, name: str = "a", **keys: Any) -> Any:
        """State of a thread."""
        return self.agent().get_state(self.thread(name, **keys))

    def texts(self, *names: str, **keys: Any) -> list[list[str]]:
        """Messages of some threads."""
        return [_texts(self.state(name, **keys)) for name in names or "a"]

    def steps(self, name: str | None = "a", **options: Any) -> list[Any]:
        """Steps of the listed checkpoints; of all threads without a name."""
        config: Any = {"configurable": self.thread(name)["configurable"]} if name else None
        return [entry.metadata.get("step") for entry in self.saver.list(config, **options)]

    def ids(self, *names: str) -> list[str]:
        """Ids of some threads."""
        return [self.thread(name)["configurable"]["thread_id"] for name in names]

    # Questions

    def history(self) -> Any:
        states = self.say("One", "_add 2").agent().get_state_history(self.thread())
        return [(_texts(state), state.next) for state in states]

    def fork(self) -> Any:
        states = [*self.say("One", "Two").agent().get_state_history(self.thread())]
        old, end = states[-4].config, states[0].config["configurable"]["checkpoint_id"]
        self.agent().invoke({"messages": "Other"}, old)
        return self.texts(checkpoint_id=end), self.texts()

    def paused(self) -> Any:
        state = self.say("_pay 5").state()
        return _texts(state), state.next, [each.value for each in state.interrupts]

    def killed(self) -> Any:
        def ends(state: Any, runtime: Any) -> None:
            raise _Killed

        with suppress(_Killed):
            self.agent(ends).invoke({"messages": "_pay 5"}, self.thread())
        self.agent().invoke(None, self.thread())
        return _texts(state := self.state()), state.next

    def values(self) -> Any:
        values = [2**62, -1, 0.1, float("inf"), "ä😀", b"\0\xff", None, True]
        self.agent().update_state(self.thread(), {"messages": [("user", "")]})
        message = {"role": "user", "content": "One", "additional_kwargs": {"values": values}}
        self.say({"messages": [message]})
        return self.state().values["messages"][1].additional_kwargs

    def at_once(self) -> Any:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda name: self.say("One", "_add 3", name=name), "abcd"))
        return self.texts(*"abcd")

    def repeated(self) -> Any:
        entry: Any = self.say("One").saver.get_tuple(self.thread())
        for number in (1, 2):
            writes = [("messages", [("user", "Again")])] * number
            self.saver.put_writes(entry.config, writes, NO_TASK, "~path")
        return self.texts()

    def deleted(self) -> Any:
        self.two().saver.delete_thread(*self.ids("a"))
        return self.texts("a", "b")

    def copied(self) -> Any:
        self.say("_add 12").saver.copy_thread(*self.ids("a", "b"))
        return self.texts("a") == self.texts("b")

    def pruned(self) -> Any:
        before = self.say("One", "Two").texts()
        self.saver.prune(self.ids("a"))
        return self.texts() == before

    async def asynchronous(self) -> Any:
        await self.agent().ainvoke({"messages": "_add 12"}, self.thread())
        return _texts(await self.agent().aget_state(self.thread()))


def _texts(state: Any) -> list[str]:
    return [message.text for message in state.values.get("messages", ())]


QUESTIONS: Mapping[str, tuple[Callable[[_Desk], Any], str]] = {
    "history": (_Desk.history, ""),
    "order of parallel results": (lambda d: d.say("_add 12").texts(), ""),
    "order of earlier results": (lambda d: d.say("_add 12", "Two").texts(), ""),
    "fork of a thread": (_Desk.fork, "Begin a branch in a new thread."),
    "list with limit": (lambda d: d.two().steps(limit=2), ""),
    "list with before": (lambda d: d.two().steps(before=d.state().parent_config), ""),
    "list with a filter": (lambda d: d.two().steps(filter={"source": "input"}), ""),
    "filter of metadata": (lambda d: [d.two().steps(filter={"name": name}) for name in "ab"], ""),
    "list of all threads": (lambda d: sorted(d.two().steps(None, filter={"desk": d.id})), ""),
    "threads apart": (lambda d: d.two().texts("a", "b", "unknown"), ""),
    "paused run": (_Desk.paused, ""),
    "resumed run": (lambda d: d.say("_pay 5", Command(resume="Paid")).texts(), ""),
    "run killed in a hook": (_Desk.killed, "Set fused='turn' or fused=False."),
    "durability exit": (lambda d: d.say("One", "_add 12", durability="exit").texts(), ""),
    "numbers and bytes": (_Desk.values, ""),
    "four threads at once": (_Desk.at_once, ""),
    "repeated put_writes": (_Desk.repeated, ""),
    "delete_thread": (_Desk.deleted, ""),
    "copy_thread": (_Desk.copied, "Begin the copy with update_state."),
    "prune": (_Desk.pruned, "Delete whole threads."),
    "async methods": (_Desk.asynchronous, ""),
}
"""Questions by subject, and the setting for a saver that answers otherwise."""


def check_saver(saver: BaseCheckpointSaver[Any]) -> SaverReport:
    """Ask a saver questions by runs of agents, in new threads, and compare with InMemorySaver.

    A saver with async methods alone is asked from another thread:
    `await asyncio.to_thread(check_saver, saver)`. The threads stay in its database.

    >>> report = check_saver(InMemorySaver())
    >>> report.form, report.lacks, dict(report.differences)
    ('delta', ['copy_thread', 'prune'], {})
    """
    if not isinstance(saver, BaseCheckpointSaver):
        raise ArgumentError("saver", f"must be a BaseCheckpointSaver, got {describe(saver)}.")
    lacks, differences = [], {}
    for question, (ask, setting) in QUESTIONS.items():
        actual, expected = _answer_of(ask, saver), _answer_of(ask, InMemorySaver())
        expected = True if expected is NotImplementedError else expected
        if actual is NotImplementedError:
            lacks.append(question)
        elif actual != expected:
            text = f"expected {str(expected)[:200]}, got {str(actual)[:200]}. {setting}"
            differences[question] = text.rstrip()
    form = "delta" if supports_delta_channel(saver, by_default=True) else "full"
    return SaverReport(type(saver).__name__, form, lacks, differences)


def _answer_of(ask: Callable[[_Desk], Any], saver: BaseCheckpointSaver[Any]) -> Any:
    loop = getattr(saver, "loop", None)  # of an async saver
    try:
        answer = ask(_Desk(saver))
        if iscoroutine(answer) and loop:
            return asyncio.run_coroutine_threadsafe(answer, loop).result()
        return asyncio.run(answer) if iscoroutine(answer) else answer
    except NotImplementedError:
        return NotImplementedError
    except Exception as error:
        return f"{type(error).__name__}: {error}".partition("\n")[0].rstrip(".")
