"""The findings of `doctor`: requirements of production, checked against facts, and servers that cannot be used."""
