"""`jobconsole completion`: a script that completes commands, verbs, options and fixed values without starting us.

It is made from the parsers themselves, so that no verb can be missing. For names of queues, types, signatures and
saved filters it calls `completion --names`, which reads them from the store, briefly, and is silent where it cannot.
"""

from __future__ import annotations

import argparse
import asyncio
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from jobconsole.cli.failures import DONE, UsageError
from jobconsole.cli.output import Output
from jobconsole.cli.parser import Parser, add_globals

if TYPE_CHECKING:
    from queue_core.queue import JobQueue

SHELLS = ("bash", "fish", "zsh")
KINDS = ("queue", "type", "signature", "filter", "saved", "schedule")
"""What names can be printed of; filter: saved ones as `--filter` takes them, with an @."""
OPTIONS = {
    "--queue": "queue",
    "--to-queue": "queue",
    "--move-to": "queue",
    "--type": "type",
    "--signature": "signature",
    "--filter": "filter",
}
ARGUMENTS = {
    "QUEUE": "queue",
    "TYPE": "type",
    "SIG": "signature",
    "SIGNATURE": "signature",
    "SAVED": "saved",
    "SCHEDULE": "schedule",
}
"""Options, and arguments by how the help names them, that take such names."""
PLACES = ("--config", "--context", "--postgres-url", "--schema", "--redis-url", "--prefix")
"""Options that choose the store whose names are read."""
NAMES_SECONDS = 2.0
"""How long names may take: a person waits for them."""
MAX_NAMES = 200
"""Names that are printed."""
_WORD = re.compile(r"[A-Za-z0-9_.+-]+")

_BASH = """\
# jobconsole completion: source this, or put it where {where}.
{zsh}_jobconsole() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}" level="" skip=0 i one next
  local -a given
  given=()
  COMPREPLY=()
  if [[ "$word" == "=" ]]; then word=""; fi
  if [[ "$before" == "=" ]]; then before="${{COMP_WORDS[COMP_CWORD-2]}}"; fi
  for ((i = 1; i < COMP_CWORD; i++)); do
    one="${{COMP_WORDS[i]}}" next="${{COMP_WORDS[i+1]}}"
    if [[ "$next" == "=" ]]; then next="${{COMP_WORDS[i+2]}}"; fi
    case "$one" in {places}) given+=("$one" "$next") ;; esac
    if [[ "$one" == "=" ]]; then skip=1; continue; fi
    if ((skip)); then skip=0; continue; fi
    case "$one" in
      {valued}) skip=1 ;;
      -*) ;;
      *) case "$level/$one" in {paths}) level="$level/$one" ;; esac ;;
    esac
  done
  case "$level $before" in
{values}
  esac
  case "$before" in
{named}
  esac
  if [[ "$word" != -* ]]; then
    case "$level" in
{arguments}
    esac
  fi
  local words=""
  case "$level" in
{words}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
_jobconsole_names() {{
  local word="$1" kind="$2" line
  shift 2
  while IFS= read -r line; do
    if [[ "$line" == "$word"* ]]; then COMPREPLY+=("$(printf %q "$line")"); fi
  done < <(jobconsole completion --names "$kind" "$@" 2>/dev/null </dev/null)
}}
complete -o default -F _jobconsole jobconsole
"""


_FISH_NAMES = "jobconsole completion --names {} 2>/dev/null </dev/null"


def add_arguments(parser: Parser) -> None:
    """Declare the options."""
    parser.add_argument("shell", choices=SHELLS, nargs="?", metavar="|".join(SHELLS))
    parser.add_argument("--names", choices=KINDS, metavar="|".join(KINDS), help="print the names that there are")
    add_globals(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace, output: Output) -> int:
    """Print the script, or the names of a kind, one a line.

    Raises:
        UsageError: neither was named.
    """
    from jobconsole.cli.root import parser_of

    if options.names is not None:
        return _print_names(options, output)
    if options.shell is None:
        raise UsageError(f"which shell? give one of: {', '.join(SHELLS)}")

    levels = dict(_levels(parser_of(), ""))
    text = _fish(levels) if options.shell == "fish" else _bash(levels, options.shell)
    if output.as_json:
        output.json({"shell": options.shell, "script": text})
    else:
        output.write(text)
    return DONE


def _print_names(options: argparse.Namespace, output: Output) -> int:
    from jobconsole.cli.session import connected
    from queue_core.errors import QueueCoreError

    async def read(jobs: JobQueue, options: argparse.Namespace, output: Output) -> int:
        with suppress(TimeoutError):
            names = await asyncio.wait_for(_names(jobs, options.names), NAMES_SECONDS)
            # A name that a line cannot hold cannot be completed.
            kept = [name for name in names if name.isprintable()][:MAX_NAMES]
            if output.as_json:
                output.json({"names": kept})
            else:
                output.write("".join(f"{name}\n" for name in kept))
        return DONE

    options.read_only, options.timeout = True, NAMES_SECONDS
    # A shell that completes shows nothing but names.
    with suppress(QueueCoreError, OSError, ValueError):
        return connected(options, output, read)
    return DONE


