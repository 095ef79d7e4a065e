"""Effects of tools happen once, even if a process dies between the work and the result."""

from agent_factory.middleware._shared.effects import Recording as Recording

from .effects import Effect, EffectError, EffectStore, effects_of_run
from .keys import idempotency_key
from .middleware import OnceMiddleware, OnceState
from .stores import InMemoryEffects, SqliteEffects
from .undo import Undone, aundo_effects, undo_effects

__all__ = [
    "Effect",
    "EffectError",
    "EffectStore",
    "InMemoryEffects",
    "OnceMiddleware",
    "OnceState",
    "SqliteEffects",
    "Undone",
    "aundo_effects",
    "effects_of_run",
    "idempotency_key",
    "undo_effects",
]
