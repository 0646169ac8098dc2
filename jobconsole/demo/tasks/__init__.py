"""The work of the demo, by kind: `jobconsole worker run jobconsole.demo.tasks:jobs` runs it.

Nothing here pretends: every job reads files of this machine, and every failure is what Python or the kernel says.
"""

from __future__ import annotations

import importlib.util

from jobconsole.demo.tasks import archives, code, documents, files, notices
from jobconsole.demo.tasks.app import jobs

if importlib.util.find_spec("PIL"):
    from jobconsole.demo.tasks import pictures

    __all__ = ["archives", "code", "documents", "files", "jobs", "notices", "pictures"]
else:  # without the extra `demo` there is no Pillow, and no work on pictures
    __all__ = ["archives", "code", "documents", "files", "jobs", "notices"]
