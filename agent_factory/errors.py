"""The tree of mistakes; each one knows its culprit, its reason and its remedy.

```
AgentFactoryError
├── SpecError(ValueError)      your arguments: raised by create_agent, before anything runs
└── TurnError(RuntimeError)    this run: raised by the step that cannot go on
```

Every class has a stable `code`; a message reads ``[code] culprit: reason remedy``. Where users know
another exception type for a mistake, its class here derives from that type as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from langchain_core.messages import AIMessage

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage


class AgentFactoryError(Exception):
    """Any mistake this library names.

    Args:
        culprit: What is wrong: a name the reader wrote.
        reason: Why that cannot work.
        remedy: What to write instead.
    """

    code: ClassVar[str] = "AF000"

    def __init__(self, subject: str, reason: str, hint: str = "") -> None:
        self.subject = subject
        self.reason = reason
        self.hint = hint
        super().__init__(f"[{self.code}] {subject}: {reason} {hint}".rstrip())

    def __reduce__(self) -> tuple[Any, ...]:
        # The default would call the class with its one text, and errors cross process borders.
        return _rebuild, (type(self), self.args, self.__dict__)


def _rebuild(kind: type[AgentFactoryError], args: Any, facts: dict[str, Any]) -> Any:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(facts)
    return error


class SpecError(AgentFactoryError, ValueError):
    """An argument of `create_agent` cannot be built. Nothing has run, nothing was built.

    Several mistakes found in one build arrive together: `errors` holds each of them.

    Attributes:
        severity: "error" where nothing can be built, "warning" where it may be intended.
        ignorable: Whether `create_agent(..., ignore=[code])` silences it.
    """

    code = "AF100"
    severity: ClassVar[str] = "error"
    ignorable: ClassVar[bool] = False

    @property
    def errors(self) -> tuple[SpecError, ...]:
        """The single mistakes this error reports: itself, unless it reports several."""
        return (self,)


class SpecErrors(SpecError):
    """All the mistakes of one build, where there is more than one."""

    def __init__(self, errors: Sequence[SpecError]) -> None:
        self._errors = tuple(errors)
        super().__init__(
            f"{len(self._errors)} mistakes",
            "nothing was built.",
            "\n" + "\n".join(f"- {error}" for error in self._errors),
        )

    @property
    def errors(self) -> tuple[SpecError, ...]:
        """Each mistake, in the order in which it was found."""
        return self._errors


class ArgumentError(SpecError, TypeError):
    """An argument has a type or a value that `create_agent` cannot use."""

    code = "AF101"


class NotMiddleware(SpecError, TypeError):
    """A member of `middleware` is a class, or no middleware at all."""

    code = "AF102"


class DuplicateMiddleware(SpecError, AssertionError):
    """Two middleware share a name, so their nodes could not be told apart."""

    code = "AF103"


class InvalidName(SpecError):
    """A middleware's name holds a character that LangGraph reserves."""

    code = "AF104"


class UnknownHook(SpecError):
    """A method looks like a hook and is none, so it would never run."""

    code = "AF105"
    ignorable = True


class HookSignature(SpecError, TypeError):
    """A hook does not take the arguments it will be called with."""

    code = "AF106"


class HookMode(SpecError, TypeError):
    """A coroutine in a synchronous slot, or the reverse."""

    code = "AF107"


class FlowAndWrap(SpecError):
    """A middleware has both a flow and a wrap for the same call."""

    code = "AF108"


class NoCommonPath(SpecError):
    """One layer is synchronous only, another asynchronous only: no run could use both."""

    code = "AF109"


class UnknownJump(SpecError):
    """A hook declares a jump to something that is no jump target."""

    code = "AF110"


class JumpToNowhere(SpecError):
    """A hook declares a jump to tools in an agent that has none."""

    code = "AF111"


class InvalidTool(SpecError, TypeError):
    """A tool is of no usable kind, or lacks what the model must be told of it."""

    code = "AF112"


class ToolNameTaken(SpecError):
    """Two tools share a name; the model could only ever reach one of them."""

    code = "AF113"


class InvalidSchema(SpecError, TypeError):
    """A state schema is not a TypedDict, or uses a key that the engine keeps for itself."""

    code = "AF114"


class SchemaConflict(SpecError):
    """Two state schemas disagree on the type or the reducer of one key."""

    code = "AF115"


class UnknownNode(SpecError):
    """`interrupt_before` or `interrupt_after` names something that is no node."""

    code = "AF116"


class InvalidResponseFormat(SpecError, TypeError):
    """`response_format` is no schema and no strategy."""

    code = "AF117"


class TurnError(AgentFactoryError, RuntimeError):
    """This run cannot go on. What earlier steps wrote is kept in the thread."""

    code = "AF300"


class PathNotSupported(TurnError, NotImplementedError):
    """A synchronous run met something asynchronous only, or the reverse."""

    code = "AF301"


class HookPathNotSupported(PathNotSupported, TypeError):
    """A synchronous run met a node hook that exists only as a coroutine."""


