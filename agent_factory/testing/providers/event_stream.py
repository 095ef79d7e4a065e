"""Event stream encoding of AWS: messages with headers and checksums.

https://docs.aws.amazon.com/AmazonS3/latest/API/RESTSelectObjectAppendix.html
https://smithy.io/2.0/aws/amazon-eventstream.html
"""

from __future__ import annotations

import binascii
import json
import struct

from agent_factory.testing.providers.rules import Json


def encode(event: str, payload: Json) -> bytes:
    """A message of an event stream."""
    body = json.dumps(payload).encode()
    values = {
        ":event-type": event,
        ":content-type": "application/json",
        ":message-type": "event",
    }
    # A name with its length, the type 7 of a text, and a text with its length.
    headers = b"".join(
        bytes([len(name)]) + name.encode() + struct.pack(">BH", 7, len(value)) + value.encode()
        for name, value in values.items()
    )
    # Two lengths and three checksums or lengths of four bytes: 16 bytes around headers and body.
    prelude = struct.pack(">II", 16 + len(headers) + len(body), len(headers))
    prelude += struct.pack(">I", binascii.crc32(prelude))
    message = prelude + headers + body
    return message + struct.pack(">I", binascii.crc32(message))
