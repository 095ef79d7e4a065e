"""Shell for the model: one session for each run, with the place and the limits of a policy.

A session belongs to a run, not to the middleware: an agent may serve many runs at a time. The
state holds the key of the session, so a run that is resumed in this process finds its shell
again. A session ends after the agent. Without that end, the session ends with the
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