class UndeclaredJump(TurnError):
    """A hook or a tool asked for a jump that its agent has no edge for."""

    code = "AF302"


class JumpWithoutCalls(TurnError):
    """A jump to tools, where no tool call waits for an answer."""

    code = "AF303"


class BadReturn(TurnError, TypeError):
    """A hook, a layer or a flow returned or yielded something that cannot be used."""

    code = "AF304"


class CommandNotSupported(TurnError, NotImplementedError):
    """A Command asks for something that has no meaning where it was returned."""

    code = "AF305"


class ModelCannotCallTools(TurnError, NotImplementedError):
    """The chat model has no `bind_tools`, and this agent has tools."""

    code = "AF306"


class UnknownTool(TurnError, ValueError):
    """A request offers the model a tool that nothing in this agent can run."""

    code = "AF307"


class HistoryError(TurnError, ValueError):
    """The messages in the state cannot be shown to a model, and cannot be repaired."""

    code = "AF308"


class UnknownStateKey(TurnError, KeyError):
    """A hook wrote a state key that no schema of its agent has; the write would be lost."""

    code = "AF309"

    __str__ = Exception.__str__  # KeyError would show the message in quotes


class OutputError(TurnError):
    """The model did not give the structured answer it was asked for.

    Attributes:
        ai_message: The model's last answer.
        retries: How many times it had been asked again.
    """

    code = "AF310"

    def __init__(
        self,
        subject: str,
        reason: str,
        hint: str = "",
        *,
        ai_message: AIMessage | None = None,
        retries: int = 0,
    ) -> None:
        super().__init__(subject, reason, hint)
        self.ai_message = ai_message
        self.retries = retries


def raise_all(errors: Sequence[SpecError]) -> None:
    """Raise what a build found: nothing, the one mistake, or all of them as one error.

    Raises:
        SpecError: When `errors` is not empty.
    """
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise SpecErrors(errors)


def describe(value: Any) -> str:
    """A value as an error message should show it: its type, and a short look at it.

    >>> describe(3)
    'int (3)'
    """
    try:
        text = repr(value)
    except Exception:  # a value too broken to be shown is still to be named
        return type(value).__name__
    return f"{type(value).__name__} ({text if len(text) <= 80 else text[:77] + '...'})"


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


class BuildWarning(SpecError):
    """Something that may be intended, and usually is not."""

    code = "AF200"
    severity: ClassVar[str] = "warning"
    ignorable: ClassVar[bool] = True


class JumpWithoutEffect(BuildWarning):
    """A hook declares a jump that leads where the run goes anyhow."""

    code = "AF201"


class JumpBack(BuildWarning):
    """A hook before the model may jump to the model: it then runs again on the same state."""

    code = "AF202"


class ToolShadowed(BuildWarning):
    """A tool of the provider has the name of another tool."""

    code = "AF203"


class WrongOrder(BuildWarning):
    """Two middleware stand in another order than one of them declares."""

    code = "AF204"


class ExposedBeforeGuard(BuildWarning):
    """A middleware sends messages to a model of its own before a guard has cleaned them."""

    code = "AF205"


class JudgedTooEarly(BuildWarning):
    """A middleware judges tool calls that another one may still change."""

    code = "AF206"


class ErrorsHidden(BuildWarning):
    """A middleware handles exceptions of tools, and `handle_tool_errors` does so before it."""

    code = "AF207"


class ToolNotFound(BuildWarning):
    """A middleware is set up for a tool that the agent does not have."""

    code = "AF210"


class NoCheckpointer(BuildWarning):
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


class StructuredOutputError(OutputError):
    """A structured answer is missing or cannot be used. `ai_message` is what the model said."""

    code = "AF311"

    def __init__(self, subject: str, reason: str, ai_message: AIMessage) -> None:
        super().__init__(
            subject,
            reason,
            "With handle_errors the model is told, and asked again.",
            ai_message=ai_message,
        )


class MultipleStructuredOutputsError(StructuredOutputError):
    """The model gave several structured answers where one was asked for."""

    code = "AF312"

    def __init__(self, tool_names: Sequence[str], ai_message: AIMessage) -> None:
        self.tool_names = list(tool_names)
        names = ", ".join(tool_names)
        super().__init__(
            names, f"The model gave several structured answers ({names}); give one.", ai_message
        )


class StructuredOutputValidationError(StructuredOutputError):
    """A structured answer does not fit its schema. `source` says why."""

    code = "AF313"

    def __init__(self, tool_name: str, source: Exception, ai_message: AIMessage) -> None:
        self.tool_name = tool_name
        self.source = source
        super().__init__(
            tool_name,
            f"Failed to parse structured output for tool '{tool_name}': {source}.",
            ai_message,
        )


class MissingStructuredOutputError(StructuredOutputError):
    """The model answered in prose where a structured answer was asked for."""

    code = "AF314"

    def __init__(self, names: Sequence[str], ai_message: AIMessage, how: str) -> None:
        super().__init__(
            ", ".join(names), f"The answer came as text, without its structure. {how}", ai_message
        )
