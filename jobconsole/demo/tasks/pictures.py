"""Work on pictures; needs Pillow."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from PIL import Image

from jobconsole.demo.drawing import draw
from jobconsole.demo.folder import here
from jobconsole.demo.tasks.app import jobs, recorded
from queue_core import JobContext, Priority, Retry


@jobs.task(queue="pictures", priority=Priority.HIGH, retry=Retry(max_retries=1, delay=2))
@recorded
def thumbnail(ctx: JobContext, path: str, width: int = 96) -> dict[str, int]:
    """Make a small copy of a picture."""
    with Image.open(path) as picture:
        small = picture.convert("RGB")
        small.thumbnail((width, width))
        small.save(_target("thumbnail", path, str(width)))
        return {"from": picture.width * picture.height, "to": small.width * small.height}


@jobs.task(queue="pictures", priority=Priority.LOW)
@recorded
def draw_file(ctx: JobContext, path: str, width: int = 128) -> dict[str, int]:
    """Draw the bytes of a file as a picture."""
    content = Path(path).read_bytes()
    picture = draw(content, width)
    _target("drawing", path, str(width)).write_bytes(picture)
    return {"bytes": len(content), "picture": len(picture)}


def _target(*words: str) -> Path:
    """Return one of some thousand names, so that the folder stays bounded."""
    return here().pictures / f"{words[0]}-{sha256(' '.join(words).encode()).hexdigest()[:3]}.png"
