# The C types of records.py, for when it is compiled.

cimport cython
from libc.stdint cimport int64_t

from cordwood.wire.record_stream cimport RecordCursor, RecordWriter


@cython.final
cdef class BatchReader:
    cdef RecordCursor cursor
    cdef object topic
    cdef object partition
    cdef int64_t start_offset
    cdef object leader_epoch
    cdef object timestamp_type
    cdef readonly int64_t left
    cdef public int64_t next_offset

    @cython.locals(cursor=RecordCursor, taken=Py_ssize_t)
    cpdef list take(self, Py_ssize_t most)


cdef RecordCursor _cursor(data, position, header, limit)
cdef list _decoded(RecordCursor cursor)
cdef list _keys(RecordCursor cursor)
@cython.locals(index=Py_ssize_t)
cdef _retain(RecordWriter writer, RecordCursor cursor, const unsigned char[::1] retained, base_timestamp)
