#include "pinproxy_curl.h"

#include <openssl/crypto.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

bool pinproxy_curl_global_init(void) {
    return OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL) == 1 && curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
}

bool pinproxy_curl_joins_lines(void) { return curl_version_info(CURLVERSION_NOW)->version_num < 0x080100; }

// What libcurl hands back to each callback. It lives as long as the easy handle.
struct transfer {
    struct pinproxy_transfer_callbacks callbacks;
    void *owner;
    CURL *easy;
    struct curl_slist *trailers;
};

static size_t on_header(char *bytes, size_t size, size_t count, void *data) {
    struct transfer *transfer = data;
    return transfer->callbacks.header(transfer->owner, bytes, size * count) ? size * count : 0;
}

static size_t on_body(char *bytes, size_t size, size_t count, void *data) {
    struct transfer *transfer = data;
    switch (transfer->callbacks.body(transfer->owner, bytes, size * count)) {
    case PINPROXY_BODY_TAKEN:
        return size * count;
    case PINPROXY_BODY_PAUSE:
        return CURL_WRITEFUNC_PAUSE;
    default:
        return size * count + 1;
    }
}

static int on_trailers(struct curl_slist **list, void *data) {
    struct transfer *transfer = data;
    // libcurl frees it.
    *list = transfer->trailers;
    transfer->trailers = NULL;
    return CURL_TRAILERFUNC_OK;
}

static size_t on_upload(char *room, size_t size, size_t count, void *data) {
    struct transfer *transfer = data;
    ptrdiff_t given = transfer->callbacks.upload(transfer->owner, room, size * count);
    if (given == PINPROXY_UPLOAD_PAUSE)
        return CURL_READFUNC_PAUSE;
    return given < 0 ? CURL_READFUNC_ABORT : (size_t)given;
}

static CURLcode on_tls(CURL *easy, void *context, void *data) {
    (void)easy;
    struct transfer *transfer = data;
    return transfer->callbacks.tls(transfer->owner, context) ? CURLE_OK : CURLE_ABORTED_BY_CALLBACK;
}

static int on_ready(void *data, char *address, char *local_address, int port, int local_port) {
    (void)local_address;
    struct transfer *transfer = data;
    struct curl_tlssessioninfo *session = NULL;
    void *ssl = NULL;
    if (curl_easy_getinfo(transfer->easy, CURLINFO_TLS_SSL_PTR, &session) == CURLE_OK && session &&
        session->backend == CURLSSLBACKEND_OPENSSL)
        ssl = session->internals;
    return transfer->callbacks.ready(transfer->owner, ssl, address, port, local_port) ? CURL_PREREQFUNC_OK
                                                                                     : CURL_PREREQFUNC_ABORT;
}

static curl_socket_t on_open(void *data, curlsocktype purpose, struct curl_sockaddr *address) {
    (void)purpose;
    struct transfer *transfer = data;
    return transfer->callbacks.open(transfer->owner, &address->addr, address->addrlen, address->family,
                                    address->socktype, address->protocol);
}

