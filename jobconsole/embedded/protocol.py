"""What the application and its guard say to each other: one JSON object a line, over a pair of sockets."""

from typing import Any, NotRequired, TypedDict

Message = dict[str, Any]


class ServerPlan(TypedDict):
    """How the guard starts one server; paths are absolute."""

    # The command line of the server.
    command: list[str]
    # What it prints goes here.
    log: str
    # Its data folder.
    data: str
    # Its unix socket.
    socket: str
    # The command that fills the data folder (PostgreSQL).
    initdb: NotRequired[list[str]]
    # A data folder to copy in place of running the command above; None: there is none.
    template: NotRequired[str | None]


class LaunchPlan(TypedDict):
    """The first message: everything the guard has to know."""

    # The folder of this instance, removed at the end.
    folder: str
    # uid and gid of the servers; None: those of the guard.
    run_as: tuple[int, int] | None
    # Pairs (from, to) to copy before the server can start, because its user cannot reach the original.
    copies: dict[str, list[tuple[str, str]]]
    postgres: ServerPlan
    redis: ServerPlan
    # The longest time a server may take to start, in seconds.
    patience: float
