"""Pictures of the notebook of the documentation in JupyterLab, in light and dark.

    .venv/bin/pip install jupyterlab && .venv/bin/python screenshots/notebook.py

Runs docs/notebook.ipynb in a JupyterLab of its own, in a Chromium without a window, and writes notebook-light.png and
notebook-dark.png here: its first half and its second one. It marks a job in the widget, and opens the preview of its
retry.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import secrets
import shutil
import socket
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from make import HERE
from tornado.httpclient import AsyncHTTPClient
from tornado.websocket import WebSocketClientConnection, websocket_connect

NOTEBOOK = HERE.parent / "docs" / "notebook.ipynb"
THEMES = {"light": "JupyterLab Light", "dark": "JupyterLab Dark"}
PLACES = {"light": ("c.stats()", "start"), "dark": ("c.watch()", "end")}
"""The cell that each picture begins or ends with."""
SIZE = (1400, 1700)
PATIENCE_SECONDS = 120.0
SETTLE_SECONDS = 4.0
LAST_CELLS = 2
"""Cells that are not run: the live display and the widget of those before them stay alive."""


class Browser:
    """A page in Chromium, driven by its debugging protocol."""

    def __init__(self, socket: WebSocketClientConnection) -> None:
        self._socket = socket
        self._number = 0

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Call a method of the protocol and return its result."""
        self._number += 1
        await self._socket.write_message(json.dumps({"id": self._number, "method": method, "params": params}))
        while True:
            text = await self._socket.read_message()
            if text is None:
                raise ConnectionError("the browser is gone")
            answer = json.loads(text)
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(answer["error"])
                return dict(answer["result"])

    async def run(self, script: str) -> Any:
        """Run JavaScript in the page and return its value."""
        answer = await self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"])
        return answer["result"].get("value")

    async def until(self, script: str) -> None:
        """Wait until JavaScript gives something true.

        Raises:
            TimeoutError: it did not.
        """
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not await self.run(f"Boolean({script})"):  # noqa: ASYNC110  a page is asked again and again
                await asyncio.sleep(0.2)

    async def picture(self, target: Path) -> None:
        """Write what the page shows."""
        shot = await self.call("Page.captureScreenshot", format="png")
        await asyncio.to_thread(target.write_bytes, base64.b64decode(shot["data"]))


def free_port() -> int:
    """Return a port that nothing listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@asynccontextmanager
async def program(*command: str, environ: dict[str, str]) -> AsyncIterator[None]:
    """Run a program until the block ends."""
    process = await asyncio.create_subprocess_exec(
        *command, env=os.environ | environ, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        yield
    finally:
        process.terminate()
        await process.wait()


@asynccontextmanager
async def laboratory(folder: Path, theme: str) -> AsyncIterator[str]:
    """Start JupyterLab on a folder and yield its address."""
    port, token = free_port(), secrets.token_hex(16)
    settings = folder / "settings" / "@jupyterlab" / "apputils-extension"
    settings.mkdir(parents=True, exist_ok=True)
    (settings / "themes.jupyterlab-settings").write_text(json.dumps({"theme": THEMES[theme]}))
    (settings / "notification.jupyterlab-settings").write_text(json.dumps({"fetchNews": "false"}))
    (folder / "work").mkdir(exist_ok=True)
    shutil.copy(NOTEBOOK, folder / "work")
    options = (
        f"--ServerApp.port={port}", f"--IdentityProvider.token={token}", "--ServerApp.open_browser=False",
        f"--ServerApp.root_dir={folder / 'work'}", f"--LabApp.user_settings_dir={folder / 'settings'}",
        f"--LabApp.workspaces_dir={folder / 'workspaces'}", "--LabApp.expose_app_in_browser=True", "--allow-root",
    )  # fmt: skip
    environ = {"IPYTHONDIR": str(folder / "ipython"), "JUPYTER_CONFIG_DIR": str(folder / "config")}
    async with program(sys.executable, "-m", "jupyterlab", *options, environ=environ):
        await answering(f"http://127.0.0.1:{port}/api?token={token}")
        yield f"http://127.0.0.1:{port}/lab/tree/{NOTEBOOK.name}?token={token}"


async def answering(url: str) -> bytes:
    """Wait until an address answers, and return what it does."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            try:
                return (await AsyncHTTPClient().fetch(url)).body
            except OSError:
                await asyncio.sleep(0.2)


@asynccontextmanager
async def browser(folder: Path) -> AsyncIterator[Browser]:
    """Start Chromium and yield its page."""
    port = free_port()
    names = ("chromium", "chromium-browser", "google-chrome")
    chromium = next(found for name in names if (found := shutil.which(name)))
    options = (
        "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--remote-debugging-port={port}",
        f"--user-data-dir={folder / 'profile'}", f"--window-size={SIZE[0]},{SIZE[1]}", "about:blank",
    )  # fmt: skip
    async with program(chromium, *options, environ={}):
        pages = json.loads(await answering(f"http://127.0.0.1:{port}/json"))
        url = next(page["webSocketDebuggerUrl"] for page in pages if page["type"] == "page")
        socket = await websocket_connect(url, max_message_size=1 << 28)
        yield Browser(socket)
        socket.close()


PANEL = "[...jupyterapp.shell.widgets('main')][0]"
CELLS = f"{PANEL}?.content"
RUN = f"""(async () => {{
  const cells = {CELLS};
  for (let at = 0; at < cells.widgets.length - {LAST_CELLS}; at++) {{
    cells.activeCellIndex = at;
    await jupyterapp.commands.execute("notebook:run-cell");
  }}
}})()"""


async def take(theme: str) -> None:
    """Run the notebook in a theme, and take its picture."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        async with laboratory(folder, theme) as url, browser(folder) as page:
            width, height = SIZE
            await page.call(
                "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
            )
            await page.call("Page.navigate", url=url)
            await page.until("window.jupyterapp && document.querySelector('.jp-Notebook .jp-Cell')")
            await page.until(f"({CELLS}?.widgets?.length ?? 0) > 10")
            await page.run(f"jupyterapp.shell.activateById({PANEL}.id)")
            await page.until(f"{PANEL}.sessionContext.session?.kernel?.status === 'idle'")
            await page.run("jupyterapp.commands.execute('application:toggle-left-area')")
            await page.run(RUN)
            await page.until("document.querySelector('.jc-widget tbody tr')")
            await page.run("document.querySelector('.jc-widget tbody input').click()")
            await page.run("document.querySelector('.jc-widget .jc-bar button').click()")
            await page.until("document.querySelector('.jc-widget .jc-sheet .jc-go')")
            cell, block = PLACES[theme]
            found = f"{CELLS}.widgets.find((one) => one.model.sharedModel.source.startsWith({json.dumps(cell)}))"
            await page.run(f"{found}.node.scrollIntoView({{block: {json.dumps(block)}}})")
            await asyncio.sleep(SETTLE_SECONDS)
            target = HERE / f"notebook-{theme}.png"
            await page.picture(target)
            sys.stdout.write(f"{target.name}\n")


def main() -> int:
    """Take the pictures; 0 when all are there."""
    for theme in THEMES:
        asyncio.run(take(theme))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
