// SPDX-License-Identifier: Apache-2.0
// The floor: what a forwarded request costs in system calls, TLS and a line of a log alone, in C with epoll and OpenSSL.
//
//   floor CAFILE LOG CACHE PORT:ORIGIN_PORT:HOST ...
//
// It is no proxy, and is for nothing but measurements: it believes that a request's head comes in one piece and has no body, that
// every response has a Content-Length, and that a client reads. It changes no field, parses no other one, and has no limit and no
// timer. With CACHE 1 it keeps every response for ever, by the request's bytes. It does verify the chain and the name of an origin.

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

// Four records of TLS, as pinproxy's.
enum { BUFFER = 4 * (16384 + 5 + 17), MAX_HOSTS = 8, MAX_KEPT = 64, MAX_DEAD = 4096 };

enum kind { LISTENER, CLIENT, ORIGIN, DEAD };

struct host {
    enum kind kind;
    int listener;
    int origin_port;
    const char *name;
    struct origin *idle;
};

struct client {
    enum kind kind;
    int socket;
    struct host *host;
    struct origin *origin;
    // The request that is under way.
    char request[2048];
    int request_length;
};

struct origin {
    enum kind kind;
    int socket;
    SSL *ssl;
    struct host *host;
    struct client *client;
    struct origin *next;
    long left;
    bool in_head;
    char *kept;
    long kept_length, kept_size;
};

struct kept {
    char request[2048];
    int request_length;
    char *response;
    long length;
};

// Freed at the end of a turn: an event of the same turn may still name them.
static void *dead[MAX_DEAD];
static int dead_count;

static int poller;
static SSL_CTX *context;
static bool caches;
static struct kept kept[MAX_KEPT];
static int kept_count;
static char buffer[BUFFER];
static int log_file;
static char log_lines[1 << 16];
static size_t log_used;

static void fail(const char *what) {
    perror(what);
    exit(1);
}

// A line as long as the others': the same writes to the disk.
static void log_request(const struct client *client, long length) {
    if (log_used + 700 > sizeof log_lines) {
        if (write(log_file, log_lines, log_used) != (ssize_t)log_used) fail("write");
        log_used = 0;
    }
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    log_used += (size_t)snprintf(log_lines + log_used, 700, "{\"time\":%ld.%06ld,\"event\":\"task\",\"url\":\"%.64s\",\"bytesReceived\":%ld,\"filler\":\"%0450d\"}\n",
                                 (long)now.tv_sec, now.tv_nsec / 1000, client->host->name, length, 0);
}

static void watch(int socket, void *owner) {
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP | EPOLLET, .data.ptr = owner};
    if (epoll_ctl(poller, EPOLL_CTL_ADD, socket, &event) < 0) fail("epoll_ctl");
}

static void set_options(int socket) {
    int one = 1;
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    fcntl(socket, F_SETFL, O_NONBLOCK);
}

static bool send_all(int socket, const char *bytes, long length) {
    while (length > 0) {
        ssize_t sent = send(socket, bytes, (size_t)length, MSG_NOSIGNAL);
        if (sent < 0 && errno == EAGAIN) {
            struct pollfd wait = {.fd = socket, .events = POLLOUT};
            poll(&wait, 1, -1);
            continue;
        }
        if (sent < 0) return false;
        bytes += sent;
        length -= sent;
    }
    return true;
}

static void bury(void *owner) {
    *(enum kind *)owner = DEAD;
    if (dead_count < MAX_DEAD) dead[dead_count++] = owner;
}

static void close_client(struct client *client) {
    close(client->socket);
    if (client->origin) client->origin->client = NULL;
    bury(client);
}

static void close_origin(struct origin *origin) {
    for (struct origin **link = &origin->host->idle; *link; link = &(*link)->next) {
        if (*link == origin) {
            *link = origin->next;
            break;
        }
    }
    if (origin->client) {
        origin->client->origin = NULL;
        close_client(origin->client);
    }
    SSL_free(origin->ssl);
    close(origin->socket);
    free(origin->kept);
    bury(origin);
}

// Connects and shakes hands while everything else waits. Without a host that is what it should be: NULL.
static struct origin *connect_origin(struct host *host) {
    int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)host->origin_port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (descriptor < 0 || connect(descriptor, (struct sockaddr *)&address, sizeof address) < 0) fail("connect");
    SSL *ssl = SSL_new(context);
    SSL_set_fd(ssl, descriptor);
    SSL_set_tlsext_host_name(ssl, host->name);
    SSL_set1_host(ssl, host->name);
    if (SSL_connect(ssl) != 1) {
        SSL_free(ssl);
        close(descriptor);
        return NULL;
    }
    struct origin *origin = calloc(1, sizeof *origin);
    if (!origin) fail("calloc");
    *origin = (struct origin){.kind = ORIGIN, .socket = descriptor, .ssl = ssl, .host = host};
    set_options(descriptor);
    watch(descriptor, origin);
    return origin;
}

