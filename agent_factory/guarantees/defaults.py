"""Guarantees that every build checks."""

from __future__ import annotations

from collections.abc import Iterator

from agent_factory.errors import BuildWarning, SpecError
from agent_factory.guarantees.flows import trifecta_findings
from agent_factory.guarantees.sentences import Guarantee, ToolPasses
from agent_factory.guarantees.verdicts import counterexamples
from agent_factory.topology.declarations import JOBS
from agent_factory.topology.model import Phase, ToolKind, TopologyData

_JUMPS_THAT_LOOP = {"tools", "model"}


def default_findings(plan: TopologyData) -> Iterator[SpecError]:
    """Find calls that bypass their guard, loops that bypass the limits, and paths on which text of
    others can send private data out.

    Most plans have no such declarations or jumps, so nothing is searched.
    """
    # Each call passes a guard in a layer, and a guard in a hook unless another hook jumps to the
    # tools, so there is nothing to search.
    if any("tools" in hook.can_jump_to for hook in plan.hooks):
        yield from _bypassed_guards(plan)
    yield from trifecta_findings(plan)
    # Only such a jump closes a loop without the model, whose calls a limit counts.
    before_model = [hook for hook in plan.hooks if hook.phase is Phase.BEFORE_MODEL]
    limits = any(limit.unit != JOBS for limit in plan.limits)
    if limits and any(hook.can_jump_to & _JUMPS_THAT_LOOP for hook in before_model):
        for loop in [x for x in counterexamples(plan, ["every loop passes a limit"]) if x.path]:
            yield BuildWarning(
                ", ".join(loop.opened_by) or "the loop",
                f"may go around a loop that no limit ends. {'. '.join(loop.way)}",
                loop.hint,
                code="AF217",
            )


def _bypassed_guards(plan: TopologyData) -> Iterator[SpecError]:
    # A call of an output tool is the structured answer, and nothing runs.
    runnable = [tool.name for tool in plan.tools if tool.kind is not ToolKind.OUTPUT]
    guarded: dict[str, tuple[str, list[str]]] = {}
    for guard in plan.guards:
        tools = [tool for tool in runnable if guard.covers(tool)]
        if guard.place == "after_model" and "/" not in guard.owner and tools:
            guarded.setdefault(f"tool {tools[0]} passes {guard.owner}", (guard.owner, tools))
    # The first tool of each: the same path leads to the rest.
    guarantees = [
        Guarantee(text, (ToolPasses(tools[0], (owner,)),))
        for text, (owner, tools) in guarded.items()
    ]
    for counterexample in counterexamples(plan, guarantees):
        if not counterexample.opened_by:
            continue  # a member changes calls later, as a warning about the order says
        owner, tools = guarded[counterexample.guarantee]
        yield SpecError(
            owner,
            f"decides about calls of {', '.join(tools)} in a hook that a jump bypasses. "
            f"{'. '.join(counterexample.way)}",
            counterexample.hint,
            code="AF129",
        )
