"""Words that pose as instructions to a model (S146). A heuristic: it finds the known ways, and says which.

In a definition or a result such words are a reason to look, not a proof; people write about these things too.
"""

from __future__ import annotations

import re
from typing import Final

_FLAGS: Final = re.IGNORECASE

# What matches many things twice over is decided once (``(?>``): a text of nothing but such words takes no longer.
_RULES: Final[dict[str, re.Pattern[str]]] = {
    name: re.compile(pattern, _FLAGS)
    for name, pattern in {
        "instruction_tag": r"</?\s*(?:important|system|assistant|instructions?|secret|hidden|sys|admin)\s*>"
        r"|\[/?(?:inst|system)\]|<\|(?:im_start|im_end|system|endoftext)\|>|<<\s*sys\s*>>",
        "override": r"\b(?:ignore|disregard|forget|override)\b[^.\n]{0,40}\b(?:previous|prior|earlier|above|preceding|"
        r"all|any|other|system|safety|existing)\b[^.\n]{0,30}\b(?:instruction|prompt|rule|direction|guideline|message|"
        r"context|polic)",
        "secrecy": r"\b(?:do\s+not|don'?t|never|without)\b[^.\n]{0,30}\b(?:tell|mention|inform|reveal|notify|show|"
        r"telling|mentioning|informing|alert(?:ing)?|ask(?:ing)?)\b[^.\n]{0,30}\bthe\s+user\b",
        "precondition": r"\bbefore\s+(?:using|calling|invoking|running|you\s+(?:use|call|invoke|run))\b[^.\n]{0,40}\b"
        r"(?:tool|function|any)\b[^.\n]{0,80}\b(?:read|send|call|fetch|include|pass|upload|cat|open|access)\b",
        "redirection": r"\b(?:when|whenever|if|every\s+time|always)\b(?>[^.\n]{0,80}?\b(?:send_email|send_message|"
        r"email|message|transfer|payment|recipient|bcc|cc)\b)[^.\n]{0,100}?\b(?:must|instead|always|change|replace|also\s+(?:"
        r"send|copy|add|include))\b",
        "mandate": r"\byou\s+(?:must|are\s+required\s+to|have\s+to|shall)\b[^.\n]{0,60}\b(?:first|always|also|"
        r"instead|secretly|silently)\b",
        "sensitive_file": r"~/\.(?:ssh|aws|gnupg|kube|config|netrc|cursor|claude|docker)\b|\bid_(?:rsa|ed25519|ecdsa)\b"
        r"|(?:^|[\s'\"`/(])\.env\b(?!ironment)|\bmcp\.json\b|/etc/(?:passwd|shadow)\b|\bauthorized_keys\b",
        "smuggling": r"\bbase64(?:[- ]encoded?)?\s+(?:of|version|contents?\s+of|form)\b"
        r"|\bencode\b[^.\n]{0,40}\bbase64\b"
        r"|\b(?:pass|put|include|append|insert|send|provide|supply)\b(?>[^.\n]{0,50}?\b(?:file|key|token|credential|"
        r"secret|history|conversation|password|environment\s+variable|system\s+prompt)s?\b)[^.\n]{0,80}?\b(?:as|in|into|to|with)"
        r"\s+(?:the\s+|this\s+|a\s+)?[`'\"]?(?:sidenote|note|context|parameter|argument|field|feedback|metadata|comment|"
        r"query|url|summary)\b",
        "persona": r"\b(?:you\s+are\s+now|act\s+as|pretend\s+to\s+be)\b[^.\n]{0,40}\b(?:admin|root|developer\s+mode|"
        r"unrestricted|jailb|dan|without\s+restriction)",
        "prompt_leak": r"\b(?:reveal|print|repeat|output|show|return|send|disclose|include)\b[^.\n]{0,30}\b(?:system|"
        r"hidden|initial)\s+(?:prompt|instruction|message)",
    }.items()
}
RULES: Final = tuple(_RULES)


def find(text: str) -> tuple[str, ...]:
    """Return the names of the rules that a text meets, each once."""
    return tuple(name for name, pattern in _RULES.items() if pattern.search(text))


def strip(text: str) -> str:
    """Replace what met a rule by a note that names it."""
    for name, pattern in _RULES.items():
        text = pattern.sub(f"[removed: {name}]", text)
    return text