CURL *pinproxy_easy_create(const struct pinproxy_transfer_callbacks *callbacks, char *error_buffer, long lifetime,
                           int (*close_socket)(void *owner, int descriptor), void *close_owner) {
    struct transfer *data = OPENSSL_zalloc(sizeof *data);
    CURL *easy = curl_easy_init();
    if (!data || !easy) {
        OPENSSL_free(data);
        curl_easy_cleanup(easy);
        return NULL;
    }
    data->callbacks = *callbacks;
    data->easy = easy;
    // An option that is refused may be one that the security of every transfer rests on: then there is no handle.
    int refused = 0;
#define SET(option, value) refused |= curl_easy_setopt(easy, option, value) != CURLE_OK
    SET(CURLOPT_PRIVATE, data);
    SET(CURLOPT_ERRORBUFFER, error_buffer);
    SET(CURLOPT_HEADERFUNCTION, on_header);
    SET(CURLOPT_HEADERDATA, data);
    SET(CURLOPT_WRITEFUNCTION, on_body);
    SET(CURLOPT_WRITEDATA, data);
    SET(CURLOPT_READFUNCTION, on_upload);
    SET(CURLOPT_READDATA, data);
    SET(CURLOPT_SSL_CTX_FUNCTION, on_tls);
    SET(CURLOPT_SSL_CTX_DATA, data);
    SET(CURLOPT_PREREQFUNCTION, on_ready);
    SET(CURLOPT_PREREQDATA, data);
    SET(CURLOPT_OPENSOCKETFUNCTION, on_open);
    SET(CURLOPT_OPENSOCKETDATA, data);
    SET(CURLOPT_CLOSESOCKETFUNCTION, close_socket);
    SET(CURLOPT_CLOSESOCKETDATA, close_owner);
    // Nothing but what the caller asked for: no proxy of the environment, no redirects, no fields, no decoding.
    SET(CURLOPT_PROXY, "");
    SET(CURLOPT_NOPROXY, "*");
    SET(CURLOPT_PROTOCOLS_STR, "http,https");
    SET(CURLOPT_FOLLOWLOCATION, 0L);
    SET(CURLOPT_PATH_AS_IS, 1L);
    SET(CURLOPT_HTTP09_ALLOWED, 0L);
    SET(CURLOPT_HEADER, pinproxy_curl_joins_lines() ? 1L : 0L);
    // A proxy's answer to CONNECT is no part of the origin's, and libcurl does not store its fields.
    SET(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
    SET(CURLOPT_HTTP_TRANSFER_DECODING, 0L);
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_QUICK_EXIT, 1L);
    SET(CURLOPT_TCP_NODELAY, 1L);
    SET(CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
    // Time is the session's own: libcurl's connect limit would be five minutes.
    SET(CURLOPT_CONNECTTIMEOUT_MS, 0x7fffffffL);
    SET(CURLOPT_MAXLIFETIME_CONN, lifetime);
    // The anchors are the snapshot's; libcurl's own store stays empty. The verdict is the callback's.
    SET(CURLOPT_CAINFO, NULL);
    SET(CURLOPT_CAPATH, NULL);
    SET(CURLOPT_SSL_VERIFYPEER, 1L);
    SET(CURLOPT_SSL_SESSIONID_CACHE, 0L);
    SET(CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    // Alt-Svc and HSTS are off as long as CURLOPT_ALTSVC_CTRL and CURLOPT_HSTS_CTRL are never set: any value of the
    // former, 0 included, makes a cache of alternative services and switches it on.
#undef SET
    if (refused) {
        curl_easy_cleanup(easy);
        OPENSSL_free(data);
        return NULL;
    }
    return easy;
}

void pinproxy_easy_set_owner(CURL *easy, void *owner) {
    struct transfer *transfer = NULL;
    curl_easy_getinfo(easy, CURLINFO_PRIVATE, &transfer);
    transfer->owner = owner;
}

void pinproxy_easy_destroy(CURL *easy) {
    struct transfer *data = NULL;
    curl_easy_getinfo(easy, CURLINFO_PRIVATE, &data);
    curl_easy_cleanup(easy);
    curl_slist_free_all(data->trailers);
    OPENSSL_free(data);
}

void pinproxy_easy_set_endpoint(CURL *easy, const struct pinproxy_endpoint *endpoint) {
    // Both: a request that libcurl repeats takes the text.
    curl_easy_setopt(easy, CURLOPT_URL, endpoint->url);
    curl_easy_setopt(easy, CURLOPT_CURLU, endpoint->parsed_url);
    curl_easy_setopt(easy, CURLOPT_CONNECT_TO, endpoint->connect_to);
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION,
                     (long)(endpoint->http2 ? CURL_HTTP_VERSION_2TLS : CURL_HTTP_VERSION_1_1));
    curl_easy_setopt(easy, CURLOPT_PIPEWAIT, endpoint->http2 ? 1L : 0L);
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, endpoint->verify_host ? 2L : 0L);
}

void pinproxy_easy_set_proxy(CURL *easy, const char *url, const char *user, const char *password) {
    curl_easy_setopt(easy, CURLOPT_PROXY, url ? url : "");
    curl_easy_setopt(easy, CURLOPT_NOPROXY, url ? "" : "*");
    curl_easy_setopt(easy, CURLOPT_HTTPPROXYTUNNEL, url ? 1L : 0L);
    curl_easy_setopt(easy, CURLOPT_PROXYAUTH, (long)CURLAUTH_BASIC);
    curl_easy_setopt(easy, CURLOPT_PROXYUSERNAME, user);
    curl_easy_setopt(easy, CURLOPT_PROXYPASSWORD, password);
}

void pinproxy_easy_connect_only(CURL *easy) {
    curl_easy_setopt(easy, CURLOPT_CONNECT_ONLY, 1L);
    curl_easy_setopt(easy, CURLOPT_SSL_ENABLE_ALPN, 0L);
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(easy, CURLOPT_PIPEWAIT, 0L);
}

curl_socket_t pinproxy_easy_take_connection(CURL *easy, void *room, size_t capacity, size_t *count, CURLcode *result) {
    curl_socket_t descriptor = CURL_SOCKET_BAD;
    *count = 0;
    *result = curl_easy_recv(easy, room, capacity, count);
    return curl_easy_getinfo(easy, CURLINFO_ACTIVESOCKET, &descriptor) == CURLE_OK ? descriptor : CURL_SOCKET_BAD;
}

void pinproxy_easy_set_request(CURL *easy, const struct pinproxy_request *request) {
    // HTTPGET first: it takes back what an upload or a HEAD of the handle's last use left.
    curl_easy_setopt(easy, CURLOPT_HTTPGET, 1L);
    if (request->head)
        curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
    if (request->body_length != PINPROXY_BODY_NONE) {
        curl_easy_setopt(easy, CURLOPT_UPLOAD, 1L);
        curl_easy_setopt(easy, CURLOPT_INFILESIZE_LARGE, (curl_off_t)request->body_length);
    }
    curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request->method);
    curl_easy_setopt(easy, CURLOPT_REQUEST_TARGET, request->target);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, request->fields);
    curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, request->fresh_connection ? 1L : 0L);
}

