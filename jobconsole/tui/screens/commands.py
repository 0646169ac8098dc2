"""The command palette: every action by its name."""

from __future__ import annotations

from contextlib import suppress

from textual.command import CommandPalette


class Commands(CommandPalette):
    """Textual's own, with one of its traps closed."""

    def _action_command_list(self, action: str) -> None:
        # Textual 8.2.8: a page key between a new list of commands and its first drawing looks up a line that is not
        # there yet, which would end the application.
        with suppress(KeyError, IndexError):
            super()._action_command_list(action)
