# The C types of builders.py, for when it is compiled.

cimport cython
from libc.stdint cimport int64_t

from cordwood.registry.columns.cursor cimport Cursor


cdef int64_t _SMALLEST
cdef int64_t _LARGEST


@cython.final
cdef class Growing:
    cdef bytearray content
    cdef unsigned char* data
    cdef int64_t size
    cdef int64_t capacity

    cdef int renew(self, int64_t capacity) except -1
    cdef inline int reserve(self, int64_t size) except -1
    @cython.locals(capacity=int64_t)
    cdef int grow(self, int64_t size) except -1
    cdef inline int put_int32(self, int value) except -1
    cdef inline int put_int64(self, int64_t value) except -1
    cdef inline int put_float32(self, double value) except -1
    cdef inline int put_float64(self, double value) except -1
    cdef inline int put_bytes(self, Cursor cursor, Py_ssize_t start, int64_t size) except -1
    cdef inline int put_byte(self, int value) except -1
    cdef int put_zeros(self, int64_t size) except -1
    @cython.locals(place=int64_t, mask=int)
    cdef inline int put_bit(self, int64_t index, bint bit) except -1
    cdef inline int int32_at(self, int64_t index) except? -2
    @cython.locals(taken=bytearray, size=int64_t)
    cdef bytearray take(self)


cdef class Column:
    cdef readonly int64_t length
    cdef readonly bint nullable
    cdef Growing validity

    cdef inline int mark(self, bint valid) except -1
    cdef int add_null(self) except -1
    cdef int truncate(self, int64_t length) except -1
    cpdef tuple take(self)
    cdef tuple taken(self, list buffers, list children)


@cython.final
cdef class NullColumn(Column):
    pass


@cython.final
cdef class NumberColumn(Column):
    cdef readonly int width
    cdef Growing values

    cdef inline int add_long(self, int64_t value) except -1
    cdef inline int add_double(self, double value) except -1
    cdef inline int add_wide(self, int64_t low, int64_t high) except -1


@cython.final
cdef class BooleanColumn(Column):
    cdef Growing values

    cdef inline int add(self, bint value) except -1


@cython.final
cdef class BytesColumn(Column):
    cdef Growing offsets
    cdef Growing content

    cdef inline int add(self, Cursor cursor, Py_ssize_t start, int64_t size) except -1
    cdef inline int close(self) except -1


@cython.final
cdef class ListColumn(Column):
    cdef readonly Column items
    cdef Growing offsets

    cdef inline int close(self) except -1


cdef class StructColumn(Column):
    cdef readonly list fields

    cdef inline int close(self) except -1
    @cython.locals(field=Column)
    cdef int add_null(self) except -1
    @cython.locals(field=Column)
    cdef int truncate(self, int64_t length) except -1
