"""Guarantees: sentences about all paths of a plan, or a path against a sentence."""

from agent_factory.guarantees.counterexample import Counterexample, GuaranteeError
from agent_factory.guarantees.defaults import default_findings
from agent_factory.guarantees.flows import Trifecta, trifectas
from agent_factory.guarantees.sentences import Guarantee, GuaranteeSyntaxError, parse
from agent_factory.guarantees.verdicts import counterexamples, undecided_calls

__all__ = [
    "Counterexample",
    "Guarantee",
    "GuaranteeError",
    "GuaranteeSyntaxError",
    "Trifecta",
    "counterexamples",
    "default_findings",
    "parse",
    "trifectas",
    "undecided_calls",
]
