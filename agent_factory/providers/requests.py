"""Messages in a form that their provider takes, whatever was done to them before.

Middleware, callers and models of other providers write into a thread, and old versions wrote
messages that are refused today. So the rules of a provider apply to each request, and threads need
no repair. Messages that obey the rules stay the same objects.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from functools import partial
from itertools import count, takewhile
from operator import is_
from typing import Any, Final

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, ToolMessage, convert_to_openai_messages
from langchain_core.messages.tool import tool_call
from langchain_core.runnables.base import RunnableBinding

from agent_factory.models import chat_models_of
from agent_factory.providers.endings import text_of
from agent_factory.providers.thoughts import is_thought
from agent_factory.upstream import ModelWrapper, model_params

Rule = Callable[[Sequence[AnyMessage]], Sequence[AnyMessage]]
"""Returns the messages of a request as a provider takes them; the same list if they are valid."""

_Change = Callable[[AnyMessage], AnyMessage | None]

ACKNOWLEDGEMENT: Final = "I have the results."
"""Answer between a result and a message of the user, where a provider wants an answer there."""

_NOTE: Final = "[Left out here: {}, which the provider does not take in this message.]"
_MEDIA: Final = frozenset({"image", "image_url", "audio", "video", "file", "document"})
_CUSTOM_OUTPUT: Final = "custom_tool_call_output"
_ITEM_ID: Final = re.compile("(msg|fc|ctc)_")
_OPENAI_MAKERS: Final = frozenset({"openai", "azure", "azure_openai"})
_MAY_THINK: Final = ("bound", "inner", "kwargs", "thinking", "additional_model_request_fields")
_NOT_IN_NAMES: Final = re.compile(r"[\s<|\\/>]+")


def provider_of(model: object) -> str | None:
    """Return LangChain's name of the provider of a model, or of the first in a chain, with rules.

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
        extra = extra or getattr(model, "kwargs", {}).get("extra_body")
        model = model.inner if isinstance(model, ModelWrapper) else model.bound
    if not isinstance(model, BaseChatModel):  # a chain, whose models all get the settings
        return {}
    extra = extra or getattr(model, "extra_body", None) or {}
    return {"extra_body": {**extra, "messages": body}}


def model_for(provider: str, model: Any, messages: Sequence[AnyMessage]) -> Any:
    """Return the model for a request: without thinking where a turn has lost its thoughts.

    Claude with manual thinking (`thinking={"type": "enabled"}`, models up to 4.5): a turn of the
    assistant with calls begins with a thinking block (platform.claude.com,
    build-with-claude/extended-thinking). Another model may have begun the turn, or a redaction may
    have left the thought out.
    """
    turn = takewhile(lambda message: message.type != "human", reversed(messages))
    answers = (m for m in turn if isinstance(m, AIMessage) and m.tool_calls)
    is_whole = all(any(map(is_thought, answer.content[:1])) for answer in answers)
    return model if is_whole or provider not in _MANUAL else _without_thinking(model)


def _without_thinking(value: Any) -> Any:
    """Return a model or settings whose manual thinking is switched off; the same without any."""
    match value:
        case {"thinking": {"type": "enabled"}}:
            return {**value, "thinking": {"type": "disabled"}}
        case RunnableBinding() | BaseChatModel():
            fields = {name: each for name, each in vars(value).items() if name in _MAY_THINK}
            update = {n: _without_thinking(each) for n, each in _without_thinking(fields).items()}
            is_same = all(update[name] is each for name, each in fields.items())
            return value if is_same else value.model_copy(update=update)
    return value


def _changed(change: _Change, messages: Sequence[AnyMessage]) -> Sequence[AnyMessage]:
    """Return changed messages without those that became None; the same list without a change."""
    copies = [copy for message in messages if (copy := change(message)) is not None]
    is_same = len(copies) == len(messages) and all(map(is_, copies, messages))
    return messages if is_same else copies


def _for_each(change: _Change) -> Rule:
    """Make a rule of a function that changes one message."""
    return partial(_changed, change)


def _with_content(message: AnyMessage, content: Any) -> AnyMessage:
    if content is message.content:  # nearly always, of a text
        return message
    is_same = len(content) == len(message.content) and all(map(is_, content, message.content))
    return message if is_same else message.model_copy(update={"content": content})


@_for_each
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
    if isinstance(message.content, str):
        content: Any = message.content if message.content.strip() else ""
    else:
        content = _texts_and_blocks(message)
    if not (content or message.tool_calls or message.invalid_tool_calls):
        return None
    return _with_content(message, content)


