"""Exceptions and warnings of the library.

```
AgentFactoryError
├── SpecError(ValueError)      wrong arguments: raised by create_agent, before anything runs
└── TurnError(RuntimeError)    failed run: raised by the step that cannot continue
```

Every error has a stable `code`, and its message reads ``[code] subject: reason hint``.
`BUILD_CODES` has the meaning of the codes of a build. Errors have their own class if users may
catch them by another exception type, or if they carry additional data.

`MissingExtra` is an ImportError: packages for a part of the library are not installed.
"""

from __future__ import annotations

import copyreg
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage


def sentence(text: str) -> str:
    """Return a text with one full stop at its end, unless it ends with another mark."""
    text = text.rstrip()
    if text.endswith("..") and not text.endswith("..."):
        text = text[:-1]
    return text if text.endswith((".", "!", "?", "…", "。")) else f"{text}."


class AgentFactoryError(Exception):
    """Base class of all errors that the library raises.

    Args:
        subject: The faulty object: a name from the user's code.
        reason: Why it cannot work.
        hint: The correction.
        code: Stable code of the error, if not the code of its class.
    """

    code: str = "AF000"

    def __init__(
        self, subject: str, reason: str, hint: str = "", *, code: str | None = None
    ) -> None:
        # On the instance: a class serves several codes, each of which can be ignored alone.
        if code is not None:
            self.code = code
        self.subject = subject
        self.reason = reason
        self.hint = hint
        # A reason often ends with the text of another exception, with or without a full stop.
        super().__init__(f"[{self.code}] {subject}: {sentence(reason)} {hint}".rstrip())

    def __reduce__(self) -> tuple[object, ...]:
        # Errors are sent between processes. By default unpickling would call __init__ with `args`,
        # which holds only the message.
        return copyreg.__newobj__, (type(self), *self.args), self.__dict__  # type: ignore[attr-defined]


# Errors of a build


class SpecError(AgentFactoryError, ValueError):
    """The arguments of `create_agent` describe an agent that cannot be built.

    Several errors of one build are raised together: `errors` holds each of them.

    Attributes:
        severity: "error" if nothing can be built, "warning" if it may be intended.
    """

    code = "AF100"
    severity: ClassVar[Literal["error", "warning"]] = "error"

    @property
    def errors(self) -> tuple[SpecError, ...]:
        """The errors in this error: itself, or several errors of a build."""
        return (self,)


class SpecErrors(SpecError):
    """All errors of one build, if there is more than one."""

    def __init__(self, errors: Sequence[SpecError]) -> None:
        self._errors = tuple(errors)
        super().__init__(
            f"{len(self._errors)} mistakes",
            "nothing was built.",
            "\n" + "\n".join(f"- {error}" for error in self._errors),
        )

    @property
    def errors(self) -> tuple[SpecError, ...]:
        """Each error, in the order in which it was found."""
        return self._errors


class ArgumentError(SpecError, TypeError):
    """An argument has a type or a value that cannot be used."""

    code = "AF101"


# LangChain's create_agent raises an AssertionError with the same text.
class DuplicateMiddleware(SpecError, AssertionError):
    """Two middleware have the same name, so their nodes would be the same."""

    code = "AF103"


class BuildWarning(SpecError):
    """Something that may be intended, and usually is not."""

    code = "AF200"
    severity = "warning"


class AgentFactoryWarning(UserWarning):
    """Python warning about an agent that was built, or a run that begins, and is likely wrong.

    Args:
        warnings: The findings, each with its code.
    """

    def __init__(self, warnings: Sequence[AgentFactoryError]) -> None:
        self.warnings = tuple(warnings)
        super().__init__("\n".join(map(str, self.warnings)))


@dataclass(frozen=True, slots=True)
class BuildCode:
    """The meaning of an error code of a build.

    Args:
        code: The code: "AF204".
        name: Its short name: "WrongOrder".
        meaning: The finding, in a sentence.
    """

    code: str
    name: str
    meaning: str

    @property
    def severity(self) -> Literal["error", "warning"]:
        """Whether the build fails, or only warns."""
        return "warning" if self.code.startswith("AF2") else "error"

    @property
    def ignorable(self) -> bool:
        """Whether `create_agent(..., ignore=[code])` suppresses it."""
        return self.severity == "warning" or self.code in (
            *("AF105", "AF118", "AF119", "AF120", "AF124", "AF125", "AF129", "AF131", "AF132"),
        )


