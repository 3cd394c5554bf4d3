"""The checks of a node's logs: each finds what it is for in a history made by hand."""

from cordwood.metadata.image import PartitionRegistration
from cordwood.sim.checks import violations
from cordwood.sim.histories.history import (
    Deletion,
    FinalLog,
    History,
    Listed,
    Outcome,
    Promise,
    Read,
    Seen,
    Send,
    SequenceGap,
)
from cordwood.sim.histories.replicas import StateCommitted
from cordwood.wire.errors import ErrorCode

PARTITION = ("topic", 0)


class Story:
    """A history by hand: one record to a send, one second to an event."""

    def __init__(self, promise: Promise = Promise.DURABLE) -> None:
        self.history = History(promise)
        self._now_s = 0.0

    def _pass(self) -> tuple[float, float]:
        self._now_s += 1
        return self._now_s, self._now_s + 0.5

    def lead(self, leader: int) -> None:
        """The controllers commit that this broker leads from now on."""
        begun_s, _ = self._pass()
        replicas = (1, 2, 3)
        epoch = len(self.history.replicas.states)
        state = PartitionRegistration(replicas, replicas, leader, leader_epoch=epoch, partition_epoch=epoch)
        self.history.replicas.states.append(StateCommitted(begun_s, PARTITION, None, state))

    def send(self, value: str, offset: int = -1, *, incarnation: int = 1, key: str | None = None) -> Send:
        begun_s, ended_s = self._pass()
        number = len(self.history.sends)
        keys = (None if key is None else key.encode(),)
        send = Send(number, "client", PARTITION, (value.encode(),), keys, -1, begun_s, first_incarnation=incarnation)
        if offset >= 0:
            send.outcome, send.base_offset = Outcome.ACKNOWLEDGED, offset
            send.ended_s, send.incarnation = ended_s, incarnation
        self.history.sends.append(send)
        return send

    def refuse_sequence(self, send: Send, *, incarnation: int = 1, node_id: int = -1) -> None:
        error = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        self.history.sequence_gaps.append(SequenceGap(send, error, incarnation, *self._pass(), node_id))

    def read(
        self,
        values: str,
        offset: int = 0,
        *,
        high_watermark: int = 100,
        start: int = 0,
        incarnation: int = 1,
        error: ErrorCode = ErrorCode.NONE,
        is_alone: bool = False,
    ) -> None:
        """Values are letters; a dot is an offset without a record."""
        begun_s, ended_s = self._pass()
        records = tuple(Seen(offset + at, 0, one.encode()) for at, one in enumerate(values) if one != ".")
        self.history.reads.append(
            Read(
                "reader",
                PARTITION,
                incarnation,
                begun_s,
                ended_s,
                offset,
                error,
                high_watermark,
                start,
                records,
                offset + len(values),
                is_alone,
            )
        )

    def end(self, values: str, start: int = 0, *, incarnation: int = 1, end: int | None = None) -> None:
        records = [Seen(start + at, 1_000 + at, one.encode()) for at, one in enumerate(values) if one != "."]
        high_watermark = start + len(values) if end is None else end
        _, read_s = self._pass()
        self.history.final[PARTITION] = FinalLog(start, high_watermark, incarnation, records, read_s)

    def found(self) -> set[str]:
        return {violation.invariant for violation in violations(self.history)}


def test_a_valid_history_violates_nothing() -> None:
    story = Story()
    story.send("a", 0)
    story.read("a", high_watermark=1, is_alone=True)
    story.send("b")
    story.send("c", 2)
    story.read("abc", high_watermark=3)
    story.end("abc")
    assert story.found() == set()


def test_an_acknowledged_record_that_is_gone_is_found() -> None:
    story = Story()
    story.send("a", 0)
    story.send("b", 1)
    story.end("a")
    assert story.found() == {"nothing acknowledged is lost"}


def test_a_record_that_was_read_and_is_gone_is_found() -> None:
    story = Story()
    story.send("a")
    story.read("a", high_watermark=1)
    story.end("")
    assert story.found() == {"records that were read stay"}


def test_a_record_that_comes_after_the_last_reading_of_a_log_is_not_missed_in_it() -> None:
    story = Story()
    story.send("a")
    story.send("b")
    story.end("a")
    story.read("ab", high_watermark=2)
    assert story.found() == set()


