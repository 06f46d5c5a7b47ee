// SPDX-License-Identifier: Apache-2.0
// libcurl as a dialler: TCP connections, and ways through SOCKS proxies. Nothing of HTTP passes through it.
#ifndef PINPROXY_DIAL_H
#define PINPROXY_DIAL_H

#include <curl/curl.h>
#include <stdbool.h>
#include <stdint.h>

// Once a process, before anything else here.
bool pinproxy_curl_global_init(void);

// What a dial connects to: libcurl looks up no name. The strings are copied.
struct pinproxy_dial_target {
    // http://address:port/ whatever is spoken there: libcurl makes no TLS. Behind a proxy it may be a name.
    const char *url;
    // socks5h://address:port, or null.
    const char *proxy;
    const char *proxy_user;
    const char *proxy_password;
};

struct pinproxy_dial_callbacks {
    // A socket for that address, or -1 to refuse it. The zone of the address may be set. `owner` is that of the dial.
    int (*open)(void *owner, struct sockaddr *address, unsigned length, int family);
    // libcurl is done with a socket. Called also after the dial's end; `owner` is that of all dials.
    int (*close)(void *owner, int descriptor);
};

// An easy handle that connects and then ends (CURLOPT_CONNECT_ONLY). `error_buffer` has CURL_ERROR_SIZE bytes. Null when an
// option is refused, or without memory.
CURL *pinproxy_dial_create(const struct pinproxy_dial_target *target, const struct pinproxy_dial_callbacks *callbacks,
                           void *dial, void *dialler, char *error_buffer);
void pinproxy_dial_destroy(CURL *easy);
// The `dial` that `pinproxy_dial_create` was given.
void *pinproxy_dial_owner(CURL *easy);
// The socket of a dial that has succeeded and is still in its multi handle; -1 without one.
int pinproxy_dial_socket(CURL *easy);
typedef int (*pinproxy_socket_callback)(CURL *easy, curl_socket_t descriptor, int what, void *owner, void *socket);
typedef int (*pinproxy_timer_callback)(CURLM *multi, long milliseconds, void *owner);
// A multi handle that reports the descriptors and the timer that it waits for (curl_multi_socket_action(3)). Null without memory.
CURLM *pinproxy_multi_create(pinproxy_socket_callback socket, pinproxy_timer_callback timer, void *owner,
                             long connections);
// The next dial that has ended, or null.
CURL *pinproxy_multi_next_finished(CURLM *multi, CURLcode *result);

#endif
