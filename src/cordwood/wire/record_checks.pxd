# The C types of record_checks.py, for when it is compiled.

cimport cython
from libc.stdint cimport int64_t

from cordwood.wire.record_stream cimport RecordCursor


@cython.locals(index=Py_ssize_t, timestamp=int64_t, latest=int64_t)
cdef _scan(RecordCursor cursor, bint key_required, int64_t min_timestamp, int64_t max_timestamp)
@cython.locals(index=Py_ssize_t, timestamp=int64_t, latest=int64_t)
cdef bint _fits(
    RecordCursor cursor, bint key_required, int64_t min_timestamp, int64_t max_timestamp, int64_t expected_latest
) except? False
