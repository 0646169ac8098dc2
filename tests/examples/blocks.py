"""The blocks of a document, run as a reader would run them."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[2] / "docs"


def blocks(page: str, heading: str = "", language: str = "python") -> list[str]:
    """Return the blocks of a page in this language, or those of one of its sections."""
    text = (DOCS / page).read_text(encoding="utf-8")
    if heading:
        level = len(heading) - len(heading.lstrip("#"))
        found = re.search(rf"^{re.escape(heading)}\n(.*?)(?=^#{{1,{level}}} |\Z)", text, re.DOTALL | re.MULTILINE)
        assert found is not None, heading
        text = found[1]
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


async def run(code: str, names: dict[str, Any]) -> None:
    """Run a block in which `await` may be anywhere; what it defines stays in `names`."""
    compiled = compile(code, "<document>", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    result = eval(compiled, names)
    if inspect.iscoroutine(result):
        await result
