"""Counters of a controller since its node started, for its metrics."""

from dataclasses import dataclass


@dataclass(slots=True)
class ControllerCounts:
    activations: int = 0
    # Brokers that were fenced because their session ended.
    timed_out_brokers: int = 0
    # Partitions that got another leader, and how long each took from the decision until it was committed.
    elections: int = 0
    election_time_ms: float = 0.0
    unclean_elections: int = 0
    # Elections of replicas that were eligible and not in sync (KIP-966).
    elr_elections: int = 0
