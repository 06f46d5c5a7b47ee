// SPDX-License-Identifier: Apache-2.0
// Hashed passwords (crypt(5)): `crypt_data` is 32 KB of arrays, which Swift would import as a tuple of as many elements.
#ifndef PINPROXY_PASSWORD_H
#define PINPROXY_PASSWORD_H

#include <stdbool.h>

// Whether the system's libcrypt can verify a password against that hash.
bool pinproxy_password_hash_is_known(const char *hash);

// Hashes the password as that hash was made, which takes its time, and compares in constant time.
bool pinproxy_password_matches(const char *password, const char *hash);

#endif