static void handle_request(struct client *client) {
    for (int index = 0; index < kept_count; index++) {
        const struct kept *one = &kept[index];
        if (one->request_length == client->request_length &&
            memcmp(one->request, client->request, (size_t)client->request_length) == 0) {
            send_all(client->socket, one->response, one->length);
            log_request(client, one->length);
            return;
        }
    }
    struct origin *origin = client->host->idle;
    char byte;
    // What came without a request must not become a response, as in pinproxy.
    while (origin && recv(origin->socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0) {
        close_origin(origin);
        origin = client->host->idle;
    }
    if (origin) {
        client->host->idle = origin->next;
    } else if (!(origin = connect_origin(client->host))) {
        static const char refusal[] = "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n";
        send_all(client->socket, refusal, sizeof refusal - 1);
        return;
    }
    origin->client = client;
    origin->in_head = true;
    origin->kept_length = 0;
    client->origin = origin;
    // The origin's server is chosen by its name.
    const char *line_end = memmem(client->request, (size_t)client->request_length, "\r\n", 2);
    char request[2048];
    int length = line_end ? snprintf(request, sizeof request, "%.*s\r\nHost: %s\r\n\r\n",
                                     (int)(line_end - client->request), client->request, client->host->name) : 0;
    if (SSL_write(origin->ssl, request, length) != length) close_origin(origin);
}

static void read_client(struct client *client) {
    ssize_t count = recv(client->socket, client->request, sizeof client->request, 0);
    if (count < 0 && errno == EAGAIN) return;
    if (count <= 0) return close_client(client);
    client->request_length = (int)count;
    handle_request(client);
}

static void end_response(struct origin *origin, bool persists) {
    struct client *client = origin->client;
    log_request(client, origin->kept_length);
    if (caches && kept_count < MAX_KEPT) {
        struct kept *one = &kept[kept_count++];
        memcpy(one->request, client->request, (size_t)client->request_length);
        one->request_length = client->request_length;
        one->response = origin->kept;
        one->length = origin->kept_length;
        origin->kept = NULL;
        origin->kept_size = 0;
    }
    client->origin = NULL;
    origin->client = NULL;
    if (!persists) return close_origin(origin);
    origin->next = origin->host->idle;
    origin->host->idle = origin;
}

static void keep(struct origin *origin, const char *bytes, long length) {
    if (origin->kept_length + length > origin->kept_size) {
        origin->kept_size = 2 * (origin->kept_length + length);
        if (!(origin->kept = realloc(origin->kept, (size_t)origin->kept_size))) fail("realloc");
    }
    memcpy(origin->kept + origin->kept_length, bytes, (size_t)length);
    origin->kept_length += length;
}

static void read_origin(struct origin *origin) {
    bool persists = true;
    while (true) {
        // What OpenSSL has read goes on in one piece.
        long count = 0;
        int step;
        do {
            step = SSL_read(origin->ssl, buffer + count, (int)(BUFFER - count));
            if (step > 0) count += step;
        } while (step > 0 && SSL_has_pending(origin->ssl) && count < BUFFER);
        if (count == 0) {
            if (SSL_get_error(origin->ssl, step) != SSL_ERROR_WANT_READ) close_origin(origin);
            return;
        }
        if (!origin->client) return close_origin(origin);
        long body = count;
        if (origin->in_head) {
            const char *end = memmem(buffer, (size_t)count, "\r\n\r\n", 4);
            const char *field = memmem(buffer, (size_t)count, "Content-Length: ", 16);
            if (!end || !field) return close_origin(origin);
            persists = !memmem(buffer, (size_t)(end - buffer), "Connection: close", 17);
            origin->left = atol(field + 16);
            origin->in_head = false;
            body = count - (end + 4 - buffer);
        }
        origin->left -= body;
        if (!send_all(origin->client->socket, buffer, count)) return close_origin(origin);
        if (caches) keep(origin, buffer, count); else origin->kept_length += count;
        if (origin->left <= 0) return end_response(origin, persists);
    }
}

static void accept_clients(struct host *host) {
    int socket;
    while ((socket = accept4(host->listener, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
        set_options(socket);
        struct client *client = calloc(1, sizeof *client);
        if (!client) fail("calloc");
        client->kind = CLIENT;
        client->socket = socket;
        client->host = host;
        watch(socket, client);
    }
}

int main(int count, char **words) {
    if (count < 5 || count > 4 + MAX_HOSTS) {
        fprintf(stderr, "floor CAFILE LOG CACHE PORT:ORIGIN_PORT:HOST ...\n");
        return 64;
    }
    context = SSL_CTX_new(TLS_client_method());
    if (SSL_CTX_load_verify_locations(context, words[1], NULL) != 1) return 1;
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_read_ahead(context, 1);
    SSL_CTX_set_default_read_buffer_len(context, BUFFER);
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    caches = words[3][0] == '1';
    if ((log_file = open(words[2], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600)) < 0) fail(words[2]);
    poller = epoll_create1(EPOLL_CLOEXEC);
    static struct host hosts[MAX_HOSTS];
    for (int index = 4; index < count; index++) {
        struct host *host = &hosts[index - 4];
        int port;
        char name[256];
        if (sscanf(words[index], "%d:%d:%255s", &port, &host->origin_port, name) != 3) return 64;
        host->kind = LISTENER;
        host->name = strdup(name);
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port),
                                      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        int one = 1;
        host->listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        setsockopt(host->listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
        if (bind(host->listener, (struct sockaddr *)&address, sizeof address) < 0) fail("bind");
        if (listen(host->listener, 4096) < 0) fail("listen");
        watch(host->listener, host);
    }
    while (true) {
        struct epoll_event events[256];
        // The log is written when there is nothing else to do for a second.
        int ready = epoll_wait(poller, events, 256, log_used ? 1000 : -1);
        if (ready == 0) {
            if (write(log_file, log_lines, log_used) != (ssize_t)log_used) fail("write");
            log_used = 0;
        }
        for (int index = 0; index < ready; index++) {
            switch (*(enum kind *)events[index].data.ptr) {
            case LISTENER: accept_clients(events[index].data.ptr); break;
            case CLIENT: read_client(events[index].data.ptr); break;
            case ORIGIN: read_origin(events[index].data.ptr); break;
            case DEAD: break;
            }
        }
        while (dead_count > 0) free(dead[--dead_count]);
    }
}
