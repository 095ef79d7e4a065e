"""create_agent and its parts: arguments, validation, wiring."""

from agent_factory.factory.agent import (
    create_agent,
    middleware_of,
    model_of,
    path_of,
    plan_agent,
    tools_of,
    topology_of,
    warnings_of,
    with_decisions,
    with_model,
)
from agent_factory.factory.agent import with_checkpoints_of as with_checkpoints_of

__all__ = [
    "create_agent",
    "middleware_of",
    "model_of",
    "path_of",
    "plan_agent",
    "tools_of",
    "topology_of",
    "warnings_of",
    "with_decisions",
    "with_model",
]
