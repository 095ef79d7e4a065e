"""create_agent and what belongs to it: arguments, validation, wiring."""

from agent_factory.factory.agent import (
    create_agent,
    findings_of,
    plan_agent,
    topology_of,
)

__all__ = ["create_agent", "findings_of", "plan_agent", "topology_of"]
