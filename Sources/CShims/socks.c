// SPDX-License-Identifier: Apache-2.0
#define CURL_DISABLE_TYPECHECK
#include "pinproxy_socks.h"
#include "pinproxy_system.h"

#include <curl/curl.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define FUNCTIONS(FUNCTION) \
    FUNCTION(global_init) \
    FUNCTION(version_info) \
    FUNCTION(easy_init) \
    FUNCTION(easy_setopt) \
    FUNCTION(easy_getinfo) \
    FUNCTION(easy_cleanup) \
    FUNCTION(easy_strerror) \
    FUNCTION(multi_init) \
    FUNCTION(multi_setopt) \
    FUNCTION(multi_add_handle) \
    FUNCTION(multi_remove_handle) \
    FUNCTION(multi_socket_action) \
    FUNCTION(multi_info_read) \
    FUNCTION(multi_cleanup)

#define MEMBER(name) __typeof__(&curl_##name) name;
// Written once, under the lock of `pinproxy_socks_load`, which each user of it has called.
static struct { FUNCTIONS(MEMBER) } curl;
static bool is_loaded;

static const char *load(void) {
    void *library = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return dlerror();
#define FIND(name) \
    *(void **)&curl.name = dlsym(library, "curl_" #name); \
    if (!curl.name) \
        return "it lacks curl_" #name;
    FUNCTIONS(FIND)
#undef FIND
    // The options of a dial are those of 7.85 (CURLOPT_PROTOCOLS_STR).
    if (curl.version_info(CURLVERSION_FIRST)->version_num < 0x075500)
        return "it is older than 7.85";
    // Before 7.84 no other thread may be in it.
    if (curl.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return "it could not be set up";
    return NULL;
}

bool pinproxy_socks_load(char *reason, size_t capacity) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    const char *fault = is_loaded ? NULL : load();
    is_loaded = !fault;
    if (fault)
        snprintf(reason, capacity, "%s", fault);
    pthread_mutex_unlock(&lock);
    return !fault;
}

const char *pinproxy_socks_version(void) {
    return curl.version_info ? curl.version_info(CURLVERSION_FIRST)->version : NULL;
}

_Static_assert((int)PINPROXY_SOCKS_ERROR_SIZE == (int)CURL_ERROR_SIZE, "libcurl's buffer");

enum pinproxy_socks_end pinproxy_socks_end_of(int result) {
    switch (result) {
    case CURLE_OK: return PINPROXY_SOCKS_CONNECTED;
    case CURLE_COULDNT_CONNECT: return PINPROXY_SOCKS_NO_CONNECTION;
    case CURLE_PROXY: return PINPROXY_SOCKS_REFUSED_BY_PROXY;
    case CURLE_COULDNT_RESOLVE_HOST: return PINPROXY_SOCKS_UNKNOWN_HOST;
    case CURLE_COULDNT_RESOLVE_PROXY: return PINPROXY_SOCKS_UNKNOWN_PROXY;
    case CURLE_OUT_OF_MEMORY: return PINPROXY_SOCKS_NO_MEMORY;
    default: return PINPROXY_SOCKS_OTHER;
    }
}

const char *pinproxy_socks_words(int result) { return curl.easy_strerror((CURLcode)result); }

struct dial {
    int (*open)(void *owner, struct sockaddr *address, unsigned length);
    void *owner;
};

static curl_socket_t on_open(void *data, curlsocktype purpose, struct curl_sockaddr *address) {
    (void)purpose;
    struct dial *dial = data;
    return dial->open(dial->owner, &address->addr, address->addrlen);
}

void *pinproxy_socks_create(
    const struct pinproxy_socks_target *target, int (*open)(void *dial, struct sockaddr *address, unsigned length), void *owner,
    int (*close)(void *dialler, int descriptor), void *dialler, char *error_buffer
) {
    struct dial *dial = malloc(sizeof *dial);
    CURL *easy = curl.easy_init();
    if (!dial || !easy) {
        free(dial);
        curl.easy_cleanup(easy);
        return NULL;
    }
    *dial = (struct dial){open, owner};
    // An option that is refused may be one that security rests on: then there is no handle.
    int refused = 0;
#define SET(option, value) refused |= curl.easy_setopt(easy, option, value) != CURLE_OK
    SET(CURLOPT_PRIVATE, dial);
    SET(CURLOPT_ERRORBUFFER, error_buffer);
    SET(CURLOPT_URL, target->url);
    SET(CURLOPT_CONNECT_ONLY, 1L);
    SET(CURLOPT_OPENSOCKETFUNCTION, on_open);
    SET(CURLOPT_OPENSOCKETDATA, dial);
    SET(CURLOPT_CLOSESOCKETFUNCTION, close);
    SET(CURLOPT_CLOSESOCKETDATA, dialler);
    SET(CURLOPT_PROTOCOLS_STR, "http");
    // No proxy of the environment.
    SET(CURLOPT_PROXY, target->proxy);
    SET(CURLOPT_NOPROXY, "");
    // The proxy chooses among what is offered, and libcurl reads a GSS-API negotiation in blocking calls.
    SET(CURLOPT_SOCKS5_AUTH, (long)CURLAUTH_BASIC);
    SET(CURLOPT_PROXYUSERNAME, target->user);
    SET(CURLOPT_PROXYPASSWORD, target->password);
    SET(CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_TCP_NODELAY, 1L);
    // The deadline is the caller's: libcurl's would be five minutes.
    SET(CURLOPT_CONNECTTIMEOUT_MS, 0x7fffffffL);
    // Alt-Svc and HSTS are off as long as CURLOPT_ALTSVC_CTRL and CURLOPT_HSTS_CTRL are never set.
#undef SET
    if (refused) {
        curl.easy_cleanup(easy);
        free(dial);
        return NULL;
    }
    return easy;
}

static struct dial *dial_of(CURL *easy) {
    struct dial *dial = NULL;
    curl.easy_getinfo(easy, CURLINFO_PRIVATE, &dial);
    return dial;
}

void pinproxy_socks_destroy(void *easy) {
    struct dial *dial = dial_of(easy);
    curl.easy_cleanup(easy);
    free(dial);
}

void *pinproxy_socks_owner(void *easy) { return dial_of(easy)->owner; }

int pinproxy_socks_descriptor(void *easy) {
    curl_socket_t descriptor = CURL_SOCKET_BAD;
    return curl.easy_getinfo(easy, CURLINFO_ACTIVESOCKET, &descriptor) == CURLE_OK ? descriptor : -1;
}

void *pinproxy_socks_multi(
    int (*watch)(void *easy, int descriptor, int what, void *dialler, void *known),
    int (*plan)(void *multi, long milliseconds, void *dialler), void *dialler
) {
    CURLM *multi = curl.multi_init();
    if (!multi)
        return NULL;
    curl.multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, watch);
    curl.multi_setopt(multi, CURLMOPT_SOCKETDATA, dialler);
    curl.multi_setopt(multi, CURLMOPT_TIMERFUNCTION, plan);
    curl.multi_setopt(multi, CURLMOPT_TIMERDATA, dialler);
    // Connections leave libcurl when they are made: it keeps none.
    curl.multi_setopt(multi, CURLMOPT_MAXCONNECTS, 1L);
    return multi;
}

