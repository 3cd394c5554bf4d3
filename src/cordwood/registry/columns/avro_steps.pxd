# The C types of avro_steps.py, for when it is compiled.

cimport cython
from libc.stdint cimport int64_t, uint64_t

from cordwood.registry.columns.builders cimport (
    BooleanColumn,
    BytesColumn,
    Column,
    ListColumn,
    NumberColumn,
    StructColumn,
)
from cordwood.registry.columns.cursor cimport Cursor
from cordwood.registry.columns.steps cimport Step


cdef int64_t _EMPTY_ITEMS
cdef bytes _HEX


cdef class IntegerStep(Step):
    cdef NumberColumn column
    cdef int64_t least
    cdef int64_t most
    cdef int64_t scale

    @cython.locals(value=int64_t)
    cdef int run(self, Cursor cursor) except -1


cdef class IntegerToFloatStep(Step):
    cdef NumberColumn column


cdef class FloatStep(Step):
    cdef NumberColumn column


cdef class DoubleStep(Step):
    cdef NumberColumn column


cdef class BooleanStep(Step):
    cdef BooleanColumn column

    @cython.locals(start=Py_ssize_t, value=int)
    cdef int run(self, Cursor cursor) except -1


cdef class BytesStep(Step):
    cdef BytesColumn column
    cdef bint is_text
    cdef int64_t fixed

    @cython.locals(start=Py_ssize_t, size=int64_t)
    cdef int run(self, Cursor cursor) except -1


cdef class UuidStep(Step):
    cdef BytesColumn column

    @cython.locals(start=Py_ssize_t, index=int, byte=int)
    cdef int run(self, Cursor cursor) except -1


cdef class EnumStep(Step):
    cdef BytesColumn column
    cdef list symbols
    cdef Cursor text
    cdef list starts

    @cython.locals(start=Py_ssize_t, index=int64_t, symbol=bytes)
    cdef int run(self, Cursor cursor) except -1


cdef class DecimalStep(Step):
    cdef NumberColumn column
    cdef int64_t fixed
    cdef int precision
    cdef int64_t limit_low
    cdef int64_t limit_high

    @cython.locals(start=Py_ssize_t, size=int64_t)
    cdef int run(self, Cursor cursor) except -1


@cython.locals(
    data="const unsigned char*",
    fill=uint64_t,
    low=uint64_t,
    high=uint64_t,
    byte=uint64_t,
    index=int64_t,
    size_low=uint64_t,
    size_high=uint64_t,
    unsigned_low=uint64_t,
    unsigned_high=uint64_t,
)
cdef int add_decimal(
    NumberColumn column,
    Cursor cursor,
    Py_ssize_t start,
    int64_t size,
    int64_t limit_low,
    int64_t limit_high,
    int precision,
) except -1


cdef class DurationStep(Step):
    cdef StructColumn column
    cdef list parts

    @cython.locals(index=int, part=NumberColumn)
    cdef int run(self, Cursor cursor) except -1


cdef class RecordStep(Step):
    cdef StructColumn column
    cdef list steps
    cdef list names
    cdef Py_ssize_t at

    @cython.locals(index=Py_ssize_t, step=Step, steps=list)
    cdef int run(self, Cursor cursor) except -1


cdef class UnionStep(Step):
    cdef list branches
    cdef Py_ssize_t at

    @cython.locals(index=int64_t, branch=Step)
    cdef int run(self, Cursor cursor) except -1


cdef class OptionalStep(Step):
    cdef Column column
    cdef Step step
    cdef int64_t null_branch

    @cython.locals(index=int64_t)
    cdef int run(self, Cursor cursor) except -1


cdef class ListStep(Step):
    cdef ListColumn column
    cdef Step item

    @cython.locals(count=int64_t, empty=int, item=Step)
    cdef int run(self, Cursor cursor) except -1


cdef class SkipIntegerStep(Step):
    pass


cdef class SkipFixedStep(Step):
    cdef int64_t size


cdef class SkipBytesStep(Step):
    pass


cdef class SkipNamedStep(Step):
    cdef Step step

    cpdef set(self, Step step)
