"""Random agents of built-ins and of members that use their declarations at random."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from random import Random
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import BaseModel

from agent_factory import AgentMiddleware, Ordering, background, create_agent, hook_config
from agent_factory.prebuilt import agent_tool
from agent_factory.topology import ToolGuard, UsageLimit
from guarantees.built_ins import BUILT_INS
from guarantees.worlds import INNER, INSIDE, OUTER, Member, Spec, World, model_of, tool_of, written

PHASES = ("before_agent", "before_model", "after_model", "after_agent")
OF_CALLS = ("rename", "retool", "drop", "renumber", "alone")
OF_ANSWERS = ("reword", "alone")
ACTS = (*OF_CALLS, "reword", "twice", "answer")
"""What a member does besides passing on: with calls, with answers, with the layers inside of it."""


class Answer(BaseModel):
    """A structured answer."""

    text: str


def agent_of(spec: Spec, where: str = "") -> Any:
    """The agent of a value."""
    tools: list[Any] = [tool_of(name, where) for name in spec.tools]
    if any(member.kind == "Background" for member in spec.members):
        tools = [background(each) if each.name == "look" else each for each in tools]
    if spec.inside:
        tools.append(agent_tool(agent_of(spec.inside, f"{INSIDE}/"), description="Does it."))
    members = [
        _Own.of(member, spec, where)
        if member.kind == "own"
        else BUILT_INS[member.kind].make(member.name, where, **member.settings)
        for member in spec.members
    ]
    return create_agent(
        model_of(where),
        tools,
        middleware=members,
        response_format=Answer if spec.structured else None,
        checkpointer=None if where else InMemorySaver(),
        fused=spec.fused,
        name=INSIDE if where else None,
        ignore=["AF129"],
    )


class _Own(AgentMiddleware[Any, Any]):
    """A member that does at random what its settings say, and declares it.

    Settings: `hooks`, each with its jumps; `layers`; `acts`; a `guard` of a tool at a place, and
    the tool that has to be first; a `limit` with a number and a place.
    """

    me = where = ""
    settings: Any
    names: tuple[str, ...]

    @classmethod
    def of(cls, member: Member, spec: Spec, where: str) -> Any:
        hooks, layers = member.settings["hooks"].items(), member.settings["layers"]
        actor: Any = _own_class(tuple(sorted(hooks)), tuple(sorted(layers)))(name=member.name)
        actor.me, actor.where, actor.names = f"{where}{member.name}", where, spec.tools
        actor.settings = {"acts": (), "guard": None, "limit": None, **member.settings}
        acts, guard, limit = (actor.settings[key] for key in ("acts", "guard", "limit"))
        both = {"tool_calls": OF_CALLS, "answers": OF_ANSWERS}
        actor.ordering = Ordering(writes=[what for what, of in both.items() if {*of} & {*acts}])
        if guard:  # without the attribute, the member does not guard at all
            actor.guards = [ToolGuard(guard[0], "check", after=guard[2], place=guard[1])]
        actor.limits = [UsageLimit(limit[0], "model calls")] if limit else []
        actor.most_attempts = 2 if "twice" in acts else 1
        return actor

    def chance(self, about: str) -> Random:
        """Chances about a call: a layer that begins again, when a run goes on, does the same."""
        return Random(f"{World.now.spec.seed} {self.me} {about}")

    def may(self, act: str, about: str = "", of: float = 0.4) -> bool:
        """Whether it does something that it is able to do, this time or about a call."""
        chance = self.chance(f"{act} {about}") if about else World.now.chance(self.me)
        return act in self.settings["acts"] and chance.random() < of

    def visit(self, phase: str, jumps: Sequence[str], messages: Sequence[BaseMessage]) -> Any:
        """What a hook does."""
        world = World.now
        world.note("hook", self.me, phase)
        last, calls = pending(messages)
        update: list[BaseMessage] = []
        if phase.startswith("after") and last and not last.tool_calls:
            update = [self.reword(last)]
        elif phase == "after_model" and last and calls:
            update = self.review(last, calls, messages, phase)
        if self.is_used_up(phase):
            return {"messages": update, "jump_to": "end"}
        jump = world.chance(self.me).choice(["", "", *jumps])
        if jump == "tools" and not pending([*messages, *update])[1]:
            name = world.chance(self.me).choice(self.names)
            call = world.call(name, f"h{world.number()}.0")
            if world.numbers > 60 or self.refuses(call, messages, phase):
                return {"messages": update}
            update.append(AIMessage("", tool_calls=[call]))
        return {"messages": update, **({"jump_to": jump} if jump else {})}

    def review(
        self, last: AIMessage, calls: Sequence[Any], messages: Sequence[BaseMessage], place: str
    ) -> list[BaseMessage]:
        """The message with its calls as this member leaves them, and results of some."""
        kept, results = [], []
        for call in last.tool_calls:
            if call in calls:
                self.see(call)
                if self.may("drop"):
                    continue
                call = self.change(call)
                if self.refuses(call, messages, place) or self.may("answer"):
                    results.append(refusal(call))
            kept.append(call)
        return [last.model_copy(update={"tool_calls": kept}), *results]

    def see(self, call: Any) -> None:
        World.now.decided("saw", self.me, self.where, call)

    def change(self, call: Any) -> Any:
        """A call as this member leaves it; what it writes it has seen."""
        if call["name"] in (*OUTER, *INNER):
            if self.may("rename", call["id"]):
                call = {**call, "name": self.chance(f"name {call['id']}").choice(self.names)}
            if self.may("renumber", call["id"]):
                n = int(call["args"]["n"]) + 1000 * ord(self.name)
                call = {**call, "args": {**call["args"], "n": written(n)}}
            self.see(call)
        return call

    def reword(self, message: AIMessage) -> AIMessage:
        """An answer as this member leaves it."""
        if self.may("reword"):
            message = message.model_copy(update={"content": f"{message.text} by {self.me}"})
        World.now.note("saw answer", self.me, key=message.text)
        return message

    def refuses(self, call: Any, messages: Sequence[BaseMessage], place: str) -> bool:
        tool, at, after = self.settings["guard"] or ("", "", "")
        if tool not in ("*", call["name"]) or at != place:
            return False
        ran = {m.name for m in messages if isinstance(m, ToolMessage) and m.text == "done"}
        about = self.chance(f"refuses {call['id']}")
        refuses = after not in ran if after else about.random() < 0.3
        if not refuses:
            World.now.decided("checked", self.me, self.where, call)
        return refuses

    def is_used_up(self, place: str) -> bool:
        most, at = self.settings["limit"] or (0, "")
        now = World.now.run, "asked", self.where
        return at == place and sum(e[:3] == now for e in World.now.log) >= most

    def _around_agent(self, state: Any) -> Any:
        World.now.note("agent", self.me)
        if self.may("alone"):
            return {"messages": [self.reword(AIMessage(f"alone by {self.me}"))]}
        last = (yield state)["messages"][-1:]
        is_answer = last and isinstance(last[0], AIMessage) and not last[0].tool_calls
        return {"messages": [self.reword(last[0])]} if is_answer else None

    def _around_model(self, request: Any) -> Any:
        world = World.now
        world.note("model", self.me)
        if self.is_used_up("layer"):
            return AIMessage("the limit")
        if self.may("alone") and world.numbers < 60:
            number, name = world.number(), world.chance(self.me).choice([*self.names, ""])
            calls = [world.call(name, f"l{number}.0")] if name else []
            return (
                AIMessage("", tool_calls=calls)
                if name
                else self.reword(AIMessage(f"alone {number}"))
            )
        response = yield request
        if self.may("twice"):
            response = yield request
        message = response.result[0] if len(response.result) == 1 else None
        if not isinstance(message, AIMessage):
            return response
        if not message.tool_calls:
            return replace(response, result=[self.reword(message)])
        return replace(
            response, result=self.review(message, message.tool_calls, request.messages, "")
        )

    def _around_tool(self, request: Any) -> Any:
        call = request.tool_call
        World.now.note("tool", self.me, call["name"], call=call["id"])
        # The tool that will run is what counts.
        call = {**call, "name": request.tool.name} if request.tool else call
        self.see(call)
        changed = self.change(call)
        if changed != call:
            request = request.override(tool_call=changed, tool=tool_of(changed["name"], self.where))
        if request.tool and call["name"] != INSIDE and self.may("retool", call["id"]):
            # The call keeps its name, and another tool runs.
            name = self.chance(f"tool {call['id']}").choice(self.names)
            request = request.override(tool=tool_of(name, self.where))
            changed = {**changed, "name": name}
            self.see(changed)
        refuses = self.refuses(changed, request.state["messages"], "around_tool")
        if refuses or self.may("answer", call["id"]):
            return refusal(call)
        result = yield request
        if self.may("twice", call["id"]):
            result = yield request
        return result


@cache
def _own_class(hooks: tuple[Any, ...], layers: tuple[str, ...]) -> Any:
    methods = {f"around_{layer}": getattr(_Own, f"_around_{layer}") for layer in layers}
    for phase, jumps in hooks:
        methods |= {f"{a}{phase}": _hook(phase, jumps, is_async=bool(a)) for a in ("", "a")}
    return type("Own", (_Own,), methods)


def _hook(phase: str, jumps: Sequence[Any], *, is_async: bool) -> Any:
    def hook(self: Any, state: Any, runtime: Any) -> Any:
        return self.visit(phase, jumps, state["messages"])

    async def ahook(self: Any, state: Any, runtime: Any) -> Any:
        return self.visit(phase, jumps, state["messages"])

    return hook_config(can_jump_to=[*jumps])(ahook if is_async else hook)


def refusal(call: Any) -> ToolMessage:
    return ToolMessage("refused", tool_call_id=call["id"], name=call["name"])


def pending(messages: Sequence[BaseMessage]) -> tuple[AIMessage | None, list[Any]]:
    """The last message of the model, and its calls that have no result."""
    answered = {m.tool_call_id for m in messages if isinstance(m, ToolMessage)}
    last = next((m for m in reversed(messages) if isinstance(m, AIMessage)), None)
    return last, [c for c in last.tool_calls if c["id"] not in answered] if last else []


# Draws


def draw_spec(seed: int) -> Spec:
    """An agent of up to four members, with an agent inside of it in a quarter of the cases."""
    random = Random(seed)
    # A tool that sends calls by itself is rare: each of its runs breaks what is declared.
    offered = OUTER if random.random() < 0.1 else OUTER[:-1]
    spec = _draw(random, offered, random.choice([1, 2, 2, 3, 3, 4]))
    inside = None
    if random.random() < 0.25:
        inside = _draw(random, INNER, random.choice([0, 1, 1, 2]))
    names = [*spec.tools, *([INSIDE] if inside else [])]
    return replace(
        spec,
        inside=inside,
        turns=draw_turns(random, names),
        endless=random.random() < 0.2,
        doings=("say", *random.choices(["say", "answer", "fork"], [4, 6, 1], k=3)),
        structured=random.random() < 0.1,
        mode=random.choice(["sync", "sync", "async"]),
        fused=random.random() < 0.6,
        seed=seed,
    )


def _draw(random: Random, offered: Sequence[str], size: int) -> Spec:
    tools = random.sample(offered, min(random.choice([0, 1, 1, 2, 2, 2, 3, 4]), len(offered)))
    members = tuple(_draw_member(random, name, tools) for name in "ABCD"[:size])
    return Spec(members, tuple(tools), turns=draw_turns(random, tools))


def draw_turns(random: Random, tools: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """Turns in which a model calls some tools, one that does not exist, or none, or raises."""

    def turn() -> tuple[str, ...]:
        if random.random() < 0.12:
            return random.choice([(), (), (), ("!",)])
        return tuple(random.choices([*tools, *tools, "ghost"], k=random.choice([1, 1, 2, 3])))

    return tuple(turn() for _ in range(random.choice([1, 2, 3, 4, 6])))


OFTEN = (
    "review",
    "review",
    "review",
    "their review",
    "auto",
    "model limit",
    "tool limit",
    "budget",
)


def _draw_member(random: Random, name: str, tools: Sequence[str]) -> Member:
    if random.random() < 0.55:
        kind = random.choice(random.choice([OFTEN, [*BUILT_INS]]))
        return Member(name, kind, BUILT_INS[kind].draw(random, tools or ["pay"]))
    targets = ["end", "model", *(["tools"] if tools else [])]
    hooks: Any = {
        phase: tuple(sorted(random.sample(targets, random.choice([0, 0, 0, 1, 1, 2]))))
        for phase in PHASES
        if random.random() < 0.25
    }
    layers = {
        x for x, of in (("agent", 0.1), ("model", 0.3), ("tool", 0.3)) if random.random() < of
    }
    acts = {*random.sample(ACTS, random.choice([0, 0, 1, 1, 2]))}
    roles: Any = {}
    role = random.choice(["", "", "", "limit", *(["guard", "order"] if tools else [])])
    if role in ("guard", "order"):
        place = random.choice(["around_tool", "around_tool", "after_model"])
        after = random.choice(tools) if role == "order" else ""
        guarded = random.choice([t for t in tools if t != after] or ["*"])
        roles = {"guard": (guarded, place, after if guarded != "*" else "")}
        layers |= {"tool"} if place == "around_tool" else set()
        hooks |= {} if place == "around_tool" else {place: hooks.get(place, ())}
    elif role == "limit":
        place = random.choice(["before_model", "layer", "after_model"])
        roles, acts = {"limit": (random.choice([0, 1, 2, 3]), place)}, acts - {"twice", "alone"}
        layers = layers - {"model"} | ({"model"} if place == "layer" else set())
        if place != "layer":
            hooks = {p: j for p, j in hooks.items() if "model" not in p} | {place: ("end",)}
    settings = {
        "hooks": hooks,
        "layers": tuple(sorted(layers)),
        "acts": tuple(sorted(acts)),
        **roles,
    }
    return Member(name, "own", settings)
