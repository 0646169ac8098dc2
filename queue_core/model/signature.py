"""Error signatures: failures with the same cause get the same twelve digits, whatever numbers and names they carry.

A signature is made of the exception's class, its message with everything variable masked, and the innermost frame of
the application as file name and function. The line number is left out on purpose: an edit elsewhere in the file
must not split a group, while two places in one function that raise the same message are one cause to a person too.
"""

from __future__ import annotations

import hashlib
import re
import sysconfig
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from traceback import TracebackException, format_tb
from types import TracebackType
from typing import NamedTuple, cast

from queue_core.model.job import Failure, FailureKind
from queue_core.model.text import cut, storable

_MAX_READ = 2_000
"""Characters of a message that are looked at; bounds the time that a hostile message can take."""
_MAX_MASKED = 240
"""Characters of a masked message that count, so that a long variable tail does not split a group."""
_MAX_LEAVES = 5
"""Kinds of exceptions in a group that count."""
_MAX_MESSAGE_BYTES = 4 << 10
"""Bytes of a message that are kept."""


class Signature(NamedTuple):
    """What groups failures: the digits for programs, the title for people."""

    # 12 hexadecimal digits
    signature: str
    # class and masked message, such as `TimeoutError: smtp <host>:<n>`
    title: str


class FrameName(NamedTuple):
    """One frame of a traceback."""

    file: str
    function: str


