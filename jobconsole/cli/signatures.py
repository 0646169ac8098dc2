"""`jobconsole dlq mute|resolve|own|note`: the state of an error signature, its owner and its note."""

from __future__ import annotations

import argparse
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from jobconsole.cli.commands.causes import known_group_of
from jobconsole.cli.failures import DONE, UsageError
from jobconsole.cli.output import Output
from jobconsole.cli.parser import Parser, add_change, positive
from jobconsole.cli.rollout import begin_at
from jobconsole.cli.session import connected
from jobconsole.cli.tables import group_body
from jobconsole.present.signature import of_state, state_sentence
from queue_core.model.text import safe

if TYPE_CHECKING:
    from queue_core.model.report import SignatureInfo
    from queue_core.model.triage.signatures import SignatureState
    from queue_core.queue import JobQueue


def add_verbs_on_one(add: Callable[..., Parser]) -> None:
    """Declare the verbs."""
    mute = add("mute", run_mute, "keep a signature silent; its jobs stay counted and can be retried")
    _add_signature(mute)
    mute.add_argument("--for", dest="for_", type=positive, metavar="T", help="for so long, as 4h")
    mute.add_argument("--until", type=begin_at, metavar="TIME", help="until then, as in 2030-01-31T09:00:00+01:00")
    mute.add_argument("--until-growth", type=_growth, metavar="N", help="until there are N times as many dead jobs")
    _add_off(mute)
    resolve = add("resolve", run_resolve, "mark a signature as mended: a death on a later release brings it back")
    _add_signature(resolve)
    resolve.add_argument("--in", dest="in_", metavar="RELEASE", help="in this release")
    resolve.add_argument("--next", action="store_true", help="in any release that is first seen later")
    resolve.add_argument("--now", action="store_true", help="as of now")
    _add_off(resolve)
    own = add("own", run_own, "take a signature, or give it to another owner")
    _add_signature(own)
    own.add_argument("--to", metavar="NAME", help="(default: the system user)")
    _add_off(own)
    note = add("note", run_note, "write a note on a signature")
    _add_signature(note)
    note.add_argument("text", nargs="?", metavar="TEXT", help="one line")
    note.add_argument("--link", metavar="URL", help="a link, such as to a ticket")
    _add_off(note)


def _growth(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is no number; write how many times as many, as in 10") from None


def _add_signature(verb: Parser) -> None:
    verb.add_argument("signature", metavar="SIG", help="as 'dlq groups' shows it, or its beginning")


def _add_off(verb: Parser) -> None:
    verb.add_argument("--off", action="store_true", help="take it away")
    add_change(verb)


def _show(output: Output, group: SignatureInfo, state: SignatureState, operation: int) -> None:
    if output.as_json:
        output.json({"operation": operation} | group_body(group, state))
        return
    words = [state_sentence(state), *(f"{fact.label} {fact.text()}" for fact in of_state(state)[2:] if fact.known)]
    output.line(f"#{operation} {group.signature} {safe(group.title, 120)}: {safe(', '.join(words), 600)}")


def run_mute(options: argparse.Namespace, output: Output) -> int:
    """Mute a signature."""
    given = (options.for_, options.until, options.until_growth, options.off)
    _one_of(options, "--for T, --until TIME, --until-growth N or --off", *given)
    return _change(
        options,
        output,
        lambda jobs: jobs.signatures.mute(
            options.signature,
            for_=options.for_,
            until=options.until,
            until_growth=options.until_growth,
            off=options.off,
            why=options.why,
        ),
    )


def run_resolve(options: argparse.Namespace, output: Output) -> int:
    """Resolve a signature."""
    _one_of(options, "--in RELEASE, --next, --now or --off", options.in_, options.next, options.now, options.off)
    mended = options.in_ if options.in_ is not None else "next" if options.next else "now"
    return _change(
        options,
        output,
        lambda jobs: jobs.signatures.resolve(options.signature, in_=mended, off=options.off, why=options.why),
    )


def run_own(options: argparse.Namespace, output: Output) -> int:
    """Take a signature."""
    if options.to is not None and options.off:
        raise UsageError("--to and --off exclude each other")
    return _change(
        options,
        output,
        lambda jobs: jobs.signatures.own(options.signature, options.to, off=options.off, why=options.why),
    )


def run_note(options: argparse.Namespace, output: Output) -> int:
    """Write a note on a signature."""
    if options.off == (options.text is not None or options.link is not None):
        raise UsageError("give a text, --link URL, or --off")
    return _change(
        options,
        output,
        lambda jobs: jobs.signatures.note(
            options.signature, options.text, link=options.link, off=options.off, why=options.why
        ),
    )


def _one_of(options: argparse.Namespace, words: str, *given: object) -> None:
    if sum(one is not None and one is not False for one in given) != 1:
        raise UsageError(f"give one of {words}")


def _change(options: argparse.Namespace, output: Output, act: Callable[[JobQueue], Awaitable[int]]) -> int:
    async def run(jobs: JobQueue, options: argparse.Namespace, output: Output) -> int:
        group = await known_group_of(jobs, options.signature)
        options.signature = group.signature
        if options.dry_run:
            jobs.signatures = jobs.signatures.dry_run()
            await act(jobs)
            if output.as_json:
                output.json({"dry_run": True, "verb": options.verb, "signature": group.signature})
            else:
                output.line(f"would {options.verb} {group.signature}: {safe(group.title, 200)}")
            return DONE
        number = await act(jobs)
        _show(output, *(await jobs.signatures.known(group.signature)), number)
        return DONE

    return connected(options, output, run, "" if options.dry_run else f"dlq {options.verb}")
