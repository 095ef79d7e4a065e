"""The prefix of requests, which providers cache: what changed it between model calls, and who.

A provider reads a request in one order: the tools, the system prompt, the messages. What begins
like the request before is read from its cache. A change loses everything after it.
"""

from agent_factory.decisions.prefix.change import (
    INPUT,
    PARTS,
    REPAIR,
    Culprit,
    PrefixChange,
    change_of,
)
from agent_factory.decisions.prefix.digest import (
    BLOCK,
    Prefix,
    PrefixReader,
    digest_of,
    digests_among,
)
from agent_factory.decisions.prefix.tracker import PrefixTracker, SentRequest, Trail

__all__ = [
    "BLOCK",
    "INPUT",
    "PARTS",
    "REPAIR",
    "Culprit",
    "Prefix",
    "PrefixChange",
    "PrefixReader",
    "PrefixTracker",
    "SentRequest",
    "Trail",
    "change_of",
    "digest_of",
    "digests_among",
]
