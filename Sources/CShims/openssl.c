// SPDX-License-Identifier: Apache-2.0
#include "pinproxy_openssl.h"

#include <openssl/err.h>
#include <openssl/crypto.h>
#include <openssl/rsa.h>
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

/* OpenSSL's handler at exit frees what threads that still run use. Only the first call into the library can leave it out, so that
   is made here, before main(), in pinproxy and in every program that has the libraries. */
__attribute__((constructor)) static void leave_out_exit_handler(void) {
    OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL);
}

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

/* While it is set, nothing is read. The bits from 0x100 on mean something to one type of BIO alone (BIO_FLAGS_MEM_RDONLY). */
#define HOLDS_INPUT 0x100

void pinproxy_ssl_hold_input(SSL *ssl, int is_held) {
    BIO *bio = SSL_get_rbio(ssl);
    if (is_held) BIO_set_flags(bio, HOLDS_INPUT);
    else BIO_clear_flags(bio, HOLDS_INPUT);
}

static int holds_input(BIO *bio) {
    if (!BIO_test_flags(bio, HOLDS_INPUT)) return 0;
    BIO_set_retry_read(bio);
    return 1;
}

static int socket_read(BIO *bio, char *room, int capacity) {
    BIO_clear_retry_flags(bio);
    if (holds_input(bio)) return -1;
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

static int outer_result(BIO *bio, SSL *outer, int result) {
    switch (result > 0 ? SSL_ERROR_NONE : SSL_get_error(outer, result)) {
    case SSL_ERROR_NONE:
        return result;
    case SSL_ERROR_WANT_READ:
        BIO_set_retry_read(bio);
        return -1;
    case SSL_ERROR_WANT_WRITE:
        BIO_set_retry_write(bio);
        return -1;
    case SSL_ERROR_ZERO_RETURN:
        BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
        return 0;
    default:
        return -1;
    }
}

static int outer_write(BIO *bio, const char *bytes, int count) {
    SSL *outer = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    return outer_result(bio, outer, SSL_write(outer, bytes, count));
}

static int outer_read(BIO *bio, char *room, int capacity) {
    SSL *outer = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    if (holds_input(bio)) return -1;
    return outer_result(bio, outer, SSL_read(outer, room, capacity));
}

static BIO_METHOD *socket_method;
static BIO_METHOD *outer_method;

static BIO_METHOD *make_method(const char *name, int (*write)(BIO *, const char *, int), int (*read)(BIO *, char *, int)) {
    BIO_METHOD *method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, name);
    if (method != NULL && BIO_meth_set_write(method, write) == 1 && BIO_meth_set_read(method, read) == 1 &&
        BIO_meth_set_ctrl(method, socket_control) == 1)
        return method;
    BIO_meth_free(method);
    return NULL;
}

static void make_methods(void) {
    socket_method = make_method("pinproxy socket", socket_write, socket_read);
    outer_method = make_method("pinproxy outer TLS", outer_write, outer_read);
}

static int adopt(SSL *ssl, BIO_METHOD **method, void *data) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_methods);
    BIO *bio = *method != NULL ? BIO_new(*method) : NULL;
    if (bio == NULL) return 0;
    BIO_set_data(bio, data);
    BIO_set_init(bio, 1);
    // One reference for both directions: SSL_set_bio(3) takes one when they are the same.
    SSL_set_bio(ssl, bio, bio);
    SSL_set_mode(ssl, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    return 1;
}

int pinproxy_ssl_adopt_socket(SSL *ssl, int descriptor) {
    return adopt(ssl, &socket_method, (void *)(intptr_t)descriptor);
}

int pinproxy_ssl_adopt_outer(SSL *ssl, SSL *outer) { return adopt(ssl, &outer_method, outer); }

void pinproxy_clear_errors(void) {
    if (ERR_peek_error() != 0) ERR_clear_error();
}

size_t pinproxy_asn1_bytes(const void *string, const unsigned char **start) {
    *start = ASN1_STRING_get0_data(string);
    int length = ASN1_STRING_length(string);
    return length < 0 ? 0 : (size_t)length;
}

int pinproxy_crl_compare_numbers(const X509_CRL *one, const X509_CRL *other) {
    ASN1_INTEGER *first = X509_CRL_get_ext_d2i(one, NID_crl_number, NULL, NULL);
    ASN1_INTEGER *second = X509_CRL_get_ext_d2i(other, NID_crl_number, NULL, NULL);
    int result = first == NULL || second == NULL ? 0 : ASN1_INTEGER_cmp(first, second);
    ASN1_INTEGER_free(first);
    ASN1_INTEGER_free(second);
    return result;
}

void pinproxy_openssl_free(void *pointer) {
    OPENSSL_free(pointer);
}

