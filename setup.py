"""What the package index shows: the README, whose links lead into the repository at this version."""

import re
import tomllib
from pathlib import Path

from setuptools import setup

HERE = Path(__file__).parent


def page() -> str:
    """Return the README with absolute links: the index has none of the files that it names."""
    project = tomllib.loads((HERE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    home, tag = project["urls"]["Repository"], f"v{project['version']}"

    def absolute(match: re.Match[str]) -> str:
        opening, target = match.groups()
        kind = "raw" if opening.startswith("!") else "blob"
        return f"{opening}({home}/{kind}/{tag}/{target})"

    text = (HERE / "README.md").read_text(encoding="utf-8")
    return re.sub(r"(!?\[[^\]]*\])\((?!https?:|#|mailto:)([^)\s]+)\)", absolute, text)


if __name__ == "__main__":
    setup(long_description=page(), long_description_content_type="text/markdown")
