# The C types of cursor.py, for when it is compiled.

cimport cython
from libc.stdint cimport int64_t, uint32_t, uint64_t


cdef uint64_t _LONG_MASK
cdef int _LAST_SHIFT
cdef int _MOST_NESTED
cdef uint64_t _HIGH_BITS


@cython.final
cdef class Cursor:
    cdef const unsigned char[::1] owner
    cdef const unsigned char* data
    cdef readonly Py_ssize_t position
    cdef readonly Py_ssize_t end
    cdef int depth

    @cython.locals(value=uint64_t, byte=uint64_t, shift=int, short=uint64_t, whole=uint64_t)
    cdef inline uint64_t varint(self) except? 0xDEADBEEFDEADBEEF
    @cython.locals(value=uint64_t)
    cdef inline int64_t zigzag(self) except? -0x6EADBEEFDEADBEEF
    @cython.locals(start=Py_ssize_t)
    cdef inline Py_ssize_t skip(self, int64_t size) except -1
    @cython.locals(start=Py_ssize_t, value=float)
    cdef inline float float32(self) except? -1.5
    @cython.locals(start=Py_ssize_t, value=double)
    cdef inline double float64(self) except? -1.5
    @cython.locals(start=Py_ssize_t, value=uint32_t)
    cdef inline uint32_t fixed32(self) except? 0xDEADBEEF
    @cython.locals(start=Py_ssize_t, value=uint64_t)
    cdef inline uint64_t fixed64(self) except? 0xDEADBEEFDEADBEEF
    @cython.locals(word=uint64_t, at=Py_ssize_t, end=Py_ssize_t)
    cdef inline int check_text(self, Py_ssize_t start, Py_ssize_t size) except -1
    cdef int check_other_text(self, Py_ssize_t start, Py_ssize_t size) except -1
    cdef inline int enter(self) except -1
    cdef inline int leave(self) except -1