# First match wins, from the most to the least specific. \x00 marks a message that was cut within quotes.
_MASKS = re.compile(
    r"""
    (?P<keep>\b(?:utf-?(?:8|16|32)|latin-?1|base(?:32|64)|sha-?(?:1|256|512)|md5|ipv[46]|x86_64|http/[0-9.]+)\b)
  | (?P<quoted>(?<!\w)b?(?:'(?:[^'\\]|\\.)*(?:'(?!\w)|\x00) | "(?:[^"\\]|\\.)*(?:"(?!\w)|\x00) | `[^`]*(?:`|\x00)))
  | (?P<url>\b[a-z][a-z0-9+.-]{1,20}://[^\s'"<>()]+)
  | (?P<email>\b[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,64})+)
  | (?P<time>\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:\ ?(?:Z\b|[+-]\d\d:?\d\d))?)?
        | \b\d\d:\d\d:\d\d(?:[.,]\d+)?)
  | (?P<id>\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b
        | \b(?=[0-9a-f]{0,64}[a-f])(?=[a-f]{0,64}[0-9])[0-9a-f]{8,64}\b
        | \b(?=[a-z]{0,64}[0-9])(?=[0-9]{0,64}[a-z])[0-9a-z]{20,64}\b)
  | (?P<address>(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.]*\w) | \[?(?<![\w:])(?:[0-9a-f]{1,4}(?::[0-9a-f]{1,4}){7}
        | (?:[0-9a-f]{1,4}(?::[0-9a-f]{1,4}){0,5})?::(?:[0-9a-f]{1,4}(?::[0-9a-f]{1,4}){0,5})?)(?![\w:])\]?)
  | (?P<path>(?<![\w<>/.])(?:~|\.{1,2})?/[\w.@%+~=,-]+(?:/[\w.@%+~=,-]+)*/?
        | (?<!\w)[a-z]:\\[^\s'"]+ | (?<!\w)\\\\[\w.$-]+\\[^\s'"]+
        | (?<![\w/])(?:[\w.@-]{1,100}/){1,20}[\w.@-]{0,100}\.[a-z]\w{0,4}\b
        | (?<![\w.])[\w-]{1,100}
          \.(?:py|json|ya?ml|toml|csv|txt|log|xml|html?|png|jpe?g|gif|webp|pdf|zip|gz|tar|sql|sock|lock|tmp)\b)
  | (?P<host>(?<![\w.-])(?=[\w.-]{0,250}[.\d-])[a-z][\w-]{0,62}(?:\.[\w-]{1,63}){0,8}(?=:\d{1,5}\b)
        | (?<![\w.-])[a-z0-9][\w-]{0,62}(?:\.[\w-]{1,63}){0,8}
          \.(?:com|net|org|edu|gov|io|dev|cloud|local|internal|lan|corp|test|example|invalid|info|uk|de|fr|nl|eu|ch)\b(?!\.\w))
  | (?P<n>(?<![\w.])[+-]?0x[0-9a-f]+\b | (?:(?<![\w.)\]])[+-])?\d+(?:[.,_]\d+)*(?:e[+-]?\d+\b)?)
    """,
    re.VERBOSE | re.IGNORECASE,
)
_REPEATED = re.compile(r"(<\w+>)(?:[,;]?\s\1|[,;]\1){2,}")
_PATH_LIKE = re.compile(r"(?:~|\.{1,2})?/\S|[A-Za-z]:\\|\\\\\w|[^\s/]+(?:/[^\s/]+)*\.[A-Za-z]\w{0,4}\Z")
_ADDRESS_LIKE = re.compile(r"(?:\d{1,3}\.){3}\d{1,3}(?::\d+)?\Z|[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_TEXT_FRAME = re.compile(r'^[ |+-]*File "([^"\n]{1,4096})", line \d+, in (.{1,200})$', re.MULTILINE)


def normalise(message: str) -> str:
    """Return the message on one line with everything variable masked.

    Numbers become `<n>`, UUIDs and other ids `<id>`, host names and addresses `<host>`, file names `<path>`, quoted
    strings `<str>` (or what they hold: `<path>`, `<host>`), dates and times `<time>`, and URLs and mail addresses
    `<url>` and `<email>`. Three and more of one kind in a row count as one.
    """
    part = storable(message[:_MAX_READ]) + ("\x00" if len(message) > _MAX_READ else "")
    masked = _MASKS.sub(_mask, part).replace("\x00", "")
    one_line = " ".join(_REPEATED.sub(r"\1 …", masked).split())
    return one_line if len(one_line) <= _MAX_MASKED else one_line[: _MAX_MASKED - 1].rstrip() + "…"


def _mask(match: re.Match[str]) -> str:
    kind, found = match.lastgroup, match[0]
    if kind == "keep":
        return found
    if kind == "quoted":
        inner = found[1:-1] if found[0] != "b" else found[2:-1]
        if _ADDRESS_LIKE.match(inner):
            return "<host>"
        return "<path>" if _PATH_LIKE.match(inner) else "<str>"
    return "<host>" if kind == "address" else f"<{kind}>"


def sign(exception: BaseException | str, message: str = "", traceback: str = "") -> Signature:
    """Return the signature and title of an exception, or of its texts: qualified class name, message, traceback.

    An exception group's are made of the kinds of exceptions in it.
    """
    if isinstance(exception, str):
        last = traceback.rpartition("Traceback (most recent call last)")[2]
        frames = [FrameName(file, function) for file, function in _TEXT_FRAME.findall(last)]
        return _signature(storable(exception), normalise(message), frames)
    name = class_name(exception)
    if issubclass(type(exception), BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", exception)
        kinds = sorted({sign(leaf).title for leaf in _leaves(group)})
        message = f"{normalise(str(group.message))} [{', '.join(kinds[:_MAX_LEAVES])}]"
        return _signature(name, message if len(kinds) <= _MAX_LEAVES else f"{message} …", frames_of(exception))
    return _signature(name, normalise(message_of(exception)), frames_of(exception))


def _signature(name: str, message: str, frames: list[FrameName]) -> Signature:
    frame = application_frame(frames)
    place = f"{_base(frame.file)}:{frame.function}" if frame else ""
    digest = hashlib.sha256("\x1f".join((name, message, place)).encode(errors="backslashreplace"))
    short = name.rpartition(".")[2]
    return Signature(digest.hexdigest()[:12], f"{short}: {message}" if message else short)


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    """Yield the first hundred plain exceptions of a group, at whatever depth."""
    todo, found = list(group.exceptions), 0
    while todo and found < 100:
        one = todo.pop(0)
        if isinstance(one, BaseExceptionGroup):
            todo.extend(one.exceptions)
        else:
            found += 1
            yield one


def class_name(exception: BaseException) -> str:
    """Return the qualified name of an exception's class; built-in ones are without their module.

    Whatever code a class or its metaclass has for its attributes is not run.
    """
    kind = type(exception)
    name, module = str.__str__(_QUALNAME.__get__(kind)), _MODULE.__get__(kind)
    if not issubclass(type(module), str) or str.__str__(module) == "builtins":
        return storable(name)
    return storable(f"{str.__str__(module)}.{name}")


_QUALNAME, _MODULE = vars(type)["__qualname__"], vars(type)["__module__"]


def message_of(exception: BaseException) -> str:
    """Return the exception's message, also when asking for it fails."""
    try:
        return str.__str__(str(exception))  # never a subclass of str, with code of its own
    except BaseException as error:  # noqa: BLE001 - a job's own code, it may raise anything
        return f"<no message: __str__ raised {class_name(error)}>"


def traceback_of(exception: BaseException) -> TracebackType | None:
    """Return the exception's traceback, whatever its class has under that name."""
    found: TracebackType | None = _TRACEBACK.__get__(exception)
    return found


_TRACEBACK = vars(BaseException)["__traceback__"]


def formatted(exception: BaseException, trace: TracebackType | None) -> list[str]:
    """Return the lines of the exception with causes and groups; where these cannot be read, of itself alone."""
    try:
        return list(TracebackException(type(exception), exception, trace, compact=True).format())
    except BaseException as error:  # noqa: BLE001 - a job's own class, __cause__ or __notes__
        what = f"{class_name(exception)}: {message_of(exception)}\n"
        left_out = f"<its causes and notes are left out: reading them raised {class_name(error)}>\n"
        return ["Traceback (most recent call last):\n", *format_tb(trace), what, left_out]


def frames_of(exception: BaseException) -> list[FrameName]:
    """Return the frames of an exception's traceback, the innermost last."""
    frames, at = [], traceback_of(exception)
    while at is not None:
        frames.append(FrameName(at.tb_frame.f_code.co_filename, at.tb_frame.f_code.co_name))
        at = at.tb_next
    return frames


# Tracebacks of other machines are read too, so the shape of a path decides as much as this machine's folders.
_INSTALLED = re.compile(r"[\\/](?:site|dist)-packages[\\/]([^\\/]+)")
# Compiled packages such as uvloop name their sources from their own folder on.
_COMPILED = re.compile(r"([^\\/:]+)[\\/].*\.p(?:yx|xd|xi)$")
_STANDARD = re.compile(r"[\\/]lib[\\/]python3(?:\.\d+)?t?[\\/](?!site-|dist-)|[\\/]Lib[\\/](?!site-|dist-)")
_LIBRARIES = tuple(f"{sysconfig.get_paths()[key]}/" for key in ("stdlib", "platstdlib"))
_OWN = re.compile(r"[\\/](?:site|dist)-packages[\\/]queue_core[\\/]")
_HERE = f"{Path(__file__).parents[1]}/"


def is_own(file: str) -> bool:
    """Return whether a file belongs to this package, whose frames show nothing of a failure's cause."""
    return file.startswith(_HERE) or _OWN.search(file) is not None


def application_frame(frames: list[FrameName]) -> FrameName | None:
    """Return the innermost frame of the application: not of this package, Python's library or an installed one.

    An application that is itself installed has no such frame: then it is the innermost one of the package that
    this package called first, the handler's.
    """
    known = [frame for frame in frames if not (frame.file.startswith("<") or is_own(frame.file))]
    plain = [frame for frame in known if not (_installed(frame.file) or _is_standard(frame.file))]
    if plain:
        return plain[-1]
    installed = [(match[1], frame) for frame in known if (match := _installed(frame.file))]
    if installed:
        return [frame for package, frame in installed if package == installed[0][0]][-1]
    return known[0] if known else None


def _installed(file: str) -> re.Match[str] | None:
    return _INSTALLED.search(file) or _COMPILED.match(file)


def _is_standard(file: str) -> bool:
    return file.startswith(_LIBRARIES) or _STANDARD.search(file) is not None


def _base(file: str) -> str:
    return re.split(r"[\\/]", file)[-1]


def from_application(traceback: TracebackType | None) -> TracebackType | None:
    """Return the traceback without this package's frames at its outer end; as it is when it has no others."""
    at = traceback
    while at is not None and is_own(at.tb_frame.f_code.co_filename):
        at = at.tb_next
    return at if at is not None else traceback


def failure_of(exception: BaseException, kind: FailureKind = "error", limit: int = 64 << 10) -> Failure:
    """Return why an attempt failed, as a store takes it: every text storable, the traceback within `limit` bytes."""
    try:
        return _failure(exception, kind, limit)
    except BaseException:  # noqa: BLE001 - a job's own attributes, they may raise anything
        return _failure(readable(exception), kind, limit)


def readable(exception: BaseException) -> RuntimeError:
    """Return a replacement for an exception whose attributes raise when they are read, with its traceback."""
    what = f"{class_name(exception)} was raised, and raises when its attributes are read"
    return RuntimeError(what).with_traceback(traceback_of(exception))


def _failure(exception: BaseException, kind: FailureKind, limit: int) -> Failure:
    signature, title = sign(exception)
    message = cut(message_of(exception), min(_MAX_MESSAGE_BYTES, limit))
    return Failure(kind, class_name(exception), message, _format(exception, limit), signature, title)


def _format(exception: BaseException, limit: int) -> str:
    """Format the traceback with causes and groups, within `limit` bytes."""
    return _join(formatted(exception, from_application(traceback_of(exception))), limit)


def _join(chunks: Iterable[str], limit: int) -> str:
    head: list[str] = []
    tail: deque[str] = deque()
    started = kept = 0
    for chunk in chunks:
        # One huge message must not push the frames out.
        part = cut(chunk, limit // 2)
        if started <= limit:
            head.append(part)
            started += len(part)
        else:
            tail.append(part)
            kept += len(part)
        while kept - len(tail[0] if tail else "") > limit:
            kept -= len(tail.popleft())
    return cut("".join((*head, *tail)), limit)
