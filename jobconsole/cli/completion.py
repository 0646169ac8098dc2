"""`jobconsole completion`: a script that completes commands, verbs, options and fixed values without starting us.

It is made from the parsers themselves, so that no verb can be missing.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator

from jobconsole.cli.failures import DONE
from jobconsole.cli.output import Output
from jobconsole.cli.root import Parser, add_globals

SHELLS = ("bash", "fish", "zsh")
_WORD = re.compile(r"[A-Za-z0-9_.+-]+")

_BASH = """\
# jobconsole completion: source this, or put it where {where}.
{zsh}_jobconsole() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}" path="" skip=0 i one
  for ((i = 1; i < COMP_CWORD; i++)); do
    one="${{COMP_WORDS[i]}}"
    if ((skip)); then skip=0; continue; fi
    case "$one" in
      {valued}) skip=1 ;;
      -*) ;;
      *) case "$path/$one" in {paths}) path="$path/$one" ;; esac ;;
    esac
  done
  case "$path $before" in
{values}
  esac
  local words=""
  case "$path" in
{words}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
complete -o default -F _jobconsole jobconsole
"""


def add_arguments(parser: Parser) -> None:
    """Declare the options."""
    parser.add_argument("shell", choices=SHELLS, metavar="|".join(SHELLS))
    add_globals(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace, output: Output) -> int:
    """Print the script."""
    from jobconsole.cli.root import parser_of

    levels = dict(_levels(parser_of(), ""))
    text = _fish(levels) if options.shell == "fish" else _bash(levels, options.shell)
    if output.as_json:
        output.json({"shell": options.shell, "script": text})
    else:
        output.write(text)
    return DONE


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
        words="\n".join(f'    "{path}") words="{" ".join(_words(parser))}" ;;' for path, parser in levels.items()),
    )


def _fish(levels: dict[str, Parser]) -> str:
    lines = ["# jobconsole completion: put it into ~/.config/fish/completions/jobconsole.fish"]
    for path, parser in levels.items():
        below = _below(parser)
        condition = _fish_condition(path, below)
        lines += [f"complete -c jobconsole -f -n '{condition}' -a '{name}'" for name in below]
        for action in _options(parser):
            fixed = f" -x -a '{' '.join(_fixed(action))}'" if _fixed(action) else " -r" if _takes_value(action) else ""
            for flag in action.option_strings:
                kind = f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}"
                lines.append(f"complete -c jobconsole -n '{condition}' {kind}{fixed}")
    return "\n".join([*lines, ""])


def _fish_condition(path: str, below: dict[str, Parser]) -> str:
    seen = [f"__fish_seen_subcommand_from {name}" for name in path.split("/")[1:]]
    unseen = f"not __fish_seen_subcommand_from {' '.join(below)}" if below else ""
    return "; and ".join([*seen, *([unseen] if unseen else [])]) or "true"
