"""Shell for the model: one session for each run, with the place and the limits of a policy."""

from agent_factory.middleware._shared.redaction import RedactionRule

from .middleware import ShellState, ShellToolMiddleware
from .policies import (
    BubblewrapExecutionPolicy,
    CodexSandboxExecutionPolicy,
    DockerExecutionPolicy,
    ExecutionPolicy,
    HostExecutionPolicy,
    Launch,
)
from .supervisor import ShellError

__all__ = [
    "BubblewrapExecutionPolicy",
    "CodexSandboxExecutionPolicy",
    "DockerExecutionPolicy",
    "ExecutionPolicy",
    "HostExecutionPolicy",
    "Launch",
    "RedactionRule",
    "ShellError",
    "ShellState",
    "ShellToolMiddleware",
]
