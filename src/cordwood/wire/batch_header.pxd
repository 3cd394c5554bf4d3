# The C types of batch_header.py, for when it is compiled.

cimport cython
from libc.stdint cimport int32_t, int64_t, uint32_t


@cython.final
cdef class BatchHeader:
    cdef readonly int64_t base_offset
    cdef readonly int64_t size
    cdef readonly int32_t leader_epoch
    cdef readonly int magic
    cdef readonly uint32_t crc
    cdef readonly int attributes
    cdef readonly int32_t last_offset_delta
    cdef readonly int64_t base_timestamp
    cdef readonly int64_t max_timestamp
    cdef readonly int64_t producer_id
    cdef readonly int producer_epoch
    cdef readonly int32_t base_sequence
    cdef readonly int32_t count


cdef int MAGIC_POSITION
cpdef BatchHeader stamp_known(data, BatchHeader header, int64_t base_offset, int32_t leader_epoch)
cdef BatchHeader _header_at(data, Py_ssize_t position, bint whole)
@cython.locals(header=BatchHeader, magic=int, remaining=int64_t, size=int64_t)
cdef BatchHeader _parse(const unsigned char* data, Py_ssize_t length, Py_ssize_t position, bint whole)
cdef void _fill(BatchHeader header, const unsigned char* data, Py_ssize_t position) noexcept
cdef void _fill_legacy(BatchHeader header, const unsigned char* data, Py_ssize_t position) noexcept
cdef int64_t _int16(const unsigned char* data, Py_ssize_t position) noexcept
@cython.locals(number=uint32_t)
cdef int64_t _int32(const unsigned char* data, Py_ssize_t position) noexcept
cdef int64_t _int64(const unsigned char* data, Py_ssize_t position) noexcept
