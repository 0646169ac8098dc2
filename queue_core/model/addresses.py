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


_CHOICES = {
    "sslmode": ("disable", "allow", "prefer", "require", "verify-ca", "verify-full"),
    "channel_binding": ("disable", "prefer", "require"),
    "gssencmode": ("disable", "prefer", "require"),
    "target_session_attrs": ("any", "read-write", "read-only", "primary", "standby", "prefer-standby"),
    "load_balance_hosts": ("disable", "random"),
}
"""Options of a PostgreSQL URL that take one of a few words. The client finds a wrong one while it connects, and reports
it as it does a server that is away."""
_WHOLE = frozenset(
    {"connect_timeout", "keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count", "tcp_user_timeout"}
)
"""Those that take a whole number."""


def mask(text: str) -> str:
    """Return the text with the passwords of all URLs in it replaced by ***."""
    return _PARAMETER.sub(r"\1***", _USERINFO.sub(r"\1:***@", text))


def check_postgres_url(url: str) -> str:
    """Return the URL when psycopg can understand it.

    Raises:
        ValueError: it cannot; the message never holds the password.
    """
    _check(url, "PostgreSQL", POSTGRES_SCHEMES)
    for name, value in postgres_options(url):
        _check_option(name, value)
    return url


def postgres_options(url: str) -> list[tuple[str, str]]:
    """Return the options behind the ? of a PostgreSQL URL, with their values; which of them there are, psycopg knows.

    Raises:
        ValueError: one is not written as psycopg reads it.
    """
    # As psycopg does it: what comes before an @ that no / comes before are credentials, with any ? in them.
    query = re.sub(r"^[^@/]*@", "", url.partition("://")[2]).partition("?")[2]
    parts = [part.split("=") for part in query.split("&")] if query else []
    if any(len(part) != 2 or not part[0] for part in parts):
        hint = "name=value with & between them, and = in a value as %3D"
        raise ValueError(f"the options of the PostgreSQL URL are written {hint}")
    return [(unquote(name), unquote(value)) for name, value in parts]


def check_redis_url(url: str) -> str:
    """Return the URL when redis-py can understand it.

    Raises:
        ValueError: it cannot; the message never holds the password.
    """
    scheme = _check(url, "Redis", REDIS_SCHEMES)
    if scheme != "unix" and "," in url.partition("://")[2].partition("?")[0].partition("/")[0].rpartition("@")[2]:
        raise ValueError("a Redis URL names one server, as in redis://localhost:6379/0; there are several hosts in it")
    parts = urlsplit(url)
    if scheme == "unix" and not re.fullmatch(r"/.*[^/]", unquote(parts.path)):
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
    if "%00" in url:
        raise ValueError(f"the {what} URL holds %00, which no address can hold")
    for host in re.split(r"[/?#]", rest, maxsplit=1)[0].rpartition("@")[2].split(","):
        _check_host(host, what)
    return scheme


def _check_host(host: str, what: str) -> None:
    match = _HOST.fullmatch(host)
    if match is None:
        hint = "write the special characters of a password as %XX"
        raise ValueError(f"the host of the {what} URL cannot be read; {hint}")
    _check_port(match.group("port"), what)


def _check_port(port: str | None, what: str) -> None:
    if port and not (port.isdecimal() and 0 < int(port) < 65536):
        raise ValueError(f"the port of the {what} URL must be a number from 1 to 65535")


def _check_option(name: str, value: str) -> None:
    choices = _CHOICES.get(name)
    if choices is not None and value not in choices:
        raise ValueError(f"the option '{name}' of the PostgreSQL URL must be one of: {', '.join(choices)}")
    if name in _WHOLE and not re.fullmatch(r"[+-]?[0-9]{1,9}", value):
        raise ValueError(f"the option '{name}' of the PostgreSQL URL must be a whole number")
    if name == "port":
        for port in value.split(","):
            _check_port(port, "PostgreSQL")
