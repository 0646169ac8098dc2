"""A worker service as a program: `python -m tests.worker.serving TARGET OPTIONS FOLDER`."""

import os
import sys
from pathlib import Path

from queue_core.client.logs import setup_logging
from queue_core.worker import supervisor
from queue_core.worker.options import ServiceOptions
from queue_core.worker.supervisor import supervise


def main(target: str, options: str, folder: str) -> int:
    """Run a service; whenever its processes change, their pids are written into the folder."""

    def note(pids: list[int]) -> None:
        written = Path(folder, "pids.new")
        written.write_text(" ".join(map(str, pids)))
        written.rename(Path(folder, "pids"))

    setup_logging("text")
    supervisor.YOUNG_SECONDS = float(os.environ.get("SERVED_YOUNG", supervisor.YOUNG_SECONDS))
    return supervise(target, ServiceOptions.from_json(options), note)


if __name__ == "__main__":
    os._exit(main(*sys.argv[1:]))
