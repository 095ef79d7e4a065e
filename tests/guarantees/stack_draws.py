"""Random stacks whose members do whatever they declare, as a run asks them to at each visit.

Nothing here reads a plan or `agent_factory.guarantees`: what a run shows is compared with those.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from random import Random
from typing import Annotated, Any, Protocol

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.types import Command

from agent_factory import (
    AgentMiddleware,
    ModelResponse,
    Ordering,
    ToolGuard,
    UsageLimit,
    agent_tool,
    create_agent,
    hook_config,
)

PHASES = ("before_agent", "before_model", "after_model", "after_agent")
INNER, INNER_TOOL, INNER_GUARD = "clerk", "clerk/refund", "clerk/Inner"
OF_MODEL = {"author": "model"}
REFUSED, RAN = "refused", "ran"


class Run(Protocol):
    """One run: what its members ask, and what they report."""

    def choose(self, point: str, pending: str, options: int) -> int:
        """The number of the option that is taken at a point, with a pending call or none."""

    def report(self, *event: str) -> None:
        """Something has happened."""


@dataclass(frozen=True)
class Guard:
    """A decision of a member: about which tools, where, and which tool has to be first."""

    tool: str
    place: str
    after: str = ""


@dataclass(frozen=True)
class MemberSpec:
    """A member of a stack: its hooks with their jumps, its layers, and what it does.

    It may answer calls after the model, guard them, change them where it sees them, and stop the
    run at a number of calls of the model: "before", in a "layer", "both", or "after".
    """

    name: str
    hooks: Mapping[str, tuple[str, ...]]
    layers: tuple[str, ...] = ()
    answers: bool = False
    guard: Guard | None = None
    limit: tuple[int, str] | None = None
    writes: bool = False


@dataclass(frozen=True)
class StackSpec:
    """An agent: its members, its tools, and whether one is an agent with a guard inside."""

    members: tuple[MemberSpec, ...]
    tools: tuple[str, ...]
    inner: str = ""
    """"guarded", "open" or nothing."""
    fused: bool = True


# Draws


def draw_stack(random: Random) -> StackSpec:
    """A stack of up to four members."""
    tools = ("pay", "look")[: random.choice([0, 1, 1, 2, 2])]
    inner = random.choice(["", "", "guarded", "open"]) if tools else ""
    offered = (*tools, *([INNER] if inner else []))
    names = "ABCD"[: random.choice([1, 2, 3, 3, 4, 4])]
    members = [_draw_member(random, name, offered, tools) for name in names]
    # Where a run may go on without the tools because calls are answered, somebody answers them.
    able = [i for i, m in enumerate(members) if "after_model" in m.hooks or "model" in m.layers]
    if able and not any(members[i].answers for i in able):
        members[able[0]] = replace(members[able[0]], answers=True)
    return StackSpec(tuple(members), tools, inner, random.random() < 0.5)


def _draw_member(
    random: Random, name: str, offered: Sequence[str], tools: Sequence[str]
) -> MemberSpec:
    possible = ["end", "model", *(["tools"] if offered else [])]
    hooks = {
        phase: tuple(sorted(random.sample(possible, random.choice([0, 0, 1, 1, 2]))))
        for phase in PHASES
        if random.random() < 0.35
    }
    layers = [layer for layer in ("model", "tool") if random.random() < 0.2]
    limit = guard = None
    role = random.choice(["", "", "", "guard", "guard", "limit"])
    if role == "guard" and offered:
        place = random.choice(["after_model", "around_tool"])
        after = tools[1] if len(tools) == 2 and random.random() < 0.5 else ""
        guard = Guard(tools[0] if after else random.choice([*offered, "*"]), place, after)
        if place == "around_tool":
            layers = sorted({*layers, "tool"})
        else:
            hooks.setdefault("after_model", ())
    if role == "limit":
        limit = (3, random.choice(["before", "layer", "both", "after"]))
        phase = {"before": "before_model", "both": "before_model", "after": "after_model"}
        if limit[1] in ("layer", "both"):
            layers = sorted({*layers, "model"})
        else:
            layers = [layer for layer in layers if layer != "model"]
        # It stops at these places only.
        for stopping in ("before_model", "after_model"):
            if stopping == phase.get(limit[1]):
                hooks[stopping] = tuple(sorted({*hooks.get(stopping, ()), "end"}))
            else:
                hooks.pop(stopping, None)
    answers = role != "limit" and random.random() < 0.5
    return MemberSpec(
        name, hooks, tuple(layers), answers, guard, limit, bool(offered) and random.random() < 0.3
    )


# Agents


@dataclass
class Stage:
    """The run under way, which the members of an agent share."""

    run: Run = field(init=False)
    tools: tuple[str, ...] = ()
    awaited: str = ""
    """A tool for which a guard waits."""

    def input(self) -> list[BaseMessage]:
        """What comes with the input, or is left by an earlier run: a result, and a call."""
        messages: list[BaseMessage] = [HumanMessage("Go")]
        if self.awaited and self.run.choose("earlier run", "", 2):
            self.run.report("ran before", self.awaited)
            call: Any = {"name": self.awaited, "args": {}, "id": "earlier"}
            result = ToolMessage(RAN, tool_call_id="earlier", name=self.awaited)
            messages += [AIMessage("", tool_calls=[call]), result]
        if choice := self.run.choose("input", "", 1 + len(self.tools)):
            messages.append(_call(self.tools[choice - 1], self.run))
        return messages


def agent_of(spec: StackSpec, stage: Stage) -> Any:
    """The agent of a stack. Its members ask the run of the stage what to do."""
    actors = [_actor(member, spec, stage) for member in spec.members]
    tools = [_tool(name, name, spec, stage) for name in spec.tools]
    awaited = [member.guard.after for member in spec.members if member.guard]
    stage.tools, stage.awaited = plan_tools(spec), max(awaited, default="")
    if spec.inner:
        members = (MemberSpec("Inner", {}, ("tool",), guard=Guard("refund", "around_tool")),)
        inside = StackSpec(members if spec.inner == "guarded" else (), ("refund",))
        clerk = create_agent(
            Clerk(stage=stage, tools=[], enters=not _outermost(spec, "tool")),
            [_tool("refund", INNER_TOOL, inside, stage, ends=False)],
            middleware=[_actor(member, inside, stage, f"{INNER}/") for member in inside.members],
            name=INNER,
        )
        tools.append(agent_tool(clerk, description="Refunds."))
    offered = [each.name for each in tools]
    if not tools and _outermost(spec, "tool"):
        offered = ["ghost"]  # no tool has this name, and the call passes the layers
    model = Model(stage=stage, tools=offered, enters=not _outermost(spec, "model"))
    # A jump around a guard is what the sentences are about.
    return create_agent(model, tools, middleware=actors, fused=spec.fused, ignore=["AF129"])


def plan_tools(spec: StackSpec) -> tuple[str, ...]:
    """The names of the tools that the model may call."""
    return (*spec.tools, *([INNER] if spec.inner else []))


def _outermost(spec: StackSpec, layer: str) -> str:
    return next((member.name for member in spec.members if layer in member.layers), "")


class Model(BaseChatModel):
    """Calls a tool or answers, as the run asks it to."""

    stage: Any
    tools: list[str]
    enters: bool

    @property
    def _llm_type(self) -> str:
        return "asked"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:
        return self

    def _generate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        run = self.stage.run
        if self.enters:
            run.report("enter", "model")
        run.report("asked")
        choice = run.choose("model", "", 1 + len(self.tools))
        answer = AIMessage("answer") if choice == 0 else _call(self.tools[choice - 1], run)
        answer.response_metadata = dict(OF_MODEL)
        return ChatResult(generations=[ChatGeneration(message=answer)])


class Clerk(Model):
    """The model of the agent inside: it refunds, and then answers."""

    def _generate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        if len(messages) == 1:
            if self.enters:
                self.stage.run.report("enter", "tools")  # of the agent outside
            self.stage.run.report("ran", INNER)
        call: Any = {"name": "refund", "args": {}, "id": "inside"}
        answer = AIMessage("", tool_calls=[call] if len(messages) == 1 else [])
        return ChatResult(generations=[ChatGeneration(message=answer)])


def _call(name: str, run: Run, author: str = "", place: str = "") -> AIMessage:
    run.report("call", author, place)
    args: dict[str, Any] = {"request": "Go"} if name == INNER else {}
    # LangGraph replaces messages with the same id; a call needs one that no other has.
    call: Any = {"name": name, "args": args, "id": f"call {next(_NUMBERS)}"}
    return AIMessage("", tool_calls=[call])


_NUMBERS = count(1)


def _tool(name: str, full_name: str, spec: StackSpec, stage: Stage, *, ends: bool = True) -> Any:
    enters = ends and not _outermost(spec, "tool")

    def act(call_id: Annotated[str, InjectedToolCallId], version: int = 0) -> Any:
        """Do it."""
        if enters:
            stage.run.report("enter", "tools")
        stage.run.report("ran", full_name)
        if ends and stage.run.choose(f"tool {full_name}", full_name, 2):
            return _end({"id": call_id, "name": name})
        return RAN

    return tool(name)(act)


def _actor(spec: MemberSpec, stack: StackSpec, stage: Stage, prefix: str = "") -> AgentMiddleware:
    actor = _Actor(spec, stack, stage, prefix)
    methods: dict[str, Any] = {
        phase: hook_config(can_jump_to=list(jumps))(actor.hook(phase, jumps))  # type: ignore[arg-type]
        for phase, jumps in spec.hooks.items()
    }
    if "model" in spec.layers:
        methods["around_model"] = _flow(actor.around_model)
    if "tool" in spec.layers:
        methods["around_tool"] = _flow(actor.around_tool)
    if spec.guard:
        guard = spec.guard
        methods["guards"] = (ToolGuard(guard.tool, "check", after=guard.after, place=guard.place),)  # type: ignore[arg-type]
    if spec.limit:
        methods["limits"] = (UsageLimit(spec.limit[0], "model calls"),)
    if spec.writes:
        methods["ordering"] = Ordering(writes=("tool_calls",))
    instance: AgentMiddleware = type("Actor", (AgentMiddleware,), methods)(name=spec.name)
    return instance


def _flow(layer: Callable[[Any], Any]) -> Any:
    def around(self: Any, request: Any) -> Any:
        return (yield from layer(request))

    return around


class _Actor:
    """What a member does at its hooks and layers."""

    def __init__(self, spec: MemberSpec, stack: StackSpec, stage: Stage, prefix: str) -> None:
        self.spec, self.stack, self.stage = spec, stack, stage
        self.name = f"{prefix}{spec.name}"
        self.is_inside = bool(prefix)

    def hook(self, phase: str, jumps: Sequence[str]) -> Callable[..., Any]:
        point = f"{self.name}.{phase}"
        is_guard = self.spec.guard is not None and self.spec.guard.place == phase

        def act(_: Any, state: Any, runtime: Any) -> Any:
            run, messages = self.stage.run, list(state["messages"])
            run.report("enter", point)
            if self._is_used_up(phase, messages):
                return {"jump_to": "end"}
            call: Any = _pending(messages)
            update: list[BaseMessage] = []
            if call and phase == "after_model":
                update = [self._seen(_last(messages))]
                if self._may_refuse(call["name"], is_guard):
                    forced = is_guard and self._too_early(call["name"], messages)
                    if forced or run.choose(f"{point} refuses", call["name"], 2):
                        update.append(_refusal(call))
                        call = None
            targets = [""]
            for jump in jumps:
                is_called = jump != "tools" or call
                names = [""] if is_called else list(plan_tools(self.stack))
                if not is_called and is_guard:
                    names = [n for n in names if not self._too_early(n, messages)]
                targets += [f"{jump} {name}".strip() for name in names]
            choice = targets[run.choose(point, _status([*messages, *update], call), len(targets))]
            jump, _, name = choice.partition(" ")
            update += [_call(name, run, self.name, phase)] if name else []
            return {"messages": update, **({"jump_to": jump} if jump else {})}

        act.__name__ = phase
        return act

    def _may_refuse(self, name: str, is_guard: bool) -> bool:
        return self.spec.answers or (is_guard and self._guards(name))

    def _guards(self, name: str) -> bool:
        return self.spec.guard is not None and self.spec.guard.tool in ("*", name)

    def _too_early(self, name: str, messages: Sequence[BaseMessage]) -> bool:
        after = self.spec.guard.after if self.spec.guard and self._guards(name) else ""
        ran = {m.name for m in messages if isinstance(m, ToolMessage) and m.text == RAN}
        return bool(after) and after not in ran

    def _is_used_up(self, phase: str, messages: Sequence[BaseMessage]) -> bool:
        places = {"before": ["before_model"], "both": ["before_model", "layer"]}
        most, place = self.spec.limit or (0, "")
        stops = places.get(place, ["after_model" if place == "after" else place])
        answers = [m for m in messages if m.response_metadata.get("author")]
        return bool(place) and phase in stops and len(answers) >= most

    def _seen(self, message: AIMessage) -> AIMessage:
        """The message of a call as the member leaves it."""
        self.stage.run.report("see", self.name)
        if not self.spec.writes:
            return message
        self.stage.run.report("change", self.name)
        calls: list[Any] = [_newer(call) for call in message.tool_calls]
        return message.model_copy(update={"tool_calls": calls})

    def around_model(self, request: Any) -> Any:
        run = self.stage.run
        if _outermost(self.stack, "model") == self.spec.name:
            run.report("enter", "model")
        run.report("layer", self.name, "model")
        if self._is_used_up("layer", request.messages):
            return AIMessage("the limit")
        tools = plan_tools(self.stack)
        if choice := run.choose(f"{self.name} alone", "", 1 + len(tools)):
            return _call(tools[choice - 1], run, self.name, "model")  # as a cache does
        response = yield request
        message = response.result[0]
        calls = message.tool_calls if len(response.result) == 1 else []
        if calls:
            message = self._seen(message)
            response = ModelResponse(result=[message])
        if calls and self.spec.answers and run.choose(f"{self.name} answers", calls[0]["name"], 2):
            return ModelResponse(result=[message, _refusal(calls[0])])
        return response

    def around_tool(self, request: Any) -> Any:
        run, name = self.stage.run, request.tool_call["name"]
        if not self.is_inside and _outermost(self.stack, "tool") == self.spec.name:
            run.report("enter", "tools")
        run.report("layer", self.name, "tool")
        if self.spec.guard and self.spec.guard.place == "around_tool" and self._guards(name):
            forced = self._too_early(name, request.state["messages"])
            if forced or run.choose(f"{self.name} refuses", name, 2):
                return _refusal(request.tool_call)
        # Without tools, only a layer can end the run.
        if not plan_tools(self.stack) and run.choose(f"{self.name} ends", name, 2):
            return _end(request.tool_call)
        if not self.is_inside:
            run.report("see", self.name)
            if self.spec.writes:
                run.report("change", self.name)
                request = request.override(tool_call=_newer(request.tool_call))
        return (yield request)


def _newer(call: Any) -> Any:
    args = call["args"]
    return {**call, "args": args if "request" in args else {"version": args.get("version", 0) + 1}}


def _refusal(call: Any) -> ToolMessage:
    return ToolMessage(REFUSED, tool_call_id=call["id"], name=call["name"])


def _end(call: Any) -> Command[Any]:
    message = ToolMessage(RAN, tool_call_id=call["id"], name=call["name"])
    return Command(update={"messages": [message], "jump_to": "end"})


def _status(messages: Sequence[BaseMessage], call: Any) -> str:
    """The name of a pending call; whether there are calls that have all their results."""
    return call["name"] if call else "answered" if _last(messages).tool_calls else ""


def _last(messages: Sequence[BaseMessage]) -> AIMessage:
    return next((m for m in reversed(messages) if isinstance(m, AIMessage)), AIMessage(""))


def _pending(messages: Sequence[BaseMessage]) -> Any:
    """The call of the last answer that has no result; None if there is none."""
    answers = {m.tool_call_id for m in messages if isinstance(m, ToolMessage)}
    return next((call for call in _last(messages).tool_calls if call["id"] not in answers), None)
