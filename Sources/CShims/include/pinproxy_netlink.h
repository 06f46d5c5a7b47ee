// SPDX-License-Identifier: Apache-2.0
// Routing and diagnostic sockets (rtnetlink(7), sock_diag(7)): the requests are structures around flexible ends that Swift does not import, and the
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

// States of a TCP socket, as the kernel numbers them.
#define PINPROXY_TCP_ESTABLISHED 1
#define PINPROXY_TCP_FIN_WAIT1 4
#define PINPROXY_TCP_FIN_WAIT2 5
#define PINPROXY_TCP_CLOSE_WAIT 8

// What the kernel says of the client's end of an accepted TCP connection of this machine (sock_diag(7)), and of our end.
struct pinproxy_client_end {
    // 4 or 16 bytes of the addresses count.
    uint8_t length;
    uint8_t source[16];
    uint8_t destination[16];
    uint16_t source_port;
    uint16_t destination_port;
    uint8_t state;
    // 0 where no process has the socket any more; its user is then said to be 0, too.
    uint32_t inode;
    uint32_t user;
    // The state of our own end, looked at after the other one.
    uint8_t own_state;
    // Whether the kernel was asked about the network namespace of the connection.
    uint8_t same_network;
};

// Asks for the socket from `source` to `destination` (4 or 16 bytes each, in network order), which the kernel answers within the
// call; it may answer with another one, a listener among them. Returns 0; -ENOENT without one; -errno when the kernel cannot be
// asked.
int pinproxy_client_end(int accepted, size_t length, const void *source, uint16_t source_port, const void *destination,
                        uint16_t destination_port, struct pinproxy_client_end *end);

#endif
