"""Keep large tool results out of the request, and give the model a tool to read them in pages.

The result is replaced in a layer around the model, after all layers around tools: parts that they
remove are not stored. The name of content outside of the thread is its hash.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from hashlib import sha256
from math import inf
from operator import or_
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NotRequired

from langchain_core.messages import AnyMessage, BaseMessage, ToolMessage
from langchain_core.messages.utils import count_tokens_approximately
from langchain_core.tools import ToolException
from langgraph.prebuilt import ToolRuntime
from pydantic import BaseModel, Field

from agent_factory import (
    AgentState,
    Flow,
    Invoke,
    ModelCallResult,
    ModelRequest,
    ModelResponse,
    Ordering,
    PrivateStateAttr,
    set_reason,
)

from ._shared.checked_messages import readable_messages
from ._shared.invocable import Called, tool_of
from ._shared.messages import is_cleared, mark_in
from ._shared.models import with_update
from ._shared.overflow import Fits, Reduction, call_recovering, plural
from ._shared.payload_free import PayloadFree
from ._shared.recall import LIST, RECALLS, find_message, how_to_recall, list_messages, whole_text
from ._shared.summaries import with_summaries
from ._shared.token_counter import tokens_sent, window_of
from ._shared.validation import check_count, check_state_schema, check_string, check_value

__all__ = ["OffloadState", "ToolResultOffloadMiddleware"]

MAX_PAGE: Final = 20_000
"""Characters for the model at once: some 5,000 tokens."""

_DESCRIPTION = """\
Bring back a part of this conversation that is left out, shortened or summarized in what you see. \
Notices in brackets say which id to pass. Returns `length` characters from `start` on; call it \
again with a later start for more. Blocks and tool calls come as JSON."""

_MARK = "offloaded"
"""Key of `response_metadata` with the storage of a result's content."""

_MEDIA = frozenset({"audio", "document", "file", "image", "image_url", "input_audio", "video"})
"""Blocks that a model looks at: their size in bytes does not measure their tokens."""

_LEAST: Final = 2_000
"""Characters of a result that is offloaded in a conversation that is too long for the model."""

Place = Literal["thread", "store"] | str | os.PathLike[str]
"""Where the content of large results is kept: in the thread, in the run's store, or in a folder."""


class OffloadState(AgentState):
    """The state of an agent whose large tool results are offloaded.

    Attributes:
        offloaded_results: By the name of the middleware, the ids of results below the threshold
            that are offloaded because a conversation was too long for the model.
    """

    offloaded_results: NotRequired[Annotated[dict[str, list[str]], or_, PrivateStateAttr]]


class RecallArguments(BaseModel):
    """Arguments of `recall`."""

    id: str = Field(
        description=(
            f'The id from a notice, the number of a message such as "#7", or "{LIST}" for a list '
            "of all messages."
        )
    )
    start: int = Field(0, ge=0, description="The first character to return, counted from 0.")
    length: int = Field(10_000, ge=1, description=f"How many characters; {MAX_PAGE} at most.")
    block: int | None = Field(
        None, ge=0, description="The number of a block, from 0, to get it itself: an image, say."
    )


