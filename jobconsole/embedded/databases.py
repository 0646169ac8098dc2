"""Databases of a PostgreSQL server: one for each test or each demonstration."""

from importlib.resources import files
from urllib.parse import quote, urlsplit, urlunsplit


def create_database(server_url: str, name: str, template: str | None = None) -> str:
    """Make a database, as a copy of `template` if one is given, and answer its address."""
    _run(server_url, "create_database", name=name, template=template or "template1")
    return database_url(server_url, name)


def drop_database(server_url: str, name: str) -> None:
    """Remove a database and cut its connections; nothing to do when there is none."""
    _run(server_url, "drop_database", name=name)


def database_url(server_url: str, name: str) -> str:
    """Answer the address of another database of the same server."""
    parts = urlsplit(server_url)
    # urlunsplit would lose the empty host of "postgresql://app@/…" when there is no user either.
    return urlunsplit(parts._replace(path=f"/{quote(name, safe='')}"))


def _run(server_url: str, statement: str, **identifiers: str) -> None:
    """Run one of this package's statements with names put into it."""
    import psycopg
    from psycopg import sql

    text = (files("jobconsole.embedded") / "queries" / f"{statement}.sql").read_text()
    names = {key: sql.Identifier(value) for key, value in identifiers.items()}
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(sql.SQL(text).format(**names))
