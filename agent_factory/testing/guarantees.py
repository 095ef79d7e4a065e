"""Assertions about plans in tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agent_factory.factory.agent import tools_of, topology_of
from agent_factory.guarantees import Counterexample, counterexamples
from agent_factory.tools.registry import ToolSchemas
from agent_factory.topology.topology import Topology


class PlanViolation(AssertionError):
    """A guarantee does not hold for a plan.

    Attributes:
        counterexamples: A counterexample for each guarantee; `replay_counterexample` runs it.
    """

    def __init__(self, counterexamples: Sequence[Counterexample]) -> None:
        self.counterexamples = tuple(counterexamples)
        super().__init__("\n\n".join(map(str, counterexamples)))


def assert_plan(agent: Any | Topology, *guarantees: str) -> None:
    """Assert guarantees, as sentences, for every path of an agent.

    Args:
        agent: An agent of `create_agent`, or a plan.
        guarantees: Sentences; docs/guarantees.md lists their forms.

    Raises:
        PlanViolation: A guarantee does not hold. The message shows the path.
        GuaranteeSyntaxError: A text is not a sentence.
        SpecError: A sentence names a tool or a node outside of the agent.

    >>> from agent_factory import plan_agent
    >>> from agent_factory.middleware import ModelCallLimitMiddleware
    >>> plan = plan_agent(middleware=[ModelCallLimitMiddleware(run_limit=5)])
    >>> assert_plan(plan, "at most 5 model calls")
    """
    __tracebackhide__ = True
    if not guarantees:
        raise TypeError('assert_plan needs a sentence, such as "at most 5 model calls".')
    if isinstance(agent, Topology):
        broken = counterexamples(agent, guarantees)
    else:
        schemas = ToolSchemas(tools_of(agent))
        broken = counterexamples(topology_of(agent), guarantees, schemas)
    if broken:
        raise PlanViolation(broken)