def test_with_the_defaults_a_power_loss_may_take_the_end_of_a_log_and_nothing_else() -> None:
    def story_of(final: str) -> Story:
        story = Story(Promise.PREFIX)
        story.send("a", 0, incarnation=1)
        story.send("b", 1, incarnation=1)
        story.send("c", 2, incarnation=1)
        story.history.power_losses = [1]
        story.send("d", 1, incarnation=2)
        story.end(final, incarnation=2)
        return story

    assert story_of("ad").found() == set()
    assert story_of("adc").found() == {"a power loss takes the end of a log only"}
    assert "nothing acknowledged is lost" in story_of("a").found()


def test_a_process_that_is_killed_may_lose_nothing() -> None:
    story = Story(Promise.KILLS)
    story.send("a", 0, incarnation=1)
    story.send("b", 0, incarnation=2)
    story.end("b", incarnation=2)
    assert "an offset keeps its record" in story.found()


def test_two_records_at_one_offset_are_found() -> None:
    story = Story()
    story.send("a", 0)
    story.send("b")
    story.read("b", high_watermark=1)
    story.end("a")
    assert story.found() == {"an offset keeps its record"}


def test_an_unsent_record_is_found() -> None:
    story = Story()
    story.read("z", high_watermark=1)
    story.end("z")
    assert story.found() == {"only sent records are read"}


def test_a_gap_is_found() -> None:
    story = Story()
    story.send("a")
    story.send("b")
    story.read("a.b", high_watermark=3)
    story.end("a.b")
    assert story.found() == {"a read has no gap", "a log has no gap"}


def test_a_reordered_send_is_found() -> None:
    story = Story()
    story.send("b", 1)
    story.send("a", 0)
    story.end("ab")
    assert story.found() == {"later sends have higher offsets"}


def test_a_batch_that_is_duplicated_is_found() -> None:
    story = Story()
    story.send("a", 0)
    story.read("aa", high_watermark=2)
    story.end("aa")
    assert story.found() == {"a batch is appended once", "a batch is read at one place"}


def test_a_batch_that_is_partly_written_is_found() -> None:
    story = Story()
    send = story.send("a")
    send.values, send.keys = (b"a", b"b"), (None, None)
    story.end("a")
    assert story.found() == {"a batch is there as a whole"}


def test_sequences_out_of_order_are_found() -> None:
    story = Story()
    for sequence, value in enumerate("ab"):
        send = story.send(value)
        send.producer_id, send.sequence = 7, sequence
    story.end("ba")
    assert story.found() == {"a producer's batches keep their order"}


def test_a_sequence_that_is_refused_without_an_excuse_is_found() -> None:
    def story_of(final: str, incarnation: int) -> Story:
        story = Story()
        send = story.send("a")
        send.producer_id, send.sequence = 7, 0
        story.refuse_sequence(send, incarnation=incarnation)
        story.end(final)
        return story

    invariant = {"producer state has all acknowledged batches"}
    assert story_of("", incarnation=2).found() == invariant
    assert story_of("a", incarnation=1).found() == invariant
    assert story_of("a", incarnation=2).found() == set()


def test_a_first_sequence_may_be_refused_once_one_behind_it_was_appended_in_its_place() -> None:
    def story_of(final: str, refused: int) -> Story:
        story = Story()
        sends = [story.send(value) for value in "abc"]
        for sequence, send in enumerate(sends):
            send.producer_id, send.sequence = 7, sequence
        story.refuse_sequence(sends[refused])
        story.end(final)
        return story

    invariant = {"producer state has all acknowledged batches"}
    assert story_of("bc", refused=0).found() == set()
    assert story_of("", refused=0).found() == invariant
    assert story_of("c", refused=1).found() == invariant


def test_a_deposed_leader_may_refuse_a_sequence_when_it_has_missed_those_before() -> None:
    def story_of(*leaders: int, answering: int, acknowledged_by: int) -> Story:
        """Each of the leaders in turn; `acknowledged_by` acknowledges the batch before the refused one."""
        story = Story()
        for leader in leaders:
            story.lead(leader)
            if leader == acknowledged_by:
                send = story.send("a", 0)
                send.producer_id, send.sequence = 7, 0
        send = story.send("b")
        send.producer_id, send.sequence = 7, 1
        story.refuse_sequence(send, node_id=answering)
        story.end("a")
        return story

    invariant = {"producer state has all acknowledged batches"}
    assert story_of(1, 2, answering=1, acknowledged_by=2).found() == set()
    # It leads, it leads again, or it has acknowledged the previous batch itself.
    assert story_of(1, 2, answering=2, acknowledged_by=1).found() == invariant
    assert story_of(1, 2, 1, answering=1, acknowledged_by=2).found() == invariant
    assert story_of(1, 2, answering=1, acknowledged_by=1).found() == invariant


