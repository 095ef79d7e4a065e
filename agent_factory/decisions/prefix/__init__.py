"""The prefix of requests, which providers cache: changes between model calls, and their authors.

A provider reads a request in the order tools, system prompt, messages. The part equal to the
request before is read from the cache. After a change, nothing is.
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
