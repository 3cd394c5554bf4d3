# The C types of offset_map.py, for when it is compiled.

cimport cython
from libc.stdint cimport int64_t, uint64_t


@cython.final
cdef class OffsetMap:
    cdef readonly uint64_t slots
    cdef readonly Py_ssize_t capacity
    cdef readonly Py_ssize_t count
    cdef uint64_t[::1] _words
    cdef uint64_t _first
    cdef uint64_t _second

    @cython.locals(offset=int64_t, at=Py_ssize_t)
    cpdef bint put_all(self, keys, int64_t first_offset) except -1
    @cython.locals(retained=bytearray, offset=int64_t, keyless=Py_ssize_t, index=Py_ssize_t)
    cpdef tuple retain(self, keys, int64_t end_offset, bint keep_tombstones)
    @cython.locals(slot=uint64_t, step=uint64_t, at=Py_ssize_t)
    cdef Py_ssize_t _find(self, bytes key) except -1
