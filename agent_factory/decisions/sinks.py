"""Sinks for decisions: a list, a file of JSON lines, and events of OpenTelemetry spans."""

from __future__ import annotations

import json
from os import PathLike
from threading import Lock
from weakref import finalize

from agent_factory.decisions.log import Decision
from agent_factory.errors import ArgumentError, require
from agent_factory.topology.model import printable


class DecisionFile:
    """Sink for a file: a line of JSON for each decision.

    Lines are canonical (sorted keys, no spaces, ASCII only) and are flushed one by one. Several
    agents and threads may share a file, which is closed by `close`, at the end of a `with` block,
    or at the end of the program.

    Args:
        path: The file; existing lines stay.

    Raises:
        ArgumentError: The file cannot be opened for writing.

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
                "path",
                f"cannot be opened for writing: {error}.",
                "Use a directory that exists.",
            ) from error
        self._lock = Lock()
        # Called once, at the latest when the sink is collected, or at the end of the program.
        self.close = finalize(self, self._file.close)
        """Close the file. Later decisions are lost, with a RuntimeWarning."""

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


class DecisionList(list[Decision]):
    """Sink in the form of a list; a notebook displays a table.

    >>> from agent_factory import create_agent
    >>> from agent_factory.testing import ScriptedChatModel
    >>> decisions = DecisionList()
    >>> agent = create_agent(ScriptedChatModel(["Hi."]), [print], decisions=decisions)
    >>> _ = agent.invoke({"messages": [("user", "Hello")]})
    >>> print(decisions)
    model routed: __end__ [no calls left]
    """

    def __call__(self, decision: Decision) -> None:
        """Append a decision."""
        self.append(decision)

    def __str__(self) -> str:
        return "\n".join(printable(str(decision)) for decision in self)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """The forms for a notebook: a table, and the text."""
        # Imported here: most programs never display a table.
        from agent_factory.topology.render.notebook import table

        columns = ["step", "who", "tool", "outcome", "detail", "reason", "ms"]
        rows = [
            [
                str(decision.step),
                f"{decision.middleware}.{decision.hook}".removeprefix("."),
                decision.tool,
                str(decision.outcome),
                decision.detail or ", ".join(decision.changed),
                decision.reason,
                f"{decision.seconds * 1000:.1f}",
            ]
            for decision in self
        ]
        return {"text/plain": str(self), "text/html": table(columns, rows)}


_CONVENTIONAL = {
    "agent": "gen_ai.agent.name",
    "thread": "gen_ai.conversation.id",
    "tool": "gen_ai.tool.name",
    "call_id": "gen_ai.tool.call.id",
}
"""Fields with an attribute in OpenTelemetry's semantic conventions."""

_OWN = (
    "run", "step", "namespace", "middleware", "hook", "outcome", "detail", "reason", "changed",
    "calls", "seconds", "contents",
)  # fmt: skip


class DecisionSpanEvents:
    """Sink for the current OpenTelemetry span: an event for each decision.

    The event is called `agent_factory.decision`. The attributes are `gen_ai.agent.name`,
    `gen_ai.conversation.id` (the thread), `gen_ai.tool.name`, `gen_ai.tool.call.id` and, for
    exceptions, `error.type`, as in OpenTelemetry's semantic conventions for generative AI. The
    rest is called `agent_factory.run`, `agent_factory.outcome` and so on. Fields without a
    value are left out. If no span is recording, nothing happens.

    The names are those of version 1.41 of the conventions, where all of `gen_ai` has the status
    Development: https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-agent-spans/

    Raises:
        MissingExtra: The extra `otel` is not installed.
    """

    NAME = "agent_factory.decision"
    """The name of the events."""

    def __init__(self) -> None:
        require("otel", "DecisionSpanEvents")
        from opentelemetry import trace

        self._trace = trace

    def __call__(self, decision: Decision) -> None:
        """Add an event to the current span."""
        span = self._trace.get_current_span()
        if not span.is_recording():
            return
        data = decision.to_data()
        attributes = {
            **{name: data[field] for field, name in _CONVENTIONAL.items()},
            "error.type": decision.error,
            **{f"agent_factory.{field}": data.get(field) for field in _OWN},
            **{f"agent_factory.tokens.{what}": count for what, count in decision.tokens.items()},
        }
        non_empty = {
            name: value for name, value in attributes.items() if value not in (None, "", [])
        }
        span.add_event(self.NAME, non_empty)
