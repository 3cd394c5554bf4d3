# The C types of column_input.py, for when it is compiled.

cimport cython
from libc.stdint cimport int32_t, int64_t

from cordwood.wire.hashing cimport Murmur2
from cordwood.wire.record_stream cimport RecordWriter


cdef int64_t MAX_VALUE_BYTES


@cython.final
cdef class BinaryInput:
    cdef readonly int64_t length
    cdef int64_t first
    cdef bint wide
    cdef int64_t stride
    cdef bint has_validity
    cdef int64_t size
    cdef int64_t start
    cdef const unsigned char[::1] validity_owner
    cdef const unsigned char[::1] offsets_owner
    cdef const unsigned char[::1] contents_owner
    cdef const int* offsets
    cdef const long long* wide_offsets
    cdef const unsigned char* contents
    cdef const unsigned char* validity

    @cython.locals(at=int64_t, end=int64_t, size=int64_t)
    cdef inline int64_t find(self, int64_t index) except? -2
    @cython.locals(index=int64_t, size=int64_t)
    cpdef list listed(self)


@cython.final
cdef class NumberInput:
    cdef readonly int64_t length
    cdef int64_t first
    cdef bint has_validity
    cdef int64_t null_value
    cdef const unsigned char[::1] validity_owner
    cdef const unsigned char[::1] numbers_owner
    cdef const long long* numbers
    cdef const unsigned char* validity

    @cython.locals(at=int64_t, number=int64_t, is_null=bint)
    cdef inline int64_t get(self, int64_t index) noexcept


@cython.locals(hasher=Murmur2, index=int64_t, size=int64_t)
cdef int _hash_all(BinaryInput keys, int* partitions, int64_t partition_count, int null_partition) except -1


@cython.final
cdef class HeaderInput:
    cdef NumberInput starts
    cdef BinaryInput keys
    cdef BinaryInput values
    cdef int64_t total
    cdef readonly int64_t record_count

    cdef inline int64_t first(self, int64_t index) noexcept
    cdef inline int64_t end(self, int64_t index) noexcept


@cython.final
cdef class RowOrder:
    cdef readonly int64_t count
    cdef readonly list starts
    cdef bytearray row_bytes
    cdef long long* rows

    @cython.locals(starts=list, following=list, partition_count=int64_t, partition=int, row=int64_t, position=int64_t)
    cdef int sort(self, const int[::1] partitions) except -1


@cython.locals(
    base_timestamp=int64_t,
    index=int64_t,
    row=int64_t,
    timestamp=int64_t,
    key_size=int64_t,
    value_size=int64_t,
    headers_size=int64_t,
    size=int64_t,
)
cdef _fill(
    RecordWriter writer,
    int64_t start,
    int64_t end,
    RowOrder order,
    BinaryInput keys,
    BinaryInput values,
    NumberInput timestamps,
    HeaderInput headers,
    int64_t max_batch_bytes,
)
@cython.locals(first=int64_t, end=int64_t, size=int64_t, at=int64_t, key_size=int64_t)
cdef int64_t _headers_size(RecordWriter writer, HeaderInput headers, int64_t index) except -1
@cython.locals(first=int64_t, end=int64_t, size=int64_t, at=int64_t)
cdef int _write_headers(RecordWriter writer, HeaderInput headers, int64_t index) except -1
