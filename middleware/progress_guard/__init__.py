"""A run that repeats itself is noticed, and ended in three steps.

`repetition` reads the turns of a run off its messages and compares them; `middleware` acts.
"""

from .middleware import NoProgressError, ProgressGuardMiddleware, ProgressGuardState

__all__ = ["NoProgressError", "ProgressGuardMiddleware", "ProgressGuardState"]
