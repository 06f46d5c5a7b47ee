// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "pinproxy_netlink.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

_Static_assert(PINPROXY_NETLINK_ERROR == NLMSG_ERROR && PINPROXY_NETLINK_DONE == NLMSG_DONE, "netlink's types");
_Static_assert(PINPROXY_NETLINK_NEW_LINK == RTM_NEWLINK, "rtnetlink's types");
_Static_assert(PINPROXY_NETLINK_NEW_ROUTE == RTM_NEWROUTE, "rtnetlink's types");
_Static_assert(PINPROXY_ROUTE_LOCAL == RTN_LOCAL && PINPROXY_ROUTE_ANYCAST == RTN_ANYCAST, "rtnetlink's routes");
_Static_assert(PINPROXY_LINK_UP == IFF_UP && PINPROXY_LINK_LOOPBACK == IFF_LOOPBACK, "a link's flags");
_Static_assert(PINPROXY_TCP_ESTABLISHED == TCP_ESTABLISHED && PINPROXY_TCP_FIN_WAIT1 == TCP_FIN_WAIT1, "TCP's states");
_Static_assert(PINPROXY_TCP_FIN_WAIT2 == TCP_FIN_WAIT2 && PINPROXY_TCP_CLOSE_WAIT == TCP_CLOSE_WAIT, "TCP's states");
_Static_assert(PINPROXY_LINK_RUNNING == IFF_RUNNING, "a link's flags");

int pinproxy_netlink_open(int watching) {
    int descriptor = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
    if (descriptor < 0)
        return -errno;
    struct sockaddr_nl address = {.nl_family = AF_NETLINK};
    if (watching)
        address.nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR | RTMGRP_IPV4_ROUTE | RTMGRP_IPV6_ROUTE;
    if (bind(descriptor, (struct sockaddr *)&address, sizeof address) < 0) {
        int code = errno;
        close(descriptor);
        return -code;
    }
    return descriptor;
}

static int ask(int descriptor, const void *request, size_t length) {
    struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
    ssize_t sent;
    do
        sent = sendto(descriptor, request, length, MSG_NOSIGNAL, (struct sockaddr *)&kernel, sizeof kernel);
    while (sent < 0 && errno == EINTR);
    return sent < 0 ? -errno : 0;
}

int pinproxy_netlink_ask_links(int descriptor, uint32_t sequence) {
    struct {
        struct nlmsghdr header;
        struct ifinfomsg link;
    } request = {
        .header = {sizeof request, RTM_GETLINK, NLM_F_REQUEST | NLM_F_DUMP, sequence, 0},
        .link = {.ifi_family = AF_UNSPEC},
    };
    return ask(descriptor, &request, sizeof request);
}

int pinproxy_netlink_ask_routes(int descriptor, uint32_t sequence) {
    struct {
        struct nlmsghdr header;
        struct rtmsg route;
    } request = {
        .header = {sizeof request, RTM_GETROUTE, NLM_F_REQUEST | NLM_F_DUMP, sequence, 0},
        .route = {.rtm_family = AF_UNSPEC},
    };
    return ask(descriptor, &request, sizeof request);
}

int pinproxy_netlink_ask_route_to(int descriptor, const void *address, size_t length, uint32_t sequence) {
    struct {
        struct nlmsghdr header;
        struct rtmsg route;
        struct rtattr attribute;
        unsigned char address[16];
    } request = {
        .header = {0, RTM_GETROUTE, NLM_F_REQUEST, sequence, 0},
        .route = {.rtm_family = length == 4 ? AF_INET : AF_INET6, .rtm_dst_len = (unsigned char)(length * 8)},
        .attribute = {(unsigned short)RTA_LENGTH(length), RTA_DST},
    };
    if (length != 4 && length != 16)
        return -EINVAL;
    memcpy(request.address, address, length);
    request.header.nlmsg_len = (uint32_t)(sizeof request - sizeof request.address + length);
    return ask(descriptor, &request, request.header.nlmsg_len);
}

ptrdiff_t pinproxy_netlink_receive(int descriptor, void *bytes, size_t capacity) {
    for (;;) {
        struct sockaddr_nl sender;
        struct iovec part = {bytes, capacity};
        struct msghdr message = {.msg_name = &sender, .msg_namelen = sizeof sender, .msg_iov = &part, .msg_iovlen = 1};
        ssize_t count = recvmsg(descriptor, &message, 0);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return -errno;
        if (message.msg_namelen != sizeof sender || sender.nl_pid != 0)
            continue;
        return message.msg_flags & MSG_TRUNC ? -EMSGSIZE : count;
    }
}

