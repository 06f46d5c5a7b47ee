#include "pinproxy_names.h"

#include <ares.h>
#include <netinet/in.h>
#include <resolv.h>
#include <stdlib.h>
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

static enum pinproxy_name_result result_of(int status, const struct ares_addrinfo *found) {
    switch (status) {
    case ARES_SUCCESS:
        return found && found->nodes ? PINPROXY_NAME_FOUND : PINPROXY_NAME_UNKNOWN;
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

static void on_end(void *data, int status, int timeouts, struct ares_addrinfo *found) {
    (void)timeouts;
    struct query *query = data;
    struct pinproxy_name *lookup = query->lookup;
    enum pinproxy_name_result result = result_of(status, found);
    bool is_wanted = !lookup->is_freed && query->number == lookup->asks;
    if (is_wanted && result == PINPROXY_NAME_FOUND) {
        // The addresses are good for as long as the names that lead to them.
        int lifetime = -1;
        for (struct ares_addrinfo_cname *alias = found->cnames; alias; alias = alias->next)
            if (lifetime < 0 || alias->ttl < lifetime)
                lifetime = alias->ttl;
        for (struct ares_addrinfo_node *node = found->nodes; node; node = node->ai_next)
            lookup->callbacks.address(lookup->owner, node->ai_addr, node->ai_addrlen,
                                      lifetime >= 0 && lifetime < node->ai_ttl ? lifetime : node->ai_ttl);
    }
    if (found)
        ares_freeaddrinfo(found);
    if (is_wanted)
        lookup->callbacks.end(lookup->owner, query->family, result, ares_strerror(status));
    free(query);
}

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
    struct ares_addrinfo_hints hints = {0};
    hints.ai_family = family;
    hints.ai_socktype = SOCK_STREAM;
    ares_getaddrinfo(lookup->channel, name, NULL, &hints, on_end, query);
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
