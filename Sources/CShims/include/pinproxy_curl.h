// libcurl's `curl_easy_setopt`, `curl_easy_getinfo` and `curl_multi_setopt` are variadic, which Swift cannot call;
// its pause and socket constants are casts that do not import. One function sets what changes from one request to
// the next, one reads all metrics, so that a request crosses the language border few times.
#ifndef PINPROXY_CURL_H
#define PINPROXY_CURL_H

#include <curl/curl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The callbacks of a transfer; `owner` is handed to each.
struct pinproxy_transfer_callbacks {
    // One whole header line, its CRLF included. Returns false to end the transfer.
    bool (*header)(void *owner, const char *line, size_t count);
    // Bytes of the body as they came (chunked coding included). Returns PINPROXY_BODY_…. Before these the lines of each
    // head as well, where `pinproxy_curl_joins_lines` says so.
    int (*body)(void *owner, const char *bytes, size_t count);
    // Room for bytes of the request body. Returns the count, or PINPROXY_UPLOAD_….
    ptrdiff_t (*upload)(void *owner, char *room, size_t count);
    // A new connection's SSL_CTX. Returns false to refuse.
    bool (*tls)(void *owner, void *ssl_context);
    // A connection is about to carry the request, new or reused; `ssl` is null without TLS.
    // Returns false to end the transfer before a byte of the request is sent.
    bool (*ready)(void *owner, void *ssl, const char *address, int port, int local_port);
    // A socket for that address, or -1 to refuse the address.
    int (*open)(void *owner, const struct sockaddr *address, unsigned length, int family, int type, int protocol);
};

enum { PINPROXY_BODY_TAKEN = 0, PINPROXY_BODY_PAUSE = 1, PINPROXY_BODY_FAILED = 2 };
enum { PINPROXY_UPLOAD_PAUSE = -1, PINPROXY_UPLOAD_ABORT = -2 };

// Once in a process, before any other use: without OpenSSL's exit handler, which races live handles.
bool pinproxy_curl_global_init(void);

// Whether libcurl joins a line of a head that begins with a blank to the field that the handle stored last, even where
// that was of the transfer before, and is freed by then: before 8.1 (curl #11101). `data->state.prevhead`, which
// Curl_headers_push (headers.c) follows, outlives Curl_headers_cleanup there.
//
// Such a line must be refused before it is stored. The header callback is called behind that, the body callback ahead of
// it (chop_write in sendf.c, where the other callers of Curl_headers_push are, too: HTTP/2 alone stores elsewhere, the
// pseudo field `:status`, which does not begin with a blank). So the body callback is given each line of a head as well
// (CURLOPT_HEADER), in pieces of at most 16 KB, and the header callback the same line whole afterwards. What it is not
// given are trailers of HTTP/2, whose names nghttp2 has checked, and the answer of a proxy to CONNECT, which is not stored
// (CURLOPT_SUPPRESS_CONNECT_HEADERS); trailers of HTTP/1 stay in the body (CURLOPT_HTTP_TRANSFER_DECODING 0).
bool pinproxy_curl_joins_lines(void);

// An easy handle with all that is the same for every request of this program.
CURL *pinproxy_easy_create(const struct pinproxy_transfer_callbacks *callbacks, char *error_buffer, long lifetime,
                           int (*close_socket)(void *owner, int descriptor), void *close_owner);

// Whom the callbacks are for; before the first use of the handle.
void pinproxy_easy_set_owner(CURL *easy, void *owner);
void pinproxy_easy_destroy(CURL *easy);

// Where a request goes: set when a handle changes its endpoint.
struct pinproxy_endpoint {
    const char *url;
    // The same, parsed: libcurl would parse it anew for each request.
    CURLU *parsed_url;
    // `CURLOPT_CONNECT_TO`, or null.
    struct curl_slist *connect_to;
    bool http2;
    bool verify_host;
};
void pinproxy_easy_set_endpoint(CURL *easy, const struct pinproxy_endpoint *endpoint);

