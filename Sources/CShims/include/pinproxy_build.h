// SPDX-License-Identifier: Apache-2.0
// What the build tells the program about itself.
#ifndef PINPROXY_BUILD_H
#define PINPROXY_BUILD_H

// The commit that was built, as git names it; empty where the build did not know it.
const char *pinproxy_commit(void);

#endif
