"""A text area for JSON: what is typed or pasted into it cannot make the terminal do anything."""

from __future__ import annotations

from textual.document._document import EditResult
from textual.document._edit import Edit
from textual.widgets import TextArea

from jobconsole.actions.json import escaped

WRAPPED = 32_768
"""Characters of a text whose lines are broken to fit; doing that to longer ones makes each key slow."""


class JsonArea(TextArea):
    """Plain text with line numbers; Tab leaves it."""

    def __init__(self, text: str, *, id: str | None = None) -> None:
        super().__init__(text, id=id, soft_wrap=len(text) <= WRAPPED, show_line_numbers=True, tab_behavior="focus")
        self.indent_width = 2
        # A blinking cursor is a line to the terminal each half second.
        self.cursor_blink = False

    def edit(self, edit: Edit) -> EditResult:
        """Change the text; what is unseen becomes its JSON escape."""
        edit.text = escaped(edit.text.replace("\r\n", "\n").replace("\r", "\n"))
        return super().edit(edit)

    def go_to(self, line: int, column: int) -> None:
        """Put the cursor on a place, both from 1."""
        self.move_cursor((line - 1, column - 1), center=True)
        self.focus()
