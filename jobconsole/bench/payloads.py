"""The payload of the benchmark's jobs."""

from __future__ import annotations

import json
from typing import Any

PAYLOAD_BYTES = 200


def payload(number: int, sent: float = 0.0) -> dict[str, Any]:
    """Return the payload of a job: some 200 bytes of JSON, as a small real one would have."""
    body = {"number": number, "sent": sent, "customer": f"customer-{number:08d}", "text": ""}
    body["text"] = "x" * (PAYLOAD_BYTES - len(json.dumps(body)))
    return body
