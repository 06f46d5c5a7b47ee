#ifndef PINPROXY_CSHIMS_H
#define PINPROXY_CSHIMS_H

// What Swift cannot call, each file for one reason:
#include "pinproxy_curl.h"
#include "pinproxy_netlink.h"
#include "pinproxy_openssl.h"
#include "pinproxy_system.h"

#endif
