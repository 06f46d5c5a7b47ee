// SPDX-License-Identifier: Apache-2.0
// OpenSSL calls that are macros, and so out of Swift's reach.
#ifndef PINPROXY_OPENSSL_H
#define PINPROXY_OPENSSL_H

#include <openssl/bio.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

// SSL_CTX_set_min_proto_version (a macro over SSL_CTX_ctrl): 1 on success.
int pinproxy_ssl_ctx_set_min_version(SSL_CTX *context, int version);

// Session cache off and no tickets (macros over SSL_CTX_ctrl and shifted option bits), and no renegotiation: every
// connection of the context makes a full handshake, once.
void pinproxy_ssl_ctx_full_handshakes_only(SSL_CTX *context);

// The callback that looks at staples (SSL_CTX_set_tlsext_status_cb and _arg are macros). On a client that asked for one
// it runs before the handshake ends, with a staple or without: 1 goes on, 0 refuses. On a server it gives one.
int pinproxy_ssl_ctx_on_status(SSL_CTX *context, int (*callback)(SSL *, void *), void *argument);

// Has the context's connections ask for a stapled OCSP response (SSL_CTX_set_tlsext_status_type is a macro): 1 on
// success.

// The same two for one connection (SSL_set_min_proto_version and SSL_set_tlsext_status_type are macros): 1 on success.
int pinproxy_ssl_set_min_version(SSL *ssl, int version);
int pinproxy_ssl_ask_for_staple(SSL *ssl);

// The name that the client asks for in the handshake (SSL_set_tlsext_host_name is a macro), and the versions it takes: 1 on success.
int pinproxy_ssl_set_server_name(SSL *ssl, const char *name);

// A client's context for connections that read ahead: one recv(2) takes up to `room` bytes of records, and memory for them
// is given back when there is nothing to read (SSL_CTX_set_read_ahead and SSL_CTX_set_mode are macros).
void pinproxy_ssl_ctx_read_ahead(SSL_CTX *context, size_t room);

// SSL_get_tlsext_status_ocsp_resp (a macro over SSL_ctrl): the staple's length, and where it starts; -1 without one.
long pinproxy_ssl_staple(SSL *ssl, const unsigned char **start);

// A server's look at the host that the client wants (SSL_CTX_set_tlsext_servername_callback and _arg are macros); it
// runs without one too. 1 on success.
int pinproxy_ssl_ctx_on_server_name(SSL_CTX *context, int (*callback)(SSL *, int *, void *), void *argument);

// Has the peers' certificates verified with a store, of which it takes a reference (SSL_CTX_set1_verify_cert_store is a
// macro): 1 on success.
int pinproxy_ssl_ctx_verify_with(SSL_CTX *context, X509_STORE *store);

// BIO_get_mem_data (a macro over BIO_ctrl): the length, and where the bytes start.
long pinproxy_bio_memory(BIO *bio, const char **start);

// X509_NAME_print_ex on one line (its flags are macros made of macros): UTF-8 as it is, what could harm a line escaped.
int pinproxy_name_print(BIO *bio, const X509_NAME *name);

// An RSASSA-PSS signature's digest (NID), from its parameters, which are structures of unions; 0 when they are broken.
int pinproxy_pss_digest(const X509_ALGOR *algorithm);

// Has a connection that stands use a socket by itself from now on, whatever it went through before; the socket stays
// the caller's. Writing raises no SIGPIPE, takes as much as there is room for, and may be repeated from another place
// (SSL_set_mode is a macro). 1 on success.
int pinproxy_ssl_adopt_socket(SSL *ssl, int descriptor);

// The same over another connection of TLS, which stays the caller's and has to live longer. Unlike BIO_f_ssl(3) it does
// not touch the outer connection when `ssl` is freed: BIO_f_ssl sends a close_notify, even before a reset. 1 on success.
int pinproxy_ssl_adopt_outer(SSL *ssl, SSL *outer);

// Whether a connection of one of these two reads nothing, as if nothing had come, until it is called with 0.
void pinproxy_ssl_hold_input(SSL *ssl, int is_held);

// Judges the body of a peer's Certificate message before it is decoded: 0 accepts, else a number of CertificateMessage.Fault.
typedef int (*pinproxy_certificate_check)(const unsigned char *body, size_t count, int version);

// Has `check` see each Certificate message of the context's connections (the message callback's values are macros). A message
// that is refused, or is longer than `limit` bytes, ends the handshake; the words of the fault are the first in the error queue.
void pinproxy_ssl_ctx_guard_certificates(SSL_CTX *context, size_t limit, pinproxy_certificate_check check);

// Ends that for a connection whose handshake is complete: no further certificate is taken, and each record would call back.
// From here on its messages of TLS itself are counted (pinproxy_ssl_ctx_count_messages).
void pinproxy_ssl_end_guard(SSL *ssl);

// The groups for key exchange, the same on both sides (SSL_CTX_set1_groups_list is a macro): X25519MLKEM768 where OpenSSL has
// it, X25519, P-256, P-384, P-521. None of a finite field: one share of ffdhe8192 costs 150 ms. 1 on success.
int pinproxy_ssl_ctx_set_groups(SSL_CTX *context);

// The same with these groups and no others, by OpenSSL's names with colons between them; 0 where OpenSSL has not one of them.
int pinproxy_ssl_ctx_require_groups(SSL_CTX *context, const char *list);
int pinproxy_ssl_require_groups(SSL *ssl, const char *list);

// The group that the key exchange was agreed on, by OpenSSL's name for it in TLS (SSL_get_negotiated_group is a macro); NULL
// before, and for a key exchange without one (RSA, and Diffie-Hellman with the server's own modulus).
const char *pinproxy_ssl_group(SSL *ssl);

// The algorithms that a server may sign a handshake with (SSL_CTX_set1_sigalgs_list is a macro): none with SHA-1, SHA-224 or
// DSA. 1 on success.
int pinproxy_ssl_ctx_set_signature_algorithms(SSL_CTX *context);

// Has the connections of a context count what comes behind the handshake and is no data: session tickets, changes of keys, and
// requests for another handshake (HelloRequest and ClientHello of TLS 1.2), which OpenSSL declines with the alert no_renegotiation
// (what the info callback gets are macros). SSL_read(3) takes all that have come before it returns, and answers some of them; behind
// the 250th it fails, without an entry in the error queue.
void pinproxy_ssl_ctx_count_messages(SSL_CTX *context);
// Whether a connection has had so many.
int pinproxy_ssl_is_flooded(const SSL *ssl);
// Whether a connection has declined another handshake.
int pinproxy_ssl_has_declined_renegotiation(const SSL *ssl);

// Compares the numbers of two revocation lists (RFC 5280, section 5.2.3): less than 0 where the first is lower; 0 where one of them
// has none.
int pinproxy_crl_compare_numbers(const X509_CRL *one, const X509_CRL *other);

// OPENSSL_free (a macro that adds file and line).
void pinproxy_openssl_free(void *pointer);

// Pointers to an ASN1_STRING or a time, which are the same structure. From OpenSSL 4.0 on it is opaque, and Swift then has no
// such type: these are UnsafePointer<ASN1_STRING> before, and OpaquePointer from then on.
typedef ASN1_STRING *pinproxy_asn1;
typedef const ASN1_STRING *pinproxy_const_asn1;

// The bytes of an ASN1_STRING, for values that OpenSSL gives as void *: the length, and where they start.
size_t pinproxy_asn1_bytes(const void *string, const unsigned char **start);

/* Empties the error queue of the thread. ERR_clear_error goes through its 16 places even if it is empty. */
void pinproxy_clear_errors(void);

#endif