class ToolResultOffloadMiddleware(PayloadFree[OffloadState]):
    """Shows the model the beginning of a large tool result, and lets it read the rest in pages.

    A text of more than `threshold` characters is replaced in every request by its beginning and a
    notice. The tool `recall` returns the rest, character for character, and also every other
    message of the thread, whether cleared, summarized or left out. The notices of
    ContextEditingMiddleware and SummarizationMiddleware name the call, if the tool is offered.
    Images, sound and files in a result stay in place; `recall(id, block=0)` shows a hidden block
    again.

    If a request does not fit the window in the profile of the model, also smaller results are
    offloaded, down to 2,000 characters, the largest first. They are offloaded too if the model
    raises ContextOverflowError, and then the model is called once more.

    Put it before (outside) context editing and summarization, which then work with the short form.

    Args:
        threshold: Characters of text above which a result is offloaded. None: only results that do
            not fit the model's window.
        preview: How much of the beginning the model is shown, in bytes of UTF-8.
        place: Where the content is kept. "thread": the thread keeps the whole result, and nothing
            has to be set up. "store": the store of the agent, and the thread keeps the preview,
            so checkpoints stay small. A path: a folder, likewise.
        namespace: The namespace in the store, before the id of the thread.
        tool_name: The name of the tool.
        name: Distinguishes several instances.

    Raises:
        ValueError: A number is too small, the name of the tool is empty, the namespace is not a
            tuple of non-empty strings, or `place` is not a folder. At run time: `place` is "store",
            and the agent has no store.
        TypeError: `tool_name` or `place` has a wrong type; the state schema of a subclass does not
            extend `OffloadState`.

    >>> from agent_factory import create_agent
    >>> from agent_factory.testing import ScriptedChatModel
    >>> def read() -> str:
    ...     '''Read the log.'''
    ...     return "All is well. " * 10_000
    >>> model = ScriptedChatModel([[{"name": "read", "args": {}, "id": "1"}], "All is well."])
    >>> agent = create_agent(model, [read], middleware=[ToolResultOffloadMiddleware()])
    >>> result = agent.invoke({"messages": "What does the log say?"})
    >>> len(model.requests[1].messages[-1].text) < 2000, len(result["messages"][2].text)
    (True, 130000)
    """

    state_schema = OffloadState
    keyed_by_name = ("offloaded_results",)

    ordering = Ordering(
        before=(
            "ContextEditingMiddleware",
            "SummarizationMiddleware",
            "ModelRetryMiddleware",
            "ModelFallbackMiddleware",
        ),
        reads=("thread",),
    )

    def __init__(
        self,
        *,
        threshold: int | None = 20_000,
        preview: int = 1_000,
        place: Place = "thread",
        namespace: Sequence[str] = ("tool_results",),
        tool_name: str = "recall",
        name: str | None = None,
    ) -> None:
        super().__init__(name=name)
        check_state_schema(self, OffloadState)
        check_count("threshold: characters", threshold, 1)
        check_count("preview: bytes", preview, required=True)
        check_string("tool_name", tool_name)
        is_name = re.fullmatch(r"[\w-]{1,64}", tool_name, re.ASCII)
        expected = "the name of a tool: letters, digits, _ and -"
        check_value("tool_name", tool_name, is_name, expected, "Pass 'recall'.")
        parts = [] if isinstance(namespace, str) else list(namespace)
        are_names = parts and all(isinstance(part, str) and part for part in parts)
        hint = "Pass ('tool_results',)."
        check_value("namespace", namespace, are_names, "a tuple of non-empty strings", hint)
        self._folder: Path | None = None
        if place not in ("thread", "store"):
            is_path = isinstance(place, str | os.PathLike)
            expected = "'thread', 'store' or the path of a folder"
            check_value("place", place, is_path, expected, error=TypeError)
            # Resolved now: the working directory of the process may change.
            self._folder = Path(place).resolve()
            expected = "'thread', 'store' or a folder that exists"
            check_value("place", place, self._folder.is_dir(), expected, "Create the folder first.")
        self.threshold, self.preview, self.place = threshold, preview, place
        self.namespace, self.tool_name = tuple(parts), tool_name
        self.tools = [
            tool_of(
                self._recall,
                tool_name,
                _DESCRIPTION,
                args_schema=RecallArguments,
                response_format="content_and_artifact",
                handle_tool_error=True,
                metadata=dict(RECALLS),
            )
        ]

    def around_model(self, request: ModelRequest[Any]) -> Flow[ModelCallResult]:
        """Call the model with the beginnings of large results."""
        if self.place == "store" and request.runtime is not None and request.runtime.store is None:
            raise ValueError(
                f"{self.name}: place='store' needs a store, and the agent has none. Pass one: "
                "create_agent(..., store=InMemoryStore()), or leave `place` out."
            )
        state: Any = request.state
        offloaded_ids: list[str] = (state.get("offloaded_results") or {}).get(self.name, [])
        ids, limit = set(offloaded_ids), inf if self.threshold is None else self.threshold
        replacements: dict[str, ToolMessage] = {}
        sizes: list[int] = []

        def shorten(message: AnyMessage) -> Flow[AnyMessage]:
            short, is_stored = yield from self._offload(request, message)
            if is_stored:
                replacements[str(message.id)] = short
            sizes.append(text_size(message))
            return short

        messages = source = with_summaries(request)  # summarized results need not be shortened
        for index, message in enumerate(source):
            if not ids and isinstance(message.content, str) and len(message.content) <= limit:
                continue  # nearly all messages, at each call: so without a call of a function
            if isinstance(message, ToolMessage) and self._is_large(message, ids, limit):
                if messages is source:
                    messages = list(source)
                messages[index] = yield from shorten(message)

        def free(inner: ModelRequest[Any], fits: Fits) -> Flow[Reduction]:
            """Offload the largest results until the request fits."""
            originals = {message.id: message for message in request.messages}
            smaller, count = list(inner.messages), 0
            for index in self._largest(smaller):
                if count and fits(smaller):
                    break
                ids.add(str(smaller[index].id))
                original = originals.get(smaller[index].id, smaller[index])
                smaller[index] = yield from shorten(original)
                count += 1
            return (smaller, f"offloaded {plural(count, 'tool result')}") if count else None

        shorter = request if messages is request.messages else request.override(messages=messages)
        window = window_of(request.model) or inf

        def fits_window(messages: Sequence[AnyMessage]) -> bool:
            return tokens_sent(request, messages, count_tokens_approximately) <= window

        if window < inf and not fits_window(messages):
            smaller, _ = (yield from free(shorter, fits_window)) or (messages, "")
            shorter = shorter.override(messages=smaller)
        if sizes:
            set_reason(f"offloaded {plural(len(sizes), 'tool result')}, {sum(sizes):,} characters")
        response: ModelResponse = yield from call_recovering(shorter, offload=free)
        update: dict[str, object] = {}
        if replacements:
            update["messages"] = list(replacements.values())
        if new := ids.difference(offloaded_ids, replacements):
            update["offloaded_results"] = {self.name: [*offloaded_ids, *sorted(new)]}
        return with_update(request, response, update)

    def _is_large(self, message: ToolMessage, ids: Collection[str], limit: float) -> bool:
        """Return True if a result is to be offloaded, for its size or by its id."""
        if message.id not in ids and text_size(message) <= limit:
            return False
        is_short = mark_in(message, _MARK) is not None or is_cleared(message)
        return not is_short and message.name != self.tool_name

    def _largest(self, messages: Sequence[AnyMessage]) -> list[int]:
        """The indexes of the results that may be offloaded, the largest first."""
        least = max(_LEAST, 2 * self.preview)
        sizes = [
            (text_size(message), index)
            for index, message in enumerate(messages)
            if isinstance(message, ToolMessage) and message.id
            if self._is_large(message, (), least)
        ]
        return [index for _, index in sorted(sizes, reverse=True)]

    def _offload(self, request: ModelRequest[Any], message: Any) -> Flow[tuple[ToolMessage, bool]]:
        """The short form of a result, and whether its content is now kept outside the thread."""
        where: dict[str, Any] = {}
        data = None
        if self.place != "thread" and request.runtime is not None:
            # The form that another layer shows must not replace the result in the thread.
            thread = {m.id: m for m in request.state["messages"] if m.id}
            if message.id in thread and thread[message.id].content == message.content:
                data = as_json(message.content)
        if data is not None:
            # By its content: equal results are stored once, and a change is noticed at reading.
            key = sha256(data.encode()).hexdigest()
            where = {"key": key}
            if self._folder is not None:
                yield Invoke(Called(write_file), (self._folder, key, data))
            else:
                info = request.runtime.execution_info
                owner = [info.thread_id] if info and info.thread_id else []
                where["namespace"] = [*self.namespace, *owner]
                store: Any = request.runtime.store
                yield Invoke(Called(store.put), (tuple(where["namespace"]), key, {"content": data}))
        text = "\n".join(_texts(message.content))[: self.preview]
        # The preview is counted in bytes: half a character at its end is dropped.
        beginning = text.encode(errors="replace")[: self.preview].decode(errors="ignore")
        size = len(whole_text(message, message.content))
        notice = (
            f"{beginning}\n[This is the beginning of a result of {size:,} characters. "
            f"{how_to_recall(self.tool_name, message)} returns it in pages.]"
        )
        content: object = notice
        if isinstance(message.content, list):
            # Media have no pages, so the model goes on seeing them.
            media = [block for block in message.content if is_media(block)]
            content = [{"type": "text", "text": notice}, *media] if media else notice
        metadata = {**message.response_metadata, _MARK: where}
        short = message.model_copy(update={"content": content, "response_metadata": metadata})
        return short, bool(where)

    def _recall(
        self,
        runtime: ToolRuntime[Any, Any],
        id: str,
        start: int = 0,
        length: int = 10_000,
        block: int | None = None,
    ) -> Flow[tuple[object, dict[str, object]]]:
        """A part of a message's text, with its beginning and end."""
        messages = readable_messages(runtime.state)
        message = find_message(messages, id)
        content: object = None
        if message is not None:
            content = message.content
            if where := mark_in(message, _MARK):
                content = yield from self._read(runtime, message, where)
            text = whole_text(message, content)
        elif id == LIST:
            text = list_messages(messages)
        else:
            raise ToolException(
                f"Error: there is no message {id!r} in this conversation. Pass the id from a "
                f'notice, "#1" to "#{len(messages)}", or "{LIST}" for a list of the messages.'
            )
        if block is not None:
            if not isinstance(content, list) or block >= len(content):
                count = len(content) if isinstance(content, list) else 0
                raise ToolException(
                    f"Error: message {id!r} has no block {block}: it has {count} blocks, numbered "
                    "from 0. Leave `block` out to read its text."
                )
            return [content[block]], {"id": id, "block": block}
        # An empty text has one page, which is empty.
        if start >= len(text) and text:
            raise ToolException(
                f"Error: start is {start}, and the text has {len(text)} characters. Pass a smaller "
                "start."
            )
        page = text[start : start + min(length, MAX_PAGE)]
        end = start + len(page)
        artifact = {"id": id, "start": start, "end": end, "length": len(text)}
        if end == len(text):
            return page, artifact
        rest = f"[Characters {start:,} to {end:,} of {len(text):,}. Go on with start={end}.]"
        return f"{page}\n{rest}", artifact

    def _read(
        self, runtime: ToolRuntime[Any, Any], message: AnyMessage, where: Any
    ) -> Flow[object]:
        key = str(where.get("key"))
        data, problem = None, "its name is not valid"
        # A caller may pass messages of his own, so the mark may hold anything.
        if re.fullmatch("[0-9a-f]{64}", key):
            problem = "it is not there any more"
            try:
                if "namespace" not in where:
                    if self._folder is None:
                        raise OSError("no folder is configured as its place")
                    file = self._folder / f"{key}.json"
                    data = yield Invoke(Called(file.read_text), ("ascii",))
                elif runtime.store is None:
                    problem = "the agent has no store"
                else:
                    names = tuple(map(str, where["namespace"]))
                    item = yield Invoke(Called(runtime.store.get), (names, key))
                    data = None if item is None else item.value.get("content")
            # The problem is named already: the file is not there any more.
            except FileNotFoundError:
                pass
            except Exception as error:  # the model should know of any error of the store
                problem = f"it cannot be read: {type(error).__name__}: {error}"
            if isinstance(data, str):
                if sha256(data.encode()).hexdigest() == key:
                    return json.loads(data)
                problem = "it was changed"
        name = getattr(message, "name", None) or "a tool"
        raise ToolException(
            f"Error: this result of {name} was kept outside of the conversation, and {problem}. "
            "Call the tool again if you need the result."
        )


