"""Shell for the model: one session for each run, in a place and within limits set by a policy.

A session belongs to a run, not to the middleware: one agent may serve many runs at a time. The
state holds its key, so that a run that is interrupted and resumed in this process finds its shell
again. A session ends after the agent. If the run does not get that far, the session ends with the
run's state, or, in a thread that may be resumed, after `idle_timeout`.
"""

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
