"""The checks of library clients: each finds what it is for in a history made by hand."""

from cordwood.sim.checks import violations
from cordwood.sim.histories.groups import Commit, CommitOutcome, OffsetRead
from cordwood.sim.histories.history import FinalLog, History, Outcome, Promise, Read, Seen, Send

PARTITION = ("topic", 0)
GROUP = "group"


class Story:
    """A log of letters, each sent by one producer of the library, and what its consumers made of it."""

    def __init__(self, log: str) -> None:
        self.history = History(Promise.DURABLE)
        records = [Seen(offset, 1_000, letter.encode()) for offset, letter in enumerate(log)]
        self.history.final[PARTITION] = FinalLog(0, len(log), 1, records)

    def sent(self, letters: str, outcome: Outcome = Outcome.ACKNOWLEDGED) -> "Story":
        for letter in letters:
            send = Send(len(self.history.sends), "producer", PARTITION, (letter.encode(),), (None,), -1, begun_s=0.0)
            send.stream, send.outcome, send.incarnation = "producer/1", outcome, 1
            self.history.sends.append(send)
        return self

    def polled(self, letters: str, *, first: int, expected: int) -> "Story":
        records = tuple(Seen(first + at, 1_000, letter.encode()) for at, letter in enumerate(letters))
        self.history.reads.append(
            Read("consumer", PARTITION, 1, 1.0, 1.5, expected, 0, -1, -1, records, first + len(letters), is_polled=True)
        )
        return self

    def committed(self, offset: int, *, at_s: float = 1.0, given_to: int = -1, tenure: int = 0) -> "Story":
        commit = Commit(len(self.history.groups.commits), "member", GROUP, PARTITION, offset, tenure, at_s, at_s + 0.5)
        commit.outcome, commit.has_number, commit.given_to = CommitOutcome.ACKNOWLEDGED, False, given_to
        self.history.groups.commits.append(commit)
        return self

    def told(self, offset: int, *, at_s: float) -> "Story":
        read = OffsetRead("member", GROUP, PARTITION, at_s, at_s + 0.5, offset, "", False)
        self.history.groups.offset_reads.append(read)
        return self

    def found(self) -> set[str]:
        return {violation.invariant for violation in violations(self.history)}


def test_an_undamaged_directory_has_no_findings() -> None:
    story = Story("abc").sent("abc").polled("ab", first=0, expected=0).polled("c", first=2, expected=2)
    story.committed(3, given_to=3).told(3, at_s=2.0)
    assert story.found() == set()


def test_a_producer_whose_records_change_places_is_found() -> None:
    assert Story("ba").sent("ab").found() == {"a producer's records keep their order"}


def test_a_record_that_is_acknowledged_without_an_offset_must_be_there() -> None:
    assert Story("a").sent("ab").found() == {"nothing acknowledged is lost"}


def test_a_record_that_was_not_taken_must_not_be_there() -> None:
    assert Story("a").sent("a", Outcome.REFUSED).found() == {"refused batches are not appended"}


def test_a_poll_that_skips_a_record_is_found() -> None:
    assert Story("abc").sent("abc").polled("c", first=2, expected=1).found() == {"a poll leaves nothing out"}


def test_a_poll_that_repeats_a_record_is_found() -> None:
    assert Story("abc").sent("abc").polled("bc", first=1, expected=2).found() == {"polls continue at the position"}


def test_a_commit_of_undelivered_records_is_found() -> None:
    assert Story("abc").sent("abc").committed(3, given_to=2).found() == {"only returned records are committed"}


def test_a_commit_may_pass_over_offsets_that_have_no_record() -> None:
    story = Story("ab").sent("ab").committed(3, given_to=2)
    assert story.found() == set()


def test_a_commit_without_a_number_is_known_by_its_offset() -> None:
    story = Story("abc").sent("abc").committed(1, at_s=1.0).committed(2, at_s=2.0).told(1, at_s=3.0)
    assert story.found() == {"committed offsets never go back"}


def test_the_later_of_two_commits_is_reported() -> None:
    story = Story("abc").sent("abc").committed(1, at_s=1.0).committed(2, at_s=2.0).committed(1, at_s=3.0)
    assert story.told(1, at_s=4.0).found() == set()


def test_an_uncommitted_offset_is_found() -> None:
    assert Story("a").sent("a").told(1, at_s=1.0).found() == {"a committed offset is unchanged"}


def test_also_if_the_earlier_one_was_unknown() -> None:
    story = Story("abc").sent("abc").committed(1, at_s=1.0, tenure=-1).committed(1, at_s=3.0, tenure=5)
    assert story.told(1, at_s=4.0).told(1, at_s=5.0).found() == set()


def test_a_reported_offset_counts_as_the_earliest_possible_commit() -> None:
    story = Story("abc").sent("abc").committed(2, at_s=1.0).committed(1, at_s=3.0).committed(2, at_s=3.2)
    story.history.groups.commits[-1].outcome = CommitOutcome.UNKNOWN
    assert story.told(2, at_s=1.6).told(1, at_s=4.0).found() == set()
    assert story.told(2, at_s=5.0).told(1, at_s=6.0).found() == set()
