// SPDX-License-Identifier: Apache-2.0
#include <hiredis/hiredis.h>

// The releases differ in these places: 0.14 (Debian 12) keeps the stack of tasks in the reader and knows RESP2 alone, 1.x (Debian 13)
// allocates the stack and reads the other types of RESP3, too.

/// The type of the value whose bytes come next; negative as long as its first byte has not come.
static inline int pinproxy_redis_type(const redisReader *reader) {
    if (reader->ridx < 0) return -1;
#if HIREDIS_MAJOR > 0
    return reader->task[reader->ridx]->type;
#else
    return reader->rstack[reader->ridx].type;
#endif
}

/// The bytes that the reader holds and has not used.
static inline const char *pinproxy_redis_rest(const redisReader *reader, size_t *count) {
    *count = reader->len - reader->pos;
    return reader->buf + reader->pos;
}

#if HIREDIS_MAJOR > 0
static inline void *pinproxy_redis_no_double(const redisReadTask *task, double value, char *text, size_t length) {
    return 0;
}

static inline void *pinproxy_redis_no_bool(const redisReadTask *task, int value) { return 0; }
#endif

/// Refuses the values that only RESP3 has a function for. Without one the reader would pass over them in silence.
static inline void pinproxy_redis_refuse_resp3(redisReplyObjectFunctions *functions) {
#if HIREDIS_MAJOR > 0
    functions->createDouble = pinproxy_redis_no_double;
    functions->createBool = pinproxy_redis_no_bool;
#endif
}
