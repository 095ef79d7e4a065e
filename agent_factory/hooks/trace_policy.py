"""Trace policies: the contents of the spans of hooks and layers."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from langgraph.types import TracePolicy

    from agent_factory.hooks.base import Middleware

logger = logging.getLogger("agent_factory")

_default_policy: TracePolicy | None = None


def configure_trace_policy(policy: TracePolicy | None) -> None:
    """Set the contents of spans of middleware, for middleware without a policy.

    The setting is process-wide, and holds for agents that are built already. None records in full
    again. A middleware with a policy follows its policy alone: the two are not merged.

    >>> from agent_factory import TracePolicy, omit_payload
    >>> configure_trace_policy(TracePolicy(process_inputs=omit_payload))
    >>> configure_trace_policy(None)
    """
    global _default_policy
    _default_policy = policy


def policy_of(middleware: Middleware) -> TracePolicy | None:
    """Return the middleware's policy, or else the process-wide policy; None records in full."""
    return middleware.trace_policy or _default_policy


def recorded(
    middleware: Middleware, side: Literal["process_inputs", "process_outputs"], payload: object
) -> object:
    """Return the recorded input or output of a middleware's span."""
    process: Callable[[object], object] | None = getattr(policy_of(middleware), side, None)
    if process is None:
        return payload
    try:
        return process(payload)
    # Tracing must not end a run. LangGraph would record the payload, which the policy may hide.
    except Exception as error:
        problem = f"{side} raised {type(error).__name__}: the payload is not recorded."
        logger.warning("trace_policy of %s: %s", middleware.name, problem, exc_info=True)
        return {"error": problem}
