// SPDX-License-Identifier: Apache-2.0
// c-ares for one name (ares_query(3)). Constants are macros in one release and enumerations in another, so that Swift
// cannot name them.
#ifndef PINPROXY_NAMES_H
#define PINPROXY_NAMES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

enum pinproxy_name_result {
    PINPROXY_NAME_FOUND,
    // The name servers say that the name has no address of the family.
    PINPROXY_NAME_UNKNOWN,
    // The name servers say that there is no such name: it has no address of the other family either (RFC 8020).
    PINPROXY_NAME_ABSENT,
    // No name server has responded in time.
    PINPROXY_NAME_SILENT,
    // Anything else.
    PINPROXY_NAME_FAILED
};

// Called within the functions below, with the `owner` of the lookup.
struct pinproxy_name_callbacks {
    // Called with each new socket. When it returns false, c-ares closes the socket.
    bool (*may_use)(void *owner, int descriptor);
    // A descriptor is to be waited for; it is closed next when both are 0.
    void (*wait)(void *owner, int descriptor, int readable, int writable);
    // An address, with its time to live in seconds; of a response at most 80.
    void (*address)(void *owner, const struct sockaddr *address, unsigned length, int lifetime);
    // The end of a query, once, after its addresses. `words` say in English why there is none. Not called for queries of
    // an earlier name, and not by `pinproxy_name_free`.
    void (*end)(void *owner, int family, enum pinproxy_name_result result, const char *words);
};

struct pinproxy_name;

// Reads /etc/resolv.conf; `servers` ("127.0.0.1:5353,…") are asked instead of its own unless null. Null without memory, or
// when `servers` cannot be read.
struct pinproxy_name *pinproxy_name_create(const char *servers, const struct pinproxy_name_callbacks *callbacks, void *owner);
// The search list of /etc/resolv.conf: at most six domains (MAXDNSRCH), null after the last one, and the number of dots from which on a name is first
// tried as it is.
const char *pinproxy_name_domain(struct pinproxy_name *lookup, int index);
int pinproxy_name_dots(struct pinproxy_name *lookup);
// Asks the name servers for the addresses of both families, without the search list. Queries of an earlier name that are
// still under way count no more.
void pinproxy_name_ask(struct pinproxy_name *lookup, const char *name);
// A descriptor is ready, -1 for none; and time has passed.
void pinproxy_name_process(struct pinproxy_name *lookup, int readable, int writable);
// Milliseconds after which it wants to be called without an event, -1 for never.
int64_t pinproxy_name_wait(struct pinproxy_name *lookup);
// Not from within a callback.
void pinproxy_name_free(struct pinproxy_name *lookup);

#endif
