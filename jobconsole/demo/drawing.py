"""Pictures of files: every byte is a pixel. Needs Pillow."""

from __future__ import annotations

import io

from PIL import Image


def draw(content: bytes, width: int) -> bytes:
    """Return a PNG in which each row shows `width` bytes of the content as shades of grey."""
    height = max(1, len(content) // width)
    picture = Image.frombytes("L", (width, height), content[: width * height].ljust(width * height, b"\0"))
    target = io.BytesIO()
    picture.save(target, "PNG")
    return target.getvalue()
