"""Counterexamples as runs: an agent of stand-ins takes the path on which a guarantee fails."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolCall, ToolMessage
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.config import get_config
from langgraph.types import Command

from agent_factory import agent_tool
from agent_factory.errors import AgentFactoryWarning, ArgumentError
from agent_factory.factory.agent import create_agent
from agent_factory.guarantees import Counterexample, Guarantee, counterexamples, parse
from agent_factory.guarantees.sentences import AtMost
from agent_factory.hooks.base import AgentMiddleware, hook_config
from agent_factory.hooks.flows import Flow
from agent_factory.testing.fake_model import ScriptedChatModel, tool_call
from agent_factory.topology.model import (
    MODEL,
    START,
    TOOLS,
    AgentStyle,
    Call,
    Phase,
    ToolKind,
    TopologyData,
)
from agent_factory.topology.paths import PlanGraph
from agent_factory.topology.transitions import Transition, TransitionReason
from agent_factory.types import ModelResponse
from agent_factory.upstream import super_step

MOST_CALLS = 1_000
"""The most calls that a replay makes to show that a limit is missing or too high."""

Steps = tuple[Transition, ...]

_AROUND_MODEL = ("around_model", "wrap_model_call", "around_stream")
"""Methods of layers around the model."""

_ANSWER = "answer"
"""What a stand-in does besides jumps: it answers the calls of the model."""


@dataclass(frozen=True, slots=True)
class CounterexampleRun:
    """Course of a replay.

    Args:
        visits: The nodes, each followed by the layers of its run, in the order of the run.
        tools: The tools whose call ran; a tool of an agent inside of a tool as "clerk/refund".
    """

    visits: tuple[str, ...]
    tools: tuple[str, ...]


@dataclass(frozen=True)
class CounterexampleReplay:
    """A counterexample in the form of an agent and its input.

    Args:
        counterexample: The counterexample.
        path: The steps of the run: once around a loop, or as many times as are needed to
            exceed a number.
        model: The scripted model, whose `steps` are the answers of the counterexample.
        agent: An agent with the plan of the counterexample, whose middleware are stand-ins.
        messages: The messages of the input.
    """

    counterexample: Counterexample
    path: tuple[Transition, ...]
    model: ScriptedChatModel
    agent: Any
    messages: tuple[AnyMessage, ...]
    _script: _Script = field(repr=False)

    def run(self) -> CounterexampleRun:
        """Run the agent, each time from the beginning."""
        script = self._script
        self.model.rewind()
        script.layers.clear()
        script.tools.clear()
        # Each step of the path takes a step of the graph.
        config = {"recursion_limit": 9_999 + 2 * len(self.path)}
        inputs = {"messages": list(self.messages)}
        updates = self.agent.stream(inputs, config, stream_mode="updates")
        nodes = [node for update in updates for node in update]
        visits = list(script.layers[0])
        for step, node in enumerate(nodes, 1):
            visits += [node, *script.layers[step]]
        return CounterexampleRun(tuple(visits), tuple(script.tools))


def replay_counterexample(counterexample: Counterexample) -> CounterexampleReplay:
    """Build an agent that shows a counterexample.

    Each middleware of the plan has a stand-in of the same name, with equal hooks, jumps and layers.
    The stand-ins decide nothing: they follow the path, and pass on everything else. The
    tools are functions that record their call.

    Args:
        counterexample: A result of `counterexamples`, or a counterexample of a `GuaranteeError`.

    Raises:
        ArgumentError: No run of stand-ins shows it: the plan is of `create_react_agent`; the
            provider of the model runs the tool; the path asks for a structured answer once more;
            or the number is over 1,000, or does not count calls.

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
    path = _path_of(graph, counterexample)
    names = [tool.name for tool in plan.tools if tool.kind is ToolKind.CLIENT]
    # The layers around tools see calls of any name.
    tool = counterexample.tool or next(iter(names), "any")
    # "clerk/refund": the stand-in of "clerk" is an agent with the tool "refund".
    arguments = dict(counterexample.arguments)
    script = _Script(graph, path, tool.partition("/")[0], counterexample.origin, arguments)
    model = ScriptedChatModel(script.answers)
    tools = [_tool(tool if tool.startswith(f"{name}/") else name, script) for name in names]
    middleware = [_stand_in(owner, script) for owner in _owners(plan)]
    # The build of the real stack has already warned.
    with warnings.catch_warnings(action="ignore", category=AgentFactoryWarning):
        # The stand-ins find their part by the step of the run, so each node takes a step.
        agent = create_agent(model, tools, middleware=middleware, fused=False, ignore=["AF125"])
    messages = (HumanMessage("Go"), *script.calls_of_input)
    return CounterexampleReplay(counterexample, path, model, agent, messages, script)


