// SPDX-License-Identifier: Apache-2.0
#include <openssl/ssl.h>

/* A macro in OpenSSL's header, which Swift does not see. */
static inline long set_server_name(SSL *ssl, const char *name) {
    return SSL_set_tlsext_host_name(ssl, name);
}
