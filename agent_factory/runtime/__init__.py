"""Run time of an agent: its nodes, the calls inside them, and the routes between them.

Its modules are private.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_factory import lazy_names

if TYPE_CHECKING:
    from agent_factory.runtime.composition import calling_layer as calling_layer
    from agent_factory.runtime.inputs import check_threads as check_threads

__all__, __getattr__, __dir__ = lazy_names(
    __name__, {".composition": "calling_layer", ".inputs": "check_threads"}
)