def _refusal(reason: str) -> ArgumentError:
    hint = "Read its path and its reason; `str(counterexample)` has both."
    return ArgumentError("counterexample", reason, hint)


# The path


def _path_of(graph: PlanGraph, counterexample: Counterexample) -> Steps:
    """The path of the run, as far as the counterexample needs."""
    plan, text = graph.plan, counterexample.guarantee
    for clause in parse(text).clauses:
        # Of the parts of a sentence, the part without a proof.
        noes = counterexamples(plan, [Guarantee(text, (clause,))])
        if isinstance(clause, AtMost) and counterexample in noes:
            return _exceeding(graph, clause, counterexample.path)
    kinds = {tool.name: tool.kind for tool in plan.tools}
    if kinds.get(counterexample.tool) is ToolKind.PROVIDER:
        raise _refusal(f"is about {counterexample.tool!r}, which the provider of the model runs.")
    nodes = (*graph.shortest_path(START, MODEL), *graph.shortest_path(MODEL, TOOLS)[1:])
    return counterexample.path or graph.steps(nodes)


def _exceeding(graph: PlanGraph, clause: AtMost, path: Steps) -> Steps:
    """A path with a call more than a sentence allows."""
    if clause.unit not in ("model calls", "tool calls"):
        raise _refusal(f"is about {clause.unit}, of which a scripted model uses none.")
    if clause.most > MOST_CALLS:
        raise _refusal(
            f"takes more than {clause.most:g} calls; a replay makes at most {MOST_CALLS:,}."
        )
    at = TOOLS if clause.unit == "tool calls" else MODEL
    path = path or graph.steps(graph.shortest_path(START, at))
    calls = [step for step in path if step.target == at]
    # Around the loop once more for each allowed call.
    around = graph.steps(graph.shortest_path(at, at))
    return path + around * (int(clause.most) + 1 - len(calls))


class _Script:
    """Script of a run along a path, and a record of the run.

    The call of a tool comes from its origin, a node or a layer. For each step of the path there is
    the state update of a stand-in, None if a run takes the step anyway; and `alone` has the layer
    with an answer in place of the model. `layers` and `tools` are noted while the run goes on.
    """

    def __init__(
        self, graph: PlanGraph, path: Steps, tool: str, origin: str, arguments: dict[str, object]
    ) -> None:
        self.plan = graph.plan
        self.calls_of_input: list[AnyMessage] = []
        self.answers: list[Any] = []
        self.updates: list[dict[str, Any] | None] = []
        self.layers = defaultdict[int, list[str]](list)
        self.tools: list[str] = []
        self.alone: dict[int, tuple[str, AIMessage]] = {}
        owner, _, method = origin.rpartition(".")
        call, may_call, asked = _call(tool, arguments), False, 0
        if origin == START and MODEL not in [step.target for step in path]:
            self.calls_of_input.append(AIMessage("", tool_calls=[call]))
        is_of_input = bool(self.calls_of_input)
        for place, step in enumerate(path):
            reasons = {reason.why for reason in step.reasons}
            act, news = _act(graph, step, reasons), list[AnyMessage]()
            if step.source == MODEL:
                self.answers.append("Done.")
                may_call, asked = True, place
            may_call &= TransitionReason.NO_CALLS not in reasons
            if act == _ANSWER or step.target == TOOLS:
                # The model calls if it can. Otherwise the jumping hook writes the call.
                is_written = step.source == origin and act == "tools"
                call = call if is_of_input else _call(tool, arguments)
                if may_call and method in _AROUND_MODEL:
                    self.answers.pop()
                    self.alone[asked] = owner, AIMessage("", tool_calls=[call])
                elif may_call and not is_written:
                    self.answers[-1] = [call]
                elif not is_of_input:
                    news = [AIMessage("", tool_calls=[call])]
                is_of_input = False
                may_call = False
            elif act == "model":
                # An agent gives up after a hundred jumps to the model with nothing new for it.
                news = [HumanMessage(f"Go on {place}")]
            if act == _ANSWER or step.source == TOOLS:
                news = [ToolMessage("Done.", tool_call_id=call["id"], name=tool)]
            jump = {} if act == _ANSWER else {"jump_to": act}
            self.updates.append({"messages": news, **jump} if act else None)
        # A run before the model at the end of the path goes on to the model.
        ahead = self.plan.nodes[: self.plan.nodes.index(MODEL) + 1]
        if path[-1].target in (TOOLS, *ahead):
            self.answers.append("Done.")

    def update(self) -> dict[str, Any] | None:
        """State update at the current node of the run; None past the end of the path."""
        step = super_step(get_config())
        return self.updates[step] if step < len(self.updates) else None

    def note(self, owner: str, call: Call) -> None:
        """Note the layers of a middleware around a call."""
        # The layers around a run are entered before its first step.
        step = 0 if call is Call.AGENT else super_step(get_config())
        layers = self.plan.layers_around(call)
        self.layers[step] += [layer.name for layer in layers if layer.owner == owner]


