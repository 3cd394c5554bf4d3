"""Small files that Java is started with. They are kept in the user's cache, since Spark may outlive the process that
made them."""

import os
import tempfile
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path


def kept_file(name: str, content: str, *, mode: int = 0o644, environment: Mapping[str, str] = os.environ) -> Path:
    """The file of that name with that content; one with another content is another file."""
    digest = blake2b(content.encode(), digest_size=6).hexdigest()
    try:
        return _made(cache_folder(environment) / digest / name, content, mode)
    except OSError:
        # A user without a home that could be written to.
        return _made(Path(tempfile.mkdtemp(prefix="cordwood-")) / name, content, mode)


def cache_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """It may be missing or read-only. Raises `OSError` for a user without a home."""
    try:
        return Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cordwood" / "spark"
    except RuntimeError as error:
        raise FileNotFoundError(str(error)) from error


def _made(path: Path, content: str, mode: int) -> Path:
    if not path.exists() or path.read_text() != content:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Other processes may be reading it.
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
            file.write(content)
        os.chmod(file.name, mode)
        os.replace(file.name, path)
    return path