async def _names(jobs: JobQueue, kind: str) -> list[str]:
    if kind == "queue":
        return sorted(queue.name for queue in (await jobs.inspector.overview()).queues)
    if kind == "type":
        return sorted(await jobs.inspector.types())
    if kind in {"filter", "saved"}:
        return [f"{'@' if kind == 'filter' else ''}{saved.name}" for saved in await jobs.filters.list()]
    if kind == "schedule":
        return [planned.schedule.name for planned in (await jobs.schedules.list()).schedules]
    from queue_core.model.filters import parse

    return [one.signature for one in await jobs.inspector.signatures(parse("status:dead"), 900.0, 1, MAX_NAMES)]


def _kind(action: argparse.Action) -> str:
    """The kind of names that an option or an argument takes; "" for none."""
    if action.option_strings:
        return next((OPTIONS[flag] for flag in action.option_strings if flag in OPTIONS), "")
    return ARGUMENTS.get(str(action.metavar), "")


def _named(levels: dict[str, Parser]) -> dict[str, str]:
    """The flags that take names, with the kind of them."""
    every = (action for parser in levels.values() for action in _options(parser))
    return {flag: kind for action in every if (kind := _kind(action)) for flag in action.option_strings}


def _arguments(levels: dict[str, Parser]) -> dict[str, str]:
    """The verbs whose arguments are names, by their paths, with the kind of them."""
    return {
        path: kind
        for path, parser in levels.items()
        for action in parser._actions
        if not action.option_strings and (kind := _kind(action))
    }


def _levels(parser: Parser, path: str) -> Iterator[tuple[str, Parser]]:
    """Yield every parser by its path: "", "/job", "/job/list"."""
    parser.declare()
    yield path, parser
    for name, below in _below(parser).items():
        yield from _levels(below, f"{path}/{name}")


def _below(parser: Parser) -> dict[str, Parser]:
    found: dict[str, Parser] = {}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            found.update(action.choices)
    return found


def _options(parser: Parser) -> Iterator[argparse.Action]:
    return (action for action in parser._actions if action.option_strings)


def _takes_value(action: argparse.Action) -> bool:
    return action.nargs != 0


def _fixed(action: argparse.Action) -> list[str]:
    """The values that an option or argument is limited to."""
    if action.choices is None or isinstance(action, argparse._SubParsersAction):
        return []
    return [str(one) for one in action.choices if _WORD.fullmatch(str(one))]


def _words(parser: Parser) -> list[str]:
    flags = [flag for action in _options(parser) for flag in action.option_strings]
    fixed = [one for action in parser._actions if not action.option_strings for one in _fixed(action)]
    return [*_below(parser), *fixed, *flags]


def _bash(levels: dict[str, Parser], shell: str) -> str:
    valued = {flag for parser in levels.values() for one in _options(parser) if _takes_value(one)
              for flag in one.option_strings}  # fmt: skip
    values = [
        f'    "{path} {flag}") COMPREPLY=($(compgen -W "{" ".join(_fixed(action))}" -- "$word")); return ;;'
        for path, parser in levels.items()
        for action in _options(parser)
        if _fixed(action)
        for flag in action.option_strings
    ]
    return _BASH.format(
        where="zsh finds functions" if shell == "zsh" else "bash-completion looks",
        zsh="autoload -U +X bashcompinit && bashcompinit\n" if shell == "zsh" else "",
        valued="|".join(sorted(valued)),
        paths="|".join(path for path in levels if path),
        values="\n".join(values) or "    *) ;;",
        places="|".join(PLACES),
        named="\n".join(
            f'    {flag}) _jobconsole_names "$word" {kind} "${{given[@]}}"; return ;;'
            for flag, kind in sorted(_named(levels).items())
        ),
        arguments="\n".join(
            f'      "{path}") _jobconsole_names "$word" {kind} "${{given[@]}}"; return ;;'
            for path, kind in sorted(_arguments(levels).items())
        ),
        words="\n".join(f'    "{path}") words="{" ".join(_words(parser))}" ;;' for path, parser in levels.items()),
    )


def _fish(levels: dict[str, Parser]) -> str:
    lines = ["# jobconsole completion: put it into ~/.config/fish/completions/jobconsole.fish"]
    for path, parser in levels.items():
        below = _below(parser)
        condition = _fish_condition(path, below)
        lines += [f"complete -c jobconsole -f -n '{condition}' -a '{name}'" for name in below]
        kind = _arguments({path: parser}).get(path)
        if kind:
            lines.append(f"complete -c jobconsole -f -n '{condition}' -a '({_FISH_NAMES.format(kind)})'")
        for action in _options(parser):
            fixed = f" -x -a '{' '.join(_fixed(action))}'" if _fixed(action) else " -r" if _takes_value(action) else ""
            if _kind(action):
                fixed = f" -x -a '({_FISH_NAMES.format(_kind(action))})'"
            for flag in action.option_strings:
                form = f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}"
                lines.append(f"complete -c jobconsole -n '{condition}' {form}{fixed}")
    return "\n".join([*lines, ""])


def _fish_condition(path: str, below: dict[str, Parser]) -> str:
    seen = [f"__fish_seen_subcommand_from {name}" for name in path.split("/")[1:]]
    unseen = f"not __fish_seen_subcommand_from {' '.join(below)}" if below else ""
    return "; and ".join([*seen, *([unseen] if unseen else [])]) or "true"
