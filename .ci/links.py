"""Asks for every link of a release's page before it is uploaded: an address in pyproject.toml may not be there yet.

    python .ci/links.py dist/jobconsole-0.1.0-py3-none-any.whl

Exits with 1 where one does not answer, and names it.
"""

from __future__ import annotations

import re
import sys
import urllib.request
import zipfile
from email.parser import BytesParser
from pathlib import Path

PATIENCE_SECONDS = 20


def links_of(wheel: Path) -> list[str]:
    """Return the addresses of a wheel's page, and those of its project."""
    with zipfile.ZipFile(wheel) as file:
        (name,) = [name for name in file.namelist() if name.endswith(".dist-info/METADATA")]
        facts = BytesParser().parsebytes(file.read(name))
    project = [line.split(", ", 1)[1] for line in facts.get_all("Project-URL", [])]
    page = re.findall(r"\]\((https?://[^)#\s]+)", str(facts.get_payload()))
    return sorted({*project, *page})


def problem(url: str) -> str:
    """Return why an address cannot be read; empty where it can be."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, method="HEAD"), timeout=PATIENCE_SECONDS):
            return ""
    except OSError as error:
        return str(error)


def main(wheels: list[str]) -> int:
    """Ask for all links of these wheels."""
    dead = {url: why for wheel in wheels for url in links_of(Path(wheel)) if (why := problem(url))}
    for url, why in dead.items():
        sys.stdout.write(f"{url}: {why}\n")
    return 1 if dead else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
