"""Personal data kept out: of what the model reads, of what it says, of what its tools are given.

Input is rewritten in the state by node hooks, so that whatever stands after the guard, and every
later step, has it in its rewritten form only. Output is rewritten in the model itself, before
anything that listens to the run can hear it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Generator, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Annotated, Any, Literal, NotRequired

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.channels.untracked_value import UntrackedValue
from langgraph.runtime import Runtime

from agent_factory import (
    AgentMiddleware,
    AgentState,
    ExtendedModelResponse,
    ModelRequest,
    ModelResponse,
    Ordering,
    PrivateStateAttr,
    ToolCallRequest,
)
from agent_factory.middleware._shared.redaction.detectors import DetectorLike
from agent_factory.middleware._shared.redaction.detectors import (
    PIIMatch,
    detect_credit_card,
    detect_email,
    detect_ip,
    detect_mac_address,
    detect_name,
    detect_phone,
    detect_url,
)
from agent_factory.middleware._shared.redaction.rules import (
    PIIDetectionError,
    RedactionRule,
    Strategy,
)
from agent_factory.middleware.pii.chat_model import guarded
from agent_factory.middleware.pii.messages import (
    Guard,
    redacted,
    redacted_result,
    redacted_value,
    walk,
)

__all__ = [
    "PIIDetectionError",
    "PIIMatch",
    "PIIMiddleware",
    "PIIState",
    "RedactionRule",
    "detect_credit_card",
    "detect_email",
    "detect_ip",
    "detect_mac_address",
    "detect_name",
    "detect_phone",
    "detect_url",
]

_MODELS = 16
"""How many guarded models are remembered: an agent binds its tools to a model it knows once."""


class PIIState(AgentState[Any]):
    """The state of an agent whose input is guarded.

    Attributes:
        pii_looked_at: Up to where each guard has looked: the id of a message, and a digest of the
            user's messages up to it, which tells whether one was put in the place of another.
        pii_refused: What a guard that blocks has found in this run.
    """

    pii_looked_at: NotRequired[Annotated[dict[str, list[str]], PrivateStateAttr]]
    pii_refused: NotRequired[Annotated[Any, UntrackedValue(object, guard=False), PrivateStateAttr]]


class PIIMiddleware(AgentMiddleware[PIIState, Any]):
    """Keeps one type of personal data out of an agent.

    Args:
        pii_type: "email", "credit_card", "ip", "mac_address", "url", "phone", "name", or a name
            of your own that comes with a detector.
        strategy: "redact" puts `[REDACTED_EMAIL]` in the place of the data; "mask" keeps the
            little by which people recognise it, such as a card's last four digits; "hash" puts
            `<email_hash:9f86d081>`, the same for the same value; "block" raises.
        detector: A regular expression, or a function of a text that returns a list of `PIIMatch`;
            of each only `start` and `end` are read. Default: the one of the type.
        apply_to_input: Look at what users write: every HumanMessage, once.
        apply_to_output: Look at what the model says: text, reasoning, and a structured answer.
            Streamed tokens too.
        apply_to_tool_results: Look at what tools return, before the model and the thread have it.
        apply_to_tool_calls: Look at the arguments of tool calls, before the tools have them.
        hash_key: What "hash" is keyed with: a secret, as bytes or text. Default: a random key of
            this process, so that tokens differ from process to process.
        name: Default: `PIIMiddleware[pii_type]`, so that guards of several types need no names.

    Raises:
        ValueError: An unknown type without a detector, an unknown strategy, a regular expression
            that does not compile, or nothing to apply it to.
        TypeError: A detector or a key of an unusable type.
        ImportError: A package that the detector needs is not installed.

    >>> PIIMiddleware("email", strategy="mask", apply_to_output=True).name
    'PIIMiddleware[email]'
    """

    state_schema = PIIState

    def __init__(
        self,
        pii_type: str,
        *,
        strategy: Literal["redact", "block", "mask", "hash"] = "redact",
        detector: DetectorLike | None = None,
        apply_to_input: bool = True,
        apply_to_output: bool = False,
        apply_to_tool_results: bool = False,
        apply_to_tool_calls: bool = False,
        hash_key: bytes | str | None = None,
        name: str | None = None,
    ) -> None:
        self.rule = RedactionRule(pii_type, strategy, detector, hash_key)
        super().__init__(name=name or f"PIIMiddleware[{pii_type}]")
        places = (apply_to_input, apply_to_output, apply_to_tool_results, apply_to_tool_calls)
        if not any(places):
            raise ValueError(
                f"{self.name} is applied to nothing. Let apply_to_input, apply_to_output, "
                "apply_to_tool_results or apply_to_tool_calls be True."
            )
        self.apply_to_input = apply_to_input
        self.apply_to_output = apply_to_output
        self.apply_to_tool_results = apply_to_tool_results
        self.apply_to_tool_calls = apply_to_tool_calls
        self.ordering = _ordering(places)
        self.unused = _unused(*places)
        self._models: OrderedDict[Any, tuple[Any, Any]] = OrderedDict()

    @property
    def pii_type(self) -> str:
        """What kind of data it looks for."""
        return self.rule.pii_type

    @property
    def strategy(self) -> Strategy:
        """What becomes of it."""
        return self.rule.strategy

    def before_agent(self, state: PIIState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Rewrites what users wrote before any later hook can read it."""
        if not self.apply_to_input:
            return None
        messages = _users(state["messages"])
        return self._rewritten(state, messages[_known(messages, self._mark(state)) :]) or None

    async def abefore_agent(self, state: PIIState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """As `before_agent`; there is nothing to wait for."""
        return self.before_agent(state, runtime)

    def before_model(self, state: PIIState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Raises what was found, and rewrites what came as the user's in the middle of the run."""
        if not self.apply_to_input:
            return None
        _refuse(state)
        mark = self._mark(state)
        new = _since(state["messages"], mark[0] if mark else None)
        if not new:
            return None
        update = self._rewritten(state, new)
        written = {message.id: message for message in update.get("messages", ())}
        users = [written.get(m.id, m) for m in _users(state["messages"])]
        marks = state.get("pii_looked_at", {})
        return {
            **update,
            "pii_looked_at": {**marks, self.name: [users[-1].id, _digest(users)]},
        }

    async def abefore_model(self, state: PIIState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """As `before_model`; there is nothing to wait for."""
        return self.before_model(state, runtime)

    def around_model(
        self, request: ModelRequest[Any]
    ) -> Generator[Any, Any, ModelResponse[Any] | ExtendedModelResponse[Any]]:
        """Guards the model that is asked, and looks at answers that others gave in its place."""
        _refuse(request.state)
        guard = self._guard(request)
        if guard is None:
            response: ModelResponse[Any] = yield request
            return response
        response = yield _GuardedRequest.of(request, self, guard)
        result = [guard.answer(m) if isinstance(m, AIMessage) else m for m in response.result]
        return replace(response, result=result)

    def around_tool(self, request: ToolCallRequest) -> Generator[Any, Any, Any]:
        """Looks at a call before the tool runs, and at what it returned."""
        if self.apply_to_tool_calls:
            call = request.tool_call
            arguments = redacted_value(call["args"], self.rule.apply)
            request = request.override(tool_call={**call, "args": arguments})
        result = yield request
        return redacted_result(result, self.rule.apply) if self.apply_to_tool_results else result

    def guarded_model(self, model: Any, guard: Guard) -> Any:
        """The model with the guard; the same object for the same model."""
        key = (id(model), guard)
        if key not in self._models:
            self._models[key] = (model, guarded(model, guard))
            if len(self._models) > _MODELS:
                self._models.popitem(last=False)
        return self._models[key][1]

    def _guard(self, request: ModelRequest[Any]) -> Guard | None:
        if not (self.apply_to_output or self.apply_to_tool_calls):
            return None
        answers = _output_tools(request.response_format) if self.apply_to_output else ()
        return Guard(
            self.rule,
            text=self.apply_to_output,
            all_calls=self.apply_to_tool_calls,
            calls=frozenset(answers),
        )

    def _mark(self, state: PIIState) -> list[str] | None:
        return state.get("pii_looked_at", {}).get(self.name) or None

    def _rewritten(self, state: PIIState, messages: Sequence[HumanMessage]) -> dict[str, Any]:
        """What to write of messages; a guard that blocks takes the data out, and says so."""
        found: list[PIIMatch] = []
        rule = self.rule
        if rule.strategy == "block":
            rule = replace(rule, strategy="redact")
            found = [match for m in messages for match in _found(rule, m)]
        written = [(message, redacted(message, rule.apply)) for message in messages]
        update: dict[str, Any] = {}
        if changed := [new for old, new in written if new is not old]:
            update["messages"] = changed
        if found:
            error = PIIDetectionError(self.pii_type, found)
            update["pii_refused"] = state.get("pii_refused") or error
        return update


class _GuardedRequest(ModelRequest[Any]):
    """A request whose model is guarded, also where a layer further in takes another model."""

    guards: tuple[tuple[PIIMiddleware, Guard], ...]

    @classmethod
    def of(cls, request: ModelRequest[Any], owner: PIIMiddleware, guard: Guard) -> _GuardedRequest:
        new = cls.__new__(cls)
        guards = (*request.__dict__.get("guards", ()), (owner, guard))
        model = owner.guarded_model(request.model, guard)
        new.__dict__.update({**request.__dict__, "guards": guards, "model": model})
        return new

    def override(self, **changes: Any) -> ModelRequest[Any]:
        """A copy with some fields changed; another model is guarded as this one is."""
        if "model" in changes:
            for owner, guard in self.guards:
                changes["model"] = owner.guarded_model(changes["model"], guard)
        return super().override(**changes)


def _refuse(state: Any) -> None:
    error = state.get("pii_refused")
    if error is not None:
        raise error


def _users(messages: Sequence[AnyMessage]) -> list[HumanMessage]:
    return [message for message in messages if isinstance(message, HumanMessage)]


def _since(messages: Sequence[AnyMessage], last: str | None) -> list[HumanMessage]:
    """The user's messages after the one with an id; all, where it is gone."""
    new: list[HumanMessage] = []
    for message in reversed(messages):
        if last is not None and message.id == last:
            break
        if isinstance(message, HumanMessage):
            new.append(message)
    return new[::-1]


def _known(messages: Sequence[HumanMessage], mark: list[str] | None) -> int:
    """How many of the user's messages were looked at, and are what they were then."""
    if mark is None:
        return 0
    for index, message in enumerate(messages):
        if message.id == mark[0]:
            seen = messages[: index + 1]
            return len(seen) if _digest(seen) == mark[1] else 0
    return 0


def _digest(messages: Sequence[HumanMessage]) -> str:
    digest = blake2b(digest_size=16)
    for message in messages:
        digest.update(f"{message.id} {message.content!r}\n".encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def _found(rule: RedactionRule, message: HumanMessage) -> list[PIIMatch]:
    found: list[PIIMatch] = []

    def look(path: Any, text: str) -> str:
        found.extend(rule.find(text))
        return text

    walk(message.content, look)
    return found


def _output_tools(response_format: Any) -> Sequence[str]:
    """The tools by which a structured answer is given."""
    by_tool = getattr(response_format, "by_tool", response_format)
    return list(getattr(by_tool, "bindings", ()))


def _unused(input: bool, output: bool, tool_results: bool, tool_calls: bool) -> tuple[str, ...]:
    """The hooks and flows that a guard of these places has no need of."""
    hooks = () if input else ("before_agent", "before_model")
    model = () if input or output or tool_calls else ("around_model",)
    return (*hooks, *model, *(() if tool_results or tool_calls else ("around_tool",)))


def _ordering(places: tuple[bool, ...]) -> Ordering:
    aspects = ("user_messages", "answers", "tool_results", "tool_calls")
    return Ordering(sanitizes=[a for a, applies in zip(aspects, places, strict=True) if applies])
