# The C types of record_stream.py, for when it is compiled.

cimport cython
from libc.stdint cimport int32_t, int64_t, uint64_t


cdef int64_t SMALLEST_RECORD_BYTES
cdef int64_t MAX_RECORD_BYTES
cdef int64_t MAX_BYTES_BEFORE_KEY
cdef int64_t PLAIN_RECORD_BYTES
cdef int64_t NOT_SHORT


@cython.final
cdef class RecordCursor:
    cdef const unsigned char[::1] owner
    cdef const unsigned char* data
    cdef Py_ssize_t position
    cdef Py_ssize_t end
    cdef Py_ssize_t count
    cdef Py_ssize_t index
    cdef int64_t base_offset
    cdef int64_t base_timestamp
    cdef bint is_log_append_time
    cdef int64_t offset_delta
    cdef int64_t offset
    cdef int64_t timestamp
    cdef Py_ssize_t key_field
    cdef Py_ssize_t key_start
    cdef int64_t key_size
    cdef Py_ssize_t value_start
    cdef int64_t value_size
    cdef int64_t header_count
    cdef Py_ssize_t headers_start
    cdef Py_ssize_t headers_end

    cdef inline int advance(self) except -1
    @cython.locals(size=int64_t, end=Py_ssize_t, timestamp_delta=int64_t)
    cdef int advance_fully(self) except -1
    @cython.locals(
        data="const unsigned char*",
        size=int64_t,
        position=Py_ssize_t,
        end=Py_ssize_t,
        timestamp_delta=int64_t,
        offset_delta=int64_t,
        key_field=Py_ssize_t,
        key_size=int64_t,
        key_start=Py_ssize_t,
        value_size=int64_t,
        value_start=Py_ssize_t,
    )
    cdef inline bint advance_plainly(self) noexcept
    @cython.locals(position=Py_ssize_t, value=uint64_t, byte=uint64_t, shift=int)
    cdef inline int64_t varint(self, Py_ssize_t end) except? -4611686018427387904
    @cython.locals(position=Py_ssize_t, value=uint64_t, byte=uint64_t, shift=int)
    cdef inline int64_t varlong(self, Py_ssize_t end) except? -4611686018427387904
    @cython.locals(start=Py_ssize_t)
    cdef inline Py_ssize_t skip(self, int64_t size, Py_ssize_t end) except -1
    @cython.locals(size=int64_t)
    cdef int skip_headers(self, Py_ssize_t end) except -1
    cdef int finish(self) except -1
    cdef bytes key(self)
    cdef bytes value(self)
    cdef bytes copied(self, Py_ssize_t start, int64_t size)
    @cython.locals(resume=Py_ssize_t, size=int64_t, start=Py_ssize_t)
    cdef tuple headers(self)


@cython.final
cdef class RecordWriter:
    cdef bytearray buffer
    cdef unsigned char* data
    cdef Py_ssize_t position
    cdef Py_ssize_t capacity
    cdef Py_ssize_t most
    cdef readonly int32_t count
    cdef readonly int64_t max_timestamp

    cdef int bound(self, Py_ssize_t most) except -1
    cdef int append(
        self, int64_t timestamp, int64_t base_timestamp, int64_t offset_delta, bytes key, bytes value, headers
    ) except -1
    @cython.locals(headers_size=int64_t)
    cdef int64_t rest_size(self, bytes key, bytes value, headers) except -1
    cdef int rest(self, bytes key, bytes value, headers) except -1
    @cython.locals(size=Py_ssize_t)
    cdef int append_rebased(self, RecordCursor cursor, int64_t base_timestamp) except -1
    @cython.locals(size=int64_t, timestamp_delta=int64_t)
    cdef int start(
        self, int64_t timestamp, int64_t base_timestamp, int64_t offset_delta, int64_t rest_size
    ) except -1
    cdef int reserve(self, Py_ssize_t size) except -1
    @cython.locals(rest=uint64_t)
    cdef inline int varint(self, int64_t value) except -1
    cdef inline int field(self, bytes contents) except -1
    cdef int copy(self, const unsigned char* source, Py_ssize_t start, Py_ssize_t size) except -1
    cdef int64_t size(self) noexcept
    cdef int64_t size_with(self, int64_t rest_size) except -1
    cdef int64_t varint_size(self, int64_t value) except -1
    cdef int64_t field_size(self, int64_t size) except -1
    cdef bytearray batch(self)


@cython.locals(rest=uint64_t, size=int64_t)
cdef int64_t varint_size(int64_t value) noexcept
cdef int64_t field_size_of(bytes contents) except -1
@cython.locals(low=int64_t, high=int64_t)
cdef int64_t short_number(const unsigned char* data, Py_ssize_t position, Py_ssize_t end) noexcept
cdef int64_t unzigzag(uint64_t value) noexcept
cdef int64_t wrapped(int64_t value) noexcept
