"""Migrate source text from `create_react_agent` and LangChain's `create_agent`.

Text goes in; new text comes out, with findings for a person to decide. No file is read or written
here. The package needs libcst (the extra `cli`); the command is `agent-factory migrate`.

>>> from agent_factory.migrate import migrate_source
>>> done = migrate_source("from langgraph.prebuilt import ToolNode, create_react_agent\\n")
>>> print(done.text, end="")
from agent_factory import ToolNode
from agent_factory.prebuilt import create_react_agent
>>> done.findings
()
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_factory import lazy_names
from agent_factory.errors import require

if TYPE_CHECKING:
    from agent_factory.migrate.core import migrate_bytes as migrate_bytes
    from agent_factory.migrate.core import migrate_source as migrate_source
    from agent_factory.migrate.source import UnreadableSource as UnreadableSource
    from agent_factory.migrate.values import Factory as Factory
    from agent_factory.migrate.values import Finding as Finding
    from agent_factory.migrate.values import Migration as Migration

require("cli", __name__)

# Loaded when first used: the command line starts without libcst, which takes a fifth of a second.
_HOME = {
    ".core": "migrate_bytes migrate_source",
    ".source": "UnreadableSource",
    ".values": "Factory Finding Migration",
}

__all__, __getattr__, __dir__ = lazy_names(__name__, _HOME)
