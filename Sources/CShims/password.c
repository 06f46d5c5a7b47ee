// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "pinproxy_password.h"

#include <crypt.h>
#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>

bool pinproxy_password_hash_is_known(const char *hash) {
    return crypt_checksalt(hash) == CRYPT_SALT_OK;
}

bool pinproxy_password_matches(const char *password, const char *hash) {
    struct crypt_data *data = calloc(1, sizeof *data);
    if (data == NULL) return false;
    const char *made = crypt_r(password, hash, data);
    size_t count = strlen(hash);
    // A failure is a string that no hash equals, beginning with '*'.
    bool matches = made != NULL && made[0] != '*' && strlen(made) == count && CRYPTO_memcmp(made, hash, count) == 0;
    OPENSSL_cleanse(data, sizeof *data);
    free(data);
    return matches;
}
