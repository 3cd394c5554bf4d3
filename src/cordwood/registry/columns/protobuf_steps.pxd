# The C types of protobuf_steps.py, for when it is compiled.

cimport cython
from libc.stdint cimport int64_t, uint64_t

from cordwood.registry.columns.builders cimport BooleanColumn, BytesColumn, ListColumn, NumberColumn, StructColumn
from cordwood.registry.columns.cursor cimport Cursor
from cordwood.registry.columns.steps cimport Step


cdef uint64_t _LAST_TAG
cdef int VARINT
cdef int FIXED64
cdef int BYTES
cdef int START_GROUP
cdef int END_GROUP
cdef int FIXED32
cdef int INT32
cdef int INT64
cdef int UINT32
cdef int UINT64
cdef int SINT32
cdef int SFIXED32
cdef int SFIXED64
cdef int FLOAT
cdef int DOUBLE


cdef class NumberStep(Step):
    cdef NumberColumn column
    cdef int kind

    @cython.locals(kind=int, number=uint64_t)
    cdef int run(self, Cursor cursor) except -1


cdef class FixedStep(Step):
    cdef NumberColumn column
    cdef int kind

    @cython.locals(kind=int)
    cdef int run(self, Cursor cursor) except -1


cdef int64_t _signed64(uint64_t value) noexcept
@cython.locals(low=int64_t)
cdef int64_t _signed32(uint64_t value) noexcept


cdef class BoolStep(Step):
    cdef BooleanColumn column


cdef class EnumNameStep(Step):
    cdef BytesColumn column
    cdef dict names

    @cython.locals(number=int64_t, name=Cursor)
    cdef int run(self, Cursor cursor) except -1


cdef class ContentStep(Step):
    cdef BytesColumn column
    cdef bint is_text

    @cython.locals(start=Py_ssize_t, size=Py_ssize_t)
    cdef int run(self, Cursor cursor) except -1


cdef class ConvertedStep(Step):
    cdef BytesColumn column
    cdef object convert

    @cython.locals(start=Py_ssize_t, size=Py_ssize_t, content=bytes, text=bytes)
    cdef int run(self, Cursor cursor) except -1


cdef class TimeStep(Step):
    cdef NumberColumn column

    @cython.locals(seconds=int64_t, nanos=int64_t, tag=uint64_t)
    cdef int run(self, Cursor cursor) except -1


@cython.locals(wire=int, inner=uint64_t)
cdef int skip_value(Cursor cursor, uint64_t tag) except -1
@cython.locals(size=uint64_t)
cdef int64_t _size(Cursor cursor) except -1


cdef class MessageField:
    cdef str name
    cdef int wire
    cdef Step step
    cdef Step missing
    cdef bint is_repeated
    cdef ListColumn repeated
    cdef bint is_packable
    cdef bint is_message
    cdef list rivals
    cdef bint seen
    cdef Py_ssize_t start
    cdef Py_ssize_t end
    cdef bytes parts

    cpdef set_rivals(self, list rivals)


cdef class MessageStep(Step):
    cdef StructColumn column
    cdef list fields
    cdef list direct
    cdef dict others
    cdef str at

    @cython.locals(
        fields=list, field=MessageField, found=MessageField, end=Py_ssize_t, tag=uint64_t, number=uint64_t, wire=int, size=Py_ssize_t
    )
    cdef int run(self, Cursor cursor) except -1
    cdef MessageField field_of(self, uint64_t number)
    @cython.locals(size=Py_ssize_t)
    cdef int read_value(self, Cursor cursor, MessageField field, Py_ssize_t end) except -1
    @cython.locals(size=Py_ssize_t, start=Py_ssize_t, rival=MessageField, before=bytes)
    cdef int note_value(self, Cursor cursor, MessageField field, uint64_t tag) except -1
    @cython.locals(merged=Cursor)
    cdef int read_noted(self, Cursor cursor, MessageField field) except -1
    @cython.locals(field=MessageField)
    cpdef str place(self)


cdef class IndexedStep(Step):
    cdef object choose
    cdef Step first
    cdef dict known
    cdef Step chosen

    @cython.locals(count=int64_t)
    cdef int run(self, Cursor cursor) except -1
    cdef Step at_path(self, Cursor cursor, int64_t count)
