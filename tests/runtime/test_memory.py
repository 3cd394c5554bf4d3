"""Memory that is freed goes back to the operating system."""

import ctypes
import subprocess
import sys

import pytest

_CHILD = """
from cordwood.runtime.memory import give_large_blocks_back
from cordwood.runtime.process import process_usage

give_large_blocks_back()
before = process_usage().resident_bytes
for _ in range(3):
    # By the second time glibc has learnt that such blocks are usual, and would keep them.
    large = [b"x" * (20 << 20) for _ in range(3)]
    large = None
print(process_usage().resident_bytes - before)
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="not glibc")
def test_a_process_that_has_freed_large_blocks_does_not_hold_on_to_them() -> None:
    grown = int(subprocess.run([sys.executable, "-c", _CHILD], check=True, capture_output=True).stdout)
    assert grown < 20 << 20
