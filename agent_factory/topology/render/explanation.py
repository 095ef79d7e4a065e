"""A plan in words: in which order everything runs, and why it is so."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agent_factory.topology.model import Call, Phase, TopologyData
from agent_factory.topology.render.text import way_line
from agent_factory.topology.transitions import Reason, Transition, TransitionReason, transitions_of

ORDERS = {
    Phase.BEFORE_AGENT: "once, when a run starts; in the order of the list",
    Phase.BEFORE_MODEL: "before each call of the model; in the order of the list",
    Phase.AFTER_MODEL: "after each call of the model; the list backwards, so the first has the "
    "last word",
    Phase.AFTER_AGENT: "once, when a run ends; the list backwards",
}
"""When the hooks of a phase run, and in which order."""

_MEANINGS = {
    TransitionReason.NEXT: "It comes next: nothing decides.",
    TransitionReason.JUMP: "{by} declares that it may jump there (can_jump_to).",
    TransitionReason.CALLS: (
        "The model asked for tools that nothing has answered; each call is sent on its own."
    ),
    TransitionReason.TOGETHER: (
        "The model asked for tools that nothing has answered; they are run together."
    ),
    TransitionReason.NO_CALLS: "The model asked for no tools: this is its answer.",
    TransitionReason.ANSWERED: (
        "{by} may answer the model's calls in the tools' place; then the model goes on."
    ),
    TransitionReason.STRUCTURED: "The structured answer is there.",
    TransitionReason.RETRY: (
        "The structured answer was missing or invalid; the model is told why and asked again."
    ),
    TransitionReason.RESULTS: "The model is to see the results of its calls.",
    TransitionReason.DIRECT: (
        "The results of {by} are the answer (return_direct), if all calls of the turn are "
        "such calls and none failed."
    ),
    TransitionReason.ANY_DIRECT: (
        "Where {by} is among the calls of the turn, its results are the answer (return_direct)."
    ),
    TransitionReason.STOPPED: "A tool may end the run: by jump_to 'end' or by Command(goto=END).",
}


def explain(plan: TopologyData) -> str:
    """The order of all hooks and layers, and where it comes from."""
    parts = [_hooks(plan, phase) for phase in ORDERS]
    parts += [_layers(plan, call) for call in Call]
    parts.append([f"{'corners':<14} {_corners(plan)}"])
    return "\n".join(line for part in parts for line in part)


def _hooks(plan: TopologyData, phase: Phase) -> list[str]:
    owners = [hook.owner for hook in plan.hooks if hook.phase is phase]
    if phase in (Phase.AFTER_MODEL, Phase.AFTER_AGENT):
        owners.reverse()
    return _numbered(str(phase), ORDERS[phase], owners) if owners else []


def _layers(plan: TopologyData, call: Call) -> list[str]:
    layers = [f"{layer.owner}.{layer.method}" for layer in plan.layers if layer.call is call]
    return _numbered(f"{call} layers", layer_order(call), layers) if layers else []


def layer_order(call: Call) -> str:
    """Where layers lie, and in which order."""
    return (
        f"around each {call} call; the first of the list is the outermost: it sees the request "
        "first and the response last"
    )


def _numbered(title: str, why: str, names: Sequence[str]) -> list[str]:
    return [f"{title:<14} {why}:", *(f"  {i}. {name}" for i, name in enumerate(names, 1))]


def _corners(plan: TopologyData) -> str:
    return (
        f"a run enters at {plan.entry}, each turn begins at {plan.loop_entry} and ends at "
        f"{plan.loop_exit}, and the run leaves the loop for {plan.exit}"
    )


def explain_transition(plan: TopologyData, source: str, target: str) -> str:
    """Why a way exists; or that it does not, and where one can go from there.

    Raises:
        KeyError: One of the two is no node.
    """
    for name in (source, target):
        if name not in {node for way in transitions_of(plan) for node in (way.source, way.target)}:
            raise KeyError(name)
    for way in transitions_of(plan):
        if (way.source, way.target) == (source, target):
            return "\n".join([way_line(way), *(f"- {meaning(r)}" for r in way.reasons)])
    return "\n".join(_no_way(plan, source, target))


def meaning(reason: Reason) -> str:
    """A reason as a sentence."""
    return _MEANINGS[reason.why].format(by=", ".join(reason.by))


def _no_way(plan: TopologyData, source: str, target: str) -> Iterator[str]:
    yield f"No way leads from {source} to {target}."
    transitions: list[Transition] = [way for way in transitions_of(plan) if way.source == source]
    yield from (f"- {way_line(way)}" for way in transitions)
    if not transitions:
        yield f"- {source} is where a run ends."
