"""Enums with the numbers that brokers use."""

from enum import IntEnum
from typing import Self


class BrokerEnum(IntEnum):
    """An enum with an UNKNOWN, for values of newer brokers."""

    @classmethod
    def of(cls, number: int) -> Self:
        return cls(number) if number in cls._value2member_map_ else cls["UNKNOWN"]
