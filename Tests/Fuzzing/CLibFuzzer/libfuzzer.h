// SPDX-License-Identifier: Apache-2.0
#ifndef PINPROXY_LIBFUZZER_H
#define PINPROXY_LIBFUZZER_H

#include <stddef.h>
#include <stdint.h>

/* libFuzzer's way in for programs that have a main of their own; the toolchain has the library and no header. */
int LLVMFuzzerRunDriver(int *argc, char ***argv, int (*callback)(const uint8_t *data, size_t size));

#endif
