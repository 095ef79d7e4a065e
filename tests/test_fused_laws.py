"""Whatever a stack does: a fused run is the run hook by hook, in fewer steps."""

from __future__ import annotations

import asyncio
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal, NotRequired

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, RemoveMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.channels import EphemeralValue, UntrackedValue
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.types import Command, Overwrite, interrupt
from pydantic import BaseModel

from agent_factory import (
    AgentMiddleware,
    AgentState,
    ExtendedModelResponse,
    ModelRequest,
    OmitFromOutput,
    create_agent,
    hook_config,
)
from agent_factory.errors import JumpWithoutCalls

Mode = Literal["sync", "async"]
PHASES = ("before_agent", "before_model", "after_model", "after_agent")


class Stored(AgentState[Any]):
    """A key of every kind."""

    log: NotRequired[Annotated[list[str], operator.add]]
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
}
CALM = [name for name in ACTS if name not in ("fail", "unknown key", "no update", "forget unknown")]


@dataclass
class Diary:
    """What the hooks of one agent have seen, with ids named in the order of their appearance."""

    pages: list[Any] = field(default_factory=list)
    ids: dict[str, int] = field(default_factory=dict)

    def note(self, who: str, state: Mapping[str, Any]) -> None:
        self.pages.append((who, self.plain(state)))

    def plain(self, value: Any) -> Any:
        """A value without what differs between any two runs."""
        if isinstance(value, BaseMessage):
            calls = [(c["name"], c["id"]) for c in getattr(value, "tool_calls", ())]
            name = self.ids.setdefault(value.id, len(self.ids)) if value.id else None
            return (value.type, value.text, calls, getattr(value, "tool_call_id", None), name)
        if isinstance(value, Mapping):
            return {key: self.plain(value[key]) for key in sorted(value)}
        return [self.plain(item) for item in value] if isinstance(value, list) else value


Script = tuple[str, ...]


def member(name: str, scripts: Mapping[str, Script], layer: str, diary: Diary) -> Any:
    """A middleware whose hooks do one thing at each call, and nothing when they are through."""
    methods = {phase: _hook(f"{name}.{phase}", script, diary) for phase, script in scripts.items()}
    if layer != "none":
        methods["around_model"] = _layer(f"{name}.around_model", layer)
    kind: Any = type("Member", (AgentMiddleware,), {"state_schema": Stored, **methods})
    return kind(name=name)


def _hook(who: str, script: Script, diary: Diary) -> Any:
    done = 0

    def hook(self: Any, state: Any, runtime: Any) -> Any:
        nonlocal done
        diary.note(who, state)
        act = script[done] if done < len(script) else "nothing"
        if act == "fail":
            done += 1
        update = ACTS[act](state, who)
        done += 1
        return update

    jumps: Any = sorted(
        {act.removeprefix("jump to ") for act in script if act.startswith("jump to ")}
    )
    return hook_config(can_jump_to=jumps)(hook) if jumps else hook


def _layer(who: str, kind: str) -> Any:
    asked = 0

    def around_model(self: Any, request: ModelRequest[Any]) -> Any:
        nonlocal asked
        if kind == "asks" and not asked:
            answer = interrupt(f"{who}?")
            asked += 1
            request = request.override(messages=[*request.messages, HumanMessage(str(answer))])
        response = yield request
        if kind == "writes":
            return ExtendedModelResponse(response, Command(update={"log": [who], "last": who}))
        return response

    return around_model


# What the model and the tools do


@tool
def find(query: str) -> str:
    """Find something."""
    return f"found {query}"


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


class Model(BaseChatModel):
    """Calls the tools that the input names, and then answers."""

    turns: tuple[tuple[str, ...], ...]
    asked: list[int]

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:
        return self

    def _generate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        number = len(self.asked)
        self.asked.append(len(messages))
        names = self.turns[number] if number < len(self.turns) else ()
        calls: list[Any] = [
            {"name": name, "args": _arguments(name), "id": f"call {number}.{place}"}
            for place, name in enumerate(names)
        ]
        answer = AIMessage("" if calls else f"answer {number}", tool_calls=calls)
        return ChatResult(generations=[ChatGeneration(message=answer)])


def _arguments(name: str) -> dict[str, Any]:
    return {"text": "yes"} if name == "Answer" else {"query": name}


# Two agents of one case


@dataclass(frozen=True)
class Case:
    """An agent, and what is done with it."""

    members: tuple[tuple[dict[str, Script], str], ...]
    turns: tuple[tuple[str, ...], ...]
    structured: bool
    pauses: tuple[str, ...]
    doings: tuple[tuple[str, bool], ...]
    """"ask" or "go on", and whether somebody watches."""


