"""Secrets, as they may be told in a text."""

from __future__ import annotations

import base64

__all__ = ["disguises"]


def disguises(secret: str) -> set[bytes]:
    """How a secret may stand in a text: as it is, in hex, and in base64, wherever that begins to count."""
    raw = secret.encode()
    forms = {raw, raw.hex().encode()}
    for before in range(3):
        encoded = base64.b64encode(bytes(before) + raw)
        forms.add(encoded[(8 * before + 5) // 6 : 8 * (before + len(raw)) // 6])
    return forms