def _texts(content: Any) -> Iterator[str]:
    """The parts of a content that are text, or are sent as text."""
    for block in [content] if isinstance(content, str) else content:
        if isinstance(block, str):
            yield block
        elif isinstance(block.get("text"), str):
            yield block["text"]
        elif not is_media(block):
            yield json.dumps(block, ensure_ascii=False, default=repr)


def is_media(block: object) -> bool:
    """Return True if a block holds something other than text: an image, for example."""
    return isinstance(block, dict) and not _MEDIA.isdisjoint({block.get("type"), *block})


def text_size(message: BaseMessage) -> int:
    """Characters of text in a message."""
    content = message.content
    return len(content) if isinstance(content, str) else sum(map(len, _texts(content)))


def as_json(content: object) -> str | None:
    """A content as ASCII that can be read back; None if that is not possible."""
    try:
        data = json.dumps(content)
        # Values that JSON would change, such as a tuple, stay in the thread.
        return data if json.loads(data) == content else None
    except (TypeError, ValueError):
        return None


def write_file(folder: Path, key: str, data: str) -> None:
    """Write a file of a folder, which at no moment holds only a part."""
    handle, temporary = tempfile.mkstemp(dir=folder, prefix=f"{key}.", suffix=".tmp")
    try:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(data)
            file.flush()
            # A power failure could otherwise leave an empty file under the final name.
            os.fsync(file.fileno())
        os.replace(temporary, folder / f"{key}.json")
    # Also after a cancellation, no temporary file stays.
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
