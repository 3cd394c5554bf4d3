"""The checks of transactions: each finds what it is for in a history made by hand."""

from cordwood.sim.checks import violations
from cordwood.sim.histories.groups import Commit, CommitOutcome, OffsetRead
from cordwood.sim.histories.history import Deletion, FinalLog, History, Marker, Outcome, Promise, Read, Seen, Send
from cordwood.sim.histories.transactions import Fate, Incarnation, Transaction

PARTITION = ("topic", 0)
OTHER = ("topic", 1)
INFINITY = float("inf")


class Story:
    """A log is written down as its records, and the markers that end transactions:

    a.1 b.2 c +1 -2    `a` and `b` by producers 1 and 2, `c` without a transaction; 1 is committed and 2 is aborted

    A slash gives an epoch: a.1/5.
    """

    def __init__(self) -> None:
        self.history = History(Promise.DURABLE)

    def log(self, text: str, partition: tuple[str, int] = PARTITION, *, last_stable_offset: int | None = None) -> None:
        records = [_seen(offset, word) for offset, word in enumerate(text.split())]
        stable = len(records) if last_stable_offset is None else last_stable_offset
        self.history.final[partition] = FinalLog(0, len(records), 1, records, 100.0, stable)

    def send(
        self, value: str, offset: int, transaction: Transaction | None, partition: tuple[str, int] = PARTITION
    ) -> Send:
        number = len(self.history.sends)
        begun_s = 1.0 if transaction is None else transaction.begun_s
        send = Send(number, "client", partition, (value.encode(),), (None,), -1, begun_s)
        send.outcome, send.base_offset, send.ended_s, send.incarnation = Outcome.ACKNOWLEDGED, offset, begun_s, 1
        if transaction is not None:
            send.producer_id, send.producer_epoch = transaction.producer_id, transaction.producer_epoch
            send.transaction, send.sequence = transaction.number, number
        self.history.sends.append(send)
        return send

    def transaction(
        self, producer_id: int, fate: Fate, commit_s: float = INFINITY, *, epoch: int = 0, begun_s: float = 1.0
    ) -> Transaction:
        number = len(self.history.transactions.transactions)
        transaction = Transaction(number, "client", "id", producer_id, epoch, begun_s, fate, commit_s, commit_s)
        self.history.transactions.transactions.append(transaction)
        return transaction

    def read(self, text: str, *aborted: tuple[int, int], ended_s: float = 50.0, offset: int = 0) -> None:
        """read_committed, from an offset on."""
        records = tuple(_seen(at, word) for at, word in enumerate(text.split(), offset))
        end = offset + len(records)
        self.history.reads.append(
            Read("reader", PARTITION, 1, ended_s, ended_s, offset, 0, 100, 0, records, end, False, True, 100, aborted)
        )

    def found(self) -> set[str]:
        return {violation.invariant for violation in violations(self.history)}


def _seen(offset: int, word: str) -> Seen:
    if word[0] in "+-":
        producer, _, epoch = word[1:].partition("/")
        marker = Marker.COMMIT if word[0] == "+" else Marker.ABORT
        return Seen(offset, 0, word.encode(), int(producer), int(epoch or 0), True, marker)
    value, _, producer = word.partition(".")
    producer, _, epoch = producer.partition("/")
    return Seen(offset, 0, value.encode(), int(producer or -1), int(epoch or 0 if producer else -1), bool(producer))


def mixed_story() -> Story:
    """`a` is committed, `b` aborted, `c` is in no transaction."""
    story = Story()
    story.send("a", 0, story.transaction(1, Fate.COMMITTED, 10.0))
    story.send("b", 1, story.transaction(2, Fate.NOT_COMMITTED))
    story.send("c", 2, None)
    story.log("a.1 b.2 c +1 -2")
    return story


def test_valid_transactions_violate_nothing() -> None:
    story = mixed_story()
    story.read("a.1 b.2 c +1 -2", (2, 1))
    story.read("b.2 c +1", (2, 1), offset=1)
    assert story.found() == set()


def test_an_aborted_read_is_found() -> None:
    story = mixed_story()
    story.read("a.1 b.2 c +1 -2")
    assert story.found() == {"nothing aborted is read", "read_committed shows committed records only"}


def test_a_read_before_the_commit_is_found() -> None:
    story = mixed_story()
    story.read("a.1", ended_s=5.0)
    assert story.found() == {"nothing is read before it is committed"}


def test_a_committed_record_that_is_not_shown_is_found() -> None:
    story = mixed_story()
    story.read("a.1 b.2 c +1 -2", (2, 1), (1, 0))
    assert story.found() == {"read_committed shows all committed records"}


