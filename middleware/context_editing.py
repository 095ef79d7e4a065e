"""Replace old tool results by a placeholder when a conversation is large.

The next prompt begins like the last, so that results are not cleared again in each turn.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import is_, or_
from typing import Annotated, Any, Literal, NotRequired, Protocol, cast, runtime_checkable

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, RemoveMessage, ToolMessage
from langchain_core.messages.utils import count_tokens_approximately
from typing_extensions import TypedDict

from agent_factory import (
    AgentMiddleware,
    AgentState,
    Flow,
    ModelCallResult,
    ModelRequest,
    ModelResponse,
    Ordering,
    PrivateStateAttr,
    set_reason,
)
from agent_factory.types import unbound

from ._shared.messages import calls_of_results, is_cleared, without_inputs, without_result
from ._shared.models import with_update
from ._shared.overflow import Reduction, call_recovering, plural
from ._shared.recall import how_to_recall, recall_tool
from ._shared.summaries import with_summaries
from ._shared.token_counter import TokenCounter, check_token_counter, tokens_sent
from ._shared.validation import check_bool, check_choice, check_count, check_state_schema, copied

_RESULTS = ("tool", "ToolMessageChunk")
"""The types of messages with results of tools."""

__all__ = ["ClearToolUsesEdit", "ContextEdit", "ContextEditingMiddleware", "ContextEditingState"]


class ContextEdits(TypedDict):
    """Changes by edits in the requests of a thread."""

    changed: list[Any]  # pairs: fields with their new values, and ids of the messages with them
    removed: list[str]  # ids of messages


class ContextEditingState(AgentState):
    """The state of an agent whose requests are edited.

    Attributes:
        context_edits: The changes, by the name of the middleware. They are kept with the thread.
    """

    context_edits: NotRequired[Annotated[dict[str, ContextEdits], or_, PrivateStateAttr]]


@runtime_checkable
class ContextEdit(Protocol):
    """A way to make a conversation smaller. Define `apply` to write your own."""

    def apply(
        self, messages: list[AnyMessage], *, count_tokens: Callable[[Sequence[AnyMessage]], int]
    ) -> Sequence[AnyMessage] | None:
        """Return the edited messages.

        Change copies of messages (`message.model_copy(update=...)`), never the messages. A copy
        keeps its id, by which later requests are changed in the same way. A message that is left
        out is left out of later requests too. A message that the thread does not hold is sent in
        this call only. An invalid history is repaired before the model sees it.

        Args:
            messages: The conversation, in a list that may be changed.
            count_tokens: Tokens of a request with these messages, including the system prompt and
                the tool schemas.

        Returns:
            The messages; None stands for the passed list, with its changes.
        """


@dataclass(frozen=True)
class ClearToolUsesEdit:
    """Replace the older tool results by a placeholder, in few and large steps.

    When the request is larger than the trigger, all older results are cleared at once. Then the
    conversation stays unchanged until the next time above the trigger. The steps follow from the
    history alone, so a history that is sent again with all its results is cleared at the same
    positions.

    Calls and results stay paired, and keep their ids, names, statuses and artifacts. Results after
    the model's last message, which the model has not read yet, always stay.

    Args:
        trigger: Tokens of the whole request, including system prompt and tool schemas, above which
            results are cleared. The default leaves half of a window of 200,000 for other things.
        clear_at_least: Tokens that must be freed, or nothing is cleared. Each edit makes the
            provider read the prompt again from the first cleared result on. So after the first
            edit, a further edit frees at least a quarter of the trigger.
        keep: The number of newest results that stay.
        clear_tool_inputs: Whether the arguments of the cleared calls are removed too.
        exclude_tools: Names of tools whose results stay.
        placeholder: The text for the model in place of a result.

    Raises:
        ValueError: A number is not a whole number of at least 0, or a name or the placeholder is
            not a string.

    >>> ClearToolUsesEdit(trigger=30_000, clear_at_least=5_000).keep
    3
    """

    trigger: int = 100_000
    clear_at_least: int = 0
    keep: int = 3
    clear_tool_inputs: bool = False
    exclude_tools: Collection[str] = ()
    placeholder: str = "[cleared]"

    def __post_init__(self) -> None:
        for name in ("trigger", "clear_at_least", "keep"):
            check_count(name, getattr(self, name), required=True)
        names = self.exclude_tools
        several = isinstance(names, list | tuple | set | frozenset)
        if not several or not all(isinstance(name, str) for name in names):
            raise ValueError(
                f"exclude_tools must be a list of tool names, got {names!r}. Pass ['search']."
            )
        object.__setattr__(self, "exclude_tools", copied(names))
        if not isinstance(self.placeholder, str):
            raise ValueError(f"placeholder must be a string, got {self.placeholder!r}.")

    def apply(
        self, messages: list[AnyMessage], *, count_tokens: Callable[[Sequence[AnyMessage]], int]
    ) -> list[AnyMessage]:
        """Clear old results in the list, which is returned, if the request is too large."""
        # Not by `isinstance`, which is slow for classes of pydantic that do not match.
        results = [i for i, message in enumerate(messages) if message.type in _RESULTS]
        if len(results) <= self.keep or count_tokens(messages) <= self.trigger:
            return messages
        calls = calls_of_results(messages)
        answers = [i for i, message in enumerate(messages) if isinstance(message, AIMessage)]
        cleared = [i for i in results if is_cleared(cast(ToolMessage, messages[i]))]
        left = [
            i
            for i in results
            if i not in cleared
            and messages[i].name not in self.exclude_tools
            and not (i in calls and calls[i][1]["name"] in self.exclude_tools)
        ]
        later = max(self.clear_at_least, self.trigger // 4)
        least = later if cleared else self.clear_at_least

        def clearable(end: int) -> list[int]:
            """Return the results that may be cleared before a call with these earlier messages."""
            older = bisect_left(results, end) - self.keep
            # A result without a later answer was not read yet.
            read = bisect_left(answers, end)
            if older <= 0 or not read:
                return []
            return left[: bisect_left(left, min(results[older - 1] + 1, answers[read - 1]))]

        # Each call so far is decided once more, in order: a history that is sent again, without the
        # marks of cleared results, is cleared at the same positions. Messages before a mark are
        # settled.
        ends = [i for i in (*answers, len(messages)) if i > max(cleared, default=-1)]
        ends = list(filter(clearable, ends))
        while ends:
            # Between two edits a conversation only grows.
            first = bisect_right(ends, self.trigger, key=lambda end: count_tokens(messages[:end]))
            ends = ends[first:]
            for position, end in enumerate(ends, 1):
                if not (old := clearable(end)):
                    continue
                start = min([old[0], *(calls[i][0] for i in old if i in calls)])
                # Messages before the first change count the same on both sides.
                shorter = messages[start:end]
                for index in old:
                    result = cast(ToolMessage, messages[index])
                    shorter[index - start] = without_result(result, self.placeholder)
                    if self.clear_tool_inputs and index in calls:
                        caller, call = calls[index]
                        calling = cast(AIMessage, shorter[caller - start])
                        shorter[caller - start] = without_inputs(calling, {call["id"]})
                if count_tokens(messages[start:end]) - count_tokens(shorter) >= least:
                    messages[start:end] = shorter
                    left, ends, least = left[len(old) :], ends[position:], later
                    break
            else:
                break
        return messages


class ContextEditingMiddleware(AgentMiddleware[ContextEditingState, Any]):
    """Make a large conversation smaller by rules, without a call of a model.

    The thread keeps every message: an edit is made in the request. The changes are stored with the
    model's answer, and made again in later requests. A failed call changes nothing. If the agent
    has a tool that brings messages back (ToolResultOffloadMiddleware), the placeholder of a cleared
    result names the call.

    If the model raises ContextOverflowError, `ClearToolUsesEdit` clears all results it may, below
    its trigger too, and the model is called once more.

    Put it before (outside) summarization, so that a summary is made only if clearing was not
    enough, and after (inside) layers that set the prompt and the tools, so that they are counted.

    Args:
        edits: The edits, in this order; each `ContextEdit` gets the result of the edit before.
            None: one `ClearToolUsesEdit` with its defaults.
        token_count_method: "approximate" counts four characters (3.3 for Claude) as a token and
            costs almost nothing; "model" calls `get_num_tokens_from_messages` of the model, which
            may be slow or need a package.
        token_counter: Counts the tokens of a list of messages; replaces both methods.
        keep_thread: Whether the thread keeps every message. False: edits are made in the thread
            too, which makes the thread smaller.
        name: Distinguishes several instances.

    Raises:
        ValueError: `edits` is empty, `token_count_method` is unknown, or "model" with a counter.
        TypeError: An edit has no `apply`, or the counter is not a function; the state schema of a
            subclass does not extend `ContextEditingState`. At run time: an edit returned something
            else than messages.

    >>> middleware = ContextEditingMiddleware(edits=[ClearToolUsesEdit(trigger=30_000)])
    >>> middleware.edits[0].trigger
    30000
    """

    state_schema = ContextEditingState
    keyed_by_name = ("context_edits",)

    ordering = Ordering(
        before=("SummarizationMiddleware", "ModelRetryMiddleware", "ModelFallbackMiddleware"),
        reads=("thread",),
    )

    def __init__(
        self,
        *,
        edits: Iterable[ContextEdit] | None = None,
        token_count_method: Literal["approximate", "model"] = "approximate",
        token_counter: TokenCounter | None = None,
        keep_thread: bool = True,
        name: str | None = None,
    ) -> None:
        super().__init__(name=name)
        check_choice("token_count_method", token_count_method, ("approximate", "model"))
        if token_counter is not None:
            check_token_counter(token_counter)
        if token_counter is not None and token_count_method == "model":
            raise ValueError("Pass token_counter or token_count_method='model', not both.")
        if edits is None:
            edits = [ClearToolUsesEdit()]
        edits = list(edits) if isinstance(edits, Iterable) else edits
        if not isinstance(edits, list) or not edits:
            raise ValueError(
                f"edits must be a list of edits, got {edits!r}. Pass [ClearToolUsesEdit()]."
            )
        for edit in edits:
            if isinstance(edit, type) or not isinstance(edit, ContextEdit):
                raise TypeError(
                    "edits must contain objects with apply(messages, *, count_tokens), got "
                    f"{edit!r}. Pass [ClearToolUsesEdit()]."
                )
        check_bool("keep_thread", keep_thread)
        check_state_schema(self, ContextEditingState)
        self.edits = edits
        name_groups = [getattr(edit, "exclude_tools", ()) for edit in edits]
        self.expected_tools = tuple(dict.fromkeys(name for names in name_groups for name in names))
        self.token_count_method, self.token_counter = token_count_method, token_counter
        self.keep_thread = keep_thread
        if not keep_thread:
            self.ordering = replace(type(self).ordering, reads=(), writes=("thread",))

    def around_model(self, request: ModelRequest[Any]) -> Flow[ModelCallResult]:
        """Call the model with the edited conversation, and store the edits."""
        state: Any = request.state
        last_edits: ContextEdits | None = (state.get("context_edits") or {}).get(self.name)
        original = with_summaries(request)  # summarized results need not be cleared
        earlier = edited_again(original, last_edits) if last_edits else original
        messages = self._edited(request, earlier)
        overflow_edits: dict[str | None, AnyMessage] = {}

        def free(inner: ModelRequest[Any], _: object) -> Flow[Reduction]:
            """Clear all results that may be cleared, whatever the triggers."""
            # A flow without effects, like the steps of other layers.
            yield from ()
            cleared_results = self._all_cleared(inner)
            if not cleared_results:
                return None
            overflow_edits.update(cleared_results)
            count = sum(isinstance(message, ToolMessage) for message in cleared_results.values())
            hints = with_hints(list(cleared_results.values()), self._tool(inner))
            with_hint = {message.id: message for message in hints}
            smaller = [with_hint.get(message.id, message) for message in inner.messages]
            return unchained(inner, smaller), f"cleared {plural(count, 'tool result')}"

        is_edited = bool(last_edits) or messages is not original
        visible = with_hints(messages, self._tool(request)) if is_edited else messages
        edited = request if visible is request.messages else request.override(messages=visible)
        response: ModelResponse = yield from call_recovering(edited, clear=free)
        if not overflow_edits and messages is earlier and (self.keep_thread or not last_edits):
            return response
        # Messages that the thread does not hold are for this call only, and so is their order.
        thread = {message.id for message in state.get("messages", ()) if message.id}
        before = {message.id: message for message in original if message.id in thread}
        after = {message.id: overflow_edits.get(message.id, message) for message in messages}
        changed = [m for key, m in after.items() if key in before and m is not before[key]]
        removed_ids = [str(key) for key in before if key not in after]
        if self.keep_thread:
            edits = recorded_edits(before, changed, removed_ids)
            return with_update(request, response, {"context_edits": {self.name: edits}})
        removals = [RemoveMessage(id=id_) for id_ in removed_ids]
        update: dict[str, object] = {"messages": [*changed, *removals]}
        if last_edits:  # by an instance that kept the thread
            update["context_edits"] = {self.name: ContextEdits(changed=[], removed=[])}
        return with_update(request, response, update)

    def _tool(self, request: ModelRequest[Any]) -> str | None:
        """The name of the tool that brings cleared results back, if there is one."""
        return recall_tool(request.tools) if self.keep_thread else None

    def _count(self, request: ModelRequest[Any]) -> Callable[[Sequence[AnyMessage]], int]:
        counter: TokenCounter = (
            (lambda messages: request.model.get_num_tokens_from_messages(list(messages)))
            if self.token_count_method == "model"
            else self.token_counter or count_tokens_approximately
        )
        return partial(tokens_sent, request, count=counter)

    def _edited(self, request: ModelRequest[Any], original: list[AnyMessage]) -> list[AnyMessage]:
        """The messages after all edits; the same list if nothing has changed."""
        count_tokens, messages = self._count(request), original
        for edit in self.edits:
            draft = list(messages)
            result = edit.apply(draft, count_tokens=count_tokens)
            new_messages: object = draft if result is None else result
            if isinstance(new_messages, list) and _is_same(new_messages, messages):
                continue
            several: Any = new_messages if isinstance(new_messages, list | tuple) else [None]
            if not all(isinstance(message, BaseMessage) for message in several):
                raise TypeError(
                    f"{type(edit).__name__}.apply must return messages or None, "
                    f"got {new_messages!r}."
                )
            messages = list(several)
        if messages is original or _is_same(messages, original):
            return original
        count, count_before = (sum(map(_is_cleared_result, some)) for some in (messages, original))
        reason = f"cleared {plural(count - count_before, 'tool result')}"
        set_reason(reason if count > count_before else "edited the conversation")
        return unchained(request, messages)

    def _all_cleared(self, request: ModelRequest[Any]) -> dict[str | None, AnyMessage]:
        """By their ids, the messages that can be cleared; the newest results only in need."""
        count_tokens = self._count(request)
        changed: dict[str | None, AnyMessage] = {}
        for keeps_newest in (True, False):
            messages = list(request.messages)
            for edit in self.edits:
                if isinstance(edit, ClearToolUsesEdit):
                    keep = edit.keep if keeps_newest else 0
                    edit = replace(edit, trigger=0, clear_at_least=1, keep=keep)
                    messages = edit.apply(messages, count_tokens=count_tokens)
            # Strict, because clearing replaces messages and removes none.
            pairs = zip(messages, request.messages, strict=True)
            changed.update((new.id, new) for new, old in pairs if new.id and new is not old)
            if changed:
                break
        return changed


def unchained(request: ModelRequest[Any], messages: list[AnyMessage]) -> list[AnyMessage]:
    """The messages, without the ids by which OpenAI would go on from its whole conversation."""
    if not getattr(unbound(request.model), "use_previous_response_id", False):
        return messages
    return [
        m.model_copy(update={"response_metadata": {**m.response_metadata, "id": None}})
        if m.response_metadata.get("id")
        else m
        for m in messages
    ]


def _is_same(messages: list[AnyMessage], others: list[AnyMessage]) -> bool:
    # By identity: pydantic compares messages field by field, which takes longer than an edit.
    return messages is others or (len(messages) == len(others) and all(map(is_, messages, others)))


def _is_cleared_result(message: AnyMessage) -> bool:
    return isinstance(message, ToolMessage) and is_cleared(message)


def with_hints(messages: list[AnyMessage], tool: str | None) -> list[AnyMessage]:
    """The messages, with the call that brings a result back in each cleared result."""
    if tool is None or not any(map(_is_cleared_result, messages)):
        return messages
    return [
        m.model_copy(update={"content": f"{m.content} {how_to_recall(tool, m)} returns it."})
        if _is_cleared_result(m)
        else m
        for m in messages
    ]


def recorded_edits(
    before: dict[str | None, AnyMessage], changed: Sequence[AnyMessage], removed_ids: list[str]
) -> ContextEdits:
    """Return the record by which later requests get the same edits."""
    groups: dict[str, tuple[dict[str, object], list[str]]] = {}
    for message in changed:
        old = before[message.id]
        names = type(message).model_fields.keys()
        fields = {n: v for n in names if (v := getattr(message, n)) != getattr(old, n, None)}
        # Most cleared results differ from their originals in the same way.
        groups.setdefault(repr(fields), (fields, []))[1].append(str(message.id))
    return ContextEdits(changed=[list(group) for group in groups.values()], removed=removed_ids)


def edited_again(messages: list[AnyMessage], edits: ContextEdits) -> list[AnyMessage]:
    """The messages with the edits of an earlier request."""
    fields = {id_: changed for changed, ids in edits["changed"] for id_ in ids}
    removed_ids = set(edits["removed"])
    return [
        message.model_copy(update=fields[message.id]) if message.id in fields else message
        for message in messages
        if message.id not in removed_ids
    ]
