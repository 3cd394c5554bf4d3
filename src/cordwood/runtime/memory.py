"""What the process does with memory that it is through with."""

import ctypes

# glibc's mallopt(3).
_TRIM_THRESHOLD = -1
_MMAP_THRESHOLD = -3
# Above what a request usually holds, so that those are not mapped anew each time: that would cost a page fault for
# every 4 KiB of them.
_LARGE_BYTES = 8 << 20


def give_large_blocks_back() -> None:
    """Blocks this large go back to the operating system when they are freed, and so does a heap's free end.

    By itself glibc keeps up to twice 32 MiB once it has seen such blocks: a few batches that swell when they are
    decompressed left a node with twice its memory. Elsewhere than on glibc nothing happens.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, _LARGE_BYTES)
        mallopt(_TRIM_THRESHOLD, 2 * _LARGE_BYTES)