def cases(acts: Sequence[str]) -> st.SearchStrategy[Case]:
    """Cases whose hooks do some of these things."""
    scripts = st.lists(st.sampled_from(acts), max_size=3).map(tuple)
    hooks = st.dictionaries(st.sampled_from(PHASES), scripts, max_size=4)
    layers = st.sampled_from(["none", "none", "none", "writes", "asks"])
    members = st.lists(st.tuples(hooks, layers), min_size=1, max_size=4).map(tuple)
    # What is kept of calls parallel to one that fails is a matter of luck.
    calls = st.lists(st.sampled_from(CALLED), min_size=1, max_size=2).map(
        lambda names: ("fail",) if "fail" in names else tuple(names)
    )
    doings = st.tuples(st.sampled_from(["ask", "go on", "go on"]), st.booleans())
    return st.builds(
        Case,
        members=members,
        turns=st.lists(calls, max_size=3).map(tuple),
        structured=st.booleans(),
        pauses=st.sampled_from([(), (), (), ("tools",), ("model",), ("m1.before_model",)]),
        doings=st.lists(doings, max_size=4).map(tuple),
    )


class Trial:
    """One agent of a case, and all that a caller can observe of its runs."""

    def __init__(self, case: Case, fused: Any, mode: Mode, kept: bool = True) -> None:
        self.diary = Diary()
        self.model = Model(turns=case.turns, asked=[])
        stack = [
            member(f"m{number}", scripts, layer, self.diary)
            for number, (scripts, layer) in enumerate(case.members)
        ]
        nodes = {f"m{number}.{phase}" for number, (s, _) in enumerate(case.members) for phase in s}
        self.agent: Any = create_agent(
            self.model,
            TOOLS,
            middleware=stack,
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
        waiting = sorted(i.value for task in state.tasks for i in task.interrupts)
        # What passes with a step is not kept, and calls that are sent again take one more.
        kept = {k: v for k, v in state.values.items() if k not in ("flash", "jump_to")}
        self.results.append(
            (self.diary.plain(outcome), self.diary.plain(kept), state.next, waiting)
        )

    def ask(self) -> None:
        """Run it where nothing is kept, and note how it ends."""
        try:
            outcome = self._run({"messages": [("user", "Well?")]}, watched=False)
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
        waiting = [interrupted.value for interrupted in out.pop("__interrupt__", ())]
        return {**out, "waits for": waiting} if waiting else out

    def _watch_now(self, input: Any) -> None:
        list(self.agent.stream(input, self.config, stream_mode="updates"))

    async def _watch(self, input: Any) -> None:
        async for _ in self.agent.astream(input, self.config, stream_mode="updates"):
            pass


def _same(case: Case, fused: Any, mode: Mode) -> None:
    plain, fused_run = Trial(case, False, mode), Trial(case, fused, mode)
    for doing, watched in (("ask", False), *case.doings):
        plain.do(doing, watched)
        fused_run.do(doing, watched)
        assert fused_run.diary.pages == plain.diary.pages
        assert fused_run.model.asked == plain.model.asked
        if _is_stuck(plain.results[-1]):
            assert fused_run.results[-1][0] == plain.results[-1][0]
            return
        assert fused_run.results == plain.results


def _is_stuck(result: Any) -> bool:
    """Whether LangGraph can't go on with the thread hook by hook.

    It keeps writes that it cannot apply, and takes a node for done whose edge has failed.
    """
    outcome = result[0]
    edge_failed = isinstance(outcome, tuple) and outcome[0] is JumpWithoutCalls
    return edge_failed or len(result) == 2


# Eight laws of one kind, and each example is two agents with a thread each.
EXAMPLES = settings.default.max_examples // 2 if settings.default else 50


@pytest.mark.filterwarnings("ignore::agent_factory.AgentFactoryWarning")
@pytest.mark.parametrize("fused", [True, "turn"])
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_fused_run_is_the_run_hook_by_hook(fused: Any, mode: Mode) -> None:
    """Every hook's view, the state, what is next, what waits, and how it ends."""

    @settings(max_examples=EXAMPLES)
    @given(cases(CALM))
    def check(case: Case) -> None:
        _same(case, fused, mode)

    check()


@pytest.mark.filterwarnings("ignore::agent_factory.AgentFactoryWarning")
@pytest.mark.parametrize("fused", [True, "turn"])
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_fused_run_fails_as_it_would_hook_by_hook(fused: Any, mode: Mode) -> None:
    """Also with hooks that raise, and that return what cannot be written."""

    @settings(max_examples=EXAMPLES)
    @given(cases(list(ACTS)))
    def check(case: Case) -> None:
        _same(case, fused, mode)

    check()


@pytest.mark.filterwarnings("ignore::agent_factory.AgentFactoryWarning")
@pytest.mark.parametrize("fused", [True, "turn"])
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_run_without_a_checkpointer_is_the_run_hook_by_hook(fused: Any, mode: Mode) -> None:
    """Without a saver all of it may be one step."""

    @settings(max_examples=EXAMPLES)
    @given(cases(list(ACTS)))
    def check(case: Case) -> None:
        case = replace(case, pauses=())
        plain, fused_run = (Trial(case, how, mode, kept=False) for how in (False, fused))
        for _ in range(2):
            plain.ask()
            fused_run.ask()
            assert fused_run.diary.pages == plain.diary.pages
            assert fused_run.model.asked == plain.model.asked
            assert fused_run.results == plain.results

    check()
