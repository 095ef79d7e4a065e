"""Ask a model again after an answer that is empty, cut off or unreadable."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from langchain_core.messages import AIMessage, HumanMessage

from agent_factory import (
    AgentState,
    Flow,
    ModelRequest,
    ModelResponse,
    Ordering,
    OutputError,
    TurnError,
    set_reason,
)
from agent_factory.providers import ending_of
from agent_factory.providers.thoughts import THOUGHT_BLOCKS

from ._shared.final_answer import NO_ANSWER
from ._shared.messages import with_remark, without_calls
from ._shared.models import with_metadata
from ._shared.overflow import plural
from ._shared.payload_free import PayloadFree
from ._shared.validation import check_choice, check_count

__all__ = ["AnswerGuardMiddleware", "UnusableAnswerError"]

_SOURCE = "answer_guard"

_ANSWER_KEYS = ("audio", "tool_outputs")
"""Keys of `additional_kwargs` with answers other than text, in OpenAI's integration."""


class UnusableAnswerError(TurnError):
    """No answer was usable, and `on_failure` is "error". The work so far is kept.

    Attributes:
        ai_message: The last answer.
        failed_answers: A dict for each answer: `fault`, `reason` and `usage_metadata`.
    """

    code = "AF355"

    def __init__(self, ai_message: AIMessage, failed_answers: list[dict[str, Any]]) -> None:
        self.ai_message, self.failed_answers = ai_message, failed_answers
        faults = ", ".join(f"{failed['fault']} ({failed['reason']})" for failed in failed_answers)
        super().__init__(
            "the model",
            f"gave no usable answer: {faults}.",
            "Allow it more output tokens, ask for less at once, or choose on_failure='answer'.",
        )


@dataclass(frozen=True, slots=True)
class _Fault:
    kind: Literal["empty", "cut", "malformed"]
    reason: str

    def remark(self, message: AIMessage) -> str:
        """Remark for the model in the next request."""
        calls = [*message.tool_calls, *message.invalid_tool_calls]
        if self.kind == "empty":
            return "[Your last answer was empty. Give your answer in text, or call a tool.]"
        if self.kind == "malformed":
            return "[Your last call could not be read, and did not run. Make it again.]"
        cut = "Your last answer was cut off at the limit of output tokens"
        if calls:
            names = ", ".join(dict.fromkeys(str(call["name"]) for call in calls))
            return (
                f"[{cut}, with a call of {names}. No call of it ran. Make smaller calls: split the "
                "work over several of them.]"
            )
        if not message.text:
            return f"[{cut} before it began. Think briefly, then answer.]"
        return f"[{cut}. Answer again, in at most half the length.]"

    def note(self, times: int) -> str:
        """Note for the user if no answer was usable."""
        if self.kind == "cut":
            return "[The answer was cut off at the limit of output tokens.]"
        what = "gave no answer" if self.kind == "empty" else "made a call that could not be read"
        often = f", {times} times in a row" if times > 1 else ""
        return f"[The model {what}{often}.]"