void pinproxy_easy_add_trailer(CURL *easy, const void *line) {
    struct transfer *transfer = NULL;
    curl_easy_getinfo(easy, CURLINFO_PRIVATE, &transfer);
    struct curl_slist *longer = curl_slist_append(transfer->trailers, line);
    if (!longer)
        return;
    if (!transfer->trailers) {
        curl_easy_setopt(easy, CURLOPT_TRAILERFUNCTION, on_trailers);
        curl_easy_setopt(easy, CURLOPT_TRAILERDATA, transfer);
    }
    transfer->trailers = longer;
}

// OpenSSL's message callback: of all it tells, the heads of records that came in.
static void on_tls_message(int written, int version, int content, const void *bytes, size_t count, SSL *ssl, void *data) {
    (void)version;
    (void)bytes;
    (void)count;
    if (!written && content == SSL3_RT_HEADER)
        ((void (*)(void *))data)(ssl);
}

void pinproxy_tls_read_ahead(void *ssl_context, void (*took_record)(void *ssl)) {
    SSL_CTX_set_msg_callback(ssl_context, on_tls_message);
    SSL_CTX_set_msg_callback_arg(ssl_context, took_record);
    SSL_CTX_set_read_ahead(ssl_context, 1);
    SSL_CTX_set_default_read_buffer_len(ssl_context, 32 << 10);
    SSL_CTX_set_mode(ssl_context, SSL_MODE_RELEASE_BUFFERS);
}

static int counts_bodies_as_requests(void) { return curl_version_info(CURLVERSION_NOW)->version_num >= 0x080700; }

void pinproxy_easy_info(CURL *easy, struct pinproxy_transfer_info *info) {
    curl_off_t value = 0;
#define TIME(option, field)                                                                                            \
    curl_easy_getinfo(easy, option, &value);                                                                           \
    info->field = value
    TIME(CURLINFO_NAMELOOKUP_TIME_T, name_lookup);
    TIME(CURLINFO_CONNECT_TIME_T, connect);
    TIME(CURLINFO_APPCONNECT_TIME_T, tls);
    TIME(CURLINFO_PRETRANSFER_TIME_T, pre_transfer);
    TIME(CURLINFO_STARTTRANSFER_TIME_T, start_transfer);
    TIME(CURLINFO_TOTAL_TIME_T, total);
    TIME(CURLINFO_SIZE_UPLOAD_T, uploaded);
    TIME(CURLINFO_SIZE_DOWNLOAD_T, downloaded);
#undef TIME
    curl_easy_getinfo(easy, CURLINFO_REQUEST_SIZE, &info->request_size);
    // Since libcurl 8.7 that is what was sent of head and body together; here it is that of the head.
    if (counts_bodies_as_requests())
        info->request_size -= (long)info->uploaded;
    curl_easy_getinfo(easy, CURLINFO_HEADER_SIZE, &info->header_size);
    curl_easy_getinfo(easy, CURLINFO_NUM_CONNECTS, &info->new_connections);
    curl_easy_getinfo(easy, CURLINFO_HTTP_VERSION, &info->http_version);
    curl_easy_getinfo(easy, CURLINFO_OS_ERRNO, &info->os_error);
}

CURLcode pinproxy_easy_continue(CURL *easy) { return curl_easy_pause(easy, CURLPAUSE_CONT); }

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

void *pinproxy_easy_owner(CURL *easy) {
    struct transfer *transfer = NULL;
    curl_easy_getinfo(easy, CURLINFO_PRIVATE, &transfer);
    return transfer->owner;
}

static curl_socket_t refuse_socket(void *data, curlsocktype purpose, struct curl_sockaddr *address) {
    (void)data, (void)purpose, (void)address;
    return CURL_SOCKET_BAD;
}

CURL *pinproxy_idle_visitor(void) {
    CURL *visitor = curl_easy_init();
    if (!visitor)
        return NULL;
    curl_easy_setopt(visitor, CURLOPT_URL, "http://127.0.0.1:9/");
    curl_easy_setopt(visitor, CURLOPT_OPENSOCKETFUNCTION, refuse_socket);
    curl_easy_setopt(visitor, CURLOPT_PROXY, "");
    curl_easy_setopt(visitor, CURLOPT_NOSIGNAL, 1L);
    return visitor;
}

void pinproxy_multi_close_idle(CURLM *multi, CURL *visitor, bool closes) {
    int running;
    curl_multi_setopt(multi, CURLMOPT_MAX_TOTAL_CONNECTIONS, closes ? 1L : 0L);
    if (curl_multi_add_handle(multi, visitor) == CURLM_OK) {
        curl_multi_socket_action(multi, CURL_SOCKET_TIMEOUT, 0, &running);
        curl_multi_remove_handle(multi, visitor);
    }
    curl_multi_setopt(multi, CURLMOPT_MAX_TOTAL_CONNECTIONS, 0L);
}

void pinproxy_easy_forbid_reuse(CURL *easy, bool is_forbidden) {
    curl_easy_setopt(easy, CURLOPT_FORBID_REUSE, is_forbidden ? 1L : 0L);
}
