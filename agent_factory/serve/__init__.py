"""Serve the agents of a service over HTTP: LangGraph's API, AG-UI, chat completions, MCP, A2A.

>>> from agent_factory.serve import create_app
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_factory import lazy_names
from agent_factory.errors import require

if TYPE_CHECKING:
    from agent_factory.serve.app import create_app as create_app
    from agent_factory.serve.principal import Principal as Principal
    from agent_factory.serve.security import RateLimit as RateLimit
    from agent_factory.serve.webhooks import Webhooks as Webhooks

_HOME = {
    ".app": "create_app",
    ".principal": "Principal",
    ".security": "RateLimit",
    ".webhooks": "Webhooks",
}

require("serve", __name__)

__all__, __getattr__, __dir__ = lazy_names(__name__, _HOME)