def test_a_refused_but_appended_batch_is_found() -> None:
    story = Story()
    story.send("a").outcome = Outcome.REFUSED
    story.end("a")
    assert story.found() == {"refused batches are not appended"}


def test_a_read_past_the_high_watermark_or_without_available_data_is_found() -> None:
    story = Story()
    story.send("a")
    story.read("a", high_watermark=0)
    story.end("a")
    assert story.found() == {"nothing is read past the high watermark"}
    story = Story()
    story.send("a")
    story.read("", high_watermark=1, is_alone=True)
    story.end("a")
    assert story.found() == {"existing records can be read"}


def test_an_existing_offset_reported_as_out_of_range_is_found() -> None:
    story = Story()
    story.send("a", 0)
    story.read("", 1, error=ErrorCode.OFFSET_OUT_OF_RANGE)
    story.end("a")
    assert story.found() == {"an offset that was there is in range"}


def test_watermarks_that_go_back_are_found_within_an_incarnation() -> None:
    story = Story()
    story.send("a", 0)
    story.read("", high_watermark=1, start=1, offset=1)
    story.read("", high_watermark=0)
    story.read("", high_watermark=0, incarnation=2)
    story.end("a")
    assert story.found() == {"the high watermark never goes back", "the log start never goes back"}


def test_an_acknowledged_record_is_behind_the_high_watermark() -> None:
    story = Story()
    story.send("a", 0)
    begun_s, ended_s = story._pass()
    story.history.listed.append(Listed(PARTITION, 1, begun_s, ended_s, -1, 0, -1))
    story.end("a")
    assert story.found() == {"the high watermark never goes back"}


def test_unrequested_and_undone_deletions_are_found() -> None:
    story = Story()
    story.send("a", 0)
    story.send("b")
    story.end("b", start=1)
    assert story.found() == {"records are deleted only on request", "nothing is deleted before its time"}
    story = Story()
    story.send("a", 0)
    story.history.deletions.append(Deletion(PARTITION, 1, 3.0, low_watermark=1, incarnation=1, ended_s=4.0))
    story.end("a")
    assert story.found() == {"deleted records stay deleted"}


def test_premature_retention_is_found() -> None:
    def story_of(seconds_later: float) -> Story:
        story = Story()
        story.history.retention_s = 10.0
        story.send("a", 0)
        story._now_s += seconds_later
        story.send("b")
        story.end("b", start=1)
        return story

    assert story_of(20).found() == set()
    assert story_of(5).found() == {"nothing is deleted before its time"}


def test_the_last_record_of_a_key_that_is_gone_is_found() -> None:
    def story_of(final: str) -> Story:
        story = Story()
        story.history.compacted.add(PARTITION[0])
        story.send("a", 0, key="x")
        story.send("b", 1, key="x")
        story.send("c", 2, key="y")
        story.end(final)
        return story

    assert story_of(".bc").found() == set()
    assert story_of("a.c").found() == {"the last record of a key stays"}
    assert story_of(".b.").found() == {"the last record of a key stays"}


def test_a_timestamp_that_finds_another_record_is_found() -> None:
    story = Story()
    for value in "abc":
        story.send(value)
    story.end("abc")
    story.history.looked_up = [(PARTITION, 1_001, 1, 1_001), (PARTITION, 1_003, -1, -1)]
    assert story.found() == set()
    story.history.looked_up = [(PARTITION, 1_001, 2, 1_002)]
    assert story.found() == {"a timestamp finds the first record that is not older"}


def test_changed_topics_and_settings_are_found() -> None:
    story = Story()
    story.history.topics = {"kept": "id", "lost": "id", "made anew": "id"}
    story.history.final_topics = {"kept": "id", "made anew": "other"}
    story.history.settings.done("a", "1")
    story.history.settings.done("b", "1")
    story.history.settings.forget("b")
    story.history.found_settings = {"a": "2", "b": "2"}
    found = [str(violation) for violation in violations(story.history)]
    assert found == [
        "a topic that is there stays: lost has id id, and in the end None",
        "a topic that is there stays: made anew has id id, and in the end other",
        "settings persist: a is 2, and was 1",
    ]
