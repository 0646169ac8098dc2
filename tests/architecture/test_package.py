"""The package as it is uploaded: its page has no link that leads nowhere, its source archive all that tests need."""

import email
import importlib
import re
import shutil
import socket
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT

BUILD = "import sys; from setuptools import build_meta; print(getattr(build_meta, sys.argv[1])(sys.argv[2]))"


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source archive, built of a copy of what git has, so that nothing is left in this folder."""
    folder = tmp_path_factory.mktemp("package")
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if listed.returncode != 0:
        pytest.skip("this is no git repository")
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (ROOT / name).is_file():
            (folder / "source" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / "source" / name)
    return built(folder, "build_sdist")


def built(folder: Path, what: str) -> Path:
    """Build something of the source in a folder, and return it."""
    command = [sys.executable, "-c", BUILD, what, str(folder)]
    done = subprocess.run(command, cwd=folder / "source", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder / done.stdout.splitlines()[-1]


def test_an_installation_for_development_is_a_path_that_type_checkers_follow(archive: Path) -> None:
    with zipfile.ZipFile(built(archive.parent, "build_editable")) as file:
        (path,) = [name for name in file.namelist() if name.endswith(".pth")]
        assert file.read(path).decode().strip() == str(archive.parent / "source")


def test_the_source_archive_has_documents_and_tests(archive: Path) -> None:
    with tarfile.open(archive) as file:
        names = {name.partition("/")[2] for name in file.getnames()}
    for folder in ("docs", "tests", "queue_core", "jobconsole"):
        there = {path.relative_to(ROOT).as_posix() for path in (ROOT / folder).rglob("*") if path.is_file()}
        assert {name for name in there - names if "__pycache__" not in name} == set()


def test_links_that_do_not_answer_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / ".ci"))
    links = importlib.import_module("links")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        nowhere = f"http://127.0.0.1:{listener.getsockname()[1]}/docs/a.md"
    text = f"Project-URL: Repository, {nowhere}\n\n[a]({nowhere}#b) and ![c]({(tmp_path / 'c').as_uri()})"
    with zipfile.ZipFile(tmp_path / "a.whl", "w") as file:
        file.writestr("a-1.dist-info/METADATA", text)
    assert links.links_of(tmp_path / "a.whl") == [nowhere]
    assert links.main([str(tmp_path / "a.whl")]) == 1
    assert capsys.readouterr().out.startswith(f"{nowhere}: ")


def test_the_page_of_the_index_has_absolute_links(archive: Path) -> None:
    with tarfile.open(archive) as file:
        found = file.extractfile(next(name for name in file.getnames() if name.count("/") == 1 and "PKG-INFO" in name))
        assert found is not None
        message = email.message_from_bytes(found.read())
    assert message["Description-Content-Type"] == "text/markdown"
    text = message.get_payload(decode=True)
    assert isinstance(text, bytes)
    links = re.findall(r"(!?)\[[^\]]*\]\(([^)]+)\)", text.decode())
    assert len(links) > 7
    home = dict(line.split(", ", 1) for line in message.get_all("Project-URL", []))["Repository"]
    tag = f"v{message['Version']}"
    for picture, target in links:
        begin = f"{home}/{'raw' if picture else 'blob'}/{tag}/"
        assert target.startswith(begin)
        assert (ROOT / target.removeprefix(begin).partition("#")[0]).exists()
