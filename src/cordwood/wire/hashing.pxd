# The C types of hashing.py, for when it is compiled.

cimport cython
from libc.stdint cimport int64_t, uint32_t


cdef uint32_t MASK
cdef uint32_t MURMUR2_SEED
cdef uint32_t MURMUR2_FACTOR


@cython.final
cdef class Murmur2:
    @cython.locals(hashed=uint32_t, word=uint32_t, rest=Py_ssize_t, position=Py_ssize_t, end=Py_ssize_t)
    cdef uint32_t of(self, const unsigned char* data, Py_ssize_t start, Py_ssize_t length) noexcept


cdef Murmur2 _HASHER
cpdef int64_t partition_for_key(key, int64_t partition_count) except -1
@cython.locals(hashed=uint32_t)
cpdef int64_t murmur2(data) except? -1
cdef int64_t _signed(int64_t number) noexcept