def _blocks_of(message: AnyMessage) -> list[dict[str, Any]]:
    content = () if isinstance(message.content, str) else message.content
    return [block for block in content if isinstance(block, dict)]


def _texts_and_blocks(message: AnyMessage) -> list[Any]:
    """Return the content of a message as blocks, without empty texts.

    The stream of Gemini ends with an empty text that holds the signature of the answer.
    """
    blocks = [message.content] if isinstance(message.content, str) else message.content
    content = [{"type": "text", "text": b} if isinstance(b, str) else b for b in blocks]
    parts = [str(b.get("text") or "").strip() or b.get("extras") for b in content]
    return [b for b, part in zip(content, parts, strict=True) if part or b.get("type") != "text"]


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
            metadata = {**last.response_metadata, **message.response_metadata}
            update = {"content": content, "response_metadata": metadata}
            valid[-1] = message.model_copy(update=update)
        else:
            valid.append(message)
    return messages if len(valid) == len(messages) else valid


def with_ended_server_calls(messages: Sequence[AnyMessage]) -> Sequence[AnyMessage]:
    """Return messages without calls of server tools that have no result, except the last message.

    Anthropic: a `server_tool_use` without a result is refused unless the message is the last, which
    the API then goes on with (platform.claude.com, build-with-claude/handling-stop-reasons). Code
    that calls tools of the client has its result behind theirs.
    """
    last = messages[-1] if messages else None
    every = [block for message in messages for block in _blocks_of(message)]
    answered = {b.get("tool_use_id") or (b.get("caller") or {}).get("tool_id") for b in every}

    def ended(message: AnyMessage) -> AnyMessage:
        blocks = _blocks_of(message)
        calls = (b for b in blocks if b.get("type") in ("server_tool_use", "mcp_tool_use"))
        open_ids = {call.get("id") for call in calls} - answered
        if message is last or not isinstance(message, AIMessage) or not open_ids:
            return message
        return _with_content(message, [b for b in blocks if b.get("id") not in open_ids])

    return _changed(ended, messages)


def with_unique_ids(messages: Sequence[AnyMessage]) -> Sequence[AnyMessage]:
    """Return messages in which no call has the id of an earlier call.

    Anthropic: "`tool_use` ids must be unique" in a request. Models of other providers count from 1
    in each answer.
    """
    calls = [call for m in messages if isinstance(m, AIMessage) for call in m.tool_calls]
    ids, seen = {call["id"] for call in calls}, Counter[str | None]()
    if len(ids) == len(calls):
        return messages
    new_ids: dict[str | None, str] = {}

    def with_new_id(block: Any) -> Any:
        id_ = block.get("id") if isinstance(block, dict) else None
        return {**block, "id": new_ids[id_]} if id_ in new_ids else block

    def renamed(message: AnyMessage) -> AnyMessage:
        if isinstance(message, ToolMessage) and message.tool_call_id in new_ids:
            return message.model_copy(update={"tool_call_id": new_ids[message.tool_call_id]})
        if not isinstance(message, AIMessage) or not message.tool_calls:
            return message
        for call in message.tool_calls:
            seen[call["id"]] += 1
            if seen[call["id"]] > 1:
                names = (f"{call['id']}_{number}" for number in count(seen[call["id"]]))
                new_ids[call["id"]] = next(name for name in names if name not in ids)
                ids.add(new_ids[call["id"]])
        if new_ids.keys().isdisjoint(call["id"] for call in message.tool_calls):
            return message
        update: dict[str, Any] = {"tool_calls": [with_new_id(call) for call in message.tool_calls]}
        if isinstance(message.content, list):  # blocks repeat the calls
            update["content"] = [with_new_id(block) for block in message.content]
        return message.model_copy(update=update)

    return _changed(renamed, messages)


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


def with_custom_outputs(messages: Sequence[AnyMessage]) -> Sequence[AnyMessage]:
    """Return messages in which results of custom tools have the form of their calls.

    OpenAI: a `custom_tool_call` is answered by a `custom_tool_call_output`
    (platform.openai.com/docs/guides/function-calling, custom tools). Errors, decisions of people
    and placeholders are plain texts.
    """
    blocks = (block for m in messages if isinstance(m, AIMessage) for block in _blocks_of(m))
    ids = {block.get("call_id") for block in blocks if block.get("type") == "custom_tool_call"}

    def answered(message: AnyMessage) -> AnyMessage:
        if not isinstance(message, ToolMessage) or message.tool_call_id not in ids:
            return message
        output = {"type": _CUSTOM_OUTPUT, "output": message.text}
        if any(block.get("type") == output["type"] for block in _blocks_of(message)[:1]):
            return message
        return message.model_copy(update={"content": [output]})

    return _changed(answered, messages)


