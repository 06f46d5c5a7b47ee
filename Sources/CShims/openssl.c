#include "pinproxy_openssl.h"

#include <openssl/crypto.h>
#include <openssl/rsa.h>

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

long pinproxy_ssl_staple(SSL *ssl, const unsigned char **start) {
    *start = NULL;
    return SSL_get_tlsext_status_ocsp_resp(ssl, start);
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

void pinproxy_openssl_free(void *pointer) {
    OPENSSL_free(pointer);
}
