"""Files in memory, for libraries that want files: they have no descriptor."""

from io import BytesIO

__all__ = ["BytesIO"]
