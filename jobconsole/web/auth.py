"""Basic authentication: a file of names and hashed passwords, compared in constant time.

A line is `name:scrypt$n$r$p$salt$hash`, salt and hash in base64; empty lines and those that begin with # are left out.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import os
import re
from collections import OrderedDict
from http import HTTPStatus
from pathlib import Path
from typing import NamedTuple

from jobconsole.web.http import Request, Response, plain

N, R, P = 1 << 14, 8, 1
"""The cost of a new line: 16 MiB and some 50 ms."""
_MAX_MEMORY = 64 << 20
"""Bytes that checking one line may take."""
_LONGEST_LOGIN = 1024
"""Bytes of a name and password; longer ones are refused unread."""
_REMEMBERED = 64
"""Names and passwords that were right, kept as keyed hashes: a scrape every 15 s need not cost 50 ms."""
_CHECKED_AT_ONCE = 2
"""Passwords that are checked at the same time."""
REFUSED = plain(HTTPStatus.UNAUTHORIZED)._replace(
    headers={"WWW-Authenticate": 'Basic realm="jobconsole", charset="UTF-8"'}
)


class _Secret(NamedTuple):
    n: int
    r: int
    p: int
    salt: bytes
    digest: bytes

    def matches(self, password: bytes) -> bool:
        """Compare a password, in a time that depends on the cost alone."""
        return hmac.compare_digest(_hash(password, self.salt, self.n, self.r, self.p), self.digest)


def _hash(password: bytes, salt: bytes, n: int, r: int, p: int) -> bytes:
    return hashlib.scrypt(password, salt=salt, n=n, r=r, p=p, maxmem=2 * _MAX_MEMORY, dklen=32)


def make_line(name: str, password: str) -> str:
    """Return the line of the file for a name and a password.

    Raises:
        ValueError: the name is empty or has a colon or white space, or the password is empty or too long.
    """
    if not name or re.search(r"[:\s#]", name) or not name.isprintable():
        raise ValueError("a name has no colon, no # and no white space")
    if not password or len(f"{name}:{password}".encode()) > _LONGEST_LOGIN:
        raise ValueError(f"a password has 1 to {_LONGEST_LOGIN - len(name.encode()) - 1} bytes")
    salt = os.urandom(16)
    parts = [base64.b64encode(one).decode() for one in (salt, _hash(password.encode(), salt, N, R, P))]
    return f"{name}:scrypt${N}${R}${P}${parts[0]}${parts[1]}"


def read_auth_file(path: str) -> dict[str, _Secret]:
    """Return the lines of a file by name.

    Raises:
        ValueError: the file cannot be read, has no line, or a line that is none.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no UTF-8"
        raise ValueError(f"{path}: {reason}") from None
    found: dict[str, _Secret] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, _, secret = line.strip().partition(":")
        try:
            found[name] = _secret(secret)
        except (ValueError, binascii.Error):
            raise ValueError(
                f"{path}, line {number}: write what 'jobconsole exporter --auth-line NAME' prints"
            ) from None
    if not found:
        raise ValueError(f"{path}: it has no line; 'jobconsole exporter --auth-line NAME' makes one")
    return found


def _secret(text: str) -> _Secret:
    kind, *numbers, salt, digest = text.split("$")
    n, r, p = map(int, numbers)
    if kind != "scrypt" or n < 2 or n & (n - 1) or r < 1 or not 1 <= p <= 16 or 128 * n * r > _MAX_MEMORY:
        raise ValueError(text)
    secret = _Secret(n, r, p, base64.b64decode(salt, validate=True), base64.b64decode(digest, validate=True))
    if len(secret.salt) < 8 or len(secret.digest) != 32:
        raise ValueError(text)
    return secret


class BasicAuth:
    """Refuses requests without a name and a password of the file, save for the paths that are open to all."""

    def __init__(self, path: str, open_paths: frozenset[str] = frozenset()) -> None:
        self._secrets = read_auth_file(path)
        self._open = open_paths
        # for a name that is not in the file, so that its answer takes as long
        self._unknown = _Secret(N, R, P, os.urandom(16), os.urandom(32))
        self._key = os.urandom(32)
        self._known: OrderedDict[bytes, None] = OrderedDict()
        self._turns = asyncio.Semaphore(_CHECKED_AT_ONCE)

    async def __call__(self, request: Request) -> Response | None:
        """Return the refusal of a request, or None."""
        if request.path in self._open or await self._allows(request.headers.get("authorization", "")):
            return None
        return REFUSED

    async def _allows(self, header: str) -> bool:
        kind, _, given = header.partition(" ")
        if kind.lower() != "basic" or len(given) > 2 * _LONGEST_LOGIN:
            return False
        try:
            decoded = base64.b64decode(given.strip(), validate=True)
        except (ValueError, binascii.Error):
            return False
        name, colon, password = decoded.partition(b":")
        if not colon or len(decoded) > _LONGEST_LOGIN:
            return False
        mark = hmac.digest(self._key, decoded, "sha256")
        if mark in self._known:
            return True
        secret = self._secrets.get(name.decode("utf-8", "replace"))
        async with self._turns:
            right = await asyncio.to_thread((secret or self._unknown).matches, password)
        if not (right and secret is not None):
            return False
        self._known[mark] = None
        if len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
        return True
