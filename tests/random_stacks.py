"""Random stacks of middleware, with models and tools, and what a caller observes of their runs.

Test files import it as `random_stacks`: pytest puts this folder on the path.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Annotated, Any, Literal, NotRequired

from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    RemoveMessage,
    ToolMessage,
)
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.channels import EphemeralValue, UntrackedValue
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_config, get_stream_writer
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.types import Command, Overwrite, interrupt
from pydantic import BaseModel, Field

from agent_factory import AgentMiddleware, Invoke, create_agent, hook_config
from agent_factory.errors import JumpWithoutCalls
from agent_factory.types import AgentState, ExtendedModelResponse, ModelRequest, OmitFromOutput
from busy_agents import find_tool as find
from samples import OwnModel

Mode = Literal["sync", "async"]
PHASES = ("before_agent", "before_model", "after_model", "after_agent")


def add(log: list[str], more: list[str]) -> list[str]:
    """Do what `operator.add` does, whose signature takes longer to read in each build."""
    return log + more


class Stored(AgentState[Any]):
    """A key of every kind."""

    log: NotRequired[Annotated[list[str], add]]
    last: NotRequired[str]
    # Not in the output: that is a matter of the step in which LangGraph last looked.
    flash: NotRequired[Annotated[str, EphemeralValue(str), OmitFromOutput]]
    seen: NotRequired[Annotated[str, UntrackedValue(str)]]


class Answer(BaseModel):
    """A structured answer."""

    text: str


# What hooks do


def _forget_first(state: Any, who: str) -> Any:
    first = next((message for message in state["messages"] if message.id), None)
    return {"messages": [RemoveMessage(id=first.id)] if first else []}


def _start_over(state: Any, who: str) -> Any:
    kept = HumanMessage(f"{who} starts over")
    return {"messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES), kept]}


def _edit(state: Any, who: str) -> Any:
    message = state["messages"][0]
    return {"messages": [HumanMessage(f"{who}: {message.text}", id=message.id)]}


def _mutate(state: Any, who: str) -> Any:
    state["last"] = f"{who} was here"
    state.pop("log", None)


def _fail(state: Any, who: str) -> Any:
    raise ValueError(f"{who} fails")


def _ask(state: Any, who: str) -> Any:
    return {"log": [f"{who} answer {interrupt(f'{who}?')}"]}


def _ask_twice(state: Any, who: str) -> Any:
    return {"last": f"{interrupt(f'{who} 1?')} {interrupt(f'{who} 2?')}"}


def _several(state: Any, who: str) -> Any:
    pairs = [("log", ["a"]), ("log", [who]), ("last", who)]
    return Command(update=pairs)


def _send(state: Any, who: str) -> None:
    # As backends that keep files in the state do: directly, before the hook returns.
    known = get_config()["configurable"]
    seen = known["__pregel_read"](["log"], fresh=True).get("log", ())
    known["__pregel_send"]([("log", [f"{who} sends after {len(seen)}"])])


ACTS: dict[str, Any] = {
    "nothing": lambda state, who: None,
    "last": lambda state, who: {"last": f"{who} after {state.get('last')}"},
    "log": lambda state, who: {"log": [f"{who} sees {len(state.get('log', []))}"]},
    "flash": lambda state, who: {"flash": f"{who} after {state.get('flash')}"},
    "seen": lambda state, who: {"seen": f"{who} after {state.get('seen')}"},
    "overwrite": lambda state, who: {"log": Overwrite([who])},
    "overwrite in JSON": lambda state, who: {"log": {"__overwrite__": [who, "json"]}},
    "say": lambda state, who: {"messages": [HumanMessage(f"{who} says")]},
    "say in short": lambda state, who: {"messages": ("user", f"{who} says")},
    "say as dict": lambda state, who: {"messages": [{"role": "user", "content": who}]},
    "forget first": _forget_first,
    "forget unknown": lambda state, who: {"messages": [RemoveMessage(id="unknown")]},
    "start over": _start_over,
    "edit": _edit,
    "command": lambda state, who: Command(update={"last": who, "log": [who]}),
    "send": _send,
    "several": _several,
    "unknown key": lambda state, who: {"nowhere": 1},
    "no update": lambda state, who: "words",
    "mutate": _mutate,
    "fail": _fail,
    "ask": _ask,
    "ask twice": _ask_twice,
    "jump to end": lambda state, who: {"jump_to": "end"},
    "jump to model": lambda state, who: {"jump_to": "model", "last": who},
    "jump to tools": lambda state, who: {"jump_to": "tools"},
    "write from context": lambda state, who: get_stream_writer()(f"{who} writes"),
}
CALM = [name for name in ACTS if name not in ("fail", "unknown key", "no update", "forget unknown")]
OUTWARD = ["write", "write from context", "ask a model", "ask an agent"]
"""What a watcher sees of a hook before it returns."""


@dataclass
class Diary:
    """What the hooks of one agent have seen, with ids named in the order of their appearance."""

    pages: list[Any] = field(default_factory=list)
    ids: dict[str, int] = field(default_factory=dict)
    names: Iterator[int] = field(default_factory=count)

    def note(self, who: str, state: Mapping[str, Any]) -> None:
        self.pages.append((who, self.plain(state)))

    def plain(self, value: Any) -> Any:
        """A value without what differs between any two runs."""
        if isinstance(value, BaseMessage):
            calls = [(c["name"], c["id"]) for c in getattr(value, "tool_calls", ())]
            if value.id and value.id not in self.ids:
                self.ids[value.id] = next(self.names)
            name = self.ids.get(value.id or "")
            return (value.type, value.text, calls, getattr(value, "tool_call_id", None), name)
        if isinstance(value, Mapping):
            if "messages" in value:
                self._forget_all_but(value["messages"])
            return {key: self.plain(value[key]) for key in sorted(value)}
        return [self.plain(item) for item in value] if isinstance(value, list) else value

    def _forget_all_but(self, messages: Iterable[Any]) -> None:
        # Hook by hook, a message that was removed and is written again may get the id it had.
        ids = {getattr(message, "id", None) for message in messages}
        self.ids = {known: name for known, name in self.ids.items() if known in ids}


Script = tuple[str, ...]


@dataclass(frozen=True)
class Member:
    """A middleware: what each hook does, call by call, and how it wraps the calls of the model."""

    scripts: Mapping[str, Script]
    layer: str = "none"
    form: str = "plain"
    """How its hooks are written: as plain functions, with an async double each, or as flows."""


def member(name: str, spec: Member, diary: Diary, helpers: Mapping[str, Any]) -> Any:
    """A middleware whose hooks do one thing at each call, and nothing when they are through."""
    methods: dict[str, Any] = {}
    for phase, script in spec.scripts.items():
        hook, ahook, flow = _hook(f"{name}.{phase}", script, diary, helpers)
        forms = {"plain": {phase: hook}, "double": {phase: hook, f"a{phase}": ahook}}
        methods |= forms.get(spec.form, {phase: flow})
    if spec.layer != "none":
        who = f"{name}.{spec.layer} layer"
        layer = _tool_layer(who) if spec.layer == "tool" else _layer(who, spec.layer, helpers)
        methods["around_tool" if spec.layer == "tool" else "around_model"] = layer
    kind: Any = type("Member", (AgentMiddleware,), {"state_schema": Stored, **methods})
    return kind(name=name)


def _hook(who: str, script: Script, diary: Diary, helpers: Mapping[str, Any]) -> Any:
    done = 0

    def begin(state: Any) -> str:
        nonlocal done
        diary.note(who, state)
        act = script[done] if done < len(script) else "nothing"
        if act == "fail":
            done += 1
        return act

    def end(act: str, state: Any, runtime: Any) -> Any:
        nonlocal done
        if act == "write":
            runtime.stream_writer({"by": who})
        update = ACTS[act](state, who) if act in ACTS else None
        done += 1
        return update

    def hook(self: Any, state: Any, runtime: Any) -> Any:
        act = begin(state)
        if act in helpers:
            helpers[act].invoke(_question(act, who))
        return end(act, state, runtime)

    async def ahook(self: Any, state: Any, runtime: Any) -> Any:
        act = begin(state)
        if act in helpers:
            await helpers[act].ainvoke(_question(act, who))
        return end(act, state, runtime)

    def flow(self: Any, state: Any, runtime: Any) -> Any:
        act = begin(state)
        if act in helpers:
            yield Invoke(helpers[act], _question(act, who))
        return end(act, state, runtime)

    jumps: Any = sorted(
        {act.removeprefix("jump to ") for act in script if act.startswith("jump to ")}
    )
    decorate: Any = hook_config(can_jump_to=jumps) if jumps else lambda function: function
    return decorate(hook), decorate(ahook), decorate(flow)


def _question(helper: str, who: str) -> Any:
    asked = [HumanMessage(f"{who} asks")]
    return {"messages": asked} if helper == "ask an agent" else asked


def _layer(who: str, kind: str, helpers: Mapping[str, Any]) -> Any:
    asked = 0

    def around_model(self: Any, request: ModelRequest[Any]) -> Any:
        nonlocal asked
        if kind == "asks" and not asked:
            answer = interrupt(f"{who}?")
            asked += 1
            request = request.override(messages=[*request.messages, HumanMessage(str(answer))])
        if kind == "speaks":
            request.runtime.stream_writer({"by": who})
            yield Invoke(helpers["ask a model"], _question("ask a model", who))
        response = yield request
        if kind == "writes":
            return ExtendedModelResponse(response, Command(update={"log": [who], "last": who}))
        return response

    return around_model


def _tool_layer(who: str) -> Any:
    def around_tool(self: Any, request: Any) -> Any:
        call = request.tool_call["id"]
        request.runtime.stream_writer({"by": who, "call": call})
        result = yield request
        request.runtime.stream_writer({"by": f"{who}, after", "call": call})
        return result

    return around_tool


# What the model and the tools do


@tool
def note(query: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
    """Write it down."""
    return Command(
        update={"log": [query], "messages": [ToolMessage("noted", tool_call_id=tool_call_id)]}
    )


@tool
def ask(query: str) -> str:
    """Ask a person."""
    return f"answer {interrupt(query)}"


@tool
def fail(query: str) -> str:
    """Fail."""
    raise ValueError("a tool fails")


@tool(return_direct=True)
def last_word(query: str) -> str:
    """Answer at once."""
    return f"{query}, and that is all"


@tool
def stop(query: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
    """Stop the run."""
    return Command(
        goto="__end__", update={"messages": [ToolMessage("stopped", tool_call_id=tool_call_id)]}
    )


TOOLS = (find, note, ask, fail, last_word, stop)
CALLED = (*(tool.name for tool in TOOLS), "made_up", "Answer")
FAILING = ("the model fails",)
"""A turn in which the model raises."""


class Model(OwnModel):
    """Calls the tools that the input names, and then answers."""

    turns: tuple[tuple[str, ...], ...]
    asked: list[int]

    def _generate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self._answer(messages))])

    def _stream(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        answer = self._answer(messages)
        calls = [
            tool_call_chunk(name=c["name"], args=json.dumps(c["args"]), id=c["id"], index=place)
            for place, c in enumerate(answer.tool_calls)
        ]
        chunks: list[Any] = [AIMessageChunk(content="", tool_call_chunks=[call]) for call in calls]
        for chunk in chunks or [AIMessageChunk(content=f"{word} ") for word in answer.text.split()]:
            yield ChatGenerationChunk(message=chunk)

    def _answer(self, messages: list[BaseMessage]) -> AIMessage:
        number = len(self.asked)
        self.asked.append(len(messages))
        names = self.turns[number] if number < len(self.turns) else ()
        if names == FAILING:
            raise ValueError("the model fails")
        calls: list[Any] = [
            {"name": name, "args": _arguments(name, number, place), "id": f"call {number}.{place}"}
            for place, name in enumerate(names)
        ]
        return AIMessage("" if calls else f"answer {number} ", tool_calls=calls)


def _arguments(name: str, number: int, place: int) -> dict[str, Any]:
    return {"text": "yes"} if name == "Answer" else {"query": f"{name} {number}.{place}"}


class Helper(Model):
    """Calls a tool once if it has one, and then answers: the same for the same conversation."""

    turns: tuple[tuple[str, ...], ...] = ()
    asked: list[int] = Field(default_factory=list)
    calls: str = ""

    def _answer(self, messages: list[BaseMessage]) -> AIMessage:
        said = messages[-1].text
        if self.calls and messages[-1].type == "human":
            call: Any = {"name": self.calls, "args": {"query": said}, "id": f"call for {said}"}
            return AIMessage("", tool_calls=[call])
        return AIMessage(f"answer to {said} ")


# Two agents of one case


@dataclass(frozen=True)
class Case:
    """An agent, and what is done with it."""

    members: tuple[Member, ...]
    turns: tuple[tuple[str, ...], ...]
    structured: bool
    pauses: tuple[str, ...]
    doings: tuple[tuple[str, bool], ...]
    """"ask" or "go on", and whether somebody watches."""


def cases(acts: Sequence[str], called: Sequence[str] = CALLED) -> st.SearchStrategy[Case]:
    """Cases whose hooks do some of these things, and whose model calls some of these tools."""
    scripts = st.lists(st.sampled_from(acts), max_size=3).map(tuple)
    hooks = st.dictionaries(st.sampled_from(PHASES), scripts, max_size=4)
    layers = st.sampled_from(["none", "none", "none", "none", "writes", "asks", "speaks", "tool"])
    members = st.builds(Member, hooks, layers, st.sampled_from(["plain", "double", "flow"]))
    calls = st.lists(st.sampled_from(called), min_size=1, max_size=2).map(_together)
    doings = st.tuples(st.sampled_from(["ask", "go on", "go on"]), st.booleans())
    return st.builds(
        Case,
        members=st.lists(members, min_size=1, max_size=4).map(tuple),
        turns=st.lists(calls, max_size=3).map(tuple),
        structured=st.booleans(),
        pauses=st.sampled_from([(), (), (), ("tools",), ("model",), ("m1.before_model",)]),
        doings=st.lists(doings, max_size=4).map(tuple),
    )


ALONE = ("fail", "the model fails", "remember")
"""What is called alone: what is kept of calls parallel to one that fails is a matter of luck, and
two runs in one namespace are an error."""


def _together(names: list[str]) -> tuple[str, ...]:
    return next(((name,) for name in names if name in ALONE), tuple(names))


class Trial:
    """One agent of a case, and all that a caller can observe of its runs.

    Args:
        case: What the agent is made of.
        fused: How it runs.
        mode: Whether its runs are sync or async.
        kept: Whether it has a checkpointer.
        tools: Tools of the agent besides `TOOLS`.
        agent: The agent that hooks ask.
        more: Middleware inside of that of the case.
    """

    model_type: type[Model] = Model

    def __init__(
        self,
        case: Case,
        fused: Any,
        mode: Mode,
        kept: bool = True,
        tools: Sequence[Any] = (),
        agent: Any = None,
        more: Sequence[Any] = (),
    ) -> None:
        self.diary = Diary()
        self.model: Model = self.model_type(turns=case.turns, asked=[])
        helpers = {"ask a model": Helper(), "ask an agent": agent}
        stack = [
            member(f"m{number}", spec, self.diary, helpers)
            for number, spec in enumerate(case.members)
        ]
        nodes = {f"m{n}.{phase}" for n, m in enumerate(case.members) for phase in m.scripts}
        self.agent: Any = create_agent(
            self.model,
            [*TOOLS, *tools],
            middleware=[*stack, *more],
            state_schema=Stored,
            response_format=Answer if case.structured else None,
            checkpointer=InMemorySaver() if kept else None,
            interrupt_before=[p for p in case.pauses if p in nodes or "." not in p],
            fused=fused,
        )
        self.mode = mode
        self.config: Any = {"configurable": {"thread_id": "one"}, "recursion_limit": 100}
        self.results: list[Any] = []

    def do(self, doing: str, watched: bool) -> None:
        """Take up the thread, and note how it ends."""
        try:
            outcome = self._run(self._input(doing), watched)
        except Exception as error:
            outcome = (type(error), str(error))
        try:
            state = self.agent.get_state(self.config)
        except ValueError as error:  # of a write that LangGraph keeps, and can't apply
            self.results.append((outcome, str(error)))
            return
        asked = sorted(i.value for task in state.tasks for i in task.interrupts)
        # What passes with a step is not kept, and calls that are sent again take one more.
        kept = {k: v for k, v in state.values.items() if k not in ("flash", "jump_to")}
        self.results.append((self.diary.plain(outcome), self.diary.plain(kept), state.next, asked))

    def ask(self, watched: bool = False) -> None:
        """Run it where nothing is kept, and note how it ends."""
        try:
            outcome = self._run({"messages": [("user", "Well?")]}, watched)
        except Exception as error:
            outcome = (type(error), str(error))
        self.results.append(self.diary.plain(outcome))

    def _input(self, doing: str) -> Any:
        state = self.agent.get_state(self.config)
        if doing == "ask" or not state.next:
            return {"messages": [("user", "Well?")]}
        waiting = [interrupted for task in state.tasks for interrupted in task.interrupts]
        return Command(resume={i.id: f"to {i.value}" for i in waiting}) if waiting else None

    def _run(self, input: Any, watched: bool) -> Any:
        if watched:
            asyncio.run(self._watch(input)) if self.mode == "async" else self._watch_now(input)
            return None
        if self.mode == "async":
            out = asyncio.run(self.agent.ainvoke(input, self.config))
        else:
            out = self.agent.invoke(input, self.config)
        waiting = sorted(interrupted.value for interrupted in out.pop("__interrupt__", ()))
        return {**out, "waits for": waiting} if waiting else out

    def _watch_now(self, input: Any) -> None:
        list(self.agent.stream(input, self.config, stream_mode="updates"))

    async def _watch(self, input: Any) -> None:
        async for _ in self.agent.astream(input, self.config, stream_mode="updates"):
            pass


def is_stuck(result: Any) -> bool:
    """Whether LangGraph can't go on with the thread hook by hook.

    It keeps writes that it cannot apply, and takes a node for done whose edge has failed.
    """
    outcome = result[0]
    edge_failed = isinstance(outcome, tuple) and outcome[0] is JumpWithoutCalls
    return edge_failed or len(result) == 2
