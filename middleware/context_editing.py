"""Old tool results give way to a placeholder once a conversation is large.

It is a model layer for the reasons that summarization is one: only there is all that will be sent
known, it takes no super-step, and the thread is changed together with the answer. That the edit
reaches the thread is what makes it cheap: the next prompt begins as this one did, so the provider's
prompt cache serves it, and what was cleared need not be found again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Sequence
from dataclasses import dataclass
from operator import is_
from typing import Any, Literal, Protocol, runtime_checkable

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, RemoveMessage, ToolMessage
from langchain_core.messages.utils import count_tokens_approximately
from langgraph.types import Command

from agent_factory import (
    AgentMiddleware,
    AgentState,
    ExtendedModelResponse,
    ModelRequest,
    ModelResponse,
    Ordering,
)
from agent_factory.middleware._shared.messages import (
    calls_of_results,
    is_cleared,
    without_inputs,
    without_result,
)
from agent_factory.middleware._shared.token_counter import TokenCounter, tokens_sent
from agent_factory.middleware._shared.validation import check_choice, check_count

__all__ = ["ClearToolUsesEdit", "ContextEdit", "ContextEditingMiddleware"]


@runtime_checkable
class ContextEdit(Protocol):
    """One way to make a conversation smaller; write your own by defining `apply`."""

    def apply(
        self, messages: list[AnyMessage], *, count_tokens: Callable[[Sequence[AnyMessage]], int]
    ) -> Sequence[AnyMessage] | None:
        """The messages as they should be.

        Change copies of messages (`message.model_copy(update=...)`), never the messages. A copy
        keeps its id, by which the thread is changed; a message left out is removed from the
        thread; a message the thread does not hold is shown in this call only. A history that an
        edit breaks is repaired before the model sees it.

        Args:
            messages: The conversation, in a list of your own.
            count_tokens: Tokens of a request with these messages; the system prompt and the tool
                schemas are counted in.

        Returns:
            The messages; None stands for the list that was given, as it is now.
        """


@dataclass(frozen=True)
class ClearToolUsesEdit:
    """Replaces the older tool results by a placeholder, all in one go.

    Calls and results stay paired, with their ids, names, statuses and artifacts. Results that the
    model has not read yet, those after its last message, always stay.

    Args:
        trigger: Tokens of the whole request, system prompt and tool schemas included, above which
            results are cleared. The default leaves half of a window of 200,000 to other things.
        clear_at_least: Tokens that must come free, or nothing is cleared. Each edit makes the
            provider read the prompt anew from the first cleared result on; with a tenth of the
            trigger that happens seldom, with 0 in each turn where a conversation stays large.
        keep: How many of the newest results stay.
        clear_tool_inputs: Empty the arguments of the cleared calls too.
        exclude_tools: Names of tools whose results stay.
        placeholder: What the model reads instead of a result.

    Raises:
        ValueError: A number is no whole number of at least 0, or a name or the placeholder is no
            string.

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
            number = getattr(self, name)
            if number is None:
                raise ValueError(f"{name} must be a whole number of at least 0, not None.")
            check_count(name, number)
        names = self.exclude_tools
        several = isinstance(names, list | tuple | set | frozenset)
        if not several or not all(isinstance(name, str) for name in names):
            raise ValueError(
                f"exclude_tools must be a list of tool names, such as ['search'], not {names!r}."
            )
        if not isinstance(self.placeholder, str):
            raise ValueError(f"placeholder must be a string, not {self.placeholder!r}.")

    def apply(
        self, messages: Sequence[AnyMessage], *, count_tokens: Callable[[Sequence[AnyMessage]], int]
    ) -> list[AnyMessage]:
        """The messages with old results cleared, where they exceed the trigger.

        Args:
            messages: The conversation.
            count_tokens: Tokens of a request with some messages.
        """
        messages = list(messages)
        old = self._clearable(messages)
        if not old or (tokens := count_tokens(messages)) <= self.trigger:
            return messages
        edited = self._without(messages, old)
        freed = tokens - count_tokens(edited)
        return edited if freed >= self.clear_at_least else messages

    def _clearable(self, messages: list[AnyMessage]) -> dict[int, ToolMessage]:
        """By index, the results that may go."""
        results = [(i, m) for i, m in enumerate(messages) if isinstance(m, ToolMessage)]
        older = results[: max(0, len(results) - self.keep)]
        if not older:
            return {}
        read = _last_answer(messages)
        calls = calls_of_results(messages) if self.exclude_tools else {}
        return {
            index: message
            for index, message in older
            if index < read
            and not is_cleared(message)
            and message.name not in self.exclude_tools
            and not (index in calls and calls[index][1]["name"] in self.exclude_tools)
        }

    def _without(self, messages: list[AnyMessage], old: dict[int, ToolMessage]) -> list[AnyMessage]:
        edited = list(messages)
        for index, message in old.items():
            edited[index] = without_result(message, self.placeholder)
        if not self.clear_tool_inputs:
            return edited
        for index, (caller, call) in calls_of_results(messages).items():
            if index in old and isinstance(message_of_call := edited[caller], AIMessage):
                edited[caller] = without_inputs(message_of_call, {call["id"]})
        return edited


