"""What has happened in a store before somebody looks."""

from __future__ import annotations

from queue_core.model.job import Failure
from tests.conformance.making import failure
from tests.conformance.world import World

SMTP = """Traceback (most recent call last):
  File "/srv/shop/mail.py", line 88, in send_email
    client.send(message)
  File "/usr/lib/python3.11/smtplib.py", line 398, in send
    raise TimeoutError(f"smtp {host} timed out after 10s")
TimeoutError: smtp mx-7:25 timed out after 10s
"""
DISK = """Traceback (most recent call last):
  File "/srv/shop/images.py", line 12, in resize_image
    picture.save(path)
OSError: [Errno 28] No space left on device: '/data/7.png'
"""
CRM = """Traceback (most recent call last):
  File "/srv/shop/crm.py", line 31, in sync_crm
    return customer["email"]
KeyError: 'email'
"""


def smtp() -> Failure:
    """A mail server that does not answer."""
    return failure(
        "smtp mx-7:25 timed out after 10s", exception="TimeoutError", traceback=SMTP,
        signature="9f31c2aaaaaa", title="TimeoutError: smtp <host>:<n> timed out after <n>s",
    )  # fmt: skip


def disk() -> Failure:
    """A disk that is full."""
    return failure(
        "[Errno 28] No space left on device: '/data/7.png'", exception="OSError", traceback=DISK,
        signature="1a2b3cbbbbbb", title="OSError: [Errno <n>] No space left on device: <path>",
    )  # fmt: skip


def crm() -> Failure:
    """A field that is missing."""
    return failure(
        "'email'", exception="KeyError", traceback=CRM, signature="77aa00cccccc", title="KeyError: <str>"
    )  # fmt: skip


async def dead(world: World, number: int, why: Failure, **given: object) -> list[str]:
    """Return the ids of so many dead jobs, newest first."""
    ended = [await world.ended("dead", {"failure": why}, **given) for _ in range(number)]
    return [claim.id for claim in ended][::-1]


async def night(world: World) -> dict[str, list[str]]:
    """Three in the morning: three kinds of dead jobs, some that wait, one that runs. Returns the dead by type."""
    await world.beat()
    buried = {
        "sync_crm": await dead(world, 2, crm(), type="sync_crm", queue="crm"),
        "resize_image": await dead(world, 3, disk(), type="resize_image", queue="images"),
        "send_email": await dead(world, 5, smtp(), type="send_email", queue="mail", payload='{"to": "a@example.org"}'),
    }
    await world.insert_many(4, type="send_email", queue="mail", priority=10)
    await world.insert_many(2, type="resize_image", queue="images", priority=0)
    await world.insert(type="sync_crm", queue="crm", delay=3600.0)
    await world.ended("completed", type="resize_image", queue="images")
    return buried
