// SPDX-License-Identifier: Apache-2.0
#include "pinproxy_build.h"

// Package.swift hands it over from the environment of the build. In a file of its own: a new commit compiles this alone.
#ifndef PINPROXY_COMMIT
#define PINPROXY_COMMIT ""
#endif

const char *pinproxy_commit(void) { return PINPROXY_COMMIT; }
