"""A shell for the model: one session a run, in a place and within limits that a policy names.

A session belongs to a run, not to the middleware: one agent may serve many runs at a time. Its key
is in the state, so that a run which was interrupted and is resumed in this process finds its shell
again. A session ends after the agent; where a run does not come that far, it ends with the run's
state, or, in a thread that may be taken up again, when it has been idle for long.
"""

from agent_factory.middleware._shared.redaction.rules import (
    RedactionRule,
)

from .middleware import (
    ShellState,
    ShellToolMiddleware,
)
from .policies import (
    CodexSandboxExecutionPolicy,
    ExecutionPolicy,
    HostExecutionPolicy,
)
from .sandboxes import (
    BubblewrapExecutionPolicy,
    DockerExecutionPolicy,
)
from .supervisor import (
    ShellError,
)

__all__ = [
    "BubblewrapExecutionPolicy",
    "CodexSandboxExecutionPolicy",
    "DockerExecutionPolicy",
    "ExecutionPolicy",
    "HostExecutionPolicy",
    "RedactionRule",
    "ShellError",
    "ShellState",
    "ShellToolMiddleware",
]
