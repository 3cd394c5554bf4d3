"""Back-off between retries."""

from cordwood.net.peers.backoff import Backoff
from cordwood.runtime.randomness import SeededRandom


def test_the_pause_doubles_up_to_its_bound() -> None:
    backoff = Backoff(100, 1000, SeededRandom(1))
    for failures, exact in ((1, 0.1), (2, 0.2), (3, 0.4), (4, 0.8)):
        assert exact * 0.8 <= backoff.pause_s(failures) <= exact * 1.2
    for failures in (5, 50, 5_000):
        assert 0.8 <= backoff.pause_s(failures) <= 1.0
