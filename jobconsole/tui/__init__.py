"""The console in a terminal.

Textual reads these variables when it is imported, so they are set here, before any module of this package imports it:
few frames a second (fewer over SSH) are enough for numbers, and nothing is animated.
"""

import os

os.environ.setdefault("TEXTUAL_FPS", "15" if "SSH_CONNECTION" in os.environ else "30")
os.environ.setdefault("TEXTUAL_ANIMATIONS", "none")
os.environ.setdefault("TEXTUAL_SMOOTH_SCROLL", "0")
