"""The one error of the demo."""

FAILED, USAGE, UNREACHABLE, REFUSED = 1, 2, 3, 5
"""Exit codes of the command line."""


class DemoError(Exception):
    """The demo cannot run; the message is one sentence a person can act on."""

    def __init__(self, message: str, exit_code: int = FAILED) -> None:
        super().__init__(message)
        self.exit_code = exit_code
