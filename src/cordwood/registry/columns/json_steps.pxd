# The C types of json_steps.py, for when it is compiled.

cimport cython
from libc.stdint cimport int64_t

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


cdef int _QUOTE
cdef int _BACKSLASH
cdef int _COMMA
cdef int _COLON
cdef int _OPEN_OBJECT
cdef int _CLOSE_OBJECT
cdef int _OPEN_LIST
cdef int _CLOSE_LIST
cdef int _ZERO
cdef int _NINE
cdef int _MINUS
cdef int _PLUS
cdef int _POINT
cdef int _EXACT_DIGITS
cdef int _LONGEST_LONG


cdef class JsonStep(Step):
    cdef Column target

    cdef int read(self, Cursor cursor) except -1


cdef class JsonRootStep(Step):
    cdef Step step
    cdef bint is_within


cdef class JsonTextStep(JsonStep):
    cdef BytesColumn column

    @cython.locals(start=Py_ssize_t)
    cdef int read(self, Cursor cursor) except -1


cdef class JsonStringStep(JsonStep):
    cdef BytesColumn column


cdef class JsonBooleanStep(JsonStep):
    cdef BooleanColumn column

    @cython.locals(first=int)
    cdef int read(self, Cursor cursor) except -1


cdef class JsonIntegerStep(JsonStep):
    cdef NumberColumn column

    @cython.locals(
        first=int, start=Py_ssize_t, end=Py_ssize_t, at=Py_ssize_t, data="const unsigned char*", value=int64_t, digit=int, is_plain=bint
    )
    cdef int read(self, Cursor cursor) except -1
    @cython.locals(text=bytes, number=double)
    cdef int add_other(self, Cursor cursor, Py_ssize_t start, Py_ssize_t end) except -1


cdef class JsonNumberStep(JsonStep):
    cdef NumberColumn column
    cdef list powers

    @cython.locals(
        first=int,
        start=Py_ssize_t,
        end=Py_ssize_t,
        at=Py_ssize_t,
        data="const unsigned char*",
        mantissa=int64_t,
        digits=int,
        after_point=int,
        has_point=bint,
        byte=int,
        value=double,
    )
    cdef int read(self, Cursor cursor) except -1


cdef class JsonListStep(JsonStep):
    cdef ListColumn column
    cdef Step item


cdef class JsonMapStep(JsonStep):
    cdef ListColumn column
    cdef StructColumn entries
    cdef BytesColumn keys
    cdef Step value

    cdef int add_entry(self, Cursor cursor) except -1


cdef class JsonObjectStep(JsonStep):
    cdef StructColumn column
    cdef list texts
    cdef list names
    cdef dict places
    cdef list steps
    cdef bytearray seen
    cdef Py_ssize_t at

    @cython.locals(
        count=Py_ssize_t, seen=bytearray, index=Py_ssize_t, following=Py_ssize_t, step=Step, missing=Column
    )
    cdef int read(self, Cursor cursor) except -1
    @cython.locals(start=Py_ssize_t, size=Py_ssize_t, has_escapes=bint, name=bytes, content=bytes)
    cdef Py_ssize_t field(self, Cursor cursor, Py_ssize_t following) except -2


@cython.locals(byte=int)
cdef int skip_space(Cursor cursor) except -1
cdef int peek(Cursor cursor) except -1
@cython.locals(start=Py_ssize_t, index=Py_ssize_t)
cdef int take_word(Cursor cursor, bytes word) except -1
@cython.locals(first=int)
cdef int expect(Cursor cursor, int wanted, str name) except -1
@cython.locals(first=int)
cdef int has_more(Cursor cursor, int closing) except -1
cdef object other_kind(int first, str wanted)
@cython.locals(data="const unsigned char*", at=Py_ssize_t, end=Py_ssize_t, start=Py_ssize_t)
cdef Py_ssize_t number_end(Cursor cursor, int first) except -1
@cython.locals(data="const unsigned char*", at=Py_ssize_t, end=Py_ssize_t, byte=int, has_escapes=bint)
cdef int string_end(Cursor cursor) except -1
@cython.locals(size=int, index=int, digit=int)
cdef int escape_size(Cursor cursor, Py_ssize_t at) except -1
@cython.locals(start=Py_ssize_t, size=Py_ssize_t, has_escapes=bint, text=Cursor)
cdef int add_string(Cursor cursor, BytesColumn column) except -1
cdef bytes unescaped(bytes content)
@cython.locals(first=int)
cdef int skip_json(Cursor cursor) except -1
