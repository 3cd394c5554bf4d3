"""Files in memory, for libraries that want files: no descriptor is behind them."""

from io import BytesIO

__all__ = ["BytesIO"]
