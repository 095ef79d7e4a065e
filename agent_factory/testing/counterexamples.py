"""Counterexamples as runs: an agent of stand-ins that goes the way on which a guarantee fails."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from itertools import pairwise
from typing import Annotated, Any

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool, InjectedToolCallId, StructuredTool
from langgraph.types import Command
from pydantic import PrivateAttr

from agent_factory import agent_tool
from agent_factory.errors import AgentFactoryWarning, ArgumentError
from agent_factory.factory.agent import create_agent
from agent_factory.guarantees import Counterexample, Guarantee, counterexamples, parse
from agent_factory.guarantees.paths import Path, PlanGraph
from agent_factory.guarantees.sentences import AtMost
from agent_factory.hooks.base import AgentMiddleware, Middleware, hook_config
from agent_factory.hooks.flows import Flow
from agent_factory.testing.fake_model import ScriptedChatModel, tool_call
from agent_factory.topology.model import (
    END,
    MODEL,
    START,
    TOOLS,
    AgentStyle,
    Call,
    Hook,
    Phase,
    ToolKind,
    TopologyData,
)
from agent_factory.topology.planner import jumps_of
from agent_factory.topology.transitions import Transition, TransitionReason
from agent_factory.types import ModelResponse

MOST_CALLS = 1_000
"""The most calls that a replay makes to show that a limit is missing or too high."""

_BY_DEFAULT = {
    TransitionReason.NEXT,
    TransitionReason.CALLS,
    TransitionReason.SEQUENTIAL,
    TransitionReason.NO_CALLS,
    TransitionReason.STRUCTURED,
    TransitionReason.RESULTS,
    TransitionReason.DIRECT,
    TransitionReason.STOPPED,
}
"""Reasons for which no stand-in of a middleware has to do anything."""


@dataclass(frozen=True, slots=True)
class CounterexampleRun:
    """What a replay has shown.

    Args:
        visits: The nodes, each followed by the layers that ran in it, in the order of the run.
        tools: The tools that ran; those of agents inside of tools as "clerk/refund".
    """

    visits: tuple[str, ...]
    tools: tuple[str, ...]


@dataclass(frozen=True)
class CounterexampleReplay:
    """A counterexample that can be run.

    Args:
        counterexample: The counterexample.
        path: The steps that the run takes. It goes around a loop once, or as often as it takes to
            exceed a number.
        model: The scripted model. Its `steps` are the answers that show the counterexample.
        agent: An agent with the plan of the counterexample, whose middleware are stand-ins.
        messages: The messages of its input.
    """

    counterexample: Counterexample
    path: tuple[Transition, ...]
    model: ScriptedChatModel
    agent: Any
    messages: tuple[HumanMessage, ...]
    _walk: _Walk = field(repr=False)

    def run(self) -> CounterexampleRun:
        """Run the agent, each time from the beginning."""
        self.model.rewind()
        self._walk.begin()
        # Each step of the path may take a step of the graph.
        config = {"recursion_limit": 9_999 + 2 * len(self.path)}
        self.agent.invoke({"messages": list(self.messages)}, config)
        return CounterexampleRun(tuple(self._walk.visits), tuple(self._walk.tools))


def replay_counterexample(counterexample: Counterexample) -> CounterexampleReplay:
    """Build an agent that shows a counterexample.

    Each middleware of the plan has a stand-in of its name with the same hooks, jumps and layers.
    The stand-ins decide nothing: they follow the path, and pass on what is not part of it. The
    tools are functions that record their call.

    Args:
        counterexample: What `counterexamples` returned, or one of `GuaranteeError`.

    Raises:
        ArgumentError: No run of stand-ins shows it: the plan is one of `create_react_agent`; the
            provider of the model runs the tool; the path asks for a structured answer once more;
            or a number is over 1,000, or not one of calls.

    >>> from agent_factory import before_model, plan_agent
    >>> from agent_factory.guarantees import counterexamples
    >>> @before_model(can_jump_to=["tools"])
    ... def shortcut(state, runtime): ...
    >>> def refund(euros: int) -> str:
    ...     '''Pay money back.'''
    >>> plan = plan_agent(tools=[refund], middleware=[shortcut])
    >>> (no,) = counterexamples(plan, ["no path from start to tools skips model"])
    >>> run = replay_counterexample(no).run()
    >>> run.tools, run.visits[:2]
    (('refund',), ('shortcut.before_model', 'tools'))
    """
    plan = counterexample.plan
    if plan.style is not AgentStyle.CREATE_AGENT:
        raise _refusal("is one of create_react_agent, whose agent has no stand-ins.")
    graph = PlanGraph(plan)
    nodes = _nodes(graph, counterexample)
    path = graph.steps(nodes)
    for step in path:
        if not {*_BY_DEFAULT, *_BY_STAND_INS} & {reason.why for reason in step.reasons}:
            raise _refusal(f"goes the way {step.name}, for which a stand-in has no answer.")
    names = [tool.name for tool in plan.tools if tool.kind is ToolKind.CLIENT]
    # The layers around tools see calls of any name.
    tool = counterexample.tool or next(iter(names), "any")
    # "clerk/refund": the stand-in of "clerk" is an agent with that tool.
    outer, _, inner = tool.partition("/")
    walk = _Walk(plan, path, outer)
    model = _Model(steps=list(_answers(walk)))
    model._walk = walk
    tools = [
        _inner_agent(name, inner, walk) if inner and name == outer else _tool(name, name, walk)
        for name in names
    ]
    middleware = [_stand_in(owner, walk) for owner in _owners(plan)]
    with warnings.catch_warnings():
        # The stack has been built before, with what its warnings are about.
        warnings.simplefilter("ignore", AgentFactoryWarning)
        agent = create_agent(model, tools, middleware=middleware, ignore=["AF125"])
    return CounterexampleReplay(counterexample, path, model, agent, (HumanMessage("Go"),), walk)


_BY_STAND_INS = (TransitionReason.JUMP, TransitionReason.ANSWERED)


def _refusal(reason: str) -> ArgumentError:
    hint = "Read its path and its reason; `str(counterexample)` has both."
    return ArgumentError("counterexample", reason, hint)


# The path


def _nodes(graph: PlanGraph, counterexample: Counterexample) -> Path:
    """The nodes of the run, as far as it matters where it goes."""
    plan, path = graph.plan, counterexample.path
    nodes = (path[0].source, *(step.target for step in path)) if path else ()
    text = counterexample.guarantee
    for clause in parse(text).clauses:
        # Of the parts of a sentence, the one that does not hold.
        if counterexample in counterexamples(plan, [Guarantee(text, (clause,))]):
            if isinstance(clause, AtMost):
                return _exceeding(graph, clause, nodes)
            break
    kinds = {tool.name: tool.kind for tool in plan.tools}
    if kinds.get(counterexample.tool) is ToolKind.PROVIDER:
        raise _refusal(f"is about {counterexample.tool!r}, which the provider of the model runs.")
    to_model = graph.shortest_path(START, MODEL) or (START,)
    return nodes or (*to_model, *graph.shortest_path(MODEL, TOOLS)[1:])


def _exceeding(graph: PlanGraph, clause: AtMost, nodes: Path) -> Path:
    """A path with one call more than a sentence allows."""
    if clause.unit not in ("model calls", "tool calls"):
        raise _refusal(f"is about {clause.unit}, of which a scripted model uses none.")
    if clause.most > MOST_CALLS:
        raise _refusal(
            f"takes more than {clause.most:g} calls; a replay makes at most {MOST_CALLS:,}."
        )
    at = TOOLS if clause.unit == "tool calls" else MODEL
    whole = list(nodes or graph.shortest_path(START, at))
    around = graph.shortest_path(at, at)
    # Around the loop once more for each call that the sentence allows.
    while around and whole.count(at) <= clause.most:
        whole += around[1:]
    return tuple(whole)


class _Walk:
    """A run along a path: where it is, and what it has visited."""

    def __init__(self, plan: TopologyData, path: tuple[Transition, ...], tool: str) -> None:
        self.plan, self.path, self.tool = plan, path, tool
        self.layers = {call: plan.layers_around(call) for call in Call}
        self.begin()

    def begin(self) -> None:
        """Go back to the start."""
        self.position = 0
        self.visits: list[str] = []
        self.tools: list[str] = []

    def enter(self, node: str) -> None:
        """Note that the run is at a node."""
        self.visits.append(node)
        left = self.path[self.position :]
        if left and left[0].target == node:
            self.position += 1

    def enter_layers(self, owner: str, call: Call) -> bool:
        """Note the layers of a middleware around a call; return True if it has the outermost."""
        # The outermost layer notes the node: those inside of it may not be entered.
        is_outermost = self.layers[call][0].owner == owner
        if is_outermost and call is not Call.AGENT:
            self.enter(MODEL if call is Call.MODEL else TOOLS)
        self.visits += [layer.name for layer in self.layers[call] if layer.owner == owner]
        return is_outermost

    def step_from(self, node: str) -> Transition | None:
        """The step that the path takes from the node at which the run is."""
        left = self.path[self.position :]
        return left[0] if left and left[0].source == node else None


def _by_default(step: Transition) -> bool:
    return any(reason.why in _BY_DEFAULT for reason in step.reasons)


def _by_answer(step: Transition | None) -> bool:
    """Return True if a step is taken because calls are answered before the tools."""
    whys = {reason.why for reason in step.reasons} if step else set()
    return TransitionReason.ANSWERED in whys and TransitionReason.JUMP not in whys


def _answers(walk: _Walk) -> Iterator[Any]:
    """The answers of the model: calls where the path needs them."""
    plan, path = walk.plan, walk.path
    turns = [index for index, step in enumerate(path) if step.source == MODEL]
    for index, following in pairwise([*turns, len(path)]):
        turn = path[index:following]
        # The first step that leaves the turn: after its last hook, or by a jump.
        leaving = next(
            (step for step in turn if step.source == plan.loop_exit or not _by_default(step)), None
        )
        to_tools = any(step.target == TOOLS for step in turn)
        calls = leaving is not None and (
            leaving.target == TOOLS
            or _by_answer(leaving)
            or (to_tools and not _by_default(leaving))
        )
        yield [tool_call(_call(walk.tool))] if calls else "Done."
    last = path[-1].target if path else START
    hook = plan.hook_at(last)
    is_before = hook is not None and hook.phase in (Phase.BEFORE_AGENT, Phase.BEFORE_MODEL)
    if last in (START, MODEL, TOOLS) or is_before:
        yield "Done."


def _call(tool: str) -> dict[str, Any]:
    # A tool of an agent takes a request, and the other stand-ins ignore it.
    return {"name": tool, "args": {"request": "Go"}}


class _Model(ScriptedChatModel):
    """A scripted model that notes its node, unless a layer around it does."""

    _walk: _Walk = PrivateAttr()

    def _respond(self, messages: list[Any], stop: Any, kwargs: dict[str, Any]) -> Any:
        if not self._walk.layers[Call.MODEL]:
            self._walk.enter(MODEL)
        return super()._respond(messages, stop, kwargs)


# Stand-ins


def _owners(plan: TopologyData) -> Iterable[str]:
    """The middleware in an order of their list, which the plan has by phase and by call."""
    # Each phase and each call has a part of the list, in the order of the list.
    order = TopologicalSorter[str]()
    lists = [[hook.owner for hook in plan.hooks if hook.phase is phase] for phase in Phase]
    lists += [list(dict.fromkeys(layer.owner for layer in plan.layers_around(c))) for c in Call]
    for owners in lists:
        for owner in owners:
            order.add(owner)
        for first, second in pairwise(owners):
            order.add(second, first)
    return order.static_order()


def _stand_in(owner: str, walk: _Walk) -> Middleware:
    """A middleware with the hooks and the layers of its owner."""

    def around_agent(self: Any, state: Any) -> Flow[None]:
        walk.enter_layers(owner, Call.AGENT)
        yield state

    def around_model(self: Any, request: Any) -> Flow[Any]:
        is_outermost = walk.enter_layers(owner, Call.MODEL)
        response = yield request
        if is_outermost and _by_answer(walk.step_from(MODEL)):
            message = response.result[0]
            results = [_result(call) for call in message.tool_calls]
            return ModelResponse(result=[message, *results])
        return response

    def around_tool(self: Any, request: Any) -> Flow[Any]:
        is_outermost = walk.enter_layers(owner, Call.TOOL)
        result = yield request
        return _ending(walk, request.tool_call, result) if is_outermost else result

    methods: dict[str, Any] = {
        str(hook.phase): hook_config(can_jump_to=sorted(hook.can_jump_to))(_hook(hook, walk))  # type: ignore[arg-type]
        for hook in walk.plan.hooks
        if hook.owner == owner
    }
    flows = {Call.AGENT: around_agent, Call.MODEL: around_model, Call.TOOL: around_tool}
    for layer in walk.plan.layers:
        if layer.owner == owner:
            methods[f"around_{layer.call}"] = flows[layer.call]
    return type("StandIn", (AgentMiddleware,), methods)(name=owner)  # type: ignore[no-any-return]


def _hook(hook: Hook, walk: _Walk) -> Callable[..., Any]:
    def act(self: Any, state: Any, runtime: Any) -> dict[str, Any] | None:
        walk.enter(hook.node)
        step, messages = walk.step_from(hook.node), state["messages"]
        results = {m.tool_call_id for m in messages if isinstance(m, ToolMessage)}
        answer = next((m for m in reversed(messages) if isinstance(m, AIMessage)), AIMessage(""))
        calls = [call for call in answer.tool_calls if call["id"] not in results]
        if step is None or _by_default(step):
            return None
        if _by_answer(step):
            return {"messages": [_result(call) for call in calls]}
        # Two jumps may lead to one node: "end" and "model" to the first hook of a run.
        jumps = jumps_of(walk.plan, hook).items()
        jump = next(jump for jump, target in jumps if target == step.target)
        if jump == "tools" and not calls:
            message = AIMessage("", tool_calls=[tool_call(_call(walk.tool))])
            return {"messages": [message], "jump_to": jump}
        # An agent gives up after a hundred jumps to the model with nothing new for it.
        news = [HumanMessage(f"Go on {len(walk.visits)}")] if jump == "model" and not calls else []
        return {"messages": news, "jump_to": jump}

    act.__name__ = str(hook.phase)
    return act


def _result(call: Any) -> ToolMessage:
    return ToolMessage("Done.", tool_call_id=call["id"], name=call["name"])


def _ending(walk: _Walk, call: Any, result: Any) -> Any:
    """The result of a tool, which ends the run where the path leaves the loop."""
    step = walk.step_from(TOOLS)
    if step is not None and step.target in (walk.plan.exit, END):
        return Command(update={"messages": [_result(call)], "jump_to": "end"})
    return result


def _tool(name: str, full_name: str, walk: _Walk) -> BaseTool:
    # A layer around the tools notes the node, and ends the run.
    is_alone = name == full_name and not walk.layers[Call.TOOL]

    def record(call_id: Annotated[str, InjectedToolCallId], request: str = "") -> Any:
        if is_alone:
            walk.enter(TOOLS)
        walk.tools.append(full_name)
        return _ending(walk, {"id": call_id, "name": name}, "Done.") if is_alone else "Done."

    return StructuredTool.from_function(record, name=name, description="Record the call.")


def _inner_agent(name: str, path: str, walk: _Walk, prefix: str = "") -> BaseTool:
    """A tool of an agent that calls the tool at the end of a path: "refund", or "clerk/refund"."""
    own, _, inner = path.partition("/")
    prefix = f"{prefix}{name}/"
    tool = _inner_agent(own, inner, walk, prefix) if inner else _tool(own, f"{prefix}{own}", walk)
    calls = [tool_call(_call(own))]

    def answer(messages: list[Any]) -> Any:
        if prefix.count("/") == 1 and not walk.layers[Call.TOOL] and len(messages) == 1:
            walk.enter(TOOLS)
        return calls if len(messages) == 1 else "Done."

    agent = create_agent(ScriptedChatModel([answer] * 2 * MOST_CALLS), [tool], ignore=["AF125"])
    return agent_tool(agent, name=name, description="Asks an agent.")
