"""Where decisions can go: a file of JSON lines, or the events of OpenTelemetry spans."""

from __future__ import annotations

import json
from collections.abc import Mapping
from os import PathLike
from threading import Lock
from typing import Any
from weakref import finalize

from agent_factory.decisions.log import Decision
from agent_factory.errors import ArgumentError


class DecisionFile:
    """A sink that appends a line of JSON for each decision.

    Lines are canonical (keys sorted, no spaces, ASCII alone), and flushed as they are written.
    Several agents and threads may share one. It is closed at the end of a `with` block, by
    `close`, or with the program.

    Args:
        path: The file; what is in it stays.

    Raises:
        ArgumentError: It cannot be opened for writing.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from agent_factory import create_agent
    >>> from agent_factory.testing import ScriptedChatModel
    >>> path = Path(tempfile.mkdtemp(), "decisions.jsonl")
    >>> with DecisionFile(path) as file:
    ...     agent = create_agent(ScriptedChatModel(["Hi."]), [print], decisions=file)
    ...     _ = agent.invoke({"messages": [("user", "Hello")]})
    >>> line = json.loads(path.read_text())
    >>> line["hook"], line["outcome"], line["reason"]
    ('model', 'routed', 'no calls left')
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        try:
            self._file = open(path, "a", encoding="ascii")  # noqa: SIM115  # closed by `close`
        except (OSError, TypeError, ValueError) as error:
            raise ArgumentError(
                "path", f"cannot be written to: {error}.", "Name a file in a folder that exists."
            ) from error
        self._lock = Lock()
        self.close = finalize(self, self._file.close)
        """Close the file; what is decided later is lost, with a warning."""

    def __call__(self, decision: Decision) -> None:
        """Append a decision."""
        line = json.dumps(decision.to_data(), sort_keys=True, separators=(",", ":"))
        with self._lock:
            self._file.write(f"{line}\n")
            self._file.flush()

    def __enter__(self) -> DecisionFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


_CONVENTIONAL = {
    "agent": "gen_ai.agent.name",
    "thread": "gen_ai.conversation.id",
    "tool": "gen_ai.tool.name",
    "call_id": "gen_ai.tool.call.id",
}
"""Fields for which the conventions have an attribute."""

_OWN = (
    "run", "step", "namespace", "middleware", "hook", "outcome", "detail", "reason", "changed",
    "seconds", "contents",
)  # fmt: skip


class DecisionSpanEvents:
    """A sink that adds an event to the current OpenTelemetry span for each decision.

    The event is called `agent_factory.decision`. Attributes have the names of OpenTelemetry's
    semantic conventions for generative AI where these have one, `gen_ai.agent.name`,
    `gen_ai.conversation.id` (the thread), `gen_ai.tool.name` and `gen_ai.tool.call.id`, and
    `error.type` for exceptions; the others are `agent_factory.run`, `agent_factory.outcome` and so
    on. Fields without a value are left out. Without a span that records nothing is done.

    The names are those of version 1.41 of the conventions, in which all of `gen_ai` has the status
    Development: https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-agent-spans/

    Raises:
        ImportError: opentelemetry-api is not installed.
    """

    NAME = "agent_factory.decision"
    """The name of the events."""

    def __init__(self) -> None:
        try:
            from opentelemetry import trace
        except ImportError as error:
            raise ImportError(
                "DecisionSpanEvents needs opentelemetry-api: pip install 'agent-factory[otel]'"
            ) from error
        self._trace = trace

    def __call__(self, decision: Decision) -> None:
        """Add a decision to the current span."""
        span = self._trace.get_current_span()
        if span.is_recording():
            span.add_event(self.NAME, _attributes(decision))


def _attributes(decision: Decision) -> Mapping[str, Any]:
    data = decision.to_data()
    named = {
        **{name: data[field] for field, name in _CONVENTIONAL.items()},
        "error.type": decision.error,
        **{f"agent_factory.{field}": data.get(field) for field in _OWN},
    }
    return {name: value for name, value in named.items() if value not in (None, "", [])}
