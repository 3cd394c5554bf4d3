# The C types of steps.py, for when it is compiled.

cimport cython
from libc.stdint cimport int64_t

from cordwood.registry.columns.builders cimport Column, StructColumn
from cordwood.registry.columns.cursor cimport Cursor
from cordwood.wire.column_input cimport BinaryInput


cdef int64_t PREFIX_BYTES


cdef class Step:
    cdef int run(self, Cursor cursor) except -1
    cpdef str place(self)


cdef class NullStep(Step):
    cdef Column column


cdef class FailStep(Step):
    cdef str reason


cdef class ConstantStep(Step):
    cdef Step step
    cdef Cursor content


cdef class MemberStep(Step):
    cdef StructColumn column
    cdef Py_ssize_t member
    cdef Step step

    @cython.locals(index=Py_ssize_t, other=Column)
    cdef int run(self, Cursor cursor) except -1


@cython.locals(cursor=Cursor, row=int64_t, size=int64_t, id_=int64_t, last=int64_t)
cpdef set framed(BinaryInput values, content)
@cython.locals(
    cursor=Cursor,
    row=int64_t,
    size=int64_t,
    before=int64_t,
    last=int64_t,
    id_=int64_t,
    name=int,
    names="const int[::1]",
    step=Step,
    chosen=Step,
    has_names=bint,
)
cpdef list run_all(Column column, BinaryInput values, content, dict by_id, named, list by_name)
@cython.locals(data="const unsigned char*", id_=int64_t)
cdef int64_t _id_at(Cursor cursor, Py_ssize_t start) noexcept