/* The words of CertificateMessage.Fault, in OpenSSL's queue of errors. */
static ERR_STRING_DATA certificate_faults[] = {
    {0, "certificates"},
    {0, "the certificates that it sent cannot be read"},
    {0, "it sent more than 16 certificates"},
    {0, "it sent more than 64 KB of certificates"},
    {0, "it sent a certificate whose elliptic curve is given by an equation instead of a name"},
    {0, "it sent a certificate with an RSA key of more than 8192 bits"},
    {0, "it sent a certificate with an RSA exponent above 2^32"},
    {0, "it sent a certificate with a DSA or Diffie-Hellman key"},
    {0, "its group for Diffie-Hellman has more than 4096 bits"},
    {0, NULL},
};
/* OpenSSL 3.2 and later compress certificates. A program that was compiled with older headers meets it, too, for the library has the
   same name; to the older library these two options mean nothing. */
#ifndef SSL_OP_NO_RX_CERTIFICATE_COMPRESSION
#define SSL_OP_NO_TX_CERTIFICATE_COMPRESSION SSL_OP_BIT(32)
#define SSL_OP_NO_RX_CERTIFICATE_COMPRESSION SSL_OP_BIT(33)
#endif
#ifndef SSL3_MT_COMPRESSED_CERTIFICATE
#define SSL3_MT_COMPRESSED_CERTIFICATE 25
#endif

enum { UNREADABLE = 1, LARGE_MODULUS = 8, MOST_MODULUS_BYTES = 4096 / 8 };
static int certificate_library;
static pthread_once_t certificate_once = PTHREAD_ONCE_INIT;
static int guard_index = -1;

static void load_certificate_faults(void) {
    certificate_library = ERR_get_next_error_library();
    for (int reason = 1; certificate_faults[reason].string != NULL; reason++)
        certificate_faults[reason].error = ERR_PACK(certificate_library, 0, reason);
    certificate_faults[0].error = ERR_PACK(certificate_library, 0, 0);
    ERR_load_strings(certificate_library, certificate_faults);
    guard_index = SSL_CTX_get_ex_new_index(0, NULL, NULL, NULL, NULL);
}

/* Whether a server of TLS 1.2 has chosen a modulus for Diffie-Hellman (RFC 5246, section 7.4.3) that costs too much to compute
   with. What cannot be read is left to OpenSSL, which refuses it. */
static int has_large_modulus(const SSL *ssl, const unsigned char *body, size_t count) {
    const SSL_CIPHER *cipher = SSL_get_pending_cipher(ssl);
    if (cipher == NULL || SSL_CIPHER_get_kx_nid(cipher) != NID_kx_dhe || count < 2) return 0;
    size_t length = (size_t)body[0] << 8 | body[1];
    if (length > count - 2) return 0;
    const unsigned char *modulus = body + 2;
    while (length > 0 && *modulus == 0) modulus++, length--;
    return length > MOST_MODULUS_BYTES;
}

/* OpenSSL calls it with each message that it has read, and decodes the message afterwards (SSL_CTX_set_msg_callback(3)). It
   takes no for an answer from the message alone: one that is refused is overwritten so that no part of it can be decoded. */
static void see_message(int is_written, int version, int type, const void *bytes, size_t count, SSL *ssl, void *argument) {
    (void)argument;
    const unsigned char *message = bytes;
    if (is_written || type != SSL3_RT_HANDSHAKE || count < 4) return;
    int fault = 0;
    if (message[0] == SSL3_MT_CERTIFICATE) {
        pinproxy_certificate_check check;
        void *stored = SSL_CTX_get_ex_data(SSL_get_SSL_CTX(ssl), guard_index);
        memcpy(&check, &stored, sizeof check);
        fault = check == NULL ? 1 : check(message + 4, count - 4, version);
    } else if (message[0] == SSL3_MT_COMPRESSED_CERTIFICATE) {
        /* Nobody has offered to read it. */
        fault = UNREADABLE;
    } else if (message[0] == SSL3_MT_SERVER_KEY_EXCHANGE && has_large_modulus(ssl, message + 4, count - 4)) {
        fault = LARGE_MODULUS;
    }
    if (fault == 0) return;
    ERR_new();
    ERR_set_debug(__FILE__, __LINE__, __func__);
    ERR_set_error(certificate_library, fault, NULL);
    /* The first length is larger than the message. */
    memset((unsigned char *)(uintptr_t)bytes + 4, 0xFF, count - 4);
}

void pinproxy_ssl_ctx_guard_certificates(SSL_CTX *context, size_t limit, pinproxy_certificate_check check) {
    pthread_once(&certificate_once, load_certificate_faults);
    void *stored = NULL;
    memcpy(&stored, &check, sizeof check);
    SSL_CTX_set_ex_data(context, guard_index, stored);
    SSL_CTX_set_max_cert_list(context, (long)limit);
    SSL_CTX_set_msg_callback(context, see_message);
    /* The check does not read a compressed message (RFC 8879). */
    SSL_CTX_set_options(context, SSL_OP_NO_RX_CERTIFICATE_COMPRESSION | SSL_OP_NO_TX_CERTIFICATE_COMPRESSION);
}

