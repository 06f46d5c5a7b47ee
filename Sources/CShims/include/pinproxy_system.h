// Linux calls that Swift cannot reach: `epoll_event` is packed, and some calls are variadic or macros.
#ifndef PINPROXY_SYSTEM_H
#define PINPROXY_SYSTEM_H

#include <stdint.h>

#endif
