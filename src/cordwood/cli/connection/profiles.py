"""Named client configurations: `cordwood profile` keeps them, and every command can use one.

A profile is a file of client properties (see `client_properties`) with a name, `profiles/NAME.properties` in the
configuration directory; the file `profile` there names the one in use.
"""

import os
import re
from collections.abc import Mapping

from cordwood.client.errors import BadSetting
from cordwood.config.properties import write_properties

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_ENDING = ".properties"


class NoSuchProfile(BadSetting):
    pass


class Profiles:
    """The profiles in a configuration directory, which need not exist yet. Methods raise `BadSetting` or `OSError`."""

    def __init__(self, directory: str) -> None:
        self._profiles = os.path.join(directory, "profiles")
        self._current = os.path.join(directory, "profile")

    @classmethod
    def of_user(cls) -> "Profiles":
        """Returns the profiles in the user's XDG configuration directory."""
        root = os.environ.get("XDG_CONFIG_HOME", "")
        # The XDG specification says to ignore relative paths.
        if not os.path.isabs(root):
            root = os.path.join(os.path.expanduser("~"), ".config")
        return cls(os.path.join(root, "cordwood"))

    def names(self) -> list[str]:
        try:
            found = os.listdir(self._profiles)
        except FileNotFoundError:
            return []
        return sorted(name.removesuffix(_ENDING) for name in found if name.endswith(_ENDING) and name[0] != ".")

    @property
    def current(self) -> str | None:
        """The profile in use."""
        try:
            with open(self._current) as file:
                return file.read().strip() or None
        except FileNotFoundError:
            return None
        except OSError as error:
            raise BadSetting(f"{self._current}: {error.strerror}") from error

    def path(self, name: str) -> str:
        """Raises `NoSuchProfile`."""
        path = self._path(name)
        if not os.path.isfile(path):
            names = ", ".join(self.names())
            hint = f"there are {names}" if names else "create one with cordwood profile create"
            raise NoSuchProfile(f"there is no profile {name}; {hint}")
        return path

    def write(self, name: str, properties: Mapping[str, str]) -> None:
        """Writes the file readable by its owner alone: it may contain a key's password."""
        path = self._path(name)
        os.makedirs(self._profiles, exist_ok=True)
        _replace(path, write_properties(properties))

    def use(self, name: str | None) -> None:
        """Selects the profile in use; None selects none."""
        if name is not None:
            self.path(name)
            _replace(self._current, f"{name}\n")
        elif os.path.exists(self._current):
            os.unlink(self._current)

    def delete(self, name: str) -> None:
        os.unlink(self.path(name))
        if self.current == name:
            self.use(None)

    def _path(self, name: str) -> str:
        if not _NAME.fullmatch(name):
            raise BadSetting(f"{name!r} is not a valid profile name: use up to 100 letters, digits, '.', '_' and '-'")
        return os.path.join(self._profiles, f"{name}{_ENDING}")


def complete_profile(incomplete: str) -> list[str]:
    try:
        return [name for name in Profiles.of_user().names() if name.startswith(incomplete)]
    except OSError:
        return []


def _replace(path: str, text: str) -> None:
    """Atomically: a concurrent reader sees the old or the new content."""
    written = f"{path}.{os.getpid()}"
    with open(os.open(written, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)
    os.replace(written, path)
