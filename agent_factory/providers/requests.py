"""Messages in a form that their provider takes, whatever was done to them before.

Middleware, callers and models of other providers write into a thread, and old versions wrote
messages that are refused today. So the rules of a provider apply to each request, and threads need
no repair. Messages that obey the rules stay the same objects.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from operator import is_
from typing import Any, Final

from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    ToolMessage,
    convert_to_openai_messages,
)
from langchain_core.runnables.base import RunnableBinding

from agent_factory.models import chat_models_of
from agent_factory.providers.thoughts import has_thoughts, is_thought, without_thoughts
from agent_factory.upstream import ModelWrapper, model_params

Rule = Callable[[Sequence[AnyMessage]], Sequence[AnyMessage]]
"""Returns the messages of a request as a provider takes them; the same list if they are valid."""


def provider_of(model: object) -> str | None:
    """Return the name by which LangChain knows the provider of a chat model with rules.

    >>> from agent_factory.testing import ScriptedChatModel
    >>> provider_of(ScriptedChatModel(["Hello!"])) is None
    True
    """
    name = model_params(chat_models_of(model)[0]).get("ls_provider")
    return name if name in RULES else None


def valid_messages(provider: str | None, messages: Sequence[AnyMessage]) -> Sequence[AnyMessage]:
    """Return the messages of a request in the form that a provider takes.

    Args:
        provider: The name by which LangChain knows the provider: "anthropic", "openai", "mistral".
        messages: Messages without the system prompt, in which each call has one result.

    >>> from langchain_core.messages import HumanMessage
    >>> answer = AIMessage(["", {"type": "text", "text": "Hello."}])
    >>> valid_messages("anthropic", [HumanMessage("Hi"), answer])[-1].content
    [{'type': 'text', 'text': 'Hello.'}]
    """
    for rule in RULES.get(provider or "", ()):
        messages = rule(messages)
    return messages


def settings_for(provider: str, model: Any, messages: Sequence[AnyMessage]) -> dict[str, Any]:
    """Return the settings of a request whose messages alone would be refused; {} nearly always.

    DeepSeek: in thinking mode, which is the default, answers with calls go back with their
    `reasoning_content` in all later turns (api-docs.deepseek.com, guides/thinking_mode).
    langchain-deepseek 1.1 keeps the thoughts and does not send them; `extra_body` replaces the
    messages of its request. An answer of another model has no thoughts, and goes with an empty one.

    Args:
        provider: The name by which LangChain knows the provider.
        model: The model with its bound settings; its own `extra_body` stays, which turns thinking
            on and off.
        messages: All messages of the request, with the system prompt.
    """
    answers = [m for m in messages if isinstance(m, AIMessage)]
    if provider != "deepseek" or not any(answer.tool_calls for answer in answers):
        return {}
    body: list[Any] = convert_to_openai_messages(list(messages))
    for message, form in zip(messages, body, strict=True):
        if isinstance(message, AIMessage):
            form["reasoning_content"] = message.additional_kwargs.get("reasoning_content", "")
    extra: Any = None
    while isinstance(model, RunnableBinding | ModelWrapper):
        if isinstance(model, ModelWrapper):
            model = model.inner
        else:
            extra, model = extra or model.kwargs.get("extra_body"), model.bound
    extra = extra or getattr(model, "extra_body", None) or {}
    return {"extra_body": {**extra, "messages": body}}


def model_for(provider: str, model: Any, messages: Sequence[AnyMessage]) -> Any:
    """Return the model for a request: without thinking where a turn has lost its thoughts.

    Claude with manual thinking (`thinking={"type": "enabled"}`, models up to 4.5): a turn of the
    assistant with calls begins with a thinking block (platform.claude.com,
    build-with-claude/extended-thinking). Another model may have begun the turn, or a redaction may
    have left the thought out.
    """
    if isinstance(model, RunnableBinding):
        inner = model_for(provider, model.bound, messages)
        return model if inner is model.bound else model.model_copy(update={"bound": inner})
    if isinstance(model, ModelWrapper):
        inner = model_for(provider, model.inner, messages)
        return model if inner is model.inner else model.model_copy(update={"inner": inner})
    thinking = getattr(model, "thinking", None)
    if provider != "anthropic" or not thinking or thinking.get("type") != "enabled":
        return model
    for message in reversed(messages):
        if message.type == "human":
            break
        has_calls = isinstance(message, AIMessage) and message.tool_calls
        if has_calls and not any(map(is_thought, message.content[:1])):
            return model.model_copy(update={"thinking": {"type": "disabled"}})
    return model


def _changed(
    change: Callable[[AnyMessage], AnyMessage | None], messages: Sequence[AnyMessage]
) -> Sequence[AnyMessage]:
    """Return changed messages without those that became None; the same list without a change."""
    copies = [copy for message in messages if (copy := change(message)) is not None]
    is_same = len(copies) == len(messages) and all(map(is_, copies, messages))
    return messages if is_same else copies


def _with_content(message: AnyMessage, content: Any) -> AnyMessage:
    if content is message.content:  # nearly always, of a text
        return message
    is_same = len(content) == len(message.content) and all(map(is_, content, message.content))
    return message if is_same else message.model_copy(update={"content": content})


def without_empty_text(message: AnyMessage) -> AnyMessage | None:
    """Return an answer without empty texts; None if nothing is left.

    Anthropic: "text content blocks must be non-empty", "must contain non-whitespace text"
    (platform.claude.com/docs/en/api/errors). Bedrock: a blank text of a ContentBlock is refused
    (docs.aws.amazon.com/bedrock, API_runtime_ContentBlock). Mistral: an assistant message has
    content or tool calls, and content of texts or chunks (docs.mistral.ai/api). langchain-anthropic
    1.7.10 begins the content of a streamed answer with an empty text.
    """
    if not isinstance(message, AIMessage):
        return message
    content: Any = message.content
    if isinstance(content, list):
        content = _texts_and_blocks(message)
    elif not content.strip():
        content = ""
    if not (content or message.tool_calls or message.invalid_tool_calls):
        return None
    return _with_content(message, content)


def _texts_and_blocks(message: AIMessage) -> list[Any]:
    """Return the content of an answer as blocks, without empty texts."""
    blocks = [message.content] if isinstance(message.content, str) else message.content
    content = [{"type": "text", "text": b} if isinstance(b, str) else b for b in blocks]
    return [b for b in content if b.get("type") != "text" or str(b.get("text") or "").strip()]


def with_joined_answers(messages: Sequence[AnyMessage]) -> Sequence[AnyMessage]:
    """Return messages in which an answer that follows another answer is part of the first.

    Bedrock: roles alternate. Gemini: a call follows a turn of the user or results. Anthropic joins
    the answers itself (platform.claude.com, api/messages), and pauses an answer between a call of a
    server tool and its result.
    """
    valid: list[AnyMessage] = []
    for message in messages:
        last = valid[-1] if valid else None
        if isinstance(message, AIMessage) and isinstance(last, AIMessage) and not last.tool_calls:
            content = [*_texts_and_blocks(last), *_texts_and_blocks(message)]
            valid[-1] = message.model_copy(update={"content": content})
        else:
            valid.append(message)
    return messages if len(valid) == len(messages) else valid


_SERVER_CALLS: Final = frozenset({"server_tool_use", "mcp_tool_use"})


def with_ended_server_calls(messages: Sequence[AnyMessage]) -> Sequence[AnyMessage]:
    """Return messages without calls of server tools that have no result, except the last message.

    Anthropic: a `server_tool_use` without a result is refused unless the message is the last, which
    the API then goes on with (platform.claude.com, build-with-claude/handling-stop-reasons).
    """
    last = messages[-1] if messages else None

    def ended(message: AnyMessage) -> AnyMessage:
        content = message.content
        if message is last or not isinstance(message, AIMessage) or isinstance(content, str):
            return message
        blocks = [block for block in content if isinstance(block, dict)]
        open_ids = {b.get("id") for b in blocks if b.get("type") in _SERVER_CALLS}
        open_ids -= {block.get("tool_use_id") for block in blocks}
        if not open_ids:
            return message
        return _with_content(message, [b for b in blocks if b.get("id") not in open_ids])

    return _changed(ended, messages)


def with_unique_ids(messages: Sequence[AnyMessage]) -> Sequence[AnyMessage]:
    """Return messages in which no call has the id of an earlier call.

    Anthropic: "`tool_use` ids must be unique" in a request. Models of other providers count from 1
    in each answer.
    """
    calls = (call for m in messages if isinstance(m, AIMessage) for call in m.tool_calls)
    times = Counter(call["id"] for call in calls)
    if not times or max(times.values()) == 1:
        return messages
    seen: Counter[str | None] = Counter()
    new_ids: dict[str | None, str] = {}

    def renamed(message: AnyMessage) -> AnyMessage:
        if isinstance(message, ToolMessage) and message.tool_call_id in new_ids:
            return message.model_copy(update={"tool_call_id": new_ids[message.tool_call_id]})
        if not isinstance(message, AIMessage) or not message.tool_calls:
            return message
        for call in message.tool_calls:
            seen[call["id"]] += 1
            new_ids.pop(call["id"], None)
            if seen[call["id"]] > 1:
                new_ids[call["id"]] = f"{call['id']}_{seen[call['id']]}"
        if new_ids.keys().isdisjoint(call["id"] for call in message.tool_calls):
            return message
        calls = [{**call, "id": new_ids.get(call["id"], call["id"])} for call in message.tool_calls]
        content = message.content
        if isinstance(content, list):  # blocks repeat the calls
            content = [
                {**block, "id": new_ids[block["id"]]}
                if isinstance(block, dict) and block.get("id") in new_ids
                else block
                for block in content
            ]
        return message.model_copy(update={"tool_calls": calls, "content": content})

    return _changed(renamed, messages)


ACKNOWLEDGEMENT: Final = "I have the results."
"""Answer between a result and a message of the user, where a provider wants an answer there."""


def with_answers_to_results(messages: Sequence[AnyMessage]) -> Sequence[AnyMessage]:
    """Return messages in which an answer stands between results and a message of the user.

    Mistral: "Unexpected role 'user' after role 'tool'", code 3230. A limit, a structured answer by
    tool or a crash ends a turn with results.
    """
    valid: list[AnyMessage] = []
    for message in messages:
        after_result = valid and isinstance(valid[-1], ToolMessage)
        if after_result and not isinstance(message, AIMessage | ToolMessage):
            valid.append(AIMessage(ACKNOWLEDGEMENT))
        valid.append(message)
    return messages if len(valid) == len(messages) else valid


_CUSTOM_CALL, _CUSTOM_OUTPUT = "custom_tool_call", "custom_tool_call_output"


def with_custom_outputs(messages: Sequence[AnyMessage]) -> Sequence[AnyMessage]:
    """Return messages in which results of custom tools have the form of their calls.

    OpenAI: a `custom_tool_call` is answered by a `custom_tool_call_output`
    (platform.openai.com/docs/guides/function-calling, custom tools). Errors, decisions of people
    and placeholders are plain texts.
    """
    ids = {
        block.get("call_id")
        for message in messages
        if isinstance(message, AIMessage) and isinstance(message.content, list)
        for block in message.content
        if isinstance(block, dict) and block.get("type") == _CUSTOM_CALL
    }
    if not ids:
        return messages

    def answered(message: AnyMessage) -> AnyMessage:
        if not isinstance(message, ToolMessage) or message.tool_call_id not in ids:
            return message
        content: Any = message.content
        first = content[0] if content and isinstance(content, list) else None
        if isinstance(first, dict) and first.get("type") == _CUSTOM_OUTPUT:
            return message
        output = {"type": _CUSTOM_OUTPUT, "output": message.text}
        return message.model_copy(update={"content": [output]})

    return _changed(answered, messages)


_ITEM_ID = re.compile("(msg|fc|ctc)_")


def with_whole_items(message: AnyMessage) -> AnyMessage:
    """Return an answer of OpenAI's Responses API whose items are complete.

    OpenAI refuses "an item provided without its required 'reasoning' item", and a reasoning item
    without the item behind it (platform.openai.com/docs/guides/reasoning). Items without an id are
    free of both. An answer that took reasoning tokens and has no reasoning item has lost the item.
    """
    if not isinstance(message, AIMessage) or not isinstance(message.content, list):
        return message
    blocks: list[Any] = list(message.content)
    while blocks and is_thought(blocks[-1]) and not message.tool_calls:
        blocks.pop()
    usage: Any = message.usage_metadata or {}
    lost = (usage.get("output_token_details") or {}).get("reasoning") and not any(
        map(is_thought, blocks)
    )
    if lost:
        blocks = [_without_item_id(block) for block in blocks]
    return _with_content(message, blocks)


def _without_item_id(block: Any) -> Any:
    if not isinstance(block, dict) or not _ITEM_ID.match(str(block.get("id", ""))):
        return block
    return {key: value for key, value in block.items() if key != "id"}


_NOT_IN_NAMES = re.compile(r"[\s<|\\/>]+")


def with_valid_name(message: AnyMessage) -> AnyMessage:
    """Return a message whose name has no character that OpenAI refuses.

    The pattern of `name` is `^[^\\s<|\\\\/>]+$` (platform.openai.com/docs/api-reference/chat).
    """
    if not message.name or not _NOT_IN_NAMES.search(message.name):
        return message
    return message.model_copy(update={"name": _NOT_IN_NAMES.sub("_", message.name)})


def with_texts_as_results(message: AnyMessage) -> AnyMessage:
    """Return a result that Gemini reads as the text that it is.

    langchain-google-genai 4.4.3 reads a result as JSON where it can, so that the version "1.10"
    becomes the number 1.1, and passes no status on. Gemini documents the keys "output" and "error"
    of a function response (ai.google.dev/api/caching, FunctionResponse).
    """
    if not isinstance(message, ToolMessage) or not isinstance(message.content, str):
        return message
    is_error = message.status == "error"
    try:
        value = json.loads(message.content)
    except ValueError:  # a text that is sent as it is
        value = message.content if is_error else {}
    if isinstance(value, dict) and ("error" in value or not is_error):
        return message
    key = "error" if is_error else "output"
    return message.model_copy(update={"content": json.dumps({key: message.content})})


def with_results_of_text(message: AnyMessage) -> AnyMessage:
    """Return a result without pictures and files, which these providers take from users alone.

    Mistral, Groq and DeepSeek document texts in results. Their packages (seen with
    langchain-mistralai 1.1.6, -groq 1.1.3, -deepseek 1.1.1) send LangChain's own blocks, or the
    letters of their base64.
    """
    if not isinstance(message, ToolMessage) or isinstance(message.content, str):
        return message
    blocks: list[Any] = list(message.content)
    for index, block in enumerate(blocks):
        if isinstance(block, dict) and block.get("type") != "text":
            kind = block.get("type")
            words = f"[Left out here: {kind}, which the provider does not take in a result.]"
            blocks[index] = {"type": "text", "text": words}
    return _with_content(message, blocks)


def _without_foreign_thoughts(makers: Collection[str]) -> Rule:
    """Return a rule by which thoughts of other makers are left out.

    `response_metadata["model_provider"]` names the maker of an answer. No provider documents the
    thoughts of another provider; several packages send them all the same.
    """

    def own(message: AnyMessage) -> AnyMessage:
        maker = message.response_metadata.get("model_provider", "")
        if maker in makers or not has_thoughts(message) or (makers and not maker):
            return message
        return without_thoughts(message)

    return partial(_changed, own)


_TEXTS: Final = partial(_changed, without_empty_text)
_OPENAI: Final = (
    _without_foreign_thoughts({"openai", "azure", "azure_openai"}),
    with_custom_outputs,
    partial(_changed, with_whole_items),
    partial(_changed, with_valid_name),
)
_RESULTS: Final = partial(_changed, with_results_of_text)
_CLAUDE: Final = (_TEXTS, with_joined_answers, with_ended_server_calls, with_unique_ids)

RULES: Final[Mapping[str, tuple[Rule, ...]]] = {
    "anthropic": (_without_foreign_thoughts({"anthropic"}), *_CLAUDE),
    "amazon_bedrock": (_without_foreign_thoughts({"bedrock", "bedrock_converse"}), *_CLAUDE),
    "google_genai": (
        _without_foreign_thoughts({"google_genai"}),
        _TEXTS,
        with_joined_answers,
        partial(_changed, with_texts_as_results),
    ),
    "mistral": (
        _without_foreign_thoughts({"mistralai"}),
        _TEXTS,
        with_answers_to_results,
        _RESULTS,
    ),
    # langchain-cohere 0.6 cannot send back even the thoughts that it has read.
    "cohere": (_without_foreign_thoughts(()), _TEXTS),
    "ollama": (_without_foreign_thoughts({"ollama"}), _RESULTS),
    **dict.fromkeys(("openai", "azure"), _OPENAI),
    **dict.fromkeys(("deepseek", "xai", "groq"), (*_OPENAI, _RESULTS)),
}
"""The rules of each provider, in the order in which they apply."""
