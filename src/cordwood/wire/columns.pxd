# The C types of columns.py, for when it is compiled.

cimport cython
from libc.stdint cimport int64_t

from cordwood.wire.record_stream cimport RecordCursor


cdef int64_t MAX_COLUMN_BYTES


@cython.final
cdef class ColumnSizes:
    cdef readonly int64_t start_offset
    cdef readonly int64_t count
    cdef readonly int64_t key_bytes
    cdef readonly int64_t value_bytes
    cdef readonly int64_t header_count
    cdef readonly int64_t header_bytes

    cdef int add(self, RecordCursor cursor) except -1


@cython.final
cdef class BinaryBuilder:
    cdef int64_t count
    cdef int64_t size
    cdef int64_t index
    cdef int64_t position
    cdef int64_t null_count
    cdef bytearray offset_bytes
    cdef bytearray content_bytes
    cdef bytearray validity_bytes
    cdef int* offsets
    cdef unsigned char* contents
    cdef unsigned char* validity

    cdef inline int append(self, RecordCursor cursor, Py_ssize_t start, int64_t size) except -1
    cdef column(self)


@cython.final
cdef class ColumnBuilder:
    cdef int64_t start_offset
    cdef int64_t count
    cdef int64_t index
    cdef bint with_headers
    cdef int64_t header_count
    cdef bytearray offset_bytes
    cdef bytearray timestamp_bytes
    cdef bytearray header_offset_bytes
    cdef long long* offsets
    cdef long long* timestamps
    cdef int* header_offsets
    cdef BinaryBuilder keys
    cdef BinaryBuilder values
    cdef BinaryBuilder header_keys
    cdef BinaryBuilder header_values

    cdef int add(self, RecordCursor cursor) except -1
    @cython.locals(size=int64_t)
    cdef int add_headers(self, RecordCursor cursor) except -1
    cdef columns(self)
