"""A limit on the calls of tools, of one or of all, in a run and in a thread.

What counts is what has run, so the count is kept around the tool: there it is known which calls
of a turn people, guards and other limits have let through, and no jump leads past it. What a limit
leads to is decided before the next call of the model, when every call of the turn has its answer.
"""

from .middleware import (
    ToolCallLimitExceededError,
    ToolCallLimitMiddleware,
    ToolCallLimitState,
)

__all__ = ["ToolCallLimitExceededError", "ToolCallLimitMiddleware", "ToolCallLimitState"]