/* What the peer of a connection does behind the handshake: whether it was declined another one, and its messages of TLS itself
   (session tickets, changes of keys, wishes to renegotiate), from 1 on. */
static int renegotiation_index = -1;
static int message_index = -1;
static pthread_once_t later_once = PTHREAD_ONCE_INIT;

static void make_later_indices(void) {
    renegotiation_index = SSL_get_ex_new_index(0, NULL, NULL, NULL, NULL);
    message_index = SSL_get_ex_new_index(0, NULL, NULL, NULL, NULL);
}

/* Each costs microseconds, and as long as they come SSL_read(3) does not return. */
#define MOST_MESSAGES 250

/* OpenSSL calls it with each step that a message makes, and each alert (SSL_CTX_set_info_callback(3)). */
static void see_step(const SSL *ssl, int where, int value) {
    int is_declined = where == SSL_CB_WRITE_ALERT && (value & 0xFF) == SSL_AD_NO_RENEGOTIATION;
    if (!is_declined && (where & SSL_CB_LOOP) == 0) return;
    /* The connection is this thread's, and only the declaration of the callback makes it constant. */
    SSL *own = (SSL *)(uintptr_t)ssl;
    if (is_declined) SSL_set_ex_data(own, renegotiation_index, &renegotiation_index);
    uintptr_t count = (uintptr_t)SSL_get_ex_data(ssl, message_index);
    if (count == 0) return;
    SSL_set_ex_data(own, message_index, (void *)(count + 1));
    /* OpenSSL reads nothing any more, as behind close_notify: the callers tell the two apart (pinproxy_ssl_is_flooded). */
    if (count >= MOST_MESSAGES) SSL_set_shutdown(own, SSL_get_shutdown(ssl) | SSL_RECEIVED_SHUTDOWN);
}

void pinproxy_ssl_ctx_count_messages(SSL_CTX *context) {
    pthread_once(&later_once, make_later_indices);
    SSL_CTX_set_info_callback(context, see_step);
}

void pinproxy_ssl_end_guard(SSL *ssl) {
    SSL_set_msg_callback(ssl, NULL);
    SSL_set_ex_data(ssl, message_index, (void *)1);
}

int pinproxy_ssl_is_flooded(const SSL *ssl) {
    return message_index >= 0 && (uintptr_t)SSL_get_ex_data(ssl, message_index) > MOST_MESSAGES;
}

int pinproxy_ssl_has_declined_renegotiation(const SSL *ssl) {
    return renegotiation_index >= 0 && SSL_get_ex_data(ssl, renegotiation_index) != NULL;
}

/* Tries one list after the other, the first for newer releases of OpenSSL. */
static int set_first(SSL_CTX *context, int command, const char *const lists[2]) {
    ERR_set_mark();
    int result = 0;
    for (int index = 0; index < 2 && result != 1; index++)
        result = SSL_CTX_ctrl(context, command, 0, (void *)(uintptr_t)lists[index]) == 1;
    if (result == 1) ERR_pop_to_mark();
    else ERR_clear_last_mark();
    return result;
}

int pinproxy_ssl_ctx_set_groups(SSL_CTX *context) {
    /* A client sends shares for the marked ones. Releases before 3.5 know neither the marks nor the first one. */
    static const char *const lists[] = {"?*X25519MLKEM768 / ?*X25519 / ?P-256 / ?P-384:?P-521", "X25519:P-256:P-384:P-521"};
    return set_first(context, SSL_CTRL_SET_GROUPS_LIST, lists);
}

int pinproxy_ssl_ctx_require_groups(SSL_CTX *context, const char *list) {
    return SSL_CTX_set1_groups_list(context, list) == 1;
}

int pinproxy_ssl_require_groups(SSL *ssl, const char *list) { return SSL_set1_groups_list(ssl, list) == 1; }

const char *pinproxy_ssl_group(SSL *ssl) {
    int group = (int)SSL_get_negotiated_group(ssl);
    return group == NID_undef ? NULL : SSL_group_to_name(ssl, group);
}

#define SIGNATURE_ALGORITHMS \
    "ecdsa_secp256r1_sha256:ecdsa_secp384r1_sha384:ecdsa_secp521r1_sha512:ed25519:ed448:" \
    "rsa_pss_pss_sha256:rsa_pss_pss_sha384:rsa_pss_pss_sha512:rsa_pss_rsae_sha256:rsa_pss_rsae_sha384:rsa_pss_rsae_sha512:" \
    "rsa_pkcs1_sha256:rsa_pkcs1_sha384:rsa_pkcs1_sha512"

int pinproxy_ssl_ctx_set_signature_algorithms(SSL_CTX *context) {
    /* Releases before 3.5 know neither ML-DSA nor the marks. */
    static const char *const lists[] = {"?mldsa65:?mldsa87:?mldsa44:" SIGNATURE_ALGORITHMS, SIGNATURE_ALGORITHMS};
    return set_first(context, SSL_CTRL_SET_SIGALGS_LIST, lists);
}