void pinproxy_socks_multi_free(void *multi) { curl.multi_cleanup(multi); }

bool pinproxy_socks_add(void *multi, void *easy) { return curl.multi_add_handle(multi, easy) == CURLM_OK; }

void pinproxy_socks_remove(void *multi, void *easy) { curl.multi_remove_handle(multi, easy); }

int pinproxy_socks_events(int what) {
    if (what == CURL_POLL_REMOVE)
        return -1;
    return (what & CURL_POLL_IN ? (int)PINPROXY_EVENT_IN : 0) | (what & CURL_POLL_OUT ? (int)PINPROXY_EVENT_OUT : 0);
}

void pinproxy_socks_act(void *multi, int descriptor, uint32_t events) {
    int mask = 0, running = 0;
    if (events & (PINPROXY_EVENT_IN | PINPROXY_EVENT_PEER_CLOSED))
        mask |= CURL_CSELECT_IN;
    if (events & PINPROXY_EVENT_OUT)
        mask |= CURL_CSELECT_OUT;
    if (events & (PINPROXY_EVENT_ERROR | PINPROXY_EVENT_HANGUP))
        mask |= CURL_CSELECT_ERR | CURL_CSELECT_IN;
    curl.multi_socket_action(multi, descriptor < 0 ? CURL_SOCKET_TIMEOUT : descriptor, mask, &running);
}

void *pinproxy_socks_next_finished(void *multi, int *result) {
    int left = 0;
    CURLMsg *message;
    while ((message = curl.multi_info_read(multi, &left))) {
        if (message->msg == CURLMSG_DONE) {
            *result = (int)message->data.result;
            return message->easy_handle;
        }
    }
    return NULL;
}
