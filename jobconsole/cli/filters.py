"""`jobconsole filter`: filters by name, shared by all consoles of a store."""

from __future__ import annotations

import argparse
from collections import defaultdict
from typing import TYPE_CHECKING

from jobconsole.cli.failures import DONE, Missing
from jobconsole.cli.output import Output, TextColumn
from jobconsole.cli.parser import Parser, add_change, add_verbs
from jobconsole.cli.session import connected
from jobconsole.present.facts import moment
from queue_core.model.filters.language import with_saved
from queue_core.model.text import safe

if TYPE_CHECKING:
    from queue_core.model.filters.saved import SavedFilter
    from queue_core.queue import JobQueue

COLUMNS = (
    TextColumn("NAME", limit=64),
    TextColumn("BY", limit=20),
    TextColumn("SAVED"),
    TextColumn("FILTER", limit=200),
)


def add_verbs_on_filters(parser: Parser) -> None:
    """Declare the verbs."""
    add = add_verbs(parser)
    add("list", run_list, "list saved filters by name; key b of the console applies them")
    save = add("save", run_save, "save a filter under a name, in place of the one that has it")
    save.add_argument("name", metavar="NAME", help="one word")
    save.add_argument("text", metavar="FILTER", help="in the filter language, as in 'owner:me state:new'")
    add_change(save)
    remove = add("remove", run_remove, "remove a saved filter; 'op undo' brings it back")
    remove.add_argument("name", metavar="SAVED", help="as 'filter list' names it")
    add_change(remove)


def run_list(options: argparse.Namespace, output: Output) -> int:
    """List saved filters."""

    async def run(jobs: JobQueue, options: argparse.Namespace, output: Output) -> int:
        found = await jobs.filters.list()
        if output.as_json:
            output.json({"filters": [_body(saved) for saved in found]})
        else:
            rows = ((saved.name, saved.by, moment(saved.saved_at), saved.text) for saved in found)
            output.table(COLUMNS, rows)
        return DONE

    return connected(options, output, run)


def _body(saved: SavedFilter) -> dict[str, object]:
    return {"name": saved.name, "filter": saved.text, "by": saved.by, "at": saved.saved_at}


def run_save(options: argparse.Namespace, output: Output) -> int:
    """Save a filter."""

    async def run(jobs: JobQueue, options: argparse.Namespace, output: Output) -> int:
        from queue_core.client.operating.filters import check_saved_filter

        text = check_saved_filter(options.name, options.text)
        if options.dry_run:
            await jobs.filters.dry_run().save(options.name, text)
            return _would(output, "save", options.name, text)
        number = await jobs.filters.save(options.name, text, why=options.why)
        return _done(output, number, "saved", options.name, text)

    return connected(options, output, run, "" if options.dry_run else "filter save")


def run_remove(options: argparse.Namespace, output: Output) -> int:
    """Remove a saved filter."""

    async def run(jobs: JobQueue, options: argparse.Namespace, output: Output) -> int:
        texts = {saved.name: saved.text for saved in await jobs.filters.list()}
        if options.name not in texts:
            raise Missing(f"no filter is saved as '{safe(options.name, 80)}'")
        if options.dry_run:
            return _would(output, "remove", options.name, texts[options.name])
        number = await jobs.filters.remove(options.name, why=options.why)
        return _done(output, number, "removed", options.name, texts[options.name])

    return connected(options, output, run, "" if options.dry_run else "filter remove")


def _would(output: Output, verb: str, name: str, text: str) -> int:
    if output.as_json:
        output.json({"dry_run": True, "verb": verb, "name": name, "filter": text})
    else:
        output.line(f"would {verb} {safe(name, 80)}: {safe(text, 300)}")
    return DONE


def _done(output: Output, number: int, past: str, name: str, text: str) -> int:
    if output.as_json:
        output.json({"operation": number, "name": name, "filter": text})
    else:
        output.line(f"#{number} {past} {safe(name, 80)}: {safe(text, 300)}")
    return DONE


def read_saved(options: argparse.Namespace, output: Output) -> None:
    """Put saved filters in the place of their names in --filter, if it has any.

    Raises:
        Missing: no filter is saved under a name.
        FilterError: it cannot be read, or a saved filter cannot be used.
        ConfigurationError, StoreUnavailable, SchemaError: the store cannot be read.
    """

    async def run(jobs: JobQueue, options: argparse.Namespace, output: Output) -> int:
        options.filter = await _with_saved(jobs, options.filter)
        return DONE

    if with_saved(options.filter, defaultdict(str)) != options.filter:
        connected(options, output, run)


async def _with_saved(jobs: JobQueue, text: str) -> str:
    texts = {saved.name: saved.text for saved in await jobs.filters.list()}
    try:
        return with_saved(text, texts)
    except KeyError as error:
        name = safe(str(error.args[0]), 80)
        raise Missing(f"no filter is saved as '{name}'; 'filter list' names those that are") from None
