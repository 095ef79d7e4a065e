"""Attachments: files of messages, in forms and on pages."""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import HumanMessage
from langchain_core.messages.content import (
    create_file_block,
    create_image_block,
    create_plaintext_block,
)
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException

from agent_factory.state import text_fault

LIMIT = 5_000_000
"""Bytes of all files of a message."""

TYPES = {
    "image": ("image/png", "image/jpeg", "image/gif", "image/webp"),
    "pdf": ("application/pdf",),
    "text": ("text/plain", "text/markdown", "text/csv", "application/json"),
}
"""The media types of each kind of attachment."""

_SIGNATURES = {
    "image/png": b"\x89PNG\r\n",
    "image/jpeg": b"\xff\xd8\xff",
    "image/gif": b"GIF8",
    "image/webp": b"RIFF",
    "application/pdf": b"%PDF-",
}
"""How files of these types begin."""

_DATA = re.compile(r"data:([\w.+-]+/[\w.+-]+)[^,]{0,100};base64,")
_BASE64 = re.compile(r"[A-Za-z0-9+/\s]*={0,2}\s*")


@dataclass(frozen=True, slots=True)
class File:
    """File of a message, on a page.

    Args:
        name: The name, or the type.
        source: An image as a `data:` address; "" for other files. An image at another address is
            not loaded.
        text: The text of a text file.
    """

    name: str
    source: str = ""
    text: str = ""

    @classmethod
    def of(cls, block: Mapping[str, Any]) -> File:
        """The file in a content block of a message."""
        # Providers and clients put the name of a file in different places.
        extras = block.get("extras") or {}
        kind, media_type = str(block["type"]), str(block.get("mime_type") or "")
        name = block.get("title") or block.get("filename") or extras.get("filename")
        name, data = str(name or block.get("url") or media_type or kind), block.get("base64")
        # Without SVG, which can have scripts, although browsers run none in an `img`.
        is_shown = media_type in TYPES["image"] and isinstance(data, str)
        if kind == "image" and is_shown and _BASE64.fullmatch(str(data)):
            return cls(name, source=f"data:{media_type};base64,{data}")
        return cls(name, text=str(block.get("text") or "") if kind == "text-plain" else "")


def accepted_types(kinds: Collection[str]) -> list[str]:
    """The media types of kinds of attachments."""
    return [media_type for kind, types in TYPES.items() if kind in kinds for media_type in types]


def message_of(form: FormData, text: str, kinds: Collection[str]) -> str | HumanMessage:
    """The message of a form: text and attached files.

    Args:
        form: The form, with a `data:` address for each file and its name.
        kinds: The kinds of files for the agent.

    Raises:
        HTTPException: 422 if a file is of another kind. 413 if the files are too large.
    """
    files = [str(file) for file in form.getlist("file")]
    if not files:
        return text
    names = [str(name) for name in form.getlist("file_name")]
    blocks: list[Any] = [{"type": "text", "text": text}] if text.strip() else []
    # Counted as bytes of the files: base64 makes them a third longer in the form.
    left = LIMIT
    for number, file in enumerate(files):
        name = names[number][:200] if number < len(names) and names[number].strip() else "file"
        block, size = _block(name, file, kinds)
        left -= size
        if left < 0:
            raise HTTPException(413, f"The files have more than {LIMIT:,} bytes together.")
        blocks.append(block)
    return HumanMessage(blocks)


def _block(name: str, file: str, kinds: Collection[str]) -> tuple[Any, int]:
    """A file as a content block, and its size in bytes."""
    match = _DATA.match(file)
    media_type = match[1] if match else ""
    allowed = accepted_types(kinds)
    if match is None or media_type not in allowed:
        expected = ", ".join(allowed) or "no files"
        got = media_type or "something that is not a file"
        raise HTTPException(422, f"{name}: this agent takes {expected}, got {got}.")
    data = file[match.end() :]
    try:
        content = b64decode(data, validate=True)
    except (Base64Error, ValueError) as error:
        raise HTTPException(422, f"{name}: is not valid base64: {error}.") from error
    # Browsers derive the type from the name alone.
    if not content.startswith(_SIGNATURES.get(media_type, b"")):
        raise HTTPException(422, f"{name}: is not {media_type}, although it is sent as that.")
    if media_type not in TYPES["text"]:
        create: Any = create_image_block if media_type in TYPES["image"] else create_file_block
        return create(base64=data, mime_type=media_type, filename=name), len(content)
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise HTTPException(422, f"{name}: is not UTF-8 at byte {error.start}.") from error
    if reason := text_fault(text):
        raise HTTPException(422, f"{name}: {reason}")
    return create_plaintext_block(text=text, title=name), len(content)
