"""Guarantees: sentences about a plan that hold on every path, or a path on which they do not."""

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
