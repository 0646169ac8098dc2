"""Addresses of servers and files: checked before the first connection, and shown without their passwords."""

from __future__ import annotations

import re
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from queue_core.errors import ConfigurationError

POSTGRES_SCHEMES = ("postgresql", "postgres")
REDIS_SCHEMES = ("redis", "rediss", "unix", "redis+sentinel", "redis+cluster", "rediss+sentinel", "rediss+cluster")
REDIS_PORT, SENTINEL_PORT = 6379, 26379

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


def path_of(text: str) -> Path:
    """Return a path as people write it, with ~ for a home folder.

    Raises:
        ConfigurationError: there is no such home folder: a container's user may have none.
    """
    try:
        return Path(text).expanduser()
    except RuntimeError:
        raise ConfigurationError(f"{text}: no home folder is known for its ~; give the whole path") from None


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


Host = tuple[str, int]
"""A server: its name or number, and its port."""


class RedisAddress(NamedTuple):
    """What a Redis URL names: one server, the Sentinels that know a primary, or some nodes of a cluster."""

    kind: Literal["single", "sentinel", "cluster"]
    # the Sentinels, or nodes, each with its port; empty for a single server
    hosts: tuple[tuple[str, int], ...]
    # the name under which the Sentinels know the primary
    name: str
    # a URL of the first host, with the database, user, password and options of the servers themselves
    url: str
    # user name and password of the Sentinels, where they have some
    sentinel_login: tuple[str | None, str | None] = (None, None)


def redis_address(url: str) -> RedisAddress:
    """Return what a checked Redis URL names."""
    scheme, _, rest = url.partition("://")
    base, _, kind = scheme.partition("+")
    if not kind:
        return RedisAddress("single", (), "", url)
    authority, path, query = _parts(rest)
    login, at, hosts = authority.rpartition("@")
    options = parse_qsl(query, keep_blank_values=True)
    known = dict(options)
    own = urlencode([pair for pair in options if not pair[0].startswith("sentinel_")])
    name, _, database = unquote(path).strip("/").partition("/") if kind == "sentinel" else ("", "", "")
    default = SENTINEL_PORT if kind == "sentinel" else REDIS_PORT
    found = tuple(_host(host, default) for host in hosts.split(","))
    host, port = found[0]
    server = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return RedisAddress(
        "sentinel" if kind == "sentinel" else "cluster",
        found,
        name,
        f"{base}://{login}{at}{server}/{database}{'?' if own else ''}{own}",
        (known.get("sentinel_username"), known.get("sentinel_password")),
    )


def join_redis_urls(urls: Sequence[str]) -> str:
    """Return one URL of several: the first in full, and the hosts of all of them, which may have nothing else.

    Raises:
        ValueError: they are not of Sentinels or of nodes of one cluster.
    """
    scheme, separator, rest = urls[0].partition("://") if urls else ("", "", "")
    if not separator or "+" not in scheme:
        raise ValueError("a list of Redis addresses begins with redis+sentinel:// or redis+cluster://")
    hosts: list[str] = []
    for url in urls[1:]:
        own, separator, other = url.partition("://")
        if separator and own != scheme:
            raise ValueError(f"the addresses of a list begin with {scheme}://, like its first one")
        hosts.append(_parts(other if separator else own)[0].rpartition("@")[2])
    authority = _parts(rest)[0]
    return f"{scheme}://{','.join([authority, *hosts])}{rest[len(authority) :]}"


def _parts(rest: str) -> tuple[str, str, str]:
    """Return the authority, the path and the options of what follows ://."""
    match = re.fullmatch(r"([^/?#]*)([^?#]*)\??([^#]*).*", rest, re.DOTALL)
    assert match is not None, "every part may be empty"
    return match[1], match[2], match[3]


def _host(text: str, default: int) -> tuple[str, int]:
    host, _, port = text.rpartition(":") if re.search(r":\d+$", text) else (text, "", "")
    return host.strip("[]") or "localhost", int(port or default)


def check_redis_url(url: str) -> str:
    """Return the URL when redis-py, or this package's way to Sentinels and clusters, can understand it.

    Raises:
        ValueError: it cannot; the message never holds the password.
    """
    scheme = _check(url, "Redis", REDIS_SCHEMES)
    if "+" in scheme:
        _check_several(url, scheme)
        return url
    if scheme != "unix" and "," in url.partition("://")[2].partition("?")[0].partition("/")[0].rpartition("@")[2]:
        raise ValueError(
            "a Redis URL names one server, as in redis://localhost:6379/0; there are several hosts in it: "
            "redis+sentinel:// and redis+cluster:// take several"
        )
    parts = urlsplit(url)
    if scheme == "unix" and not re.fullmatch(r"/.*[^/]", unquote(parts.path)):
        raise ValueError("a Redis URL with unix:// needs the absolute path of a socket, as in unix:///run/redis.sock")
    database = dict(parse_qsl(parts.query)).get("db", "" if scheme == "unix" else parts.path.strip("/"))
    if database and not database.isdecimal():
        raise ValueError("the database of a Redis URL must be a number, as in redis://localhost:6379/0")
    return url


def _check_several(url: str, scheme: str) -> None:
    """Check what follows the hosts of Sentinels or of a cluster."""
    _, path, query = _parts(url.partition("://")[2])
    name, _, database = path.strip("/").partition("/")
    if scheme.endswith("+cluster"):
        if name not in {"", "0"} or dict(parse_qsl(query)).get("db", "0") != "0":
            raise ValueError("a Redis Cluster has the database 0 alone, as in redis+cluster://h1:6379,h2:6379")
        return
    if not name:
        raise ValueError(
            "a Redis URL of Sentinels names the primary that they know, as in redis+sentinel://h1,h2/name/0"
        )
    if database and not database.isdecimal():
        raise ValueError("the database of a Redis URL must be a number, as in redis+sentinel://h1,h2/name/0")


def named(host: str, port: str = "") -> str:
    """Return a server's address for people; what another machine would take for its own gets the machine's name."""
    if host.startswith("/"):
        return f"{host} on {socket.gethostname()}"
    address = f"[{host}]" if ":" in host else host
    own = host in {"localhost", "::1"} or host.startswith("127.")
    return address + (f":{port}" if port else "") + (f" on {socket.gethostname()}" if own else "")


def _check(url: str, what: str, schemes: tuple[str, ...]) -> str:
    shown = [one for one in schemes if not one.startswith("rediss+")]
    known = " or ".join([", ".join(f"{one}://" for one in shown[:-1]), f"{shown[-1]}://"])
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