_BUILD_CODES = {
    "AF101": ("ArgumentError", "An argument has a type or a value that cannot be used."),
    "AF102": ("NotMiddleware", "An item of `middleware` is not an instance of a middleware."),
    "AF103": ("DuplicateMiddleware", "Two middleware have the same name."),
    "AF104": (
        "InvalidName",
        "The name of a middleware has a `/`, or, with hooks, a character that LangGraph reserves.",
    ),
    "AF105": ("UnknownHook", "A method looks like a hook but is not one, so it would never run."),
    "AF106": ("HookSignature", "A hook does not take the arguments that it is called with."),
    "AF107": ("HookMode", "A coroutine function has the name of a sync hook, or the reverse."),
    "AF108": ("FlowAndWrap", "A middleware has both a flow and another form of the same method."),
    "AF109": ("NoCommonPath", "One layer is sync only, another async only: no run can use both."),
    "AF110": ("UnknownJump", "A hook declares a jump to something that is not a jump target."),
    "AF111": ("JumpToNowhere", "A hook declares a jump to tools in an agent without tools."),
    "AF112": ("InvalidTool", "A tool cannot be used, or lacks what a model needs to know of it."),
    "AF113": ("ToolNameTaken", "Two tools have the same name, so a model could reach only one."),
    "AF114": (
        "InvalidSchema",
        "A state schema is not a TypedDict, defines a reserved key, or gives `messages` a reducer "
        "that does not merge by id.",
    ),
    "AF115": ("SchemaConflict", "Two state schemas disagree on the reducer of a key."),
    "AF116": ("UnknownNode", "An interrupt or a policy names an unknown node."),
    "AF117": ("InvalidResponseFormat", "`response_format` is neither a schema nor a strategy."),
    "AF118": (
        "MissingMiddleware",
        "A middleware or a tool requires a middleware that is not in the stack.",
    ),
    "AF119": ("ConflictingMiddleware", "Two middleware of a stack are declared to be in conflict."),
    "AF120": ("CyclicOrder", "The order that some middleware declare contradicts itself."),
    "AF121": ("UnknownMember", "No middleware in a stack has this name, or several have it."),
    "AF122": ("MovedToNowhere", "`moved` gives a new name that no middleware in the stack has."),
    "AF123": ("OldNameInUse", "`moved` gives an old name that a middleware still has."),
    "AF124": ("ToolMisspelt", "A middleware is configured for nearly the name of a tool."),
    "AF125": ("ToolNameRefused", "A tool has a name or arguments that providers refuse."),
    "AF126": (
        "GuardWithoutPlace",
        "A middleware declares a guard in a hook or a layer that it does not have.",
    ),
    "AF127": ("GuaranteeNotKept", "A guarantee does not hold on every path."),
    "AF128": ("GuaranteeSyntax", "A guarantee is not a sentence about this agent."),
    "AF129": ("GuardBypassed", "A jump leads to a tool past the middleware that decides about it."),
    "AF131": (
        "ConditionUnfit",
        "A rule compares an argument that its tool lacks, or by a value of another type.",
    ),
    "AF132": ("ThreadCached", "A cache serves all threads, and its node depends on the thread."),
    "AF201": ("JumpWithoutEffect", "A hook declares a jump to where the run continues anyway."),
    "AF202": ("JumpBack", "A before_model hook may jump to the model, and run again unchanged."),
    "AF203": ("ToolShadowed", "A provider tool has the name of another tool."),
    "AF204": ("WrongOrder", "Two middleware are not in the order that one of them declares."),
    "AF205": ("ExposedBeforeGuard", "Messages reach another model before they are sanitized."),
    "AF206": ("JudgedTooEarly", "A middleware judges tool calls that another may still change."),
    "AF207": ("ErrorsHidden", "`handle_tool_errors` takes exceptions away from a middleware."),
    "AF208": ("ThreadNotKept", "A middleware relies on messages that another removes."),
    "AF210": ("ToolNotFound", "A middleware is configured for a tool that the agent lacks."),
    "AF211": ("NoCheckpointer", "A middleware needs a checkpointer, and the agent has none."),
    "AF212": (
        "NoEffect",
        "A middleware has no effect: it is empty or decides nothing, or has no tool of its kind.",
    ),
    "AF213": ("ToolNotCovered", "No rule of a policy covers all calls of a tool."),
    "AF214": (
        "NotCacheable",
        "What a middleware adds to each request follows what changes in each.",
    ),
    "AF215": ("TypeConflict", "Two state schemas disagree on the type of a key."),
    "AF216": ("AgentNameRefused", "The agent has a name that some providers refuse."),
    "AF217": ("LoopWithoutLimit", "A run may go around a loop that none of its limits ends."),
    "AF218": ("HookSkipped", "A jump may end a run without the last of its hooks."),
    "AF219": (
        "LethalTrifecta",
        "Text that others wrote can make the model send private data out, and nothing decides.",
    ),
    "AF222": ("RuleWithoutCalls", "An earlier rule of a policy decides about all calls of a rule."),
}

