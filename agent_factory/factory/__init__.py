"""create_agent and what belongs to it: arguments, validation, wiring."""

from agent_factory.factory.agent import (
    create_agent,
    middleware_of,
    path_of,
    plan_agent,
    tools_of,
    topology_of,
    warnings_of,
    with_decisions,
    with_model,
)

__all__ = [
    "create_agent",
    "middleware_of",
    "path_of",
    "plan_agent",
    "tools_of",
    "topology_of",
    "warnings_of",
    "with_decisions",
    "with_model",
]
