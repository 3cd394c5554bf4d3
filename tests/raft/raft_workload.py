"""Faults and clients at random, then a quorum that has to recover."""

import logging
import sys
from collections.abc import Callable
from functools import partial

from cordwood.raft.config import QuorumConfig
from cordwood.raft.states import Leader, State, Unattached
from cordwood.runtime.randomness import SeededRandom
from cordwood.wire.messages.add_raft_voter import AddRaftVoterRequest, Listener
from cordwood.wire.messages.remove_raft_voter import RemoveRaftVoterRequest
from tests.raft.raft_sim import CLUSTER_ID, LISTENER, Host, Violation, World

FAULTS_MS = 20_000
HEALING_MS = 30_000


def simulate(seed: int, voters: int, trace: Callable[[str], None] | None = None) -> World:
    """One run. Raises `Violation` if the quorum breaks a promise."""
    choices = SeededRandom(seed * 7919 + voters)
    # Small pieces, so that a follower can hold part of an epoch; a quick election, so that there are many.
    config = QuorumConfig(
        # Sometimes hardly longer than a message takes: several candidates in one epoch.
        election_timeout_ms=choices.below(400) + 100 if choices.below(2) else choices.below(40) + 20,
        fetch_timeout_ms=choices.below(700) + 300,
        election_backoff_max_ms=200,
        request_timeout_ms=choices.below(700) + 100,
        fetch_max_bytes=1 if choices.below(2) else 1 << 20,
        fetch_snapshot_max_bytes=64,
        fetch_max_wait_ms=choices.below(200) + 10,
        auto_join_enable=choices.below(4) == 0,
    )
    is_dynamic = choices.below(4) > 0
    world = World(seed, voters, observer_count=2, is_dynamic=is_dynamic, config=config, trace=trace)
    world.loss = choices.below(2) * (choices.below(50) + 3)
    world.duplication = choices.below(2) * (choices.below(20) + 2)
    world.crash_within_effects = choices.below(2) * (choices.below(2000) + 200)
    world.longest_delay_ms = choices.below(60) + 2
    end = world.now + FAULTS_MS
    while world.now < end:
        _disturb(world, choices)
        world.run(choices.below(choices.below(800) + 20) + 1)
    recover(world)
    return world


def _disturb(world: World, choices: SeededRandom) -> None:
    hosts = list(world.hosts.values())
    host, leader = hosts[choices.below(len(hosts))], world.leader()
    match choices.below(20):
        case 0:
            _crash(world, choices, host)
        case 1:
            _crash(world, choices, leader or host)
        case 2:
            for each in hosts:
                if choices.below(2):
                    _crash(world, choices, each)
        case 13:
            # Power is lost everywhere, right after a decision was acknowledged.
            if leader is not None:
                proposal_id = world.propose(leader)
                world.run(300, until=lambda: proposal_id in world.acknowledged)
            for each in hosts:
                _crash(world, choices, each)
        case 12:
            # Elections begin again, and whoever has just voted comes back at once.
            if leader is not None:
                _crash(world, choices, leader)
            for _ in range(60):
                world.run(choices.below(10) + 1)
                for each in hosts:
                    if each.machine is not None and _has_voted_for_another(each.machine.state):
                        world.crash(each)
                        world.start(each)
        case 3:
            world.cut = _partition(choices, hosts)
        case 4:
            world.cut |= {(host.id, other.id) for other in hosts}
        case 5:
            world.cut |= {(other.id, (leader or host).id) for other in hosts}
        case 6 | 7 | 8:
            world.cut = set()
        case 9:
            world.stop(leader or host)
        case 10:
            world.take_snapshot(host)
        case 11 if leader is not None and world.is_dynamic:
            _change_voters(world, choices, leader)
        case _:
            for each in hosts:
                if each.machine is not None and isinstance(each.machine.state, Leader):
                    world.propose(each)


def _has_voted_for_another(state: State) -> bool:
    return isinstance(state, Unattached) and state.voted_key is not None


def _crash(world: World, choices: SeededRandom, host: Host) -> None:
    world.crash(host)
    world.later(choices.below(3000), lambda: world.restart(host))


def _partition(choices: SeededRandom, hosts: list[Host]) -> set[tuple[int, int]]:
    one_side = {host.id for host in hosts if choices.below(2)}
    is_one_way = choices.below(3) == 0
    pairs = {(a.id, b.id) for a in hosts for b in hosts if (a.id in one_side) != (b.id in one_side)}
    return {(a, b) for a, b in pairs if not is_one_way or a in one_side}


def _change_voters(world: World, choices: SeededRandom, leader: Host) -> None:
    assert leader.machine is not None
    voters = leader.machine.voters
    host = list(world.hosts.values())[choices.below(len(world.hosts))]
    key = host.local.key
    if voters.is_voter(key):
        if len(voters) > 1:
            request = RemoveRaftVoterRequest(
                cluster_id=CLUSTER_ID, voter_id=key.id, voter_directory_id=key.directory_id
            )
            world.ask(leader, request)
    elif host.can_become_voter:
        address = host.local.endpoints[LISTENER]
        world.ask(
            leader,
            AddRaftVoterRequest(
                cluster_id=CLUSTER_ID,
                timeout_ms=1000,
                voter_id=key.id,
                voter_directory_id=key.directory_id,
                listeners=[Listener(name=LISTENER, host=address.host, port=address.port)],
            ),
        )


def recover(world: World) -> None:
    """Heals everything, and checks that the quorum works again and has lost nothing."""
    world.cut, world.loss, world.duplication, world.crash_within_effects = set(), 0, 0, 0
    world.longest_delay_ms = 2
    for host in world.hosts.values():
        if host.machine is None:
            world.later(0, partial(world.restart, host))
    if not world.run(HEALING_MS, until=lambda: world.leader() is not None):
        raise Violation("no leader is elected after healing")
    for _ in range(HEALING_MS // 1000):
        leader = world.leader()
        proposal_id = world.propose(leader) if leader is not None else 0
        if world.run(1000, until=lambda proposal_id=proposal_id: proposal_id in world.acknowledged):  # type: ignore[misc]
            break
    else:
        raise Violation("nothing is committed after healing")
    end = world.judge.high_watermark
    if not world.run(HEALING_MS, until=lambda: all(host.applied >= end for host in world.hosts.values())):
        lagging = {host.id: host.applied for host in world.hosts.values()}
        raise Violation(f"not every replica gets to {end} after healing: {lagging}")
    world.judge.compare_logs(list(world.hosts.values()))
    leader = world.leader()
    if leader is None:
        raise Violation("the leader is lost without a reason")
    world.judge.became_leader(leader)
    _find_acknowledged(world, leader)


def _find_acknowledged(world: World, leader: Host) -> None:
    for offset in world.acknowledged.values():
        if offset >= leader.log.end_offset:
            raise Violation(f"an acknowledged record at offset {offset} is gone")


def main(arguments: list[str]) -> int:
    """`raft_workload.py FIRST LAST`: runs these seeds with 1, 3 and 5 voters, and names those that fail."""
    first, last = (int(argument) for argument in arguments)
    failed = 0
    for seed in range(first, last):
        for voters in (1, 3, 5):
            try:
                simulate(seed, voters)
            except Violation as violation:
                failed += 1
                print(f"seed {seed}, {voters} voters: {violation}", flush=True)
    print(f"{3 * (last - first)} runs, {failed} failed")
    return failed


if __name__ == "__main__":
    logging.disable()
    sys.exit(main(sys.argv[1:]))
