"""The checks of groups: each finds what it is for in a history made by hand."""

from cordwood.sim.checks import violations
from cordwood.sim.histories.groups import Commit, CommitOutcome, OffsetRead, Tenure
from cordwood.sim.histories.history import History, Promise

PARTITION = ("topic", 0)
GROUP = "group"
INFINITY = float("inf")


class Story:
    """One group, one partition."""

    def __init__(self) -> None:
        self.history = History(Promise.DURABLE)

    def tenure(self, owner: str, begun_s: float, ended_s: float, generation: int = -1) -> int:
        number = len(self.history.groups.tenures)
        self.history.groups.tenures.append(
            Tenure(number, GROUP, PARTITION, owner, generation, begun_s, ended_s),
        )
        return number

    def commit(
        self,
        offset: int,
        begun_s: float,
        ended_s: float = INFINITY,
        *,
        tenure: int = -1,
        outcome: CommitOutcome | None = None,
        transaction: int = -1,
    ) -> str:
        """Acknowledged, if it has ended; its metadata."""
        number = len(self.history.groups.commits)
        if outcome is None:
            outcome = CommitOutcome.ACKNOWLEDGED if ended_s < INFINITY else CommitOutcome.UNKNOWN
        self.history.groups.commits.append(
            Commit(
                number,
                "member",
                GROUP,
                PARTITION,
                offset,
                tenure,
                begun_s,
                ended_s,
                outcome,
                transaction=transaction,
                asked_s=begun_s,
            )
        )
        return str(number)

    def told(self, offset: int, metadata: str, begun_s: float, *, require_stable: bool = False) -> None:
        self.history.groups.offset_reads.append(
            OffsetRead("reader", GROUP, PARTITION, begun_s, begun_s + 0.5, offset, metadata, require_stable)
        )

    def found(self) -> set[str]:
        return {violation.invariant for violation in violations(self.history)}


def test_a_valid_group_violates_nothing() -> None:
    story = Story()
    first = story.tenure("a", 1, 4, generation=1)
    story.told(-1, "", 1)
    commit = story.commit(5, 2, 3, tenure=first)
    second = story.tenure("b", 4, 9, generation=2)
    story.told(5, commit, 5)
    story.told(7, story.commit(7, 6, 7, tenure=second), 8)
    assert story.found() == set()


def test_two_owners_at_a_time_are_found() -> None:
    def story_of(other: str) -> Story:
        story = Story()
        story.tenure("a", 1, 4)
        story.tenure(other, 3, 5)
        return story

    assert story_of("b").found() == {"a partition has one owner at a time"}
    assert story_of("a").found() == set(), "a static member that was started again"


def test_a_possibly_expired_member_owns_nothing() -> None:
    story = Story()
    story.tenure("a", 3, 2)
    story.tenure("b", 1, 4)
    assert story.found() == set()


def test_two_owners_in_a_generation_are_found_however_far_apart() -> None:
    story = Story()
    story.tenure("a", 1, 2, generation=7)
    story.tenure("b", 5, 6, generation=7)
    assert story.found() == {"a partition has one owner in a generation"}


def test_a_committed_offset_that_goes_back_is_found() -> None:
    story = Story()
    before = story.commit(5, 1, 2)
    story.commit(8, 3, 4)
    story.told(5, before, 6)
    assert story.found() == {"committed offsets never go back"}


def test_a_commit_that_is_lost_is_found() -> None:
    story = Story()
    story.commit(5, 1, 2)
    story.told(-1, "", 3)
    assert story.found() == {"committed offsets never go back"}


def test_an_older_commit_in_place_of_the_last_is_found_also_if_its_offset_is_higher() -> None:
    story = Story()
    before = story.commit(8, 1, 2)
    story.commit(5, 3, 4)
    story.told(8, before, 6)
    assert story.found() == {"the last commit wins"}


def test_offsets_reported_to_others_are_known() -> None:
    story = Story()
    before = story.commit(5, 1, 2)
    story.told(8, story.commit(8, 3), 4)
    story.told(5, before, 6)
    assert story.found() == {"committed offsets never go back"}


def test_an_unanswered_commit_may_take_effect_late() -> None:
    story = Story()
    tenure = story.tenure("a", 0, 9)
    unanswered = story.commit(5, 1, tenure=tenure)
    story.commit(8, 3, 4, tenure=tenure)
    story.told(5, unanswered, 6)
    assert story.found() == set()


def test_but_not_once_the_partition_is_in_other_hands() -> None:
    story = Story()
    unanswered = story.commit(5, 1, tenure=story.tenure("a", 0, 2))
    story.commit(8, 3, 4, tenure=story.tenure("b", 2, 9))
    story.told(5, unanswered, 6)
    assert story.found() == {"committed offsets never go back"}


def test_a_commit_of_a_former_owner_that_is_acknowledged_is_found() -> None:
    story = Story()
    zombie = story.tenure("a", 0, 2)
    story.tenure("b", 2, 9)
    story.commit(5, 3, 4, tenure=zombie)
    assert story.found() == {"only owners commit"}


def test_altered_committed_offsets_are_found() -> None:
    story = Story()
    story.told(5, "made up", 1)
    assert story.found() == {"a committed offset is unchanged"}
    story = Story()
    story.told(6, story.commit(5, 1, 2), 3)
    assert story.found() == {"a committed offset is unchanged"}
    story = Story()
    story.told(5, story.commit(5, 1, 2, outcome=CommitOutcome.REFUSED), 3)
    assert story.found() == {"refused commits have no effect"}
    story = Story()
    story.told(5, story.commit(5, 4), 1)
    assert story.found() == {"offsets are visible only after their commit"}


def test_require_stable_waits_for_pending_offsets() -> None:
    def story_of(*, require_stable: bool) -> Story:
        story = Story()
        before = story.commit(5, 1, 2)
        story.commit(8, 3, 4, transaction=1)
        story.told(5, before, 6, require_stable=require_stable)
        return story

    assert story_of(require_stable=True).found() == {"committed offsets never go back"}
    assert story_of(require_stable=False).found() == set()


def test_an_unassigned_partition_at_the_end_is_found() -> None:
    story = Story()
    story.history.groups.left_over = ["group: topic-0"]
    assert story.found() == {"a group that is left alone shares out everything"}
