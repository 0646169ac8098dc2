"""Work on Python modules: plain functions, each in a thread."""

from __future__ import annotations

import ast
import io
import marshal
import tokenize
from collections import Counter
from pathlib import Path
from typing import Any

from jobconsole.demo.tasks.app import jobs, recorded
from queue_core import JobContext, Priority, Retry


@jobs.task(queue="code", priority=Priority.NORMAL, retry=Retry(max_retries=2, delay=1, never=(SyntaxError,)))
@recorded
def parse_module(ctx: JobContext, path: str) -> dict[str, Any]:
    """Count what a module defines; one that does not parse is not tried again."""
    tree = ast.parse(Path(path).read_bytes(), filename=path)
    kinds = Counter(type(node).__name__ for node in ast.walk(tree))
    return {"classes": kinds["ClassDef"], "functions": kinds["FunctionDef"] + kinds["AsyncFunctionDef"]}


@jobs.task(queue="code", priority=Priority.LOW)
@recorded
def tokenise_module(ctx: JobContext, path: str) -> dict[str, int]:
    """Count the tokens of a module by kind."""
    tokens = tokenize.tokenize(io.BytesIO(Path(path).read_bytes()).readline)
    return dict(Counter(tokenize.tok_name[token.type] for token in tokens))


@jobs.task(queue="code", priority=7)
@recorded
def compile_module(ctx: JobContext, path: str) -> dict[str, int]:
    """Compile a module to bytecode without running it."""
    source = Path(path).read_bytes()
    return {"source": len(source), "bytecode": len(marshal.dumps(compile(source, path, "exec", dont_inherit=True)))}
