"""Replace old tool results by a placeholder when a conversation is large.

The edit is made in a layer around the model, for the same reasons as summarization: only there is
the whole request known, it takes no super-step, and the thread is changed together with the answer.
Because the thread is changed, the next prompt begins like this one, so that the provider's prompt
cache serves it, and results are not cleared again in each turn.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from operator import is_
from typing import Any, Literal, Protocol, cast, runtime_checkable

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, RemoveMessage, ToolMessage
from langchain_core.messages.utils import count_tokens_approximately

from agent_factory import (
    AgentMiddleware,
    AgentState,
    Flow,
    ModelCallResult,
    ModelRequest,
    ModelResponse,
    Ordering,
)

from ._shared.messages import calls_of_results, is_cleared, without_inputs, without_result
from ._shared.models import with_update
from ._shared.token_counter import TokenCounter, check_token_counter, tokens_sent
from ._shared.validation import check_choice, check_count

__all__ = ["ClearToolUsesEdit", "ContextEdit", "ContextEditingMiddleware"]


@runtime_checkable
class ContextEdit(Protocol):
    """A way to make a conversation smaller. Define `apply` to write your own."""

    def apply(
        self, messages: list[AnyMessage], *, count_tokens: Callable[[Sequence[AnyMessage]], int]
    ) -> Sequence[AnyMessage] | None:
        """Return the edited messages.

        Change copies of messages (`message.model_copy(update=...)`), never the messages. A copy
        keeps its id, by which the thread is changed. A message that is left out is removed from
        the thread. A message that the thread does not hold is sent in this call only. If an edit
        makes the history invalid, it is repaired before the model sees it.

        Args:
            messages: The conversation, in a list that may be changed.
            count_tokens: Tokens of a request with these messages, including the system prompt and
                the tool schemas.

        Returns:
            The messages; None stands for the list that was passed, with its changes.
        """


@dataclass(frozen=True)
class ClearToolUsesEdit:
    """Replace the older tool results by a placeholder, in few and large steps.

    When the request is larger than the trigger, all older results are cleared at once. Then the
    conversation stays unchanged until it reaches the trigger again. The steps follow from the
    history alone, so a history that is sent again with all its results is cleared at the same
    places.

    Calls and results stay paired, and keep their ids, names, statuses and artifacts. Results that
    the model has not read yet, those after its last message, always stay.

    Args:
        trigger: Tokens of the whole request, including system prompt and tool schemas, above which
            results are cleared. The default leaves half of a window of 200,000 for other things.
        clear_at_least: Tokens that must be freed, or nothing is cleared. Each edit makes the
            provider read the prompt again from the first cleared result on. So once something is
            cleared, a further edit frees at least a quarter of the trigger.
        keep: How many of the newest results stay.
        clear_tool_inputs: Whether the arguments of the cleared calls are removed too.
        exclude_tools: Names of tools whose results stay.
        placeholder: What the model reads instead of a result.

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
        if not isinstance(self.placeholder, str):
            raise ValueError(f"placeholder must be a string, got {self.placeholder!r}.")

    def apply(
        self, messages: list[AnyMessage], *, count_tokens: Callable[[Sequence[AnyMessage]], int]
    ) -> list[AnyMessage]:
        """Clear old results in the list, which is returned, if the request is too large."""
        results = [i for i, message in enumerate(messages) if isinstance(message, ToolMessage)]
        if len(results) <= self.keep or count_tokens(messages) <= self.trigger:
            return messages
        calls = calls_of_results(messages)
        marked = {i for i in results if is_cleared(cast(ToolMessage, messages[i]))}
        left = [
            i
            for i in results
            if i not in marked
            and messages[i].name not in self.exclude_tools
            and not (i in calls and calls[i][1]["name"] in self.exclude_tools)
        ]
        answers = [i for i, message in enumerate(messages) if isinstance(message, AIMessage)]

        def clearable(end: int) -> list[int]:
            """The results that may be cleared before a call with the messages before `end`."""
            older = bisect_left(results, end) - self.keep
            read = bisect_left(answers, end)
            if older <= 0 or not read:
                return []
            return left[: bisect_left(left, min(results[older - 1] + 1, answers[read - 1]))]

        # Each call so far is decided once more, in order: a history that is sent again, without the
        # marks of cleared results, is cleared at the same places. What is before a mark is settled.
        settled = max(marked, default=-1)
        ends = [i for i in (*answers, len(messages)) if i > settled and clearable(i)]
        later = max(self.clear_at_least, self.trigger // 4)
        least = later if marked else self.clear_at_least
        position = 0
        while position < len(ends):
            # Between two edits a conversation only grows.
            position = bisect_right(
                ends, self.trigger, position, key=lambda end: count_tokens(messages[:end])
            )
            for end in ends[position:]:
                position += 1
                if not (old := clearable(end)):
                    continue
                start = min([*old[:1], *(calls[i][0] for i in old if i in calls)])
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
                    left, least = left[len(old) :], later
                    break
        return messages


class ContextEditingMiddleware(AgentMiddleware[AgentState[Any], Any]):
    """Make a large conversation smaller by rules, without a call of a model.

    An edit also changes the thread, together with the model's answer. So it is not repeated in the
    next turn, and a failed call changes nothing.

    Put it before (outside) summarization, so that a summary is made only if clearing was not
    enough, and after (inside) layers that set the prompt and the tools, so that they are counted.

    Args:
        edits: The edits, in this order; each `ContextEdit` gets the messages that the one before
            it returned. None: one `ClearToolUsesEdit` with its defaults.
        token_count_method: "approximate" counts four characters as a token and costs almost
            nothing; "model" calls `get_num_tokens_from_messages` of the model, which may be slow
            or need a package.
        token_counter: Counts the tokens of a list of messages; replaces both methods.
        name: Distinguishes several instances.

    Raises:
        ValueError: `edits` is empty, `token_count_method` is unknown, or it is "model" and a
            counter is given.
        TypeError: An edit has no `apply`, or the counter is not a function. At run time: an edit
            returned something else than messages.

    >>> middleware = ContextEditingMiddleware(edits=[ClearToolUsesEdit(trigger=30_000)])
    >>> middleware.edits[0].trigger
    30000
    """

    ordering = Ordering(
        before=("SummarizationMiddleware", "ModelRetryMiddleware", "ModelFallbackMiddleware")
    )

    def __init__(
        self,
        *,
        edits: Iterable[ContextEdit] | None = None,
        token_count_method: Literal["approximate", "model"] = "approximate",
        token_counter: TokenCounter | None = None,
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
        self.edits = edits
        self.token_count_method = token_count_method
        self.token_counter = token_counter

    def around_model(self, request: ModelRequest[Any]) -> Flow[ModelCallResult[Any]]:
        """Call the model with the edited conversation, and write the edit to the thread."""
        counter: TokenCounter = (
            (lambda messages: request.model.get_num_tokens_from_messages(list(messages)))
            if self.token_count_method == "model"
            else self.token_counter or count_tokens_approximately
        )

        def count_tokens(messages: Sequence[AnyMessage]) -> int:
            return tokens_sent(request, messages, counter)

        messages = request.messages
        for edit in self.edits:
            passed = list(messages)
            result = edit.apply(passed, count_tokens=count_tokens)
            edited: Any = passed if result is None else result
            if isinstance(edited, list) and _is_same(edited, messages):
                continue
            if not isinstance(edited, list | tuple) or not all(
                isinstance(message, BaseMessage) for message in edited
            ):
                raise TypeError(
                    f"{type(edit).__name__}.apply must return messages or None, got {edited!r}."
                )
            messages = list(edited)
        response: ModelResponse[Any]
        if _is_same(messages, request.messages):
            response = yield request
            return response
        response = yield request.override(messages=messages)
        # Messages that the thread does not hold are for this call only, and so is their order.
        stored = {message.id for message in request.state.get("messages", ()) if message.id}
        before = {message.id: message for message in request.messages if message.id in stored}
        after = {message.id: message for message in messages}
        changed = [m for key, m in after.items() if key in before and m is not before[key]]
        removed = [RemoveMessage(id=str(key)) for key in before if key not in after]
        return with_update(request, response, {"messages": [*changed, *removed]})


def _is_same(messages: list[AnyMessage], others: list[AnyMessage]) -> bool:
    return messages is others or (len(messages) == len(others) and all(map(is_, messages, others)))