def test_a_consumer_may_have_gone_past_a_deletion_that_a_crash_undid() -> None:
    story = mixed_story()
    record = _seen(2, "c")
    polled = Read("consumer", PARTITION, 1, 5.0, 5.5, 0, 0, -1, -1, (record,), 3, False, True, -1, is_polled=True)
    story.history.reads.append(polled)
    assert story.found() == {"read_committed shows all committed records"}
    story.history.deletions.append(Deletion(PARTITION, 2, begun_s=4.0))
    assert story.found() == set()


def test_a_read_past_the_last_stable_offset_is_found() -> None:
    story = mixed_story()
    story.read("a.1 b.2 c", (2, 1))
    story.history.reads[0] = Read(
        "reader", PARTITION, 1, 50, 50, 0, 0, 100, 0, story.history.reads[0].records, 3, False, True, 1, ((2, 1),)
    )
    assert story.found() == {"nothing is read past the last stable offset"}


def test_a_transaction_that_is_committed_here_and_aborted_there_is_found() -> None:
    story = Story()
    transaction = story.transaction(1, Fate.UNKNOWN, 10.0)
    story.send("a", 0, transaction)
    story.send("b", 0, transaction, OTHER)
    story.log("a.1 +1")
    story.log("b.1 -1", OTHER)
    assert story.found() == {"a transaction is committed as a whole"}


def test_a_committed_transaction_that_is_aborted_is_found() -> None:
    story = Story()
    story.send("a", 0, story.transaction(1, Fate.COMMITTED, 10.0))
    story.log("a.1 -1")
    assert story.found() == {"committed transactions stay committed"}


def test_an_uncommitted_but_visible_transaction_is_found() -> None:
    story = Story()
    story.send("a", 0, story.transaction(1, Fate.NOT_COMMITTED))
    story.log("a.1 +1")
    assert story.found() == {"only transactions with a commit request are committed"}


def test_a_transaction_without_an_end_is_found() -> None:
    story = Story()
    story.send("a", 0, story.transaction(1, Fate.NOT_COMMITTED))
    story.log("a.1", last_stable_offset=0)
    assert story.found() == {"every transaction ends"}


def test_offsets_of_a_transaction_that_is_aborted_are_found() -> None:
    story = Story()
    transaction = story.transaction(1, Fate.UNKNOWN, 10.0)
    story.send("a", 0, transaction)
    story.log("a.1 -1")
    commit = Commit(7, "client", "group", PARTITION, 5, 1, 10.0, transaction=transaction.number)
    story.history.groups.commits.append(commit)
    story.history.groups.offset_reads.append(OffsetRead("reader", "group", PARTITION, 20, 21, 5, "7", False))
    assert story.found() == {"a transaction is committed with its offsets"}


def test_a_zombie_that_writes_or_commits_is_found() -> None:
    def story_of(begun_s: float, commit_s: float) -> Story:
        story = Story()
        transaction = story.transaction(1, Fate.COMMITTED, commit_s, begun_s=begun_s)
        story.send("a", 0, transaction)
        story.log("a.1 +1")
        story.history.transactions.incarnations.append(Incarnation("successor", "id", 1, 1, 6.0))
        return story

    assert story_of(4.0, 5.0).found() == set()
    assert story_of(5.0, 7.0).found() == {"a zombie does not commit"}
    assert story_of(7.0, 8.0).found() == {"a zombie does not write", "a zombie does not commit"}


def test_an_epoch_that_goes_back_is_found() -> None:
    story = Story()
    story.send("a", 0, story.transaction(1, Fate.COMMITTED, 2.0, epoch=5))
    story.send("b", 2, story.transaction(1, Fate.NOT_COMMITTED, epoch=4))
    story.log("a.1/5 +1/5 b.1/4 -1/5")
    assert "a producer's epochs never go back" in story.found()


def test_missing_duplicate_and_unexpected_outputs_are_found() -> None:
    def story_of(outputs: dict[str, int]) -> Story:
        """The committed offsets of inputs x and y; the offset that is committed lies between them."""
        story = Story()
        story.send("x", 0, None)
        story.send("y", 1, None)
        story.log("x y")
        story.log(" ".join(outputs), OTHER)
        for at, (value, offset) in enumerate(outputs.items()):
            story.send(value, at, None, OTHER)
            story.history.transactions.inputs[value.encode()] = ("group", *PARTITION, offset)
        commit = Commit(7, "client", "group", PARTITION, 1, -1, 1.0, 2.0, CommitOutcome.ACKNOWLEDGED)
        story.history.groups.commits.append(commit)
        story.history.groups.offset_reads.append(OffsetRead("reader", "group", PARTITION, 20, 21, 1, "7", True))
        story.history.transactions.inputs.setdefault(b"aborted", ("group", *PARTITION, 0))
        return story

    assert story_of({"a": 0}).found() == set()
    for wrong in ({}, {"a": 0, "b": 0}, {"a": 0, "b": 1}):
        assert story_of(wrong).found() == {"each input has its output exactly once"}
