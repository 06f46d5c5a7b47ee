// SPDX-License-Identifier: Apache-2.0
#include "pinproxy_names.h"

#include <ares.h>
#include <limits.h>
#include <netinet/in.h>
#include <resolv.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

// What a query hands back.
struct query {
    struct pinproxy_name *lookup;
    int family;
    // That of `asks` when it was sent.
    unsigned number;
};

struct pinproxy_name {
    // Asks for names as they are: which names, the caller decides.
    ares_channel channel;
    // Has the search list: c-ares does not tell its own (1.34).
    struct __res_state system;
    bool has_system;
    struct pinproxy_name_callbacks callbacks;
    void *owner;
    // How many names it has been asked for.
    unsigned asks;
    bool is_freed;
};

static void on_wait(void *data, ares_socket_t descriptor, int readable, int writable) {
    struct pinproxy_name *lookup = data;
    lookup->callbacks.wait(lookup->owner, descriptor, readable, writable);
}

static int on_socket(ares_socket_t descriptor, int type, void *data) {
    (void)type;
    struct pinproxy_name *lookup = data;
    return lookup->callbacks.may_use(lookup->owner, descriptor) ? 0 : -1;
}

static int count_servers(const struct pinproxy_name *lookup, const char *servers) {
    if (!servers)
        return lookup->system.nscount;
    int count = 1;
    for (; *servers; servers++)
        count += *servers == ',';
    return count;
}

static bool create_channel(struct pinproxy_name *lookup, const char *servers) {
    // Not /etc/hosts.
    char servers_alone[] = "b";
    struct ares_options options = {0};
    options.lookups = servers_alone;
    // One server has 2, 4 and 8 seconds: a lost datagram is made good within timeouts.connect. Of several servers each has
    // 400 ms, then 800 ms and so on, so that the second one is asked before `NameQueue` runs out of patience: it would give
    // all names up before that while the first server is silent.
    bool has_several = count_servers(lookup, servers) > 1;
    options.timeout = has_several ? 400 : 2000;
    options.tries = has_several ? 4 : 3;
    options.sock_state_cb = on_wait;
    options.sock_state_cb_data = lookup;
    // With no domains.
    int mask = ARES_OPT_LOOKUPS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_SOCK_STATE_CB | ARES_OPT_DOMAINS;
    if (ares_init_options(&lookup->channel, &options, mask) != ARES_SUCCESS)
        return false;
    ares_set_socket_configure_callback(lookup->channel, on_socket, lookup);
    return !servers || ares_set_servers_ports_csv(lookup->channel, servers) == ARES_SUCCESS;
}

struct pinproxy_name *pinproxy_name_create(const char *servers, const struct pinproxy_name_callbacks *callbacks,
                                           void *owner) {
    struct pinproxy_name *lookup = calloc(1, sizeof *lookup);
    if (!lookup)
        return NULL;
    lookup->callbacks = *callbacks;
    lookup->owner = owner;
    lookup->has_system = res_ninit(&lookup->system) == 0;
    if (lookup->has_system && create_channel(lookup, servers))
        return lookup;
    pinproxy_name_free(lookup);
    return NULL;
}

static enum pinproxy_name_result result_of(int status) {
    switch (status) {
    case ARES_SUCCESS:
        return PINPROXY_NAME_FOUND;
    case ARES_ENODATA:
        return PINPROXY_NAME_UNKNOWN;
    case ARES_ENOTFOUND:
    case ARES_EBADNAME:
        return PINPROXY_NAME_ABSENT;
    case ARES_ETIMEOUT:
        return PINPROXY_NAME_SILENT;
    default:
        return PINPROXY_NAME_FAILED;
    }
}

static bool is_wanted(const struct query *query) {
    return !query->lookup->is_freed && query->number == query->lookup->asks;
}

static void hand_over(const struct query *query, const void *address, int lifetime) {
    const struct pinproxy_name_callbacks *callbacks = &query->lookup->callbacks;
    if (query->family == AF_INET) {
        struct sockaddr_in place = {.sin_family = AF_INET};
        memcpy(&place.sin_addr, address, sizeof place.sin_addr);
        callbacks->address(query->lookup->owner, (struct sockaddr *)&place, sizeof place, lifetime);
    } else {
        struct sockaddr_in6 place = {.sin6_family = AF_INET6};
        memcpy(&place.sin6_addr, address, sizeof place.sin6_addr);
        callbacks->address(query->lookup->owner, (struct sockaddr *)&place, sizeof place, lifetime);
    }
}

static void end(struct query *query, int status) {
    if (is_wanted(query))
        query->lookup->callbacks.end(query->lookup->owner, query->family, result_of(status), ares_strerror(status));
    free(query);
}

// A response over TCP may have four thousand addresses. ares_getaddrinfo takes 45 ms of the loop for these: it appends each
// to a list from its beginning, and sorts them with a socket each. So the queries are made without it, and of a response no
// more records than these are looked at.
enum { RECORDS_AT_MOST = 80 };

