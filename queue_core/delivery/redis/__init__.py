"""The Lua files of delivery through Redis."""