int pinproxy_netlink_route_type(const void *address, size_t length) {
    union {
        struct nlmsghdr header;
        char bytes[8192];
    } answer;
    int descriptor = pinproxy_netlink_open(0);
    if (descriptor < 0)
        return descriptor;
    ptrdiff_t count = pinproxy_netlink_ask_route_to(descriptor, address, length, 1);
    if (count == 0)
        count = pinproxy_netlink_receive(descriptor, &answer, sizeof answer);
    close(descriptor);
    if (count < 0)
        return (int)count;
    if (!NLMSG_OK(&answer.header, (size_t)count))
        return -EPROTO;
    if (answer.header.nlmsg_type == RTM_NEWROUTE && answer.header.nlmsg_len >= NLMSG_LENGTH(sizeof(struct rtmsg)))
        return ((struct rtmsg *)NLMSG_DATA(&answer.header))->rtm_type;
    if (answer.header.nlmsg_type != NLMSG_ERROR || answer.header.nlmsg_len < NLMSG_LENGTH(sizeof(struct nlmsgerr)))
        return -EPROTO;
    int code = -((struct nlmsgerr *)NLMSG_DATA(&answer.header))->error;
    // No route, or one that refuses (prohibit, blackhole): nothing gets anywhere, here least of all.
    if (code == ENETUNREACH || code == EHOSTUNREACH || code == EACCES || code == EINVAL)
        return 0;
    return code > 0 ? -code : -EPROTO;
}

// The network namespace of a socket, by a number that is never used again; 0 where the kernel does not say.
static uint64_t network(int descriptor) {
    uint64_t cookie = 0;
    socklen_t length = sizeof cookie;
#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif
    return getsockopt(descriptor, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &length) == 0 ? cookie : 0;
}

static uint8_t tcp_state(int descriptor) {
    uint8_t state = 0;
    socklen_t length = sizeof state;
    return getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, &state, &length) == 0 ? state : 0;
}

int pinproxy_client_end(int accepted, size_t length, const void *source, uint16_t source_port, const void *destination,
                        uint16_t destination_port, struct pinproxy_client_end *end) {
    struct {
        struct nlmsghdr header;
        struct inet_diag_req_v2 socket;
    } request = {
        .header = {sizeof request, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST, 1, 0},
        .socket = {
            .sdiag_family = length == 4 ? AF_INET : AF_INET6,
            .sdiag_protocol = IPPROTO_TCP,
            .idiag_states = UINT32_MAX,
            .id = {
                .idiag_sport = htons(source_port),
                .idiag_dport = htons(destination_port),
                .idiag_cookie = {INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE},
            },
        },
    };
    union {
        struct nlmsghdr header;
        char bytes[8192];
    } answer;
    if (length != 4 && length != 16)
        return -EINVAL;
    memcpy(request.socket.id.idiag_src, source, length);
    memcpy(request.socket.id.idiag_dst, destination, length);
    memset(end, 0, sizeof *end);

    int descriptor = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_SOCK_DIAG);
    if (descriptor < 0)
        return -errno;
    uint64_t own = network(accepted);
    end->same_network = own != 0 && own == network(descriptor);
    ptrdiff_t count = ask(descriptor, &request, sizeof request);
    if (count == 0)
        count = pinproxy_netlink_receive(descriptor, &answer, sizeof answer);
    close(descriptor);
    if (count < 0)
        return (int)count;
    if (!NLMSG_OK(&answer.header, (size_t)count))
        return -EPROTO;
    if (answer.header.nlmsg_type == NLMSG_ERROR && answer.header.nlmsg_len >= NLMSG_LENGTH(sizeof(struct nlmsgerr))) {
        int code = ((struct nlmsgerr *)NLMSG_DATA(&answer.header))->error;
        return code < 0 ? code : -EPROTO;
    }
    if (answer.header.nlmsg_type != SOCK_DIAG_BY_FAMILY ||
        answer.header.nlmsg_len < NLMSG_LENGTH(sizeof(struct inet_diag_msg)))
        return -EPROTO;
    const struct inet_diag_msg *found = NLMSG_DATA(&answer.header);
    end->length = found->idiag_family == AF_INET ? 4 : 16;
    memcpy(end->source, found->id.idiag_src, end->length);
    memcpy(end->destination, found->id.idiag_dst, end->length);
    end->source_port = ntohs(found->id.idiag_sport);
    end->destination_port = ntohs(found->id.idiag_dport);
    end->state = found->idiag_state;
    end->inode = found->idiag_inode;
    end->user = found->idiag_uid;
    end->own_state = tcp_state(accepted);
    return 0;
}
