// Routing sockets (rtnetlink(7)): the requests are structures around flexible ends that Swift does not import, and the
// numbers are macros.
#ifndef PINPROXY_NETLINK_H
#define PINPROXY_NETLINK_H

#include <stddef.h>
#include <stdint.h>

#define PINPROXY_NETLINK_ERROR 2
#define PINPROXY_NETLINK_DONE 3
#define PINPROXY_NETLINK_NEW_LINK 16
#define PINPROXY_NETLINK_NEW_ROUTE 24

// Types of routes.
#define PINPROXY_ROUTE_LOCAL 2
#define PINPROXY_ROUTE_ANYCAST 4

#define PINPROXY_LINK_UP 0x1u
#define PINPROXY_LINK_LOOPBACK 0x8u
#define PINPROXY_LINK_RUNNING 0x40u

// A routing socket, non-blocking and closed on exec. With `watching` it is told of each change of links, addresses and
// routes. Returns the descriptor or -errno.
int pinproxy_netlink_open(int watching);
// Ask for all links, or for all routes of both families; the answer bears `sequence`. Return 0 or -errno.
int pinproxy_netlink_ask_links(int descriptor, uint32_t sequence);
int pinproxy_netlink_ask_routes(int descriptor, uint32_t sequence);
// Asks which way packets to an address go (4 or 16 bytes in network order). Returns 0 or -errno.
int pinproxy_netlink_ask_route_to(int descriptor, const void *address, size_t length, uint32_t sequence);
// Asks what becomes of packets to an address (4 or 16 bytes in network order) and waits for the answer, which the kernel
// makes within the call. Returns the type of the route, or 0 when there is none; -errno when the kernel cannot be asked.
int pinproxy_netlink_route_type(const void *address, size_t length);
// One datagram of the kernel's; what other processes send is dropped. Returns the count or -errno: -ENOBUFS when
// messages were lost, -EMSGSIZE when the datagram is longer than `capacity`.
ptrdiff_t pinproxy_netlink_receive(int descriptor, void *bytes, size_t capacity);

#endif
