# The C types of record_text.py, for when it is compiled.

cimport cython
from libc.stdint cimport int64_t

from cordwood.wire.record_stream cimport RecordCursor
from cordwood.wire.records cimport BatchReader


cdef int LITERAL
cdef int TOPIC
cdef int PARTITION
cdef int OFFSET
cdef int TIMESTAMP
cdef int TIME
cdef int KEY
cdef int VALUE
cdef int HEADERS
cdef int KEY_SIZE
cdef int VALUE_SIZE
cdef int JSON_TOPIC
cdef int JSON_TIMESTAMP
cdef int JSON_KEY
cdef int JSON_VALUE
cdef int JSON_HEADERS
cdef int64_t LONGEST_ESCAPE
cdef bytes HEX_DIGITS


@cython.final
cdef class RecordText:
    cdef bytes fields
    cdef list literals
    cdef bytes null
    cdef bytes topic
    cdef bytes json_topic
    cdef int64_t partition
    cdef bytearray buffer
    cdef bytearray escape_bytes
    cdef const unsigned char* escapes
    cdef unsigned char* data
    cdef Py_ssize_t position
    cdef Py_ssize_t capacity

    @cython.locals(cursor=RecordCursor, written=Py_ssize_t)
    cpdef Py_ssize_t read(self, BatchReader reader, Py_ssize_t most, int64_t end_offset) except -1
    @cython.locals(index=Py_ssize_t, field=int)
    cdef int add(self, RecordCursor cursor) except -1
    cdef inline int reserve(self, Py_ssize_t size) except -1
    @cython.locals(size=Py_ssize_t)
    cdef inline int put(self, bytes contents) except -1
    cdef inline int put_field(self, RecordCursor cursor, Py_ssize_t start, int64_t size) except -1
    @cython.locals(rest="unsigned long long", power="unsigned long long", digits=int, at=Py_ssize_t)
    cdef int put_number(self, int64_t number) except -1
    cdef int put_headers(self, RecordCursor cursor) except -1
    @cython.locals(resume=Py_ssize_t, index=int64_t, size=int64_t, start=Py_ssize_t)
    cdef int put_json_headers(self, RecordCursor cursor) except -1
    @cython.locals(before=Py_ssize_t)
    cdef int put_member(self, bytes name, RecordCursor cursor, Py_ssize_t start, int64_t size) except -1
    @cython.locals(written=Py_ssize_t)
    cdef bint put_json_text(self, RecordCursor cursor, Py_ssize_t start, int64_t size) except -1
    @cython.locals(at=Py_ssize_t, written=Py_ssize_t, byte="unsigned char", letter="unsigned char", length=Py_ssize_t)
    cdef Py_ssize_t escape(self, const unsigned char* source, Py_ssize_t size, unsigned char* target) except -1


@cython.locals(first="unsigned char", second="unsigned char", length=Py_ssize_t, index=Py_ssize_t)
cdef Py_ssize_t character_size(const unsigned char* source, Py_ssize_t size) noexcept
