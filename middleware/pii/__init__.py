"""Personal data is kept out of the input and output of models, and of the input of tools."""

from agent_factory.middleware._shared.redaction import (
    PIIDetectionError,
    PIIMatch,
    RedactionRule,
    ResolvedRedactionRule,
    detect_credit_card,
    detect_email,
    detect_ip,
    detect_mac_address,
    detect_name,
    detect_phone,
    detect_url,
)

from .middleware import PIIMiddleware, PIIState

__all__ = [
    "PIIDetectionError",
    "PIIMatch",
    "PIIMiddleware",
    "PIIState",
    "RedactionRule",
    "ResolvedRedactionRule",
    "detect_credit_card",
    "detect_email",
    "detect_ip",
    "detect_mac_address",
    "detect_name",
    "detect_phone",
    "detect_url",
]
