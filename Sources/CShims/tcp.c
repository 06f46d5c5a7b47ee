// SPDX-License-Identifier: Apache-2.0
// The kernel's own header: that of the C library has an older structure, and both cannot be included together.
#include <linux/tcp.h>

#include <netinet/in.h>
#include <stddef.h>
#include <sys/socket.h>

#include "pinproxy_system.h"

int64_t pinproxy_received_bytes(int descriptor) {
    struct tcp_info info;
    socklen_t length = sizeof info;
    // 7 is TCP_CLOSE, which the header of the C library has.
    if (getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, &info, &length) != 0 || info.tcpi_state == 7)
        return -1;
    if (length < offsetof(struct tcp_info, tcpi_bytes_received) + sizeof info.tcpi_bytes_received)
        return 0;
    return (int64_t)info.tcpi_bytes_received;
}