@_for_each
def with_whole_items(message: AnyMessage) -> AnyMessage:
    """Return an answer of OpenAI's Responses API whose items are complete.

    OpenAI refuses "an item provided without its required 'reasoning' item", and a reasoning item
    without the item behind it (platform.openai.com/docs/guides/reasoning). Items without an id are
    free of both. An answer with reasoning tokens and without such an item has lost the item. A
    block of a call that the answer does not have (redactions of old streams) never has a result.
    """
    if not isinstance(message, AIMessage) or not isinstance(message.content, list):
        return message
    ids = {call["id"] for call in message.tool_calls}
    calls = [block for block in _blocks_of(message) if block.get("type") == "tool_call"]
    lost = [call for call in calls if call.get("id") not in ids]
    blocks: list[Any] = [block for block in message.content if block not in lost]
    while blocks and is_thought(blocks[-1]) and not message.tool_calls:
        blocks.pop()
    usage: Any = message.usage_metadata or {}
    details = usage.get("output_token_details") or {}
    if details.get("reasoning") and not any(map(is_thought, blocks)):
        for index, block in enumerate(blocks):
            if isinstance(block, dict) and _ITEM_ID.match(str(block.get("id", ""))):
                blocks[index] = {key: value for key, value in block.items() if key != "id"}
    return _with_content(message, blocks)


@_for_each
def with_valid_name(message: AnyMessage) -> AnyMessage:
    """Return a message whose name has no character that OpenAI refuses.

    The pattern of `name` is `^[^\\s<|\\\\/>]+$` (platform.openai.com/docs/api-reference/chat).
    """
    if not message.name or not _NOT_IN_NAMES.search(message.name):
        return message
    return message.model_copy(update={"name": _NOT_IN_NAMES.sub("_", message.name)})


@_for_each
def with_texts_as_results(message: AnyMessage) -> AnyMessage:
    """Return a result that Gemini reads as the text that it is.

    langchain-google-genai 4.4.3 reads a result as JSON where it can, so that the version "1.10"
    becomes the number 1.1, and passes no status on. Gemini documents the keys "output" and "error"
    of a function response (ai.google.dev/api/caching, FunctionResponse).
    """
    if not isinstance(message, ToolMessage) or not isinstance(message.content, str):
        return message
    key = "error" if message.status == "error" else "output"
    try:
        value = json.loads(message.content)
    except ValueError:  # a text that is sent as it is
        value = message.content if key == "error" else {}
    if isinstance(value, dict) and (key in value or key == "output"):
        return message
    return message.model_copy(update={"content": json.dumps({key: message.content})})


@_for_each
def with_results_of_text(message: AnyMessage) -> AnyMessage:
    """Return a result without pictures and files, which these providers take from users alone.

    Their APIs document texts in results. Their packages (seen with langchain-mistralai 1.1.6, -groq
    1.1.3, -deepseek 1.1.1, -fireworks 1.7.1) send LangChain's own blocks, or parts of them.
    """
    if not isinstance(message, ToolMessage) or isinstance(message.content, str):
        return message
    blocks = _texts_and_blocks(message)
    if blocks and blocks == message.content and all(b.get("type") == "text" for b in blocks):
        return message
    texts = [b.get("text") or b.get("output") or _NOTE.format(b.get("type")) for b in blocks]
    return message.model_copy(update={"content": "\n".join(map(str, texts))})


def with_results_of_chat(messages: Sequence[AnyMessage]) -> Sequence[AnyMessage]:
    """Return messages in which results of calls of OpenAI's Chat Completions are texts.

    Its tool messages are texts (platform.openai.com/docs/api-reference/chat). The Responses API
    takes pictures; its answers have no `finish_reason`, and it alone has custom tools. The last
    answer of OpenAI tells the API; before its first, texts are valid in both.
    """
    for message in reversed(messages):
        kinds, metadata = [b.get("type") for b in _blocks_of(message)], message.response_metadata
        if metadata.get("model_provider") in _OPENAI_MAKERS or "custom_tool_call" in kinds:
            return with_results_of_text(messages) if "finish_reason" in metadata else messages
    return with_results_of_text(messages)


