"""The public face: both servers, started together for this process and gone with it."""

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from types import TracebackType
from typing import Literal, Self
from urllib.parse import quote, urlsplit, urlunsplit

from jobconsole.embedded.binaries import (
    Program,
    Source,
    find_postgres,
    find_redis,
    initdb_command,
    postgres_command,
    postgres_url,
    preference,
    redis_command,
    redis_url,
)
from jobconsole.embedded.channel import Channel
from jobconsole.embedded.folders import (
    EmbeddedError,
    Identity,
    InstanceFolder,
    can_read,
    create_folder,
    discard,
    server_identity,
    sweep,
)
from jobconsole.embedded.processes import LaunchPlan, ServerPlan


def create_database(server_url: str, name: str, template: str | None = None) -> str:
    """Make a database, as a copy of `template` if one is given, and answer its address."""
    _run(server_url, "create_database", name=name, template=template or "template1")
    return database_url(server_url, name)


def drop_database(server_url: str, name: str) -> None:
    """Remove a database and cut its connections; nothing to do when there is none."""
    _run(server_url, "drop_database", name=name)


def database_url(server_url: str, name: str) -> str:
    """Return the address of another database of the same server."""
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


# Generous: a slow machine that runs other tests at the same time.
START_SECONDS = 60.0
NOTHING: Mapping[str, str] = {}


class ServerHandle:
    """One server, for stopping, killing and freezing it on purpose."""

    def __init__(self, name: Literal["postgres", "redis"], channel: Channel, program: Program) -> None:
        self._name = name
        self._channel = channel
        # The program that runs, and whether it came from the wheel, from this machine, or was named.
        self.program: Path = program.path
        self.source: Source = program.source

    def _do(self, action: str, **fields: str) -> int | None:
        pid: int | None = self._channel.ask(action, server=self._name, **fields)["pids"][self._name]
        return pid

    @property
    def pid(self) -> int | None:
        """The process id now, or None when the server does not run."""
        return self._do("look")

    def start(self) -> None:
        """Start the server again on the same data and the same socket; nothing to do when it runs."""
        self._do("start")

    def kill(self) -> None:
        """Kill all processes of the server at once, as a crash would."""
        self._do("kill")

    def pause(self) -> None:
        """Freeze all processes of the server: connections stay open and get no answer."""
        self._do("pause")

    def resume(self) -> None:
        """Continue a frozen server."""
        self._do("resume")


class PostgresHandle(ServerHandle):
    """The PostgreSQL of this instance."""

    def stop(self, mode: Literal["fast", "immediate"] = "fast") -> None:
        """Stop the server: "fast" cuts sessions and writes everything out, "immediate" recovers at the next start."""
        self._do("stop", mode=mode)


class RedisHandle(ServerHandle):
    """The Redis-protocol server of this instance."""

    def stop(self) -> None:
        """Stop the server; without its append-only file it forgets everything."""
        self._do("stop", mode="fast")


class EmbeddedServers:
    """A running PostgreSQL and a running Redis-protocol server; `start` makes one."""

    def __init__(self, channel: Channel, folder: InstanceFolder, postgres: Program, redis: Program) -> None:
        self._channel = channel
        self._folder = folder
        self._closed = False
        self.postgres = PostgresHandle("postgres", channel, postgres)
        self.redis = RedisHandle("redis", channel, redis)
        self.postgres_url: str = postgres_url(folder.sockets)
        self.redis_url: str = redis_url(folder.redis_socket)

    @classmethod
    def start(
        cls,
        *,
        durable: bool = False,
        prefer: Source | None = None,
        redis_appendonly: bool = False,
        postgres_options: Mapping[str, str] = NOTHING,
        redis_options: Mapping[str, str] = NOTHING,
        max_connections: int = 200,
        template: Path | None = None,
    ) -> Self:
        """Start both servers and wait until both answer.

        `durable` keeps PostgreSQL's commits on the disk (for benchmarks); `redis_appendonly` does so for the other.
        `prefer` chooses where to look first; left out: the variable EMBEDDED_SERVERS, then the wheels. The programs in
        the variables EMBEDDED_POSTGRES_BIN and EMBEDDED_REDIS_BIN are started in any case. `template` is what
        `data_template` of another instance returned: copying it is faster than initdb.
        """
        source = preference(prefer)
        postgres, redis = find_postgres(source), find_redis(source)
        who = server_identity()
        sweep(who)
        folder = create_folder(who)
        postgres_here, postgres_copies = _within_reach(postgres, folder, who)
        redis_here, redis_copies = _within_reach(redis, folder, who)
        data = folder.path / "postgres"
        plan = LaunchPlan(
            folder=str(folder.path),
            run_as=(who.uid, who.gid) if who else None,
            copies={"postgres": postgres_copies, "redis": redis_copies},
            postgres=ServerPlan(
                command=postgres_command(
                    postgres_here, data, folder.sockets, max_connections, durable, postgres_options
                ),
                log=str(folder.path / "postgres.log"),
                data=str(data),
                socket=str(folder.sockets / ".s.PGSQL.5432"),
                initdb=initdb_command(postgres_here, durable),
                template=str(template) if template else None,
            ),
            redis=ServerPlan(
                command=redis_command(
                    redis_here, folder.path / "redis", folder.redis_socket, redis_appendonly, redis_options
                ),
                log=str(folder.path / "redis.log"),
                data=str(folder.path / "redis"),
                socket=str(folder.redis_socket),
            ),
            patience=START_SECONDS,
        )
        return cls._launch(folder, plan, postgres, redis)

    @classmethod
    def _launch(cls, folder: InstanceFolder, plan: LaunchPlan, postgres: Program, redis: Program) -> Self:
        servers = cls(Channel(folder), folder, postgres, redis)
        try:
            servers._channel.ask("launch", plan=plan)
        except BaseException:
            servers.close()
            raise
        return servers

    @property
    def folder(self) -> Path:
        """The folder that holds everything of this instance."""
        return self._folder.path

    @property
    def guard_pid(self) -> int:
        """The process id of the guard that owns the servers."""
        return self._channel.guard_pid

    def data_template(self) -> Path:
        """Return an initialised data folder that `start(template=…)` copies; made at the first call."""
        return Path(self._channel.ask("template")["path"])

    def create_database(self, name: str, template: str | None = None) -> str:
        """Make a database, as a copy of another one if asked, and answer its address."""
        return create_database(self.postgres_url, name, template)

    def drop_database(self, name: str) -> None:
        """Remove a database and cut its connections; nothing to do when there is none."""
        drop_database(self.postgres_url, name)

    def close(self) -> None:
        """End both servers and remove their folder; may be called twice."""
        if not self._closed:
            self._closed = True
            self._channel.close()
            # Only something to do when the guard itself had been killed.
            discard(self._folder.path)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _within_reach(program: Program, folder: InstanceFolder, who: Identity | None) -> tuple[Path, list[tuple[str, str]]]:
    """Return where the servers' user can run a program, and what to copy to make that so."""
    if who is None or can_read(program.path, who):
        return program.path, []
    if not program.parts:
        raise EmbeddedError(
            f"The user {who.name!r}, as whom the servers run, cannot reach {program.path}: "
            "start as an ordinary user, or install PostgreSQL where every user can run it."
        )
    target = folder.path / "programs"
    copies = [(str(part), str(target / part.name)) for part in program.parts]
    return target / program.path.relative_to(program.parts[0].parent), copies
