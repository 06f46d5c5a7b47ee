#include "pinproxy_openssl.h"

#include <openssl/crypto.h>
#include <openssl/rsa.h>
#include <errno.h>
#include <pthread.h>
#include <sys/socket.h>

int pinproxy_ssl_ctx_set_min_version(SSL_CTX *context, int version) {
    return SSL_CTX_set_min_proto_version(context, version);
}

void pinproxy_ssl_ctx_full_handshakes_only(SSL_CTX *context) {
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION);
}

int pinproxy_ssl_ctx_on_status(SSL_CTX *context, int (*callback)(SSL *, void *), void *argument) {
    return SSL_CTX_set_tlsext_status_cb(context, callback) == 1 && SSL_CTX_set_tlsext_status_arg(context, argument) == 1;
}

int pinproxy_ssl_ctx_ask_for_staple(SSL_CTX *context) {
    return SSL_CTX_set_tlsext_status_type(context, TLSEXT_STATUSTYPE_ocsp) == 1;
}

int pinproxy_ssl_set_min_version(SSL *ssl, int version) { return SSL_set_min_proto_version(ssl, version); }

int pinproxy_ssl_ask_for_staple(SSL *ssl) { return SSL_set_tlsext_status_type(ssl, TLSEXT_STATUSTYPE_ocsp) == 1; }

int pinproxy_ssl_set_server_name(SSL *ssl, const char *name) { return SSL_set_tlsext_host_name(ssl, name) == 1; }

void pinproxy_ssl_ctx_read_ahead(SSL_CTX *context, size_t room) {
    SSL_CTX_set_read_ahead(context, 1);
    SSL_CTX_set_default_read_buffer_len(context, room);
    SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
}

long pinproxy_ssl_staple(SSL *ssl, const unsigned char **start) {
    *start = NULL;
    return SSL_get_tlsext_status_ocsp_resp(ssl, start);
}

int pinproxy_ssl_ctx_on_server_name(SSL_CTX *context, int (*callback)(SSL *, int *, void *), void *argument) {
    return SSL_CTX_set_tlsext_servername_callback(context, callback) == 1 &&
           SSL_CTX_set_tlsext_servername_arg(context, argument) == 1;
}

int pinproxy_ssl_ctx_verify_with(SSL_CTX *context, X509_STORE *store) {
    return SSL_CTX_set1_verify_cert_store(context, store) == 1;
}

int pinproxy_pss_digest(const X509_ALGOR *algorithm) {
    const ASN1_OBJECT *object = NULL;
    const void *value = NULL;
    int type = V_ASN1_UNDEF;
    X509_ALGOR_get0(&object, &type, &value, algorithm);
    if (type != V_ASN1_SEQUENCE || value == NULL) return NID_undef;
    RSA_PSS_PARAMS *parameters = ASN1_item_unpack(value, ASN1_ITEM_rptr(RSA_PSS_PARAMS));
    if (parameters == NULL) return NID_undef;
    // Absent means SHA-1 (RFC 4055, section 3.1).
    int digest = NID_sha1;
    if (parameters->hashAlgorithm != NULL) {
        X509_ALGOR_get0(&object, NULL, NULL, parameters->hashAlgorithm);
        digest = OBJ_obj2nid(object);
    }
    RSA_PSS_PARAMS_free(parameters);
    return digest;
}

long pinproxy_bio_memory(BIO *bio, const char **start) {
    char *bytes = NULL;
    long count = BIO_get_mem_data(bio, &bytes);
    *start = bytes;
    return count;
}

int pinproxy_name_print(BIO *bio, const X509_NAME *name) {
    return X509_NAME_print_ex(bio, name, 0, XN_FLAG_ONELINE & ~ASN1_STRFLGS_ESC_MSB);
}

static int socket_write(BIO *bio, const char *bytes, int count) {
    BIO_clear_retry_flags(bio);
    ssize_t sent;
    do sent = send((int)(intptr_t)BIO_get_data(bio), bytes, (size_t)count, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) BIO_set_retry_write(bio);
    return (int)sent;
}

static int socket_read(BIO *bio, char *room, int capacity) {
    BIO_clear_retry_flags(bio);
    ssize_t received;
    do received = recv((int)(intptr_t)BIO_get_data(bio), room, (size_t)capacity, 0);
    while (received < 0 && errno == EINTR);
    if (received == 0) BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
    if (received < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) BIO_set_retry_read(bio);
    return (int)received;
}

static long socket_control(BIO *bio, int command, long number, void *pointer) {
    (void)number, (void)pointer;
    switch (command) {
    case BIO_CTRL_FLUSH:
        return 1;
    case BIO_CTRL_EOF:
        return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0;
    default:
        return 0;
    }
}

static BIO_METHOD *socket_method;

static void make_socket_method(void) {
    BIO_METHOD *method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "pinproxy socket");
    if (method != NULL && BIO_meth_set_write(method, socket_write) == 1 && BIO_meth_set_read(method, socket_read) == 1 &&
        BIO_meth_set_ctrl(method, socket_control) == 1)
        socket_method = method;
}

int pinproxy_ssl_adopt_socket(SSL *ssl, int descriptor) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_socket_method);
    BIO *bio = socket_method != NULL ? BIO_new(socket_method) : NULL;
    if (bio == NULL) return 0;
    BIO_set_data(bio, (void *)(intptr_t)descriptor);
    BIO_set_init(bio, 1);
    // One reference for both directions: SSL_set_bio(3) takes one when they are the same.
    SSL_set_bio(ssl, bio, bio);
    SSL_set_mode(ssl, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    return 1;
}

void pinproxy_openssl_free(void *pointer) {
    OPENSSL_free(pointer);
}