@_for_each
def with_listed_calls(message: AnyMessage) -> AnyMessage:
    """Return an answer whose calls all stand where packages look for them.

    langchain-nvidia-ai-endpoints 1.5 sends the calls of `additional_kwargs`, which streams and
    other models do not fill; langchain-litellm 0.11, and `settings_for`, send no invalid calls. The
    APIs refuse a result without its call.
    """
    if not isinstance(message, AIMessage):
        return message
    cut = [tool_call(name=c["name"] or "", args={}, id=c["id"]) for c in message.invalid_tool_calls]
    calls = [*message.tool_calls, *cut]
    listed = message.additional_kwargs.get("tool_calls") or ()
    if not cut and [call["id"] for call in calls] == [dict(call).get("id") for call in listed]:
        return message
    form: Any = convert_to_openai_messages(AIMessage("", tool_calls=calls))
    kwargs = {**message.additional_kwargs, "tool_calls": form["tool_calls"]}
    update = {"tool_calls": calls, "invalid_tool_calls": [], "additional_kwargs": kwargs}
    return message.model_copy(update=update)


def _by_rules(makers: Set[str], *rules: Rule) -> tuple[Rule, ...]:
    """Return rules, and before them: answers of other makers are their texts and calls alone.

    So are results of OpenAI's custom tools. `response_metadata["model_provider"]` names the maker.
    No provider documents the thoughts and items of another provider; packages send them, and
    langchain-google-vertexai 3.2 raises. Without makers, the provider takes texts alone.
    """

    @_for_each
    def without_foreign_blocks(message: AnyMessage) -> AnyMessage | None:
        content, blocks = message.content, _blocks_of(message)
        if isinstance(message, ToolMessage) and not makers & _OPENAI_MAKERS:
            outputs = [str(b.get("output")) for b in blocks if b.get("type") == _CUSTOM_OUTPUT]
            return _with_content(message, "\n".join(outputs)) if outputs else message
        if not isinstance(message, AIMessage | ToolMessage) or isinstance(content, str):
            return message
        maker = message.response_metadata.get("model_provider", "")
        if maker in makers or (makers and not maker) or isinstance(message, ToolMessage):
            is_mixed = len(blocks) < len(content)
            return _with_content(message, _texts_and_blocks(message)) if is_mixed else message
        notes = [_NOTE.format(block["type"]) for block in blocks if block.get("type") in _MEDIA]
        text = "\n".join(filter(None, [text_of(message), *notes]))
        has_calls = message.tool_calls or message.invalid_tool_calls
        return _with_content(message, text) if text.strip() or has_calls else None

    return (without_foreign_blocks, *rules)


_CLAUDE_NAMES: Final = ("anthropic", "anthropicvertex", "anthropic-bedrock", "anthropic-mantle")
_MANUAL: Final = frozenset({*_CLAUDE_NAMES, "amazon_bedrock"})
_CLAUDE: Final = (without_empty_text, with_joined_answers, with_ended_server_calls, with_unique_ids)
_GEMINI: Final = (without_empty_text, with_joined_answers, with_texts_as_results)
_OPENAI: Final = _by_rules(
    _OPENAI_MAKERS,
    *(with_custom_outputs, with_whole_items, with_valid_name, with_results_of_chat),
)
# They share the form of Chat Completions, without custom tools and items.
_COMPATIBLE: Final = _by_rules(set(), without_empty_text, with_valid_name, with_results_of_text)

RULES: Final[Mapping[str, tuple[Rule, ...]]] = {
    **dict.fromkeys(_CLAUDE_NAMES, _by_rules({"anthropic"}, *_CLAUDE)),
    "amazon_bedrock": _by_rules({"bedrock", "bedrock_converse"}, *_CLAUDE),
    "google_genai": _by_rules({"google_genai"}, *_GEMINI),
    "google_vertexai": _by_rules({"google_vertexai"}, with_results_of_text, *_GEMINI),
    "mistral": _by_rules(
        {"mistralai"}, without_empty_text, with_answers_to_results, with_results_of_text
    ),
    # langchain-cohere 0.6 cannot send back even the thoughts that it has read.
    "cohere": _by_rules(set(), without_empty_text),
    "ollama": _by_rules({"ollama"}, with_results_of_text),
    **dict.fromkeys(("openai", "openai-mantle", "azure"), _OPENAI),
    # Its answers by the Responses API have OpenAI's name.
    "xai": _by_rules({"xai", "openai"}, with_whole_items, with_valid_name, with_results_of_text),
    **dict.fromkeys(("cerebras", "fireworks", "groq", "huggingface"), _COMPATIBLE),
    **dict.fromkeys(("openrouter", "perplexity", "together"), _COMPATIBLE),
    **dict.fromkeys(("NVIDIA", "deepseek"), (*_COMPATIBLE, with_listed_calls)),
    # langchain-litellm 0.11 passes pictures of results on in a message of the user.
    "litellm": _by_rules(set(), without_empty_text, with_listed_calls),
}
"""The rules of each provider, in the order in which they apply."""