def _act(graph: PlanGraph, step: Transition, reasons: set[TransitionReason]) -> str:
    """Action of a stand-in by which a run takes a step: nothing, `_ANSWER`, or a jump."""
    if TransitionReason.STOPPED in reasons:
        return "end"
    # For each other reason, the model and the tools take the step by themselves.
    if reasons - {TransitionReason.JUMP, TransitionReason.ANSWERED, TransitionReason.RETRY}:
        return ""
    # Two jumps may lead to one node: "end" and "model" to the first hook of a run.
    for jump, target in graph.jumps_from(step.source).items():
        if target == step.target:
            return jump
    if TransitionReason.ANSWERED in reasons:
        return _ANSWER
    raise _refusal(f"goes the way {step.name}, for which a stand-in has no answer.")


def _call(tool: str, arguments: Mapping[str, object]) -> ToolCall:
    # A tool of an agent takes a request, and the other stand-ins take anything.
    return tool_call({"name": tool, "args": {"request": "Go", **arguments}})


# Stand-ins


def _owners(plan: TopologyData) -> Iterable[str]:
    """The middleware in an order of their list, which the plan has by phase and by call."""
    # Each phase and each call has a part of the list, in the order of the list.
    order = TopologicalSorter[str]()
    lists = [[hook.owner for hook in plan.hooks if hook.phase is phase] for phase in Phase]
    counting = _counting(plan)
    for call in Call:
        owners = list(dict.fromkeys(layer.owner for layer in plan.layers_around(call)))
        # The layers of limits run inside of all other layers, wherever they stand in the list.
        lists += [[o for o in owners if (o in counting) is counts] for counts in (False, True)]
    for owners in lists:
        for place, owner in enumerate(owners):
            order.add(owner, *owners[:place])
    return order.static_order()


def _counting(plan: TopologyData) -> set[str]:
    """The middleware whose layers run inside of all other layers, because they count attempts."""
    return {limit.owner for limit in plan.limits if limit.attempts}


class _StandIn(AgentMiddleware[Any, Any]):
    """A middleware with a note of each layer, and the updates of the script."""

    script: _Script

    def around_agent(self, state: Any) -> Flow[None]:
        self.script.note(self.name, Call.AGENT)
        yield state

    def around_model(self, request: Any) -> Flow[Any]:
        self.script.note(self.name, Call.MODEL)
        owner, answer = self.script.alone.get(super_step(get_config()), ("", None))
        if owner == self.name and answer is not None:
            return ModelResponse(result=[answer])
        response = yield request
        update = self.script.update()
        # The innermost layer answers the calls, and the layers around see the answers.
        if update is None or len(response.result) > 1:
            return response
        return ModelResponse(result=[*response.result, *update["messages"]])

    def around_tool(self, request: Any) -> Flow[Any]:
        self.script.note(self.name, Call.TOOL)
        result = yield request
        update = self.script.update()
        return result if update is None else Command(update=update)


def _stand_in(owner: str, script: _Script) -> _StandIn:
    """A stand-in with the hooks and the layers of a middleware."""
    hooks = {
        str(hook.phase): hook_config(can_jump_to=sorted(hook.can_jump_to))(  # type: ignore[arg-type]
            lambda self, state, runtime: self.script.update()
        )
        for hook in script.plan.hooks
        if hook.owner == owner
    }
    calls = {layer.call for layer in script.plan.layers if layer.owner == owner}
    unused = [f"around_{call}" for call in Call if call not in calls]
    counts = owner in _counting(script.plan)
    body = {**hooks, "script": script, "unused": unused, "counts_attempts": counts}
    cls: type[_StandIn] = type("StandIn", (_StandIn,), body)
    return cls(name=owner)


def _tool(full_name: str, script: _Script) -> BaseTool:
    """A tool with a note of each call; "clerk/refund" is a tool of an agent inside of "clerk"."""
    *agents, name = full_name.split("/")

    def record(**arguments: Any) -> Any:
        script.tools.append(full_name)
        # The script is that of the outermost agent.
        update = None if agents else script.update()
        return "Done." if update is None else Command(update=update)

    tool: BaseTool = StructuredTool.from_function(record, name=name, description="Record the call.")
    for agent in reversed(agents):
        model = ScriptedChatModel([[_call(tool.name, {})], "Done."] * MOST_CALLS)
        inner = create_agent(model, [tool], ignore=["AF125"])
        tool = agent_tool(inner, name=agent, description="Asks an agent.")
    return tool
