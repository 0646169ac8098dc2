"""Events for browsers and programs: Server-Sent Events, mounted in an application or served beside the metrics."""

from jobconsole.web.asgi import events_app

__all__ = ["events_app"]
