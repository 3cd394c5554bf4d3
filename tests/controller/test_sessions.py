"""When the session of a broker with the active controller ends, and what the controller knows of it until then."""

from __future__ import annotations

from cordwood.controller.sessions import BrokerSessions, Expired, Expiry
from cordwood.metadata.controller.brokers import Contact

TIMEOUT_MS, GRACE_MS = 9_000, 300
EPOCH = 17


def sessions() -> BrokerSessions:
    return BrokerSessions(TIMEOUT_MS, GRACE_MS)


def heard_at(now_ms: float, connection_id: int | None = 5) -> BrokerSessions:
    of_broker_1 = sessions()
    of_broker_1.heard(1, EPOCH, 20, connection_id, now_ms)
    return of_broker_1


def test_a_broker_that_is_silent_has_its_session_for_the_timeout() -> None:
    found = heard_at(1_000)
    assert found.next_end_ms == 1_000 + TIMEOUT_MS
    assert found.expired(1_000 + TIMEOUT_MS - 1) == []
    assert found.expired(1_000 + TIMEOUT_MS) == [Expired(1, EPOCH, Expiry.SILENT)]


def test_every_heartbeat_restarts_the_timeout() -> None:
    found = heard_at(1_000)
    found.heard(1, EPOCH, 20, 5, 3_000)
    assert found.next_end_ms == 3_000 + TIMEOUT_MS


def test_a_broker_whose_connection_breaks_has_the_grace() -> None:
    found = heard_at(1_000)
    found.disconnected(1, 5, 2_000)
    assert found.expired(2_000 + GRACE_MS - 1) == []
    assert found.expired(2_000 + GRACE_MS) == [Expired(1, EPOCH, Expiry.DISCONNECTED)]


def test_a_heartbeat_over_a_new_connection_cancels_the_grace() -> None:
    found = heard_at(1_000)
    found.disconnected(1, 5, 2_000)
    found.heard(1, EPOCH, 20, 6, 2_100)
    assert found.next_end_ms == 2_100 + TIMEOUT_MS


def test_the_end_of_a_connection_that_was_replaced_does_not_matter() -> None:
    found = heard_at(1_000)
    found.heard(1, EPOCH, 20, 6, 1_500)
    found.disconnected(1, 5, 2_000)
    assert found.next_end_ms == 1_500 + TIMEOUT_MS


def test_a_connection_that_breaks_when_the_timeout_is_near_does_not_extend_the_session() -> None:
    found = heard_at(1_000)
    found.disconnected(1, 5, 1_000 + TIMEOUT_MS - 1)
    assert found.expired(1_000 + TIMEOUT_MS) == [Expired(1, EPOCH, Expiry.SILENT)]


def test_the_sessions_that_ended_first_come_first() -> None:
    found = heard_at(1_000)
    found.heard(2, EPOCH, 20, 7, 500)
    assert [expired.broker_id for expired in found.expired(60_000)] == [2, 1]
    found.end(2)
    assert [expired.broker_id for expired in found.expired(60_000)] == [1]


def test_a_controller_that_was_suspended_extends_the_sessions_of_brokers() -> None:
    found = heard_at(1_000)
    found.forgive(20_000)
    assert found.next_end_ms == 21_000 + TIMEOUT_MS


def test_the_contact_with_a_broker_follows_the_connection_of_its_heartbeats() -> None:
    found = sessions()
    assert found.contact(1, EPOCH) is Contact.NONE
    found.begin(1, EPOCH, 0)
    assert found.contact(1, EPOCH) is Contact.OUT_OF_TOUCH, "a new controller has not heard of it yet"
    found.heard(1, EPOCH, 20, 5, 100)
    assert found.contact(1, EPOCH) is Contact.CONNECTED
    assert found.contact(1, EPOCH + 1) is Contact.NONE, "another incarnation"
    found.disconnected(1, 5, 200)
    assert found.contact(1, EPOCH) is Contact.OUT_OF_TOUCH
    found.end(1)
    assert found.contact(1, EPOCH) is Contact.NONE


def test_a_broker_in_the_same_process_is_connected_while_it_has_a_session() -> None:
    assert heard_at(1_000, connection_id=None).contact(1, EPOCH) is Contact.CONNECTED


def test_others_have_caught_up_with_a_shutdown_once_their_heartbeats_say_so() -> None:
    found = heard_at(1_000)
    found.heard(2, EPOCH, 24, 6, 1_000)
    found.heard(3, EPOCH, 30, 7, 1_000)
    assert not found.have_caught_up([2, 3], 1), "it has not begun to shut down"
    found.shutting_down(1, 25)
    assert not found.have_caught_up([2, 3], 1)
    assert found.have_caught_up([3], 1)
    found.heard(2, EPOCH, 25, 6, 2_000)
    assert found.have_caught_up([2, 3], 1)


def test_a_new_controller_waits_for_all_heartbeats_before_it_lets_a_broker_stop() -> None:
    found = sessions()
    found.begin(1, EPOCH, 0)
    found.begin(2, EPOCH, 0)
    found.shutting_down(1, 25)
    assert not found.have_caught_up([2], 1)


def test_a_broker_that_was_connected_and_refuses_connections_has_no_grace() -> None:
    found = heard_at(1_000)
    found.refused(1, EPOCH, 1_500)
    assert found.next_end_ms == 1_000 + TIMEOUT_MS, "its heartbeat connection stands"
    found.disconnected(1, 5, 2_000)
    found.refused(1, EPOCH, 2_010)
    assert found.expired(2_010) == [Expired(1, EPOCH, Expiry.REFUSED)]
    found.heard(1, EPOCH, 20, 6, 2_020)
    assert found.next_end_ms == 2_020 + TIMEOUT_MS


def test_a_broker_unreachable_for_a_new_controller_has_the_grace_period() -> None:
    found = sessions()
    found.begin(1, EPOCH, 0)
    found.refused(1, EPOCH, 100)
    found.refused(1, EPOCH, 200)
    assert found.expired(100 + GRACE_MS) == [Expired(1, EPOCH, Expiry.DISCONNECTED)]
    found.heard(1, EPOCH, 20, 5, 250)
    assert found.next_end_ms == 250 + TIMEOUT_MS
    found.refused(1, EPOCH, 300)
    assert found.next_end_ms == 250 + TIMEOUT_MS, "a heartbeat says more than a connection that is refused"
