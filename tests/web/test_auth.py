"""Basic authentication: which requests go through, and what is kept of those that did."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from jobconsole.web import auth
from jobconsole.web.auth import REFUSED, BasicAuth, make_line
from jobconsole.web.http import Request


@pytest.fixture
def guard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BasicAuth:
    """Two users, passwords that cost little, and one path that is open to all."""
    monkeypatch.setattr(auth, "N", 2)
    lines = [make_line("ana", "one"), "# of the other team", "", make_line("ben", "two:2")]
    (tmp_path / "users").write_text("\n".join(lines))
    return BasicAuth(str(tmp_path / "users"), frozenset({"/healthz"}))


def asked(given: str, path: str = "/metrics", kind: str = "Basic") -> Request:
    return Request("GET", path, headers={"authorization": f"{kind} {base64.b64encode(given.encode()).decode()}"})


@pytest.mark.parametrize("given", ["ana:one", "ben:two:2"])
async def test_who_is_in_the_file_goes_through_again_and_again(guard: BasicAuth, given: str) -> None:
    for kind in ("Basic", "basic", "Basic"):
        assert await guard(asked(given, kind=kind)) is None


@pytest.mark.parametrize(
    "given", ["ana:two:2", "ana:", "ana", ":one", "eve:one", "eve:", "Ana:one", f"ana:{'x' * 1024}"]
)
async def test_all_others_are_refused(guard: BasicAuth, given: str) -> None:
    assert await guard(asked("ana:one")) is None
    for _ in range(2):
        assert await guard(asked(given)) is REFUSED
    assert await guard(asked("ana:one", kind="Bearer")) is REFUSED
    assert await guard(Request("GET", "/metrics")) is REFUSED


@pytest.mark.parametrize("path", ["/healthz2", "/healthz/", "/", "/HEALTHZ"])
async def test_only_that_very_path_is_open(guard: BasicAuth, path: str) -> None:
    assert await guard(Request("GET", "/healthz")) is None
    assert await guard(Request("GET", path)) is REFUSED


async def test_no_more_than_some_that_were_right_are_kept(guard: BasicAuth, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auth, "_REMEMBERED", 1)
    for given in ("ana:one", "ben:two:2", "ana:one"):
        assert await guard(asked(given)) is None
        assert len(guard._known) == 1
    assert await guard(asked("eve:one")) is REFUSED
    assert len(guard._known) == 1
