"""Personal data kept out: of what the model reads, of what it says, of what its tools are given.

Input is rewritten in the state by node hooks, so that whatever stands after the guard, and every
later step, has it in its rewritten form only. Output is rewritten in the model itself, before
anything that listens to the run can hear it.
"""

from agent_factory.middleware._shared.redaction.detectors import (
    PIIMatch,
    detect_credit_card,
    detect_email,
    detect_ip,
    detect_mac_address,
    detect_name,
    detect_phone,
    detect_url,
)
from agent_factory.middleware._shared.redaction.rules import (
    PIIDetectionError,
    RedactionRule,
)

from .middleware import (
    PIIMiddleware,
    PIIState,
)

__all__ = [
    "PIIDetectionError",
    "PIIMatch",
    "PIIMiddleware",
    "PIIState",
    "RedactionRule",
    "detect_credit_card",
    "detect_email",
    "detect_ip",
    "detect_mac_address",
    "detect_name",
    "detect_phone",
    "detect_url",
]
