"""Hash chain: the hashes of the audit, each of an entry and of the hash before it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

NO_ENTRY = "0" * 64
"""What stands for the hash before the first entry."""


def entry_hash(before: str, entry: Mapping[str, object]) -> str:
    """The hash of an entry, in hexadecimal digits: SHA-256 of canonical JSON.

    Args:
        before: The hash of the entry before it.
        entry: The columns of the entry without its hash.
    """
    # SQLite stores values of any type in a column, and a change of the type is a change.
    text = json.dumps(
        {**entry, "before": before},
        sort_keys=True,
        separators=(",", ":"),
        default=lambda value: [type(value).__name__, repr(value)],
    )
    return hashlib.sha256(text.encode()).hexdigest()
