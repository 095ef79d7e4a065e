"""Random agents as values, and what happens in their runs, as it is seen outside of the library."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import count
from random import Random
from typing import Annotated, Any, NamedTuple

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import BaseTool, InjectedToolCallId, tool
from langgraph.config import get_config
from langgraph.types import Command, Send

from agent_factory import tool_labels

OUTER = ("pay", "look", "mail", "flaky", "direct", "stops", "sends")
INNER = ("draft", "file", "shaky")
INSIDE = "clerk"
"""The tool that is an agent. Its tools have other names than those outside."""

MOST_ASKED = 24
"""Calls of the model after which a run counts as one without an end."""


@dataclass(frozen=True)
class Member:
    """A member of a stack: "own", or a built-in with its settings."""

    name: str
    kind: str
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Spec:
    """An agent, what its model does, and what its caller does.

    Args:
        members: Its stack.
        tools: The names of its tools.
        inside: The agent that its tool "clerk" asks.
        turns: The calls of the model, turn by turn: names of tools; "!" raises, and none answers.
        endless: Whether the model begins again when it is through.
        doings: "say", "answer" or "fork", one after the other.
        structured: Whether it has a response format.
        mode: "sync" or "async".
        fused: As in `create_agent`.
        seed: What else is random.
    """

    members: tuple[Member, ...] = ()
    tools: tuple[str, ...] = ("pay",)
    inside: Spec | None = None
    turns: tuple[tuple[str, ...], ...] = ()
    endless: bool = False
    doings: tuple[str, ...] = ("say",)
    structured: bool = False
    mode: str = "sync"
    fused: bool = True
    seed: int = 0


class Event(NamedTuple):
    """Something that happened in a run."""

    run: int
    kind: str
    who: str = ""
    tool: str = ""
    key: Any = None
    call: str = ""


class Cut(BaseException):
    """A run has gone on for long enough."""


class World:
    """What happens in the runs of one agent, and the chances of all who take part."""

    now: World
    """That of the run under way: tools are made once for all agents."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.log: list[Event] = []
        self.run = self.numbers = 0
        self.turns: dict[str, int] = {}
        self._chances: dict[str, Random] = {}

    def note(
        self, kind: str, who: str = "", tool: str = "", key: Any = None, call: Any = ""
    ) -> None:
        self.log.append(Event(self.run, kind, who, tool, key, call))

    def decided(self, kind: str, who: str, where: str, call: Any) -> None:
        """Note that a call may run, as far as somebody is concerned."""
        id = call.get("tool_call_id") or call.get("id") or ""
        self.note(kind, who, f"{where}{call['name']}", key_of(call), id)

    def chance(self, who: str) -> Random:
        """Chances that are the same without the other members."""
        return self._chances.setdefault(who, Random(f"{self.spec.seed} {who}"))

    def number(self) -> int:
        self.numbers += 1
        return self.numbers

    def call(self, name: str, id: str) -> Any:
        """A call with arguments that no other one has."""
        n = self.number()
        args: Any = {"n": written(n), "to": "a@x.org" if n % 3 else "b@y.org"}
        args = {"text": "done"} if name == "Answer" else args
        args = {"request": f"Go on, {n}"} if name == INSIDE else args
        return {"name": name, "args": args, "id": id, "type": "tool_call"}


def key_of(call: Any) -> tuple[int, Any]:
    """The arguments of a call."""
    return int(call["args"].get("n", 0)), call["args"].get("to")


def written(n: int) -> int | str:
    """A number as the model writes it: of some texts, the tools make numbers."""
    return n if n % 5 else str(n)


# Models and tools


class Speaker(BaseChatModel):
    """A model that is a function of the messages."""

    says: Any

    @property
    def _llm_type(self) -> str:
        return "speaker"

    def _generate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self.says(messages))])


class Caller(Speaker):
    """One that calls tools."""

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:
        return self


def model_of(where: str) -> Speaker:
    """The model of an agent."""
    return Caller(says=partial(_turn, where))


