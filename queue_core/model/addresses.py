"""Server addresses: checked before the first connection, and shown without their passwords."""

from __future__ import annotations

import re
import socket
from urllib.parse import parse_qsl, unquote, urlsplit

POSTGRES_SCHEMES = ("postgresql", "postgres")
REDIS_SCHEMES = ("redis", "rediss", "unix")

# Greedy up to the last @: an unescaped password may hold /, ? or @ itself, and too much masked beats too little.
_USERINFO = re.compile(r"(?<=://)([^\s:/@?#]*):[^\s]*@")
_PARAMETER = re.compile(r"(?i)([?&][a-z_]*(?:password|secret|token)=)[^&\s]*")
_HOST = re.compile(r"(?:\[[0-9a-fA-F:.%]+\]|[^\[\]:\s]*)(?::(?P<port>[^:]*))?")


def mask(text: str) -> str:
    """Return the text with the passwords of all URLs in it replaced by ***."""
    return _PARAMETER.sub(r"\1***", _USERINFO.sub(r"\1:***@", text))


def check_postgres_url(url: str) -> str:
    """Return the URL when psycopg can understand it.

    Raises:
        ValueError: it cannot; the message never holds the password.
    """
    _check(url, "PostgreSQL", POSTGRES_SCHEMES)
    return url


def check_redis_url(url: str) -> str:
    """Return the URL when redis-py can understand it.

    Raises:
        ValueError: it cannot; the message never holds the password.
    """
    scheme = _check(url, "Redis", REDIS_SCHEMES)
    if scheme != "unix" and "," in url.partition("://")[2].partition("?")[0].partition("/")[0].rpartition("@")[2]:
        raise ValueError("a Redis URL names one server, as in redis://localhost:6379/0; there are several hosts in it")
    parts = urlsplit(url)
    if scheme == "unix" and not unquote(parts.path).startswith("/"):
        raise ValueError("a Redis URL with unix:// needs the absolute path of a socket, as in unix:///run/redis.sock")
    database = dict(parse_qsl(parts.query)).get("db", "" if scheme == "unix" else parts.path.strip("/"))
    if database and not database.isdecimal():
        raise ValueError("the database of a Redis URL must be a number, as in redis://localhost:6379/0")
    return url


def named(host: str, port: str = "") -> str:
    """Return a server's address for people; what another machine would take for its own gets the machine's name."""
    if host.startswith("/"):
        return f"{host} on {socket.gethostname()}"
    address = f"[{host}]" if ":" in host else host
    own = host in {"localhost", "::1"} or host.startswith("127.")
    return address + (f":{port}" if port else "") + (f" on {socket.gethostname()}" if own else "")


def _check(url: str, what: str, schemes: tuple[str, ...]) -> str:
    known = " or ".join([", ".join(f"{one}://" for one in schemes[:-1]), f"{schemes[-1]}://"])
    scheme, separator, rest = url.partition("://")
    if not separator or scheme not in schemes:
        # The part before :// may be shown; without it, the text could be anything, a password too.
        found = f", not with {scheme}://" if separator and re.fullmatch(r"[a-zA-Z][\w+.-]{0,30}", scheme) else ""
        raise ValueError(f"a {what} URL begins with {known}{found}")
    if re.search(r"[\s\x00-\x1f\x7f]", url):
        raise ValueError(f"the {what} URL holds a space or a control character")
    if re.search(r"%(?![0-9a-fA-F]{2})", url):
        raise ValueError(f"the {what} URL holds a % that is no escape; write %25 for the character itself")
    for host in re.split(r"[/?#]", rest, maxsplit=1)[0].rpartition("@")[2].split(","):
        _check_host(host, what)
    return scheme


def _check_host(host: str, what: str) -> None:
    match = _HOST.fullmatch(host)
    if match is None:
        hint = "write the special characters of a password as %XX"
        raise ValueError(f"the host of the {what} URL cannot be read; {hint}")
    port = match.group("port")
    if port and not (port.isdecimal() and 0 < int(port) < 65536):
        raise ValueError(f"the port of the {what} URL must be a number from 1 to 65535")
