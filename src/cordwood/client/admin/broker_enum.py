"""Kinds of things as brokers number them."""

from enum import IntEnum
from typing import Self


class BrokerEnum(IntEnum):
    """One that has an UNKNOWN, for what newer brokers make up."""

    @classmethod
    def of(cls, number: int) -> Self:
        return cls(number) if number in cls._value2member_map_ else cls["UNKNOWN"]
