"""Values that look like keys, tokens or passwords (S148, S168): by the forms their issuers gave them.

Precise rather than complete: what it finds is almost surely a secret, what it does not find may be one.
"""

from __future__ import annotations

import re
from typing import Final

_PATTERNS: Final[dict[str, str]] = {
    "private_key": r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----"
    r"(?:.*?-----END (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----|.*)",
    "jwt": r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*",
    "aws_key": r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}\b",
    "github_token": r"\bgh[pousr]_[A-Za-z0-9]{36,255}\b|\bgithub_pat_[A-Za-z0-9_]{22,255}\b",
    "gitlab_token": r"\bgl(?:pat|ptt|rt|dt|oas|cbt)-[A-Za-z0-9_-]{20,}",
    "slack_token": r"\bxox[abeprs]-[A-Za-z0-9-]{10,}|\bxapp-[0-9]-[A-Za-z0-9-]{10,}"
    r"|\bhooks\.slack\.com/services/[A-Za-z0-9/]{20,}",
    "google_key": r"\bAIza[A-Za-z0-9_-]{35}|\bya29\.[A-Za-z0-9_-]{20,}|\bGOCSPX-[A-Za-z0-9_-]{20,}",
    "stripe_key": r"\b[sr]k_(?:live|test)_[A-Za-z0-9]{16,}\b|\bwhsec_[A-Za-z0-9]{24,}\b",
    "model_key": r"\bsk-(?:ant-|proj-|or-|svcacct-)?[A-Za-z0-9_-]{24,}|\bhf_[A-Za-z0-9]{30,}\b"
    r"|\bgsk_[A-Za-z0-9]{40,}\b",
    "package_token": r"\bnpm_[A-Za-z0-9]{36}\b|\bpypi-[A-Za-z0-9_-]{50,}|\bdckr_pat_[A-Za-z0-9_-]{20,}",
    "service_token": r"\bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}|\bdop_v1_[a-f0-9]{64}\b"
    r"|\bshp(?:at|ss|ca)_[a-fA-F0-9]{32}\b"
    r"|\bntn_[A-Za-z0-9]{40,}\b|\blin_api_[A-Za-z0-9]{32,}\b|\bvault:v1:|\bhvs\.[A-Za-z0-9_-]{24,}",
    "gateway_key": r"\bmcpgw_[A-Za-z0-9]{8}_[A-Za-z0-9_-]{43}",
    "url_password": r"(?<=://)[^\s/:@\"'<>]{1,256}:[^\s/@\"'<>]{1,256}(?=@)",
    "bearer": r"\b[Bb]earer\s+[A-Za-z0-9._~+/-]{20,}=*",
    "assigned": r"(?P<before>(?i:\b(?:password|passwd|secret|api[_-]?key|access[_-]?token|auth[_-]?token|"
    r"client[_-]?secret|private[_-]?key)\b[\"']?\s*[:=]\s*[\"']?))[^\s\"',;<>{}\[\]()]{8,}",
}
KINDS: Final = tuple(_PATTERNS)
_ANY: Final = re.compile("|".join(f"(?P<{kind}>{pattern})" for kind, pattern in _PATTERNS.items()), re.DOTALL)
_HINT: Final = re.compile(
    r"-----BEGIN|eyJ|A(?:KI|SI|BI|CC)A|gh[pousr]_|github_pat|gl[a-z]{2,3}-|xox|xapp|hooks\.slack|AIza|ya29|GOCSPX|k_live"
    r"|k_test|whsec|sk-|hf_|gsk_|npm_|pypi-|dckr|SG\.|dop_v1|shp|ntn_|lin_api|vault:|hvs\.|mcpgw_|://|[Bb]earer"
    r"|(?i:passw|secret|api.?key|token|private.?key)"
)
_NAMES: Final = re.compile(
    r"(?i)(?:^|[_\-.]|(?<=[a-z])(?=[A-Z]))(?:password|passwd|passphrase|pwd|secret|token|api[_-]?key|credential|"
    r"private[_-]?key|authorization|cookie|otp|pin|cvv|cvc|ssn)s?(?:$|[_\-.])"
)
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def find(text: str) -> tuple[str, ...]:
    """Return the kinds of secrets in a text, each once."""
    if _HINT.search(text) is None:
        return ()
    return tuple(dict.fromkeys(match.lastgroup or "" for match in _ANY.finditer(text)))


def redact(text: str) -> str:
    """Replace every secret by a note of its kind."""
    if _HINT.search(text) is None:
        return text
    return _ANY.sub(_redacted, text)


def _redacted(match: re.Match[str]) -> str:
    # What names the secret stays: a text that is JSON or a line of settings is one still.
    return f"{match['before'] or ''}[redacted: {match.lastgroup}]"


def is_secret_name(name: str) -> bool:
    """Tell whether a key or field with this name most likely holds a secret: ``password``, ``apiKey``, ``otp``."""
    return _NAMES.search(_CAMEL.sub("_", name)) is not None
