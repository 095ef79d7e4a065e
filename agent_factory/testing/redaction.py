"""Removes secrets from plain data: values of telling keys, and texts in the forms of known keys."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

REDACTED = "[redacted]"

SECRET_KEYS = (
    r"api[-_]?key",
    r"authorization",
    r"cookie",
    r"credential",
    r"passw(or)?d",
    r"private[-_]?key",
    r"secret",
    r"(^|access|auth|bearer|refresh|session)[-_]?token$",
)
"""Patterns of keys whose values are never written, in lower and upper case."""

# Forms of secrets as their issuers document them, or as they issue them. In JSON within a text, the
# letter of an escape such as \n may stand right before a secret.
_SECRETS = re.compile(
    r"""
    (?: \b | (?<=\\[nrt]) )
    (?:
        # model providers and services for agents
        sk-[\w-]{16,}  # OpenAI, Anthropic, OpenRouter, DeepSeek and others
        | gsk_[a-zA-Z0-9]{20,}  # Groq
        | (?:hf|api_org)_[a-zA-Z0-9]{20,}  # Hugging Face
        | r8_[a-zA-Z0-9]{20,}  # Replicate
        | (?:xai|pplx|csk|nvapi|tvly)-[\w-]{20,}  # xAI, Perplexity, Cerebras, NVIDIA, Tavily
        | fw_[a-zA-Z0-9]{20,}  # Fireworks
        | tgp_v1_[\w-]{20,}  # Together
        | pcsk_\w{20,}  # Pinecone
        | lsv2_[a-z]{2}_\w{20,}  # LangSmith
        | dapi[0-9a-f]{32}  # Databricks
        # clouds
        | AIza[\w-]{30,} | ya29\.[\w-]{20,} | 1//0[\w-]{30,} | GOCSPX-[\w-]{20,}  # Google
        | A(?:KI|SI|BI|CC)A[0-9A-Z]{16} | ABSK[\w+/]{40,}=*  # AWS
        | \w{3}[78]Q~[\w.~-]{31,34}  # Azure
        | do[opr]_v1_[0-9a-f]{64}  # DigitalOcean
        | hv[bsr]\.[\w-]{20,} | \w{14}\.atlasv1\.[\w-]{60,}  # HashiCorp
        | sbp_[0-9a-f]{40} | pscale_[a-z]+_[\w.-]{20,}  # Supabase, PlanetScale
        # code and packages
        | gh[pousr]_\w{20,} | github_pat_\w{20,}  # GitHub
        | gl[a-z]{2,6}-[\w-]{20,}  # GitLab
        | npm_[a-zA-Z0-9]{30,} | pypi-[\w-]{50,} | dckr_pat_[\w-]{20,}
        # messages, payment and other services
        | xox[a-z]-[\w-]{10,} | xapp-[\w-]{20,}  # Slack
        | https://hooks\.slack\.com/services/[\w/]{20,}
        | [sr]k_(?:live|test)_[a-zA-Z0-9]{16,} | whsec_[a-zA-Z0-9]{20,}  # Stripe
        | SG\.[\w-]{16,}\.[\w-]{16,}  # SendGrid
        | SK[0-9a-f]{32}  # Twilio
        | key-[0-9a-f]{32} | [0-9a-f]{32}-us[0-9]{1,2}  # Mailgun, Mailchimp
        | [0-9]{8,10}:AA[\w-]{33}  # Telegram
        | [MNO][\w-]{23,25}\.[\w-]{6}\.[\w-]{27,38}  # Discord
        | pat[a-zA-Z0-9]{14}\.[0-9a-f]{64}  # Airtable
        | ntn_[a-zA-Z0-9]{40,} | lin_api_[a-zA-Z0-9]{30,}  # Notion, Linear
        | shp[a-z]{2}_[0-9a-fA-F]{32} | sq0[a-z]{3}-[\w-]{20,}  # Shopify, Square
        | gl(?:sa|c)_\w{20,} | NRAK-[A-Z0-9]{20,}  # Grafana, New Relic
        | ATATT3[\w=-]{20,}  # Atlassian
        # standards: bearer tokens, JSON web tokens
        | (?i:bearer)\s+[\w.~+/-]{8,}=*
        | eyJ[\w-]{10,2000}\.[\w-]*\.[\w.-]*
    )
    # A private key that was cut has no end.
    | -----BEGIN[A-Z ]*\ PRIVATE\ KEY(?:\ BLOCK)?-----
      .*? (?: -----END[A-Z ]*\ PRIVATE\ KEY(?:\ BLOCK)?----- | \Z )
    """,
    re.VERBOSE | re.DOTALL,
)

# Secrets without a distinct form. The group of each pattern, the text before, is kept.
# The lengths are bounded, which bounds the time.
_NAMED_SECRETS = re.compile(
    r"""
    ( \b[a-z][a-z0-9+.-]{0,30}://[^\s:/@]{0,200}: ) [^\s/"']{1,500} (?=@)  # in a URL
    | ( ;\s{0,9}(?:password|pwd)= ) [^\s;"']+  # in a connection string
    | ( (?:account|sharedaccess)key= ) [\w+/]{20,}=*
    | ( [?&]sig= ) [\w%+/=-]{20,}
    | ( aws_?secret_?access_?key\W{1,8} ) [\w+/]{40}
    | ( authorization\W{1,8}basic\s{1,9} | (?:\b|(?<=\\[nrt]))basic\s{1,9}(?=[a-z+/]*[0-9=]) )
      [a-z0-9+/]{8,}={0,2}
    """,
    re.VERBOSE | re.IGNORECASE,
)

Redact = Callable[[str], str]


class Redaction:
    """Removes secrets from plain data: given texts, and values of given keys and `SECRET_KEYS`."""

    def __init__(
        self, keys: Sequence[str] = (), redact: Redact | None = None, secrets: Sequence[str] = ()
    ) -> None:
        self.keys = tuple(keys)
        self._pattern = re.compile("|".join([*SECRET_KEYS, *keys]), re.IGNORECASE)
        self._redact = redact
        # The longest first, because a secret may be part of another secret.
        self._secrets = sorted(filter(None, secrets), key=len, reverse=True)

    def __call__(self, value: Any) -> Any:
        """The value without secrets."""
        if isinstance(value, dict):
            return {
                key: REDACTED if item and self._pattern.search(str(key)) else self(item)
                for key, item in value.items()
            }
        if isinstance(value, list):
            return [self(item) for item in value]
        if not isinstance(value, str):
            return value
        for secret in self._secrets:
            value = value.replace(secret, REDACTED)
        value = _without_secrets(value)
        # The function may write a text like a secret; so redacted data does not change again.
        return value if self._redact is None else _without_secrets(self._redact(value))


def _without_secrets(text: str) -> str:
    text = _SECRETS.sub(REDACTED, text)
    return _NAMED_SECRETS.sub(lambda match: f"{match[match.lastindex or 0]}{REDACTED}", text)
