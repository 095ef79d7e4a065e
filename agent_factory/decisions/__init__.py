"""The decision log: the decisions of an agent in a run, with reasons."""

from agent_factory.decisions.log import Decision, DecisionLog, Jump, Outcome, set_reason
from agent_factory.decisions.sinks import DecisionFile, DecisionList, DecisionSpanEvents

__all__ = [
    "Decision",
    "DecisionFile",
    "DecisionList",
    "DecisionLog",
    "DecisionSpanEvents",
    "Jump",
    "Outcome",
    "set_reason",
]
