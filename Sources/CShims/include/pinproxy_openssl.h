// OpenSSL calls that are macros, and so out of Swift's reach.
#ifndef PINPROXY_OPENSSL_H
#define PINPROXY_OPENSSL_H

#include <openssl/bio.h>
#include <openssl/ssl.h>

// SSL_CTX_set_min_proto_version (a macro over SSL_CTX_ctrl): 1 on success.
int pinproxy_ssl_ctx_set_min_version(SSL_CTX *context, int version);

// Session cache off and no tickets (macros over SSL_CTX_ctrl and shifted option bits), and no renegotiation: every
// connection of the context makes a full handshake, once.
void pinproxy_ssl_ctx_full_handshakes_only(SSL_CTX *context);

// BIO_get_mem_data (a macro over BIO_ctrl): the length, and where the bytes start.
long pinproxy_bio_memory(BIO *bio, const char **start);

// X509_NAME_print_ex on one line (its flags are macros made of macros): UTF-8 as it is, what could harm a line escaped.
int pinproxy_name_print(BIO *bio, const X509_NAME *name);

// OPENSSL_free (a macro that adds file and line).
void pinproxy_openssl_free(void *pointer);

#endif
