# The C types of row_encoder.py, for when it is compiled.

cimport cython
from libc.stdint cimport int64_t, uint64_t

from cordwood.wire.column_input cimport BinaryInput, NumberInput


cdef int64_t DECIMAL_BYTES
cdef int64_t MOST_BYTES


@cython.final
cdef class Output:
    cdef bytearray buffer
    cdef unsigned char* data
    cdef Py_ssize_t position
    cdef Py_ssize_t capacity

    cdef inline int reserve(self, Py_ssize_t size) except -1
    cdef Py_ssize_t size(self) noexcept
    cdef inline int varint(self, uint64_t rest) except -1
    cdef inline int zigzag(self, int64_t value) except -1
    cdef inline int byte(self, unsigned char value) except -1
    cdef int copy(self, const unsigned char* source, Py_ssize_t start, Py_ssize_t size) except -1
    cdef int literal(self, bytes contents) except -1
    @cython.locals(size=Py_ssize_t, width=Py_ssize_t, rest=Py_ssize_t)
    cdef int insert_size(self, Py_ssize_t start) except -1
    cdef bytearray finished(self)


cdef class Cells:
    cdef readonly str path
    cdef readonly int64_t length
    cdef int64_t first
    cdef bint has_validity
    cdef const unsigned char[::1] validity

    @cython.locals(at=int64_t)
    cdef bint is_null(self, int64_t index) except -1
    cdef int write(self, Output out, int64_t index) except -1
    cdef int content(self, Output out, int64_t index) except -1
    cdef refused_null(self, int64_t index)
    cdef int check_index(self, int64_t index) except -1


cdef class Integers(Cells):
    cdef NumberInput numbers
    cdef bint is_zigzag

    @cython.locals(number=int64_t)
    cdef int content(self, Output out, int64_t index) except -1


cdef class Raw(Cells):
    cdef const unsigned char[::1] contents
    cdef int64_t width


cdef class Bytes(Cells):
    cdef BinaryInput values
    cdef bint is_zigzag

    @cython.locals(size=int64_t)
    cdef int content(self, Output out, int64_t index) except -1


cdef class Symbols(Cells):
    cdef BinaryInput values
    cdef dict numbers
    cdef bint is_zigzag

    @cython.locals(size=int64_t, start=int64_t, name=bytes)
    cdef int content(self, Output out, int64_t index) except -1


cdef class Decimals(Cells):
    cdef const unsigned char[::1] contents
    cdef int64_t size

    @cython.locals(start=int64_t, filler="unsigned char", width=int64_t, at=int64_t)
    cdef int content(self, Output out, int64_t index) except -1


cdef class Records(Cells):
    cdef list fields

    @cython.locals(cells=Cells)
    cdef int content(self, Output out, int64_t index) except -1


cdef class Constants(Cells):
    cdef bytes contents


cdef class Nullable(Cells):
    cdef Cells values
    cdef int64_t null_branch
    cdef int64_t value_branch


cdef class Branches(Cells):
    cdef list members
    cdef list numbers
    cdef int64_t null

    @cython.locals(at=int64_t, member=Cells)
    cdef int write(self, Output out, int64_t index) except -1


cdef class Lists(Cells):
    cdef NumberInput starts
    cdef Cells keys
    cdef Cells items

    @cython.locals(at=int64_t, end=int64_t)
    cdef int content(self, Output out, int64_t index) except -1


cdef class Moments(Cells):
    cdef NumberInput micros

    @cython.locals(micros=int64_t, seconds=int64_t, nanos=int64_t, start=Py_ssize_t)
    cdef int content(self, Output out, int64_t index) except -1


cdef class Fields:
    cdef bytes tag
    cdef Cells cells
    cdef bint is_required

    cdef int write(self, Output out, int64_t index) except -1


cdef class RepeatedFields(Fields):
    cdef NumberInput starts
    cdef Cells items
    cdef bint is_packed

    @cython.locals(at=int64_t, end=int64_t)
    cdef int write(self, Output out, int64_t index) except -1
    @cython.locals(start=Py_ssize_t)
    cdef int items_from(self, Output out, int64_t at, int64_t end) except -1


cdef class Messages(Cells):
    cdef list fields
    cdef bint has_size

    @cython.locals(start=Py_ssize_t, field=Fields)
    cdef int content(self, Output out, int64_t index) except -1


@cython.locals(offsets="int*", row=int64_t, out=Output)
cpdef encode_rows(Cells cells, int64_t count, bytes prefix)
