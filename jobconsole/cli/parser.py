"""The parser of the command line: errors in one sentence, options that all verbs have, and the types of values."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

from jobconsole.cli.failures import UsageError, harmless
from jobconsole.cli.output import Output

if TYPE_CHECKING:
    from queue_core.client.logs import LogFormat, LogLevel


_MAY_BE_EMPTY = {"why"}
"""What an empty text means something for: no reason."""


_LONGEST_UNKNOWN, _NAMED_UNKNOWN = 60, 5
"""Characters of an unknown argument, and how many of them, that an error names."""
_NEGATIVE = re.compile(r"-\d[\d.]*[a-z]*")
"""A number or a duration below 0."""


class Parser(argparse.ArgumentParser):
    """Reports errors as `UsageError`, writes through `Output`, and gets its arguments from a module on first use."""

    # declared_by: the module and its function that declares the arguments, as "module:function"
    def __init__(self, *args: Any, declared_by: str | None = None, **kwargs: Any) -> None:
        # An abbreviated option would change its meaning when a longer one is added.
        super().__init__(*args, **{"allow_abbrev": False, **kwargs})
        self._declared_by = declared_by
        # what is parsed
        self._given: Sequence[str] = ()

    def declare(self) -> None:
        """Have the noun's module declare its arguments, unless it has."""
        if self._declared_by is not None:
            (module, _, function), self._declared_by = self._declared_by.partition(":"), None
            getattr(import_module(module), function)(self)

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse; what is unknown is named, the first ones and not at any length."""
        found, unknown = self.parse_known_args(args, namespace)
        if unknown:
            named = " ".join(harmless(word, _LONGEST_UNKNOWN) for word in unknown[:_NAMED_UNKNOWN])
            self.error(f"unrecognized arguments: {named}{' …' if len(unknown) > _NAMED_UNKNOWN else ''}")
        return found

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse, after the noun's module has declared its arguments."""
        self.declare()
        if args is not None and self._subparsers is None:
            args = self._options_first(args)
        self._given = args or ()
        return super().parse_known_args(args, namespace)

    def _options_first(self, args: Sequence[str]) -> list[str]:
        # argparse takes all positionals at the first of them, so that one behind an option that follows is unknown.
        options: list[str] = []
        others: list[str] = []
        rest = list(args)
        while rest and rest[0] != "--":
            word = rest.pop(0)
            if self._parse_optional(word) is None:
                others.append(word)
                continue
            options.append(word)
            action = self._option_string_actions.get(word)
            if action is not None and action.nargs != 0:
                if not rest or rest[0] == "--":
                    # its value is missing, and no other argument is to become it
                    return list(args)
                options.append(rest.pop(0))
        return [*options, *others, *rest]

    def error(self, message: str) -> NoReturn:
        """Raise what argparse would print."""
        raise UsageError(f"{message}; see '{self.prog} --help'")

    def _print_message(self, message: str, file: Any = None) -> None:
        output = Output()
        output.write(message)
        output.flush()

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        # argparse takes a -- for the end of the options, also where it is the value of one, as in --filter=--
        if action.option_strings and action.nargs is None and arg_strings == ["--"]:
            value = self._get_value(action, "--")
            self._check_value(action, value)
            return value
        return super()._get_values(action, arg_strings)

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        # A variable of a shell that is not set chooses everything, another context or all addresses otherwise.
        plain = action.type is None and action.choices is None
        if plain and not arg_string.strip() and action.dest not in _MAY_BE_EMPTY:
            raise argparse.ArgumentError(action, f"it needs a value, and '{arg_string}' is none")
        return super()._get_value(action, arg_string)

    def _parse_optional(self, arg_string: str) -> Any:
        # argparse takes -4h for an option, though not -4: both are a value, which its type then refuses in words.
        return None if _NEGATIVE.fullmatch(arg_string) else super()._parse_optional(arg_string)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        # argparse's own sentence differs between the versions of Python.
        if action.choices is not None and value not in action.choices:
            before = dict(zip(self._given[1:], self._given, strict=False)).get(value, "")
            if not action.option_strings and before.startswith("-") and before not in self._option_string_actions:
                # the value of an option that there is not
                self.error(f"unrecognized arguments: {harmless(before, _LONGEST_UNKNOWN)}")
            raise UsageError(f"{_subject(action)} '{value}'{_nearest(str(value), action.choices)}")


def _subject(action: argparse.Action) -> str:
    if action.option_strings:
        return f"{action.option_strings[0]} cannot be"
    # A metavar such as bash|zsh is no name of what is wanted.
    name = action.dest if "|" in str(action.metavar) else action.metavar or action.dest
    return f"no {name or 'argument'!s}".lower()


