// SPDX-License-Identifier: Apache-2.0
// libcurl as a dialler through SOCKS proxies. Nothing of HTTP and no TLS passes through it. No program is linked with it: it is
// loaded when it is needed, with the twenty libraries that it brings.
#ifndef PINPROXY_SOCKS_H
#define PINPROXY_SOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

// Loads libcurl, unless it is there, from any thread. False: `reason` says why not. Before anything else here.
bool pinproxy_socks_load(char *reason, size_t capacity);
// The version of libcurl, once it is loaded; null before.
const char *pinproxy_socks_version(void);

// How a dial has ended.
enum pinproxy_socks_end {
    PINPROXY_SOCKS_CONNECTED,
    PINPROXY_SOCKS_NO_CONNECTION,
    PINPROXY_SOCKS_REFUSED_BY_PROXY,
    PINPROXY_SOCKS_UNKNOWN_HOST,
    PINPROXY_SOCKS_UNKNOWN_PROXY,
    PINPROXY_SOCKS_NO_MEMORY,
    PINPROXY_SOCKS_OTHER,
};
// The meaning of libcurl's result (libcurl-errors(3)).
enum pinproxy_socks_end pinproxy_socks_end_of(int result);
// libcurl's words for a result.
const char *pinproxy_socks_words(int result);

// What a dial connects to: libcurl looks up no name. The strings are copied.
struct pinproxy_socks_target {
    // http://host:port/ whatever is spoken there: libcurl makes no TLS.
    const char *url;
    // socks5h://address:port
    const char *proxy;
    // Both null without credentials.
    const char *user;
    const char *password;
};

// The bytes that libcurl's words for an error need.
enum { PINPROXY_SOCKS_ERROR_SIZE = 256 };

// A handle that connects and then ends (CURLOPT_CONNECT_ONLY). `error_buffer` has PINPROXY_SOCKS_ERROR_SIZE bytes. `open` gives a
// socket for the address of the proxy, or -1 to refuse it, and may set the address's zone. `close` is called when libcurl is done
// with a socket, also after the dial's end. Null when an option is refused, or without memory.
void *pinproxy_socks_create(
    const struct pinproxy_socks_target *target, int (*open)(void *dial, struct sockaddr *address, unsigned length), void *dial,
    int (*close)(void *dialler, int descriptor), void *dialler, char *error_buffer
);
void pinproxy_socks_destroy(void *easy);
// The `dial` that `pinproxy_socks_create` was given.
void *pinproxy_socks_owner(void *easy);
// The socket of a dial that has succeeded and is still in its multi handle; -1 without one.
int pinproxy_socks_descriptor(void *easy);

// A multi handle that reports the descriptors and the timer that it waits for (curl_multi_socket_action(3)). Null without memory.
// `watch` is told the events of a descriptor that are waited for (PINPROXY_EVENT_IN and _OUT), or -1 when it is forgotten; `plan`
// the milliseconds until it is to be called, or -1.
void *pinproxy_socks_multi(
    int (*watch)(void *easy, int descriptor, int what, void *dialler, void *known),
    int (*plan)(void *multi, long milliseconds, void *dialler), void *dialler
);
void pinproxy_socks_multi_free(void *multi);
bool pinproxy_socks_add(void *multi, void *easy);
void pinproxy_socks_remove(void *multi, void *easy);
// The events of epoll that a `what` of `watch` stands for; -1 when the descriptor is forgotten.
int pinproxy_socks_events(int what);
// Reports events of epoll on a descriptor; -1: the time of `plan` is over.
void pinproxy_socks_act(void *multi, int descriptor, uint32_t events);
// The next dial that has ended, with libcurl's result, or null.
void *pinproxy_socks_next_finished(void *multi, int *result);

#endif
