"""The states of a replica in an epoch, one class each.

    Unattached ──election timeout──► Prospective ──majority of pre-votes──► Candidate ──majority of votes──► Leader
        ▲  ▲                          │      ▲                                  │                              │
        │  └──────── pre-votes lost ──┘      └────────── votes lost, timeout ───┘                              │
        │                                    │                                                        resigns, │
    Follower ──fetch timeout─────────────────┘                        Resigned ◄── stops, majority not heard ──┘

Any state becomes Unattached when it learns of a higher epoch, and Follower when it learns of its leader. `Quorum`
(../quorum.py) has the transitions and asserts that they are legal. Kafka once had a state Voted; since 4.0 a vote is
a field (`voted_key`) of Unattached, Prospective and Follower.
"""

from .candidate import Candidate
from .follower import Follower
from .leader import Leader
from .prospective import Prospective
from .resigned import Resigned
from .unattached import Unattached

State = Unattached | Prospective | Candidate | Follower | Leader | Resigned

__all__ = ["Candidate", "Follower", "Leader", "Prospective", "Resigned", "State", "Unattached"]
