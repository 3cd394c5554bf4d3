"""UUIDs of topics, directories, members and clusters."""

from __future__ import annotations

from cordwood.runtime.randomness import SeededRandom, new_uuid
from cordwood.wire.primitives import uuid_text


class _Drawn:
    """Draws these numbers."""

    def __init__(self, *numbers: int) -> None:
        self._numbers = list(numbers)

    def below(self, bound: int) -> int:
        number = self._numbers.pop(0)
        assert 0 <= number < bound
        return number

    def fork(self, purpose: str) -> _Drawn:
        raise AssertionError("a UUID needs one source")


def test_a_uuid_is_of_version_4() -> None:
    random = SeededRandom(1)
    for _ in range(100):
        uuid = new_uuid(random)
        assert (uuid[6] >> 4, uuid[8] >> 6) == (4, 0b10)


def test_the_text_of_a_uuid_never_begins_with_a_hyphen() -> None:
    with_hyphen = int.from_bytes(bytes([62 << 2]) + bytes(15))
    assert uuid_text(with_hyphen.to_bytes(16)).startswith("-")
    assert not uuid_text(new_uuid(_Drawn(with_hyphen, 1))).startswith("-")
