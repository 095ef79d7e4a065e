"""Base of the built-ins whose spans show no messages."""

from __future__ import annotations

from typing import Any

from agent_factory import AgentMiddleware, StateT, TracePolicy, omit_payload


class PayloadFree(AgentMiddleware[StateT, Any]):
    """Middleware whose spans omit states and requests, which hold conversations."""

    trace_policy = TracePolicy(process_inputs=omit_payload)
