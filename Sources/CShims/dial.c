// SPDX-License-Identifier: Apache-2.0
#include "pinproxy_dial.h"

#include <openssl/crypto.h>
#include <sys/socket.h>

bool pinproxy_curl_global_init(void) {
    return curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
}
struct dial {
    struct pinproxy_dial_callbacks callbacks;
    void *owner;
};

static curl_socket_t on_open(void *data, curlsocktype purpose, struct curl_sockaddr *address) {
    (void)purpose;
    struct dial *dial = data;
    return dial->callbacks.open(dial->owner, &address->addr, address->addrlen, address->family);
}

CURL *pinproxy_dial_create(const struct pinproxy_dial_target *target, const struct pinproxy_dial_callbacks *callbacks,
                           void *owner, void *dialler, char *error_buffer) {
    struct dial *dial = OPENSSL_zalloc(sizeof *dial);
    CURL *easy = curl_easy_init();
    if (!dial || !easy) {
        OPENSSL_free(dial);
        curl_easy_cleanup(easy);
        return NULL;
    }
    dial->callbacks = *callbacks;
    dial->owner = owner;
    // An option that is refused may be one that security rests on: then there is no handle.
    int refused = 0;
#define SET(option, value) refused |= curl_easy_setopt(easy, option, value) != CURLE_OK
    SET(CURLOPT_PRIVATE, dial);
    SET(CURLOPT_ERRORBUFFER, error_buffer);
    SET(CURLOPT_URL, target->url);
    SET(CURLOPT_CONNECT_ONLY, 1L);
    SET(CURLOPT_OPENSOCKETFUNCTION, on_open);
    SET(CURLOPT_OPENSOCKETDATA, dial);
    SET(CURLOPT_CLOSESOCKETFUNCTION, callbacks->close);
    SET(CURLOPT_CLOSESOCKETDATA, dialler);
    SET(CURLOPT_PROTOCOLS_STR, "http");
    // No proxy of the environment.
    SET(CURLOPT_PROXY, target->proxy ? target->proxy : "");
    SET(CURLOPT_NOPROXY, target->proxy ? "" : "*");
    // The proxy chooses among what is offered, and libcurl reads a GSS-API negotiation in blocking calls.
    SET(CURLOPT_SOCKS5_AUTH, (long)CURLAUTH_BASIC);
    SET(CURLOPT_PROXYUSERNAME, target->proxy_user);
    SET(CURLOPT_PROXYPASSWORD, target->proxy_password);
    SET(CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_TCP_NODELAY, 1L);
    // The deadline is the caller's: libcurl's would be five minutes.
    SET(CURLOPT_CONNECTTIMEOUT_MS, 0x7fffffffL);
    // Alt-Svc and HSTS are off as long as CURLOPT_ALTSVC_CTRL and CURLOPT_HSTS_CTRL are never set.
#undef SET
    if (refused) {
        curl_easy_cleanup(easy);
        OPENSSL_free(dial);
        return NULL;
    }
    return easy;
}

static struct dial *dial_of(CURL *easy) {
    struct dial *dial = NULL;
    curl_easy_getinfo(easy, CURLINFO_PRIVATE, &dial);
    return dial;
}

void pinproxy_dial_destroy(CURL *easy) {
    struct dial *dial = dial_of(easy);
    curl_easy_cleanup(easy);
    OPENSSL_free(dial);
}

void *pinproxy_dial_owner(CURL *easy) { return dial_of(easy)->owner; }

int pinproxy_dial_socket(CURL *easy) {
    curl_socket_t descriptor = CURL_SOCKET_BAD;
    return curl_easy_getinfo(easy, CURLINFO_ACTIVESOCKET, &descriptor) == CURLE_OK ? descriptor : -1;
}

CURLM *pinproxy_multi_create(pinproxy_socket_callback socket, pinproxy_timer_callback timer, void *owner,
                             long connections) {
    CURLM *multi = curl_multi_init();
    if (!multi)
        return NULL;
    curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, socket);
    curl_multi_setopt(multi, CURLMOPT_SOCKETDATA, owner);
    curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, timer);
    curl_multi_setopt(multi, CURLMOPT_TIMERDATA, owner);
    curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, connections);
    return multi;
}

CURL *pinproxy_multi_next_finished(CURLM *multi, CURLcode *result) {
    int left = 0;
    CURLMsg *message;
    while ((message = curl_multi_info_read(multi, &left))) {
        if (message->msg == CURLMSG_DONE) {
            *result = message->data.result;
            return message->easy_handle;
        }
    }
    return NULL;
}
