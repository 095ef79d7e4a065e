"""Long conversations made short: older messages give way to a summary of them.

It is a model layer, not a `before_model` hook. Only there are the system prompt and the tools of
the call known, on the very first call as well as after other layers changed them; it takes no
super-step; and the thread is changed together with the answer, so a call that fails changes
nothing.
"""

from agent_factory.middleware._shared.context_size import (
    ContextSize,
    TriggerClause,
)

from .middleware import (
    DEFAULT_SUMMARY_PROMPT,
    SummarizationMiddleware,
)

__all__ = ["DEFAULT_SUMMARY_PROMPT", "ContextSize", "SummarizationMiddleware", "TriggerClause"]
