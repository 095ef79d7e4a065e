"""Replace the older messages of a long conversation by a summary.

The summary is made in a layer around the model and not in a `before_model` hook. Only there are
the system prompt and the tools of the call known, after other layers have changed them. A layer
takes no super-step. And the thread is changed together with the answer, so a failed call changes
nothing.
"""

from .middleware import DEFAULT_SUMMARY_PROMPT, SummarizationMiddleware
from .truncation import ContextSize, TriggerClause

__all__ = ["DEFAULT_SUMMARY_PROMPT", "ContextSize", "SummarizationMiddleware", "TriggerClause"]
