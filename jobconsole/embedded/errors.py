"""The one error of this package."""


class EmbeddedError(Exception):
    """The embedded servers could not do what was asked; the message is one sentence a person can act on."""
