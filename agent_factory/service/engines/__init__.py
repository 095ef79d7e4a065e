"""Engines: who works on which job of a service, and when.

>>> from agent_factory.service.engines import JobRef
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_factory import lazy_names

if TYPE_CHECKING:
    from agent_factory.service.engines.embedded import Embedded as Embedded
    from agent_factory.service.engines.engine import Engine as Engine
    from agent_factory.service.engines.engine import JobRef as JobRef
    from agent_factory.service.engines.engine import Outcome as Outcome
    from agent_factory.service.engines.engine import Work as Work
    from agent_factory.service.engines.restate import Restate as Restate
    from agent_factory.service.engines.temporal import Temporal as Temporal

_HOME = {
    ".embedded": "Embedded",
    ".engine": "Engine JobRef Outcome Work",
    ".restate": "Restate",
    ".temporal": "Temporal",
}

__all__, __getattr__, __dir__ = lazy_names(__name__, _HOME)
