#include "pinproxy_openssl.h"

#include <openssl/crypto.h>

int pinproxy_ssl_ctx_set_min_version(SSL_CTX *context, int version) {
    return SSL_CTX_set_min_proto_version(context, version);
}

void pinproxy_ssl_ctx_full_handshakes_only(SSL_CTX *context) {
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION);
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

void pinproxy_openssl_free(void *pointer) {
    OPENSSL_free(pointer);
}
