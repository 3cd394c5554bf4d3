# The C types of shortcut.py, for when it is compiled.

cimport cython
from libc.stdint cimport int64_t

from cordwood.client.producer.deliveries cimport Delivery
from cordwood.wire.batch_builder cimport BatchBuilder


cdef int64_t _RECORD_OVERHEAD_BYTES


@cython.final
cdef class OpenBatch:
    cdef object _outcome
    cdef BatchBuilder _builder

    @cython.locals(builder=BatchBuilder, index=int64_t, delivery=Delivery)
    cpdef Delivery append(self, int64_t timestamp_ms, bytes key, bytes value, headers)


@cython.final
cdef class Sticky:
    cdef public object topic
    cdef public int64_t partition
    cdef public int64_t given_bytes
    cdef public int64_t stay_bytes
    cdef public int64_t most_bytes
    cdef public object looked_s
    cdef public object choices
    cdef public object weights


@cython.final
cdef class OpenTopic:
    cdef int64_t partition_count
    cdef Sticky sticky
    cdef dict batches


@cython.final
cdef class Shortcut:
    cdef object _client
    cdef object _lock
    cdef object _acquire
    cdef object _release
    cdef object _now_ms
    cdef object _long_way
    cdef bint _serializes_keys
    cdef bint _serializes_values
    cdef bint _knows_keys
    cdef object _cluster
    cdef dict _topics

    @cython.locals(delivery=Delivery)
    cpdef object send(self, topic, value, key, partition, timestamp_ms, headers)
    @cython.locals(known=OpenTopic)
    cpdef Delivery append(self, topic, bytes key, bytes value, partition, int64_t timestamp_ms, headers)
    @cython.locals(sticky=Sticky, batch=OpenBatch, delivery=Delivery, given_bytes=int64_t)
    cdef Delivery _put(self, OpenTopic known, bytes key, bytes value, partition, int64_t timestamp_ms, headers)
    @cython.locals(known=OpenTopic)
    cpdef object opened(self, cluster, topic, Sticky sticky, int64_t partition, OpenBatch batch)


@cython.locals(size_bytes=int64_t)
cpdef int64_t size_to_stick(bytes key, bytes value) except -1
