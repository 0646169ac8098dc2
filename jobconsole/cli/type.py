"""`jobconsole type`: what workers announced of job types."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from jobconsole.cli.failures import DONE, Missing
from jobconsole.cli.output import Column, Output
from jobconsole.cli.parsing import Parser, add_verbs
from jobconsole.cli.session import connected
from jobconsole.cli.tables import moment
from queue_core.text import safe

if TYPE_CHECKING:
    from queue_core.inspection import Overview, TypeInfo
    from queue_core.queue import JobQueue

_LONGEST = 100_000
"""Characters of a schema that `show` prints; --json has all of it."""

TYPES = (
    Column("TYPE", limit=60),
    Column("WORKERS", "right"),
    Column("ANNOUNCED"),
    Column("PARAMETERS", limit=200),
)


def add_arguments(parser: Parser) -> None:
    """Declare the verbs."""
    add = add_verbs(parser)
    add("list", run_list, "list the types that workers announced, with their live workers and parameters")
    show = add("show", run_show, "the JSON Schema of a type's payloads")
    show.add_argument("name", metavar="TYPE")


def run_list(options: argparse.Namespace, output: Output) -> int:
    """List types."""

    async def run(jobs: JobQueue, options: argparse.Namespace, output: Output) -> int:
        types, overview = await jobs.inspector.types(), await jobs.inspector.overview()
        rows = [(info, _workers(overview, info.name)) for _, info in sorted(types.items())]
        if output.as_json:
            output.json({"types": [_body(info, workers) for info, workers in rows]})
        else:
            cells = [(info.name, workers, moment(info.announced_at), _parameters(info)) for info, workers in rows]
            output.table(TYPES, cells)
        return DONE

    return connected(options, output, run)


def run_show(options: argparse.Namespace, output: Output) -> int:
    """Show one type."""

    async def run(jobs: JobQueue, options: argparse.Namespace, output: Output) -> int:
        info = (await jobs.inspector.types()).get(options.name)
        if info is None:
            raise Missing(f"no worker announced the type '{options.name}'; 'jobconsole type list' shows them")
        if output.as_json:
            output.json({"type": _body(info, _workers(await jobs.inspector.overview(), info.name))})
        else:
            text = json.dumps(info.schema, indent=2, ensure_ascii=False)
            output.line(safe(text, _LONGEST, newlines=True))
        return DONE

    return connected(options, output, run)


def _workers(overview: Overview, name: str) -> int:
    return sum(name in (worker.types or ()) for worker in overview.workers if not worker.lost)


def _body(info: TypeInfo, workers: int) -> dict[str, Any]:
    return {"name": info.name, "announced_at": info.announced_at, "workers": workers, "schema": info.schema}


def _parameters(info: TypeInfo) -> str:
    """Return the names of a type's parameters; those that may be left out with a question mark."""
    properties, required = info.schema.get("properties"), info.schema.get("required")
    names = properties if isinstance(properties, dict) else {}
    needed = required if isinstance(required, list) else []
    return ", ".join(name if name in needed else f"{name}?" for name in names)