class AnswerGuardMiddleware(PayloadFree[AgentState]):
    """Asks the model again after an answer that is empty, cut off or unreadable.

    - *Empty* is an answer without text, calls and other content. Models answer so after tool
      results, and reasoning models when they only think.
    - *Cut* is an answer with the provider's mark of an end at a limit of tokens: `finish_reason`
      "length", `stop_reason` "max_tokens" and the like. None of its calls runs, not even a call
      that looks complete: integrations complete the JSON of a cut call.
    - *Malformed* is a call that the provider could not read: `MALFORMED_FUNCTION_CALL` and the
      like.

    The model gets the same request, with a remark about the fault. Neither the failed answer nor
    the remark enters the thread. The `response_metadata["failed_answers"]` of the answer lists all
    failed answers: `fault`, `reason` and `usage_metadata`, because the tokens were paid for.

    Refusals are left to `ModelRefusalMiddleware`, and exceptions to `ModelRetryMiddleware`. If an
    answer fails while it streams, its tokens have been streamed already. The tokens of the next
    answer follow under another message id.

    Args:
        max_retries: Requests for an answer after the first; with 0 no call of a cut answer runs,
            and `on_failure` follows at once.
        on_cut: The consequence of a cut text. "shorten": the model is asked for a shorter answer.
            "continue": the model is asked to go on where the text ended, and the parts are joined.
            A cut call and a structured answer are always requested again.
        on_failure: The consequence if no answer is usable. "answer": the run ends with the longest
            text so far and a note about the fault, without calls. "error": UnusableAnswerError is
            raised.
        keep_failed: Whether `failed_answers` also holds the `text` and the `tool_calls` of each
            failed answer.
        name: The name of this instance, if a stack has several.

    Raises:
        ValueError: `max_retries` is not a whole number of at least 0, or `on_cut` or `on_failure`
            is unknown.

    >>> from agent_factory import create_agent
    >>> from agent_factory.testing import ScriptedChatModel
    >>> model = ScriptedChatModel(["", "It is five."])
    >>> agent = create_agent(model, middleware=[AnswerGuardMiddleware()])
    >>> [message.text for message in agent.invoke({"messages": "2 + 3?"})["messages"]]
    ['2 + 3?', 'It is five.']
    """

    guard_settings = ("on_failure",)
    ordering = Ordering(("ModelRetryMiddleware",), ("GuardMiddleware",), reads=("answers",))

    def __init__(
        self,
        *,
        max_retries: int = 2,
        on_cut: Literal["shorten", "continue"] = "shorten",
        on_failure: Literal["answer", "error"] = "answer",
        keep_failed: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__(name=name)
        check_count("max_retries", max_retries, required=True)
        check_choice("on_cut", on_cut, ("shorten", "continue"))
        check_choice("on_failure", on_failure, ("answer", "error"))
        if on_cut == "continue":  # data may begin in one part and end in the next
            self.ordering = replace(self.ordering, after=("GuardMiddleware", "PIIMiddleware"))
        self.max_retries = max_retries
        self.most_attempts = 1 + max_retries
        self.on_cut, self.on_failure, self.keep_failed = on_cut, on_failure, keep_failed

    def around_model(self, request: ModelRequest[Any]) -> Flow[ModelResponse]:
        """Ask the model until an answer is usable, or no retry is left."""
        next_request, text_so_far = request, ""  # the second if cut answers are continued
        failed: list[dict[str, Any]] = []
        longest = ""
        while True:
            try:
                response: ModelResponse = yield next_request
            except OutputError as error:  # a cut answer does not fit the schema either
                if (message := error.ai_message) is None or (fault := _fault(message)) is None:
                    raise
            else:
                # A layer further in may have added results of calls.
                answers = [m for m in response.result if isinstance(m, AIMessage)]
                if not answers:
                    return response  # the engine reports the fault
                fault = _fault(message := answers[-1])
                # A text that could be parsed is complete. A call need not be: see the class.
                is_parsed = response.structured_response is not None and not message.tool_calls
                if fault is None or is_parsed:
                    break
            record = {"fault": fault.kind, "reason": fault.reason}
            failed.append({**record, "usage_metadata": message.usage_metadata})
            if self.keep_failed:
                calls = [*message.tool_calls, *message.invalid_tool_calls]
                failed[-1] |= {"text": str(message.text), "tool_calls": calls}
            # If no answer is usable, the run ends with the longest of them.
            longest = max(longest, text_so_far + message.text, key=len)
            if len(failed) > self.max_retries:
                return self._ended(message, fault, longest, failed)
            # Only a whole answer can be parsed, so a structured answer is requested again.
            may_continue = self.on_cut == "continue" and request.response_format is None
            has_calls = message.tool_calls or message.invalid_tool_calls
            continues = fault.kind == "cut" and may_continue and message.text and not has_calls
            messages = request.messages
            if continues:
                text_so_far += message.text
            if text_so_far:
                remark = HumanMessage(_CONTINUE, additional_kwargs={"lc_source": _SOURCE})
                messages = [*messages, AIMessage(text_so_far), remark]
            if not continues:
                messages = with_remark(messages, fault.remark(message), _SOURCE)
            next_request = request.override(messages=messages)
        if not failed:
            return response
        reason = failed[-1]["reason"]
        set_reason(f"asked again {plural(len(failed), 'time')}, the last for {reason}")
        if text_so_far:
            content: object = f"{text_so_far}{message.text}"
            if isinstance(message.content, list):
                content = [{"type": "text", "text": text_so_far}, *message.content]
            whole_answer = message.model_copy(update={"content": content})
            result = [whole_answer if other is message else other for other in response.result]
            response = ModelResponse(result, response.structured_response)
        return with_metadata(response, lambda data: {**data, "failed_answers": failed})

    def _ended(
        self, message: AIMessage, fault: _Fault, text: str, failed: list[dict[str, object]]
    ) -> ModelResponse:
        set_reason(f"no usable answer, the last for {fault.reason}")
        if self.on_failure == "error":
            raise UnusableAnswerError(message, failed)
        content = "\n\n".join(filter(None, [text, fault.note(len(failed))]))
        last_response = ModelResponse([without_calls(message, content)])
        return with_metadata(last_response, lambda data: {**data, "failed_answers": failed})


_CONTINUE = (
    "[Your answer was cut off at the limit of output tokens. Go on exactly where it ended. Repeat "
    "nothing, and do not begin with a remark.]"
)


def _fault(message: AIMessage) -> _Fault | None:
    """Fault of an answer; None if it is usable, or refused."""
    kind, sign = ending_of(message) or (None, "")
    if kind == "refused":
        return None
    if message.response_metadata.get(NO_ANSWER):
        return _Fault("empty", "no text and no calls")
    if kind == "cut" or kind == "malformed":
        return _Fault(kind, sign)
    if message.tool_calls or message.invalid_tool_calls or message.text.strip():
        return None
    kwargs = message.additional_kwargs
    blocks = message.content if isinstance(message.content, list) else ()
    kinds = {block.get("type") for block in blocks if isinstance(block, dict)}
    if kinds - THOUGHT_BLOCKS - {"text"} or any(kwargs.get(key) for key in _ANSWER_KEYS):
        return None  # a picture, or a search by the provider
    return _Fault("empty", "no text and no calls")
