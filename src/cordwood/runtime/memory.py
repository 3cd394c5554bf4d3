"""Returns freed memory to the operating system."""

import ctypes

# glibc's mallopt(3).
_TRIM_THRESHOLD = -1
_MMAP_THRESHOLD = -3
# Above the usual size of requests, so that those are not mapped again each time: that would cost a page fault per 4
# KiB.
_LARGE_BYTES = 8 << 20


def give_large_blocks_back() -> None:
    """Makes malloc return blocks of this size, and the free end of the heap, to the operating system when freed.

    By default glibc keeps up to twice 32 MiB once it has seen such blocks: a few batches that grow when decompressed
    doubled a node's memory. Does nothing without glibc.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, _LARGE_BYTES)
        mallopt(_TRIM_THRESHOLD, 2 * _LARGE_BYTES)


def give_free_memory_back() -> None:
    """Returns what is free within the heap to the operating system, once: a start needs much for a moment only. Does
    nothing without glibc."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