def _nearest(word: str, choices: Iterable[Any]) -> str:
    import difflib

    known = sorted(map(str, choices))
    found = difflib.get_close_matches(word, known, n=1)
    return f"; did you mean '{found[0]}'?" if found else f"; one of: {', '.join(known)}"


LOG_FORMATS: tuple[LogFormat, ...] = ("text", "json")
LOG_LEVELS: tuple[LogLevel, ...] = ("debug", "info", "warning", "error")


def add_globals(parser: argparse.ArgumentParser) -> None:
    """Declare the options that are accepted before or after the noun."""
    group = parser.add_argument_group("global options")

    def add(*names: str, **kwargs: Any) -> None:
        # Suppressed defaults: what is given before the noun must not be overwritten by a default after it.
        group.add_argument(*names, default=argparse.SUPPRESS, **kwargs)

    add("--config", metavar="FILE", help="configuration file (otherwise: JOBCONSOLE_CONFIG, ./jobconsole.yaml, …)")
    add("--context", metavar="NAME", help="use this block of the configuration's contexts")
    add("--postgres-url", metavar="URL", help="the durable store")
    add("--schema", metavar="NAME", help="schema of PostgreSQL with the jobs (default jobconsole)")
    add("--redis-url", metavar="URL", help="the delivery")
    add("--prefix", metavar="TEXT", help="prefix of all keys in Redis (default jobs:; : for none)")
    add("--timeout", type=positive, metavar="T", help="give up on a server after this time (default 10s; Redis 2s)")
    add("--read-only", action="store_true", help="refuse everything that changes jobs")
    add("--json", action="store_true", help="print one JSON object with a version, never colour")
    add("--log-format", choices=LOG_FORMATS, metavar="text|json", help="of the lines of long-running commands")
    add("--log-level", choices=LOG_LEVELS, metavar="LEVEL", help=f"their least level: {', '.join(LOG_LEVELS)}")
    add_debug(group)


def add_debug(parser: argparse._ActionsContainer) -> None:
    """Declare the option that the sentence about a fault of this program advises, for every command."""
    parser.add_argument(
        "--debug", action="store_true", default=argparse.SUPPRESS, help="print the traceback of an error"
    )


def add_verbs(parser: argparse.ArgumentParser) -> Callable[..., Parser]:
    """Return a function that declares a verb: its name, its help, and the function that runs it."""
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True, parser_class=Parser)

    def add(name: str, run: Callable[..., int], help: str, **kwargs: Any) -> Parser:
        verb: Parser = verbs.add_parser(name, help=help, description=kwargs.pop("description", help), **kwargs)
        verb.set_defaults(run=run)
        add_globals(verb)
        return verb

    return add


def add_change(verb: Parser, destructive: bool = False, why: bool = True) -> None:
    """Declare the options of a verb that changes something; `why`: it is kept among the operations."""
    verb.add_argument("--dry-run", action="store_true", help="only say what it would be")
    verb.add_argument("--yes", action="store_true", help="do not ask" if destructive else "accepted; it never asks")
    if why:
        verb.add_argument("--why", default="", metavar="TEXT", help="the reason, which is kept with the operation")


def duration(text: str) -> float:
    """Return the seconds in 5, 500ms, 5m, 1h or 7d."""
    from queue_core.model.validation import MAX_DELAY_SECONDS, parse_duration

    try:
        seconds = parse_duration(text)
    except ValueError as problem:
        raise argparse.ArgumentTypeError(str(problem)) from None
    if not seconds <= MAX_DELAY_SECONDS:
        raise argparse.ArgumentTypeError(f"'{text}' is more than a hundred years")
    return seconds


def positive(text: str) -> float:
    """Return the seconds of a duration that is longer than none."""
    seconds = duration(text)
    if seconds <= 0:
        raise argparse.ArgumentTypeError(f"'{text}' is no time at all; give more than 0")
    return seconds


def whole(least: int, most: int) -> Callable[[str], int]:
    """Return a type for whole numbers within bounds."""

    def read(text: str) -> int:
        digits = text.removeprefix("-")
        if not (digits.isascii() and digits.isdecimal() and len(digits) < 20 and least <= int(text) <= most):
            raise argparse.ArgumentTypeError(f"'{text}' is not a whole number from {least:,} to {most:,}")
        return int(text)

    return read


def size(text: str) -> int:
    """Return the bytes of the memory of a process, as in 512MiB."""
    from queue_core.model.validation import parse_size

    try:
        number = parse_size(text)
    except ValueError as problem:
        raise argparse.ArgumentTypeError(str(problem)) from None
    if number < 16 << 20:
        raise argparse.ArgumentTypeError(f"'{text}' is less than a process needs to start (16MiB)")
    return number


def port(text: str) -> int:
    """Return a TCP port; 0 takes a free one."""
    return whole(0, 65535)(text)