def _last_answer(messages: Sequence[AnyMessage]) -> int:
    """Where the model's last message is; the beginning where there is none."""
    backwards = range(len(messages) - 1, -1, -1)
    return next((i for i in backwards if isinstance(messages[i], AIMessage)), 0)


class ContextEditingMiddleware(AgentMiddleware[AgentState[Any], Any]):
    """Makes a large conversation smaller by rule, without asking a model.

    What an edit changes is changed in the thread too, together with the model's answer: it is not
    done again in the next turn, and a call that fails changes nothing.

    Put it before (outside) summarization, so that a summary is made only where clearing was not
    enough, and after (inside) layers that set the prompt and the tools, so that they are counted.

    Args:
        edits: What to do, in this order; each `ContextEdit` sees what the one before it left.
            None: one `ClearToolUsesEdit` with its defaults.
        token_count_method: "approximate" takes four characters for a token and costs next to
            nothing; "model" asks the model that is called, by its `get_num_tokens_from_messages`,
            which may be slow or need a package.
        token_counter: Counts the tokens of a list of messages, in the place of both.
        name: Tells several instances apart.

    Raises:
        ValueError: `edits` is empty, `token_count_method` is unknown, or a counter is given
            beside "model".
        TypeError: An edit has no `apply`, or the counter is no function. At run time: an edit
            gave something else than messages.

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
        edits: Sequence[ContextEdit] | None = None,
        token_count_method: Literal["approximate", "model"] = "approximate",
        token_counter: TokenCounter | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(name=name)
        check_choice("token_count_method", token_count_method, ("approximate", "model"))
        if token_counter is not None and not callable(token_counter):
            raise TypeError(f"token_counter must be a function on messages, not {token_counter!r}.")
        if token_counter is not None and token_count_method == "model":
            raise ValueError("Give a token_counter or token_count_method='model', not both.")
        self.edits = _checked_edits(edits)
        self.token_count_method = token_count_method
        self.token_counter = token_counter

    def around_model(
        self, request: ModelRequest[Any]
    ) -> Generator[Any, Any, ModelResponse[Any] | ExtendedModelResponse[Any]]:
        """Asks the model with the edited conversation, and writes the edit to the thread."""
        messages = self._edited(request)
        if _same(messages, request.messages):
            plain: ModelResponse[Any] = yield request
            return plain
        response: ModelResponse[Any] = yield request.override(messages=messages)
        written = _rewritten(request, messages)
        return ExtendedModelResponse(response, Command(update={"messages": written}))

    def _edited(self, request: ModelRequest[Any]) -> list[AnyMessage]:
        count = self._counter(request)

        def count_tokens(messages: Sequence[AnyMessage]) -> int:
            return tokens_sent(request, messages, count)

        messages = request.messages
        for edit in self.edits:
            own = list(messages)
            result = edit.apply(own, count_tokens=count_tokens)
            edited: Any = own if result is None else result
            if not isinstance(edited, list) or not _same(edited, messages):
                messages = _checked_messages(edit, edited)
        return messages

    def _counter(self, request: ModelRequest[Any]) -> TokenCounter:
        if self.token_counter is not None:
            return self.token_counter
        if self.token_count_method == "model":
            return lambda messages: request.model.get_num_tokens_from_messages(list(messages))
        return count_tokens_approximately


def _checked_edits(edits: Any) -> tuple[ContextEdit, ...]:
    if edits is None:
        return (ClearToolUsesEdit(),)
    if not isinstance(edits, list | tuple) or not edits:
        raise ValueError(f"edits must be a list such as [ClearToolUsesEdit()], not {edits!r}.")
    for edit in edits:
        if isinstance(edit, type) or not isinstance(edit, ContextEdit):
            raise TypeError(
                f"edits must hold objects with apply(messages, *, count_tokens), not {edit!r}."
            )
    return tuple(edits)


def _checked_messages(edit: ContextEdit, messages: Any) -> list[AnyMessage]:
    if not isinstance(messages, list | tuple) or not all(
        isinstance(message, BaseMessage) for message in messages
    ):
        raise TypeError(f"{type(edit).__name__}.apply must return messages, not {messages!r}.")
    return list(messages)


def _same(messages: list[AnyMessage], others: list[AnyMessage]) -> bool:
    return messages is others or (len(messages) == len(others) and all(map(is_, messages, others)))


def _rewritten(request: ModelRequest[Any], messages: Sequence[AnyMessage]) -> list[BaseMessage]:
    """What to write so that the thread shows these messages instead of the request's.

    Messages that the thread does not hold are for one call only, and so is their order.
    """
    stored = {message.id for message in request.state.get("messages", ()) if message.id}
    before = {message.id: message for message in request.messages if message.id in stored}
    after = {message.id: message for message in messages}
    changed = [m for key, m in after.items() if key in before and m is not before[key]]
    removed = [RemoveMessage(id=str(key)) for key in before if key not in after]
    return [*changed, *removed]
