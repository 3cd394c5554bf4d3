"""Memory of a node's process: freed blocks go back to the operating system, and the garbage collector works rarely."""

import ctypes
import gc

# glibc's mallopt(3).
_TRIM_THRESHOLD = -1
_MMAP_THRESHOLD = -3
# Above the usual size of requests, so that those are not mapped again each time: that would cost a page fault per 4
# KiB.
_LARGE_BYTES = 8 << 20
# Of the three generations; Python's own are 700, 10 and 10.
_COLLECTION_THRESHOLDS = (20_000, 20, 20)


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


def collect_garbage_rarely() -> None:
    """Lets more objects come before the garbage collector looks for cycles.

    Nearly all objects of a node either end with their last reference or stay, as topics and partitions do. While topics
    are created, looking at those that stay took a fifth of the time, and more the more of them there are.
    """
    gc.set_threshold(*_COLLECTION_THRESHOLDS)


def keep_present_objects() -> None:
    """Takes everything that is there now, such as modules and the metadata, out of the garbage collector's sight."""
    gc.collect()
    gc.freeze()
