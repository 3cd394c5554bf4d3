# The C types of batch_builder.py, for when it is compiled.

cimport cython
from libc.stdint cimport int64_t

from cordwood.wire.record_stream cimport RecordWriter


@cython.final
cdef class BatchBuilder:
    cdef int64_t limit
    cdef RecordWriter writer
    cdef int64_t base_timestamp

    @cython.locals(writer=RecordWriter, index=int64_t, size=int64_t)
    cpdef int64_t append(self, int64_t timestamp, bytes key, bytes value, headers) except -2