BUILD_CODES = {code: BuildCode(code, *entry) for code, entry in _BUILD_CODES.items()}
"""Each code that a build can report, in order."""


def raise_all(errors: Sequence[SpecError]) -> None:
    """Raise the errors of a build: nothing, the only error, or all of them together.

    Raises:
        SpecError: `errors` is not empty. Notes in a traceback give the command for an example of
            each code.
    """
    if not errors:
        return
    raised = errors[0] if len(errors) == 1 else SpecErrors(errors)
    # AF101 is any argument: its message is complete.
    for code in dict.fromkeys(error.code for error in errors if error.code != "AF101"):
        if code in BUILD_CODES:
            raised.add_note(f"An example: agent-factory explain {code}")
    raise raised


# Errors of a run


class TurnError(AgentFactoryError, RuntimeError):
    """The run cannot continue. The thread keeps the writes of earlier steps."""

    code = "AF300"


class PathNotSupported(TurnError, NotImplementedError):
    """A synchronous run met something asynchronous only, or the reverse."""

    code = "AF301"


# A TypeError, as LangGraph raises for an async node in a sync run.
class HookPathNotSupported(PathNotSupported, TypeError):
    """A synchronous run met a node hook with a coroutine function alone."""


class UndeclaredJump(TurnError):
    """A hook or a tool asked for a jump for which the agent has no edge."""

    code = "AF302"


class JumpWithoutCalls(TurnError):
    """A hook jumped to the tools, and no tool call is pending."""

    code = "AF303"


class BadReturn(TurnError, TypeError):
    """A hook, a layer or a flow returned or yielded an unusable value."""

    code = "AF304"


class WrongToolCallId(BadReturn):
    """A tool or a layer returned a result for another call than its own. The tool may have run."""

    code = "AF317"


class CommandNotSupported(TurnError, NotImplementedError):
    """An operation of a Command is not supported where the Command was returned."""

    code = "AF305"


class ModelCannotCallTools(TurnError, NotImplementedError):
    """The chat model has no `bind_tools`, and the agent has tools."""

    code = "AF306"


class UnknownTool(TurnError, ValueError):
    """A request offers the model a tool which nothing in the agent can run."""

    code = "AF307"


class HistoryError(TurnError, ValueError):
    """The messages in the state cannot be sent to a model, and cannot be repaired."""

    code = "AF308"


class UnknownStateKey(TurnError, KeyError):
    """A hook wrote a state key without a schema, or a tool takes a key which the state lacks."""

    code = "AF309"

    __str__ = Exception.__str__  # KeyError would put the message in quotes.


class EndlessLoop(TurnError):
    """A hook jumped to the model again and again, and nothing changed in between."""

    code = "AF315"


class MissingNode(TurnError):
    """A resumed thread waits at a node which the agent lacks. The thread is unchanged.

    Attributes:
        thread_id: The thread; None for a config without a thread.
        nodes: The nodes of the wait.
    """

    code = "AF316"

    def __init__(self, thread_id: str | None, nodes: Sequence[str], hint: str) -> None:
        self.thread_id = thread_id
        self.nodes = tuple(nodes)
        subject = f"thread {thread_id!r}" if thread_id is not None else "the thread"
        reason = f"waits at {', '.join(nodes)}, which this agent does not have."
        super().__init__(subject, reason, hint)


