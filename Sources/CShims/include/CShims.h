// SPDX-License-Identifier: Apache-2.0
#ifndef PINPROXY_CSHIMS_H
#define PINPROXY_CSHIMS_H

// The system's declarations are those of Swift's Glibc module. Included as text alone they would be this module's or that
// one's, whichever the compiler happens to load first, and with it would change what a Swift file has to import for them.
#if __has_feature(modules)
#pragma clang module import SwiftGlibc
#endif

// What Swift cannot call, each file for one reason:
#include "pinproxy_build.h"
#include "pinproxy_names.h"
#include "pinproxy_netlink.h"
#include "pinproxy_openssl.h"
#include "pinproxy_password.h"
#include "pinproxy_socks.h"
#include "pinproxy_system.h"

#endif
