"""XXH3: as hash4j has it, which Kafka uses."""

import pytest

from cordwood.wire.xxh3 import xxh3_64

# By the number of bytes that are hashed: one of each way to hash, and the ends of blocks.
_KAFKA = {
    0: 3244421341483603138,
    1: 1433843135270481901,
    3: 12180141160879835164,
    4: 7895465118229274323,
    8: 6941064856527638883,
    9: 18374517719163151272,
    16: 13314990914799711621,
    17: 8163341949877205007,
    32: 1873302701886544469,
    33: 4486878507168070088,
    64: 2917965298538373825,
    65: 9408609914592003654,
    96: 17331232145433315139,
    97: 2137665177113230204,
    128: 7440608504995537343,
    129: 14295761343243267012,
    240: 7229805477010515663,
    241: 10082113959289486871,
    256: 4339360625268998362,
    2964: 4679969931526888580,
}


@pytest.mark.parametrize(("length", "expected"), _KAFKA.items())
def test_bytes_have_the_hash_that_kafka_gives_them(length: int, expected: int) -> None:
    assert xxh3_64(bytes((7 * number + 3) & 255 for number in range(length))) == expected
