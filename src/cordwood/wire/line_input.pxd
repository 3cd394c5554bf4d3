# The C types of line_input.py, for when it is compiled.

cimport cython
from libc.stdint cimport int64_t

from cordwood.wire.column_input cimport BinaryInput


cdef int64_t MAX_TEXT_BYTES


@cython.final
cdef class Spans:
    cdef bytes text
    cdef bytes null
    cdef readonly Py_ssize_t count
    cdef Py_ssize_t capacity
    cdef list null_indexes
    cdef object place_bytes
    cdef int* places

    cdef inline int add(self, Py_ssize_t start, Py_ssize_t end) except -1
    cdef BinaryInput column(self)


@cython.final
cdef class LineColumns:
    cdef readonly Py_ssize_t count
    cdef readonly Py_ssize_t end
    cdef readonly bint lacks_separator
    cdef readonly BinaryInput keys
    cdef readonly BinaryInput values
    cdef Spans key_spans
    cdef Spans value_spans

    @cython.locals(size=Py_ssize_t, start=Py_ssize_t, end=Py_ssize_t, following=Py_ssize_t, value_start=Py_ssize_t,
                   separator=Py_ssize_t)
    cdef int split(self, bytes text, bytes delimiter, bytes key_separator, bint is_last) except -1


@cython.locals(data="char*", wanted="char*", found="char*", size=Py_ssize_t, at=Py_ssize_t)
cdef Py_ssize_t find(bytes text, Py_ssize_t start, Py_ssize_t end, bytes needle) except -2
