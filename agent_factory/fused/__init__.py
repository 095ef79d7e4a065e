"""Fused runs: many hooks in one LangGraph step, where no caller observes single steps."""

from agent_factory.fused.agent import FusedAgent

__all__ = ["FusedAgent"]
