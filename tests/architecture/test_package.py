"""The package as it is uploaded: its page has no link that leads nowhere, its source archive all that tests need."""

import email
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT

BUILD = "import sys; from setuptools import build_meta; print(build_meta.build_sdist(sys.argv[1]))"


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
    command = [sys.executable, "-c", BUILD, str(folder)]
    done = subprocess.run(command, cwd=folder / "source", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder / done.stdout.splitlines()[-1]


def test_the_source_archive_has_documents_and_tests(archive: Path) -> None:
    with tarfile.open(archive) as file:
        names = {name.partition("/")[2] for name in file.getnames()}
    for folder in ("docs", "tests", "queue_core", "jobconsole"):
        there = {path.relative_to(ROOT).as_posix() for path in (ROOT / folder).rglob("*") if path.is_file()}
        assert {name for name in there - names if "__pycache__" not in name} == set()


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
