# The C types of deliveries.py, for when it is compiled.

cimport cython
from libc.stdint cimport int64_t


@cython.final
@cython.freelist(64)
cdef class Delivery:
    cdef readonly object outcome
    cdef readonly int64_t index
    cdef readonly int64_t timestamp_ms
    cdef readonly int64_t key_size
    cdef readonly int64_t value_size