#if ARES_VERSION >= 0x011c00
// Since 1.28 a response comes parsed, which takes time in proportion to its size.
static void read_records(const struct query *query, const ares_dns_record_t *response) {
    size_t count = ares_dns_record_rr_cnt(response, ARES_SECTION_ANSWER);
    if (count > RECORDS_AT_MOST)
        count = RECORDS_AT_MOST;
    // The addresses are good for as long as the names that lead to them.
    unsigned aliases = INT_MAX;
    for (size_t index = 0; index < count; index++) {
        const ares_dns_rr_t *record = ares_dns_record_rr_get_const(response, ARES_SECTION_ANSWER, index);
        unsigned lifetime = ares_dns_rr_get_ttl(record);
        if (ares_dns_rr_get_type(record) == ARES_REC_TYPE_CNAME && lifetime < aliases)
            aliases = lifetime;
    }
    ares_dns_rec_type_t type = query->family == AF_INET ? ARES_REC_TYPE_A : ARES_REC_TYPE_AAAA;
    for (size_t index = 0; index < count; index++) {
        const ares_dns_rr_t *record = ares_dns_record_rr_get_const(response, ARES_SECTION_ANSWER, index);
        if (ares_dns_rr_get_class(record) != ARES_CLASS_IN || ares_dns_rr_get_type(record) != type)
            continue;
        unsigned lifetime = ares_dns_rr_get_ttl(record);
        const void *address = query->family == AF_INET
                                  ? (const void *)ares_dns_rr_get_addr(record, ARES_RR_A_ADDR)
                                  : (const void *)ares_dns_rr_get_addr6(record, ARES_RR_AAAA_ADDR);
        if (address)
            hand_over(query, address, (int)(lifetime < aliases ? lifetime : aliases));
    }
}

static void on_end(void *data, ares_status_t status, size_t timeouts, const ares_dns_record_t *response) {
    (void)timeouts;
    struct query *query = data;
    if (is_wanted(query) && status == ARES_SUCCESS)
        read_records(query, response);
    end(query, (int)status);
}

static void send_query(ares_channel channel, const char *name, struct query *query) {
    ares_query_dnsrec(channel, name, ARES_CLASS_IN, query->family == AF_INET ? ARES_REC_TYPE_A : ARES_REC_TYPE_AAAA, on_end,
                      query, NULL);
}
#else
// Class and types of queries (RFC 1035, section 3.2; RFC 3596).
enum { CLASS_IN = 1, TYPE_A = 1, TYPE_AAAA = 28 };

// Its parser reads as many records as the header says (RFC 1035, section 4.1.1), and appends each address to a list from its
// beginning: the header of a long response says fewer. The message is not used afterwards.
static int read_records(const struct query *query, unsigned char *message, int length) {
    if (length >= 12 && (message[6] << 8 | message[7]) > RECORDS_AT_MOST) {
        message[6] = 0;
        message[7] = RECORDS_AT_MOST;
    }
    int count = RECORDS_AT_MOST;
    if (query->family == AF_INET) {
        struct ares_addrttl found[RECORDS_AT_MOST];
        int status = ares_parse_a_reply(message, length, NULL, found, &count);
        for (int index = 0; status == ARES_SUCCESS && index < count; index++)
            hand_over(query, &found[index].ipaddr, found[index].ttl);
        return status;
    }
    struct ares_addr6ttl found[RECORDS_AT_MOST];
    int status = ares_parse_aaaa_reply(message, length, NULL, found, &count);
    for (int index = 0; status == ARES_SUCCESS && index < count; index++)
        hand_over(query, &found[index].ip6addr, found[index].ttl);
    return status;
}

static void on_end(void *data, int status, int timeouts, unsigned char *message, int length) {
    (void)timeouts;
    struct query *query = data;
    if (is_wanted(query) && status == ARES_SUCCESS)
        status = read_records(query, message, length);
    end(query, status);
}

static void send_query(ares_channel channel, const char *name, struct query *query) {
    ares_query(channel, name, CLASS_IN, query->family == AF_INET ? TYPE_A : TYPE_AAAA, on_end, query);
}
#endif

const char *pinproxy_name_domain(struct pinproxy_name *lookup, int index) {
    return index < MAXDNSRCH ? lookup->system.dnsrch[index] : NULL;
}

int pinproxy_name_dots(struct pinproxy_name *lookup) { return lookup->system.ndots; }

static void ask(struct pinproxy_name *lookup, const char *name, int family) {
    struct query *query = malloc(sizeof *query);
    if (!query) {
        lookup->callbacks.end(lookup->owner, family, PINPROXY_NAME_FAILED, ares_strerror(ARES_ENOMEM));
        return;
    }
    *query = (struct query){lookup, family, lookup->asks};
    send_query(lookup->channel, name, query);
}

void pinproxy_name_ask(struct pinproxy_name *lookup, const char *name) {
    lookup->asks++;
    // The end of one query alone never leads to the next name within this call.
    ask(lookup, name, AF_INET6);
    ask(lookup, name, AF_INET);
}

void pinproxy_name_process(struct pinproxy_name *lookup, int readable, int writable) {
    ares_process_fd(lookup->channel, readable < 0 ? ARES_SOCKET_BAD : readable,
                    writable < 0 ? ARES_SOCKET_BAD : writable);
}

int64_t pinproxy_name_wait(struct pinproxy_name *lookup) {
    struct timeval left;
    struct timeval *wait = ares_timeout(lookup->channel, NULL, &left);
    return wait ? (int64_t)wait->tv_sec * 1000 + (wait->tv_usec + 999) / 1000 : -1;
}

void pinproxy_name_free(struct pinproxy_name *lookup) {
    lookup->is_freed = true;
    // One that could not be made is null.
    ares_destroy(lookup->channel);
    if (lookup->has_system)
        res_nclose(&lookup->system);
    free(lookup);
}
