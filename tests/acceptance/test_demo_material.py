"""There is real work on every machine, and what is broken is really broken."""

import ast
import json
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from jobconsole.demo import packer
from jobconsole.demo.material import Folder, Material, closed_port, find_material, prepare, repair_hints
from jobconsole.demo.producer import SMALL_QUOTA, LoadPlan


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return prepare(tmp_path)


@pytest.fixture
def material(folder: Folder) -> Material:
    return find_material(folder.good / folder.document.name)


def test_there_is_something_of_each_kind(material: Material) -> None:
    assert len(material.modules) > 100
    assert material.records
    assert material.metadata
    assert material.documents
    assert len(material.folders) > 10
    assert material.pictures


def test_the_bad_modules_do_not_parse(material: Material) -> None:
    for path in material.bad_modules:
        with pytest.raises((SyntaxError, ValueError)):
            ast.parse(path.read_bytes())


def test_the_binaries_are_no_text(material: Material) -> None:
    for path in material.binaries[:5]:
        with pytest.raises(UnicodeDecodeError):
            path.read_text(encoding="utf-8")


def test_the_document_is_cut_off_and_its_good_copy_is_whole(folder: Folder) -> None:
    json.loads((folder.good / folder.document.name).read_text())
    with pytest.raises(json.JSONDecodeError):
        json.loads(folder.document.read_text())


def test_the_port_is_closed() -> None:
    with socket.socket() as client, pytest.raises(ConnectionRefusedError):
        client.connect(("127.0.0.1", closed_port()))


def test_the_hints_repair_what_they_say(folder: Folder) -> None:
    hints = repair_hints(folder, 20001)
    assert any("http.server 20001" in hint for hint in hints)
    for hint in hints:
        command = hint.partition(": ")[2]
        if command.startswith("cp "):
            subprocess.run(command, shell=True, check=True)
    assert folder.document.read_bytes() == (folder.good / folder.document.name).read_bytes()
    assert folder.picture.read_bytes() == (folder.good / folder.picture.name).read_bytes()


def test_the_kernel_kills_a_packer_over_its_quota(material: Material, tmp_path: Path) -> None:
    command = [sys.executable, "-I", "-S", packer.__file__, str(material.large_folder), str(tmp_path / "x.tar")]
    ended = subprocess.run([*command, str(SMALL_QUOTA)], check=False, capture_output=True)
    assert ended.returncode == -signal.SIGXFSZ


def test_the_first_wave_holds_every_failing_kind_and_both_plans_are_equal(material: Material, folder: Folder) -> None:
    first, second = (LoadPlan(material, folder, 20001).wave(200) for _ in range(2))
    assert first == second
    failing = {"parse_module", "read_document", "count_words", "thumbnail", "notify", "pack_folder", "archive_quickly"}
    assert failing <= {order.type for order in first[:8]}
    assert 180 <= sum(len(order.payloads) for order in first) <= 250
