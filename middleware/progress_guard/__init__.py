"""A guard notices a run that repeats its calls, and ends the run in three steps.

`repetition` reads the turns of a run from its messages and compares them; `middleware` acts.
"""

from .middleware import NoProgressError, ProgressGuardMiddleware, ProgressGuardState

__all__ = ["NoProgressError", "ProgressGuardMiddleware", "ProgressGuardState"]
