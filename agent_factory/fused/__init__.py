"""Fused runs: many hooks in one LangGraph step, where no caller observes single steps."""
