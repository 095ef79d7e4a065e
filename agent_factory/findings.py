"""What a build may find beside plain mistakes: a stack that can be built, and is likely wrong.

Findings with `severity` "warning" are told by a Python warning, and raised under `strict=True`.
Those with `ignorable` can be silenced by their code: `ignore=["AF204"]`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from agent_factory.errors import SpecError


class MissingMiddleware(SpecError):
    """A middleware declares that it needs another one, and the stack has none."""

    code = "AF118"
    ignorable = True


class ConflictingMiddleware(SpecError):
    """A middleware declares that it cannot work beside another one of the stack."""

    code = "AF119"
    ignorable = True


class CyclicOrder(SpecError):
    """The declared order of some middleware contradicts itself."""

    code = "AF120"
    ignorable = True


class Doubt(SpecError):
    """Something that may be intended, and usually is not."""

    code = "AF200"
    severity: ClassVar[str] = "warning"
    ignorable: ClassVar[bool] = True


class JumpWithoutEffect(Doubt):
    """A hook declares a jump that leads where the run goes anyhow."""

    code = "AF201"


class JumpBack(Doubt):
    """A hook before the model may jump to the model: it then runs again on the same state."""

    code = "AF202"


class ToolShadowed(Doubt):
    """A tool of the provider has the name of another tool."""

    code = "AF203"


class WrongOrder(Doubt):
    """Two middleware stand in another order than one of them declares."""

    code = "AF204"


class ExposedBeforeGuard(Doubt):
    """A middleware sends messages to a model of its own before a guard has cleaned them."""

    code = "AF205"


class JudgedTooEarly(Doubt):
    """A middleware judges tool calls that another one may still change."""

    code = "AF206"


class ErrorsHidden(Doubt):
    """A middleware handles exceptions of tools, and `handle_tool_errors` does so before it."""

    code = "AF207"


class ToolNotFound(Doubt):
    """A middleware is set up for a tool that the agent does not have."""

    code = "AF210"


class NoCheckpointer(Doubt):
    """A middleware needs what a checkpointer keeps, and the agent has none."""

    code = "AF211"


class AgentFactoryWarning(UserWarning):
    """A build found something that is likely wrong; `findings` holds each with its code.

    Args:
        findings: What was found.
    """

    def __init__(self, findings: Sequence[SpecError]) -> None:
        self.findings = tuple(findings)
        super().__init__("\n".join(map(str, self.findings)))