def _turn(where: str, messages: Sequence[BaseMessage]) -> AIMessage:
    world, config = World.now, get_config()
    spec = world.spec if not where else world.spec.inside
    assert spec
    visit = config["metadata"].get("langgraph_step"), config["configurable"].get("checkpoint_ns")
    world.note("asked", where, key=visit)
    if sum((e.run, e.kind) == (world.run, "asked") for e in world.log) > MOST_ASKED:
        world.note("cut")
        raise Cut
    place = world.turns[where] = world.turns.get(where, -1) + 1
    turns = (
        spec.turns and spec.endless and spec.turns * (1 + place // len(spec.turns))
    ) or spec.turns
    names = turns[place] if place < len(turns) else ()
    if "!" in names:
        raise ValueError("the model fails")
    calls = [world.call(name, f"{where}{place}.{i}") for i, name in enumerate(names)]
    usage: Any = {"input_tokens": 10, "output_tokens": 10, "total_tokens": 20}
    text = "" if calls else f"answer {place} for c@z.org"
    return AIMessage(text, tool_calls=calls, usage_metadata=usage)


@cache
def tool_of(name: str, where: str = "") -> BaseTool:
    """A tool that notes its runs."""

    def act(n: int, to: str, call_id: Annotated[str, InjectedToolCallId]) -> Any:
        """Do it."""
        world, full = World.now, f"{where}{name}"
        world.note("ran", where, full, (n, to), call_id)
        does_more = world.chance(name).random() < 0.5
        if name in ("flaky", "shaky") and does_more:
            raise ValueError("the tool fails")
        world.note("done", where, full, (n, to), call_id)
        done = ToolMessage("done", tool_call_id=call_id, name=name)
        if name == "sends" and does_more:
            sent = Send("tools", [world.call("pay", f"s{world.number()}.0")])
            return Command(goto=[sent], update={"messages": [done]})
        if name == "stops" and does_more:
            return Command(update={"messages": [done], "jump_to": "end"})
        return "done"

    labels: Any = {"look": ("untrusted", "private"), "mail": ("outside",)}.get(name)
    return tool(name, return_direct=name == "direct")(tool_labels(*labels)(act) if labels else act)


# Who talks to an agent, decides about its calls, and goes back to what was before

_THREADS = count()


def run(spec: Spec, agent: Any) -> World:
    """What happens in the runs of an agent, in a thread of their own."""
    World.now = world = World(spec)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if spec.mode == "async":
            asyncio.run(_runs(world, agent))
        else:  # it awaits nothing
            next(_runs(world, agent).__await__(), None)
    return world


async def _runs(world: World, agent: Any) -> None:
    config: Any = {"configurable": {"thread_id": str(next(_THREADS))}, "recursion_limit": 2000}
    waiting: list[Any] = []
    for doing, again in ((doing, again) for doing in world.spec.doings for again in range(4)):
        here: Any = config
        input: Any = None
        if doing == "answer" and waiting:
            input = Command(resume={i.id: _answer(world, i.value) for i in waiting})
        elif doing == "answer" or again:
            continue
        elif doing == "say":
            input = {"messages": [("user", "Go on, I am c@z.org")]}
        elif states := [s for s in agent.get_state_history(config) if s.next]:
            state = world.chance("caller").choice(states)
            here = {**state.config, "recursion_limit": 2000}
        else:
            continue
        if doing != "answer":
            world.run += 1
            world.note(doing)
        waiting = []
        try:
            is_sync = world.spec.mode == "sync"
            result = agent.invoke(input, here) if is_sync else await agent.ainvoke(input, here)
        except (Exception, Cut) as error:
            world.note("failed", type(error).__name__, key=str(error)[:200])
            continue
        waiting = list(result.get("__interrupt__", ()))
        last = next((m for m in reversed(result["messages"]) if isinstance(m, AIMessage)), None)
        if not waiting:
            world.note("ended", key=last.text if last and not last.tool_calls else None)


def _answer(world: World, question: Any) -> Any:
    """What a person says to a question about calls."""
    if "action_requests" in question:
        allowed = {c["action_name"]: c["allowed_decisions"] for c in question["review_configs"]}
        actions = question["action_requests"]
        return {"decisions": [_decision(world, a, allowed[a["name"]]) for a in actions]}
    return _decision(world, question, question["review_config"]["allowed_decisions"])


def _decision(world: World, action: Any, allowed: Sequence[str]) -> Any:
    chance = world.chance("person")
    kind = chance.choice([*allowed, *["approve"] * 3 * ("approve" in allowed)])
    if kind == "edit":
        inside = str(action.get("tool_call_id")).startswith(INSIDE)
        spec = (inside and world.spec.inside) or world.spec
        call = world.call(chance.choice([*spec.tools, action["name"]]), "")
        world.decided("approved", "", "", {**action, **call, "id": ""})
        return {"type": "edit", "edited_action": {"name": call["name"], "args": call["args"]}}
    if kind == "approve":
        world.decided("approved", "", "", action)
    return {"type": kind, "message": "No."} if kind != "approve" else {"type": kind}