class UnknownInput(TurnError, ValueError):
    """The input of a run has a key without a schema, which the run would drop."""

    code = "AF323"


class ReviewError(TurnError):
    """A decision about a paused thread cannot be applied. The thread is unchanged."""

    code = "AF330"


class InvalidAnswer(ReviewError, ValueError):
    """An answer to an interrupt does not have the requested form. Another answer may follow."""

    code = "AF336"


class NothingPending(ReviewError):
    """The thread is not paused, or no tool call in it waits for a decision."""

    code = "AF331"


class UnknownCall(ReviewError, LookupError):
    """Nothing pending has this id, or several calls are pending and no id was given."""

    code = "AF332"


class NoThread(ReviewError):
    """The agent has no checkpointer, the config no `thread_id`, or the thread no checkpoint."""

    code = "AF335"


class OutputError(TurnError):
    """The model did not give the requested structured output.

    Attributes:
        ai_message: Last message of the model.
        retries: Number of further requests to the model.
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


class StructuredOutputError(OutputError):
    """The structured output is missing or invalid. `ai_message` is the answer of the model."""

    code = "AF311"

    def __init__(self, subject: str, reason: str, ai_message: AIMessage) -> None:
        hint = "With handle_errors=True the error is reported to the model, which tries again."
        super().__init__(subject, reason, hint, ai_message=ai_message)


class MultipleStructuredOutputsError(StructuredOutputError):
    """The model gave several structured outputs in place of a single output."""

    code = "AF312"

    def __init__(self, tool_names: Sequence[str], ai_message: AIMessage) -> None:
        self.tool_names = list(tool_names)
        names = ", ".join(tool_names)
        reason = f"The model gave several structured answers ({names}); give one."
        super().__init__(names, reason, ai_message)


class StructuredOutputValidationError(StructuredOutputError):
    """The structured output does not match its schema. `source` is the validation error."""

    code = "AF313"

    def __init__(self, tool_name: str, source: Exception, ai_message: AIMessage) -> None:
        self.tool_name = tool_name
        self.source = source
        reason = f"Failed to parse structured output for tool '{tool_name}': {source}."
        super().__init__(tool_name, reason, ai_message)


class MissingStructuredOutputError(StructuredOutputError):
    """The model answered in plain text where a structured output was asked for."""

    code = "AF314"

    def __init__(self, names: Sequence[str], ai_message: AIMessage, how: str) -> None:
        reason = f"The answer came as text, without its structure. {how}"
        super().__init__(", ".join(names), reason, ai_message)


# Missing packages

EXTRAS = {
    "a2a": "a2a",
    "ag-ui": "ag_ui",
    "cli": "typer rich libcst",
    "cost": "genai_prices",
    "draw": "pygraphviz",
    "local": "xllamacpp",
    "mcp": "mcp mcp_types",
    "metrics": "opentelemetry.exporter.prometheus opentelemetry.sdk.metrics prometheus_client",
    "otel": "opentelemetry.trace",
    "pii": "phonenumbers presidio_analyzer regex",
    "postgres": "langgraph.checkpoint.postgres psycopg",
    "restate": "httpx restate uvicorn",
    "serve": "starlette sse_starlette uvicorn jinja2 markdown_it",
    "service": "croniter sqlalchemy langgraph.checkpoint.sqlite",
    "sqlite": "langgraph.checkpoint.sqlite",
    "temporal": "temporalio",
    "testing": "pytest hypothesis syrupy",
}
"""Extras of the library, each with its modules."""


class MissingExtra(ImportError):
    """A part of the library needs a missing extra; the message has the name."""


def require(extra: str, feature: str, *modules: str, otherwise: str = "") -> None:
    """Raise an error unless the packages of an extra are installed. None of them is imported.

    Args:
        extra: Name of the extra, such as "serve".
        feature: The part of the library, as the subject of the message.
        modules: The needed modules; default: all modules of the extra.
        otherwise: A sentence about the parts without need of the extra.

    Raises:
        MissingExtra: A module is missing. `name` is the module.

    >>> require("service", "agent_factory.service")
    """
    for module in modules or EXTRAS[extra].split():
        try:
            missing = find_spec(module) is None
        except ModuleNotFoundError:  # The package around the module is missing.
            missing = True
        if missing:
            reason = f"{feature} needs the extra `{extra}` of agent-factory."
            # The command comes last, so nothing after the command is copied along.
            hint = f"{otherwise} Install it: {install(extra)}".lstrip()
            raise MissingExtra(f"{reason} {hint}", name=module)


def install(*extras: str) -> str:
    """Return the command to install extras, from the source of the installed library.

    >>> install("cli", "serve").startswith("pip install ")
    True
    """
    origin = _origin()
    if origin.get("dir_info", {}).get("editable"):
        # The requirement would replace an editable installation by a copy.
        return f"pip install -e '{_folder(origin['url'])}[{','.join(extras)}]'"
    return f"pip install '{requirement(*extras)}'"


def requirement(*extras: str) -> str:
    """Return the library with extras, as a project writes it into its dependencies.

    The text names the origin of the installed library, which is on no public index, where anybody
    could take the name.

    >>> requirement("cli", "testing").partition(" @ ")[0]
    'agent-factory[cli,testing]'
    """
    name = f"agent-factory[{','.join(extras)}]" if extras else "agent-factory"
    origin = _origin()
    if not origin:
        return name
    url = origin["url"]
    if vcs := origin.get("vcs_info"):
        url = f"{vcs['vcs']}+{url}@{vcs['commit_id']}"
    return f"{name} @ {url}"


def _origin() -> dict[str, Any]:
    """The record of an installation by PEP 610; empty after an installation from an index."""
    from importlib.metadata import PackageNotFoundError, distribution

    root = Path(__file__).resolve().parent.parent
    try:
        record = distribution("agent-factory").read_text("direct_url.json")
    except PackageNotFoundError:
        record = None
    if record:
        origin: dict[str, Any] = json.loads(record)
    elif (root / "pyproject.toml").is_file():  # run from a checkout
        origin = {"url": root.as_uri(), "dir_info": {"editable": True}}
    else:
        return {}
    # A container may lack the folder from which its image was built.
    if origin["url"].startswith("file:") and not _folder(origin["url"]).exists():
        return {}
    return origin


def _folder(url: str) -> Path:
    # pytest imports this module at every start, by way of the plugin: only light modules are above.
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    return Path(url2pathname(urlsplit(url).path))


def describe(value: object) -> str:
    """Return the type of a value and the beginning of its repr, for error messages.

    >>> describe(3)
    'int (3)'
    >>> describe(int)
    'the class int'
    """
    if isinstance(value, type):
        return f"the class {value.__name__}"
    try:
        text = repr(value)
    except Exception:  # A broken __repr__ must not hide the reported error.
        return type(value).__name__
    return f"{type(value).__name__} ({text if len(text) <= 80 else text[:77] + '...'})"


def example_of(kind: type[object]) -> str:
    """Return a call for an instance of a class, for hints.

    >>> example_of(AgentFactoryError)
    'AgentFactoryError(...)'
    """
    try:
        signature(kind).bind()
    except (TypeError, ValueError):  # it needs arguments, or Python does not know
        return f"{kind.__name__}(...)"
    return f"{kind.__name__}()"


def did_you_mean(
    name: str, names: Iterable[str], otherwise: str, form: Callable[[str], str] = str
) -> str:
    """Return the hint for an unknown name.

    Args:
        name: The name.
        names: The existing names.
        otherwise: The hint without a similar name.
        form: The form of a similar name; `repr` quotes it.

    >>> did_you_mean("serach", ["search", "refund"], "Leave it out.", repr)
    "Did you mean 'search'?"
    """
    from difflib import get_close_matches  # only for errors: the module loads slowly

    close = get_close_matches(name, list(names), n=1)
    return f"Did you mean {form(close[0])}?" if close else otherwise


def unknown_argument(name: str, owner: str, parameters: Sequence[str]) -> ArgumentError:
    """Return the error for an unknown parameter of a function or a class."""
    hint = did_you_mean(name, parameters, f"It takes {', '.join(parameters)}.")
    return ArgumentError(name, f"is not an argument of {owner}.", hint)