// Has the handle reach its endpoint through a tunnel of a proxy; all null: without one.
void pinproxy_easy_set_proxy(CURL *easy, const char *url, const char *user, const char *password);

// Has the handle make a connection, TLS included, and send nothing on it: what it carries is the caller's. Such a connection
// is never used for another transfer (ConnectionExists in libcurl's url.c), nor is such a handle used again. libcurl
// offers no protocol of its own in the handshake then (ALPN): the context function may.
void pinproxy_easy_connect_only(CURL *easy);
// The socket of a connection that was made so and that the caller now has; -1 when there is none.
//
// Reads once as well, for libcurl counts the connection as one in use only then: until that it would close it to make
// room for others to the same host (Curl_conncache_extract_bundle), or because something has come (extract_if_dead).
// `result` is CURLE_OK with what was read, 0 at the end; CURLE_AGAIN when nothing has come; or what went wrong.
curl_socket_t pinproxy_easy_take_connection(CURL *easy, void *room, size_t capacity, size_t *count, CURLcode *result);

enum { PINPROXY_BODY_NONE = -2, PINPROXY_BODY_UNKNOWN = -1 };

// Has OpenSSL read as much as there is at once, up to 32 KB, instead of each record's head and body by themselves. What
// it has read and not yet given is asked for with `SSL_has_pending`, since the socket does not tell of it any more.
// The buffer is let go of while nothing is in it. `took_record` is told of each record that OpenSSL begins to take.
void pinproxy_tls_read_ahead(void *ssl_context, void (*took_record)(void *ssl));

// What changes with each request.
struct pinproxy_request {
    const char *method;
    const char *target;
    struct curl_slist *fields;
    // Bytes of the body, or PINPROXY_BODY_NONE, PINPROXY_BODY_UNKNOWN.
    int64_t body_length;
    bool head;
    bool fresh_connection;
};
void pinproxy_easy_set_request(CURL *easy, const struct pinproxy_request *request);

// Adds a trailer field, `Name: value`, to what follows the chunked body under way; called before the upload callback
// tells the body's end. In 7.88 the state of trailers stays with a handle: it must not be used for another request.
void pinproxy_easy_add_trailer(CURL *easy, const void *line);

// Times in microseconds from the transfer's start; 0: did not happen.
struct pinproxy_transfer_info {
    int64_t name_lookup;
    int64_t connect;
    int64_t tls;
    int64_t pre_transfer;
    int64_t start_transfer;
    int64_t total;
    int64_t uploaded;
    int64_t downloaded;
    long request_size;
    long header_size;
    long new_connections;
    long http_version;
    long os_error;
};
void pinproxy_easy_info(CURL *easy, struct pinproxy_transfer_info *info);

// Lets a paused transfer go on in both directions.
CURLcode pinproxy_easy_continue(CURL *easy);

typedef int (*pinproxy_socket_callback)(CURL *easy, curl_socket_t descriptor, int what, void *owner, void *socket);
typedef int (*pinproxy_timer_callback)(CURLM *multi, long milliseconds, void *owner);
CURLM *pinproxy_multi_create(pinproxy_socket_callback socket, pinproxy_timer_callback timer, void *owner,
                             long connections);

// Closes the connection that has been idle the longest, if there is an idle one; drives the multi handle while it does.
// libcurl has no call for that: `visitor`, of `pinproxy_idle_visitor`, asks for a connection where there may be only one,
// so that an idle one has to make room, and is refused its socket. With `closes` false nothing is closed, and what had
// to wait meanwhile goes on.
void pinproxy_multi_close_idle(CURLM *multi, CURL *visitor, bool closes);
// Free it with `curl_easy_cleanup`; null without memory.
CURL *pinproxy_idle_visitor(void);
// The connection of a transfer that is under way closes with it.
void pinproxy_easy_forbid_reuse(CURL *easy, bool is_forbidden);

// The next finished transfer, or null.
CURL *pinproxy_multi_next_finished(CURLM *multi, CURLcode *result);
// The owner that `pinproxy_easy_set_owner` was given.
void *pinproxy_easy_owner(CURL *easy);

#endif
