// SPDX-License-Identifier: Apache-2.0
// Linux calls that Swift cannot reach as they are: `epoll_event` is a packed structure around a union, `fcntl` and
// `open` are variadic, and the macros of <sys/socket.h> and <signal.h> do not import.
#ifndef PINPROXY_SYSTEM_H
#define PINPROXY_SYSTEM_H

#include <pthread.h>
#include <spawn.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

// One readiness event, unpacked.
struct pinproxy_event {
    uint32_t events;
    uint64_t key;
};

#define PINPROXY_EPOLL_ADD 1
#define PINPROXY_EPOLL_DELETE 2
#define PINPROXY_EPOLL_MODIFY 3

#define PINPROXY_EVENT_IN 0x001u
#define PINPROXY_EVENT_OUT 0x004u
#define PINPROXY_EVENT_ERROR 0x008u
#define PINPROXY_EVENT_HANGUP 0x010u
#define PINPROXY_EVENT_PEER_CLOSED 0x2000u
#define PINPROXY_EVENT_EXCLUSIVE (1u << 28)
#define PINPROXY_EVENT_EDGE (1u << 31)

int pinproxy_epoll_create(void);
int pinproxy_epoll_control(int epoll, int operation, int descriptor, uint32_t events, uint64_t key);
// Waits at most `milliseconds` (-1: for ever); EINTR counts as no event. Returns the number of events, or -errno.
int pinproxy_epoll_wait(int epoll, struct pinproxy_event *events, int capacity, int milliseconds);

int pinproxy_eventfd(void);
// Nanoseconds of CLOCK_MONOTONIC.
uint64_t pinproxy_monotonic(void);
// Nanoseconds of the calling thread on a processor (CLOCK_THREAD_CPUTIME_ID).
uint64_t pinproxy_thread_processor_time(void);
// Microseconds since 1970 (CLOCK_REALTIME).
int64_t pinproxy_realtime(void);

// A stream socket of that family, non-blocking and closed on exec. Returns the descriptor or -errno.
int pinproxy_stream_socket(int family);
// Has the system ask the peer for a sign of life (tcp(7)) when nothing has come for `idle` seconds, then every `interval` seconds. A
// peer that gives none has its connection ended.
void pinproxy_keep_alive(int descriptor, int idle, int interval);
// The bytes that have come on a TCP connection (TCP_INFO, tcp(7)); -1 when it has ended, 0 when the system does not say.
int64_t pinproxy_received_bytes(int descriptor);
// A datagram socket of that family, closed on exec. Returns the descriptor or -errno.
int pinproxy_datagram_socket(int family);
// Accepts one connection, non-blocking and closed on exec, the peer's address in `address`.
// Returns the descriptor or -errno.
int pinproxy_accept(int listener, struct sockaddr_storage *address, socklen_t *length);
// TCP_NODELAY, SO_REUSEADDR, IPV6_V6ONLY by name. Return 0 or -errno.
int pinproxy_set_no_delay(int descriptor);
int pinproxy_set_reuse_address(int descriptor);
int pinproxy_set_v6_only(int descriptor);
int pinproxy_set_non_blocking(int descriptor);
int pinproxy_set_close_on_exec(int descriptor, int on);

// Who is at the other end of a Unix socket (SO_PEERCRED, unix(7); `ucred` is a GNU extension). Returns 0 or -errno.
int pinproxy_peer(int descriptor, uint32_t *user, uint32_t *group);

// Keeps other processes of the user, and core dumps, from reading this process: PR_SET_DUMPABLE (prctl(2)). A program that it
// runs is not concerned. Returns 0 or -errno.
int pinproxy_hide_memory(void);

// The columns of the terminal at the descriptor; 0 where there is none, or where it does not know.
int pinproxy_terminal_columns(int descriptor);

// `write` without SIGPIPE, EINTR retried. Returns the count or -errno.
ptrdiff_t pinproxy_send(int descriptor, const void *bytes, size_t count);
// The same where more follows at once: the last packet waits for it (MSG_MORE).
ptrdiff_t pinproxy_send_more(int descriptor, const void *bytes, size_t count);
// Two runs of bytes in one call.
ptrdiff_t pinproxy_send2(int descriptor, const void *first, size_t first_count, const void *second, size_t second_count);
// Three runs, of which any may be empty.
ptrdiff_t pinproxy_send3(
    int descriptor, const void *first, size_t first_count, const void *second, size_t second_count, const void *third,
    size_t third_count
);
// `read`, EINTR retried. Returns the count or -errno.
ptrdiff_t pinproxy_receive(int descriptor, void *bytes, size_t count);
// `preadv2` with RWF_NOWAIT: only what is in the page cache, without waiting for the disk; EINTR retried. Returns the
// count or -errno: -EAGAIN where the first byte would have to be waited for, -EOPNOTSUPP where the filesystem cannot tell.
ptrdiff_t pinproxy_read_cached(int descriptor, void *bytes, size_t count, int64_t offset);
// How many of `count` bytes from `offset` on are in the page cache (cachestat(2), mincore(2)): from the first one to the first that is
// not, and at most 1 MB. 0 where the system cannot tell.
size_t pinproxy_cached_count(int descriptor, size_t count, int64_t offset);
// `sendfile` from that offset of a file to a socket, EINTR retried: it waits for what is not in the page cache. Returns the count, 0
// where the file ends, or -errno. The process has to ignore SIGPIPE.
ptrdiff_t pinproxy_send_file(int descriptor, int file, int64_t offset, size_t count);
// `write` to files and pipes.
ptrdiff_t pinproxy_write_file(int descriptor, const void *bytes, size_t count);
// Opens for appending, creates with mode 0640. Returns the descriptor or -errno.
int pinproxy_open_append(const char *path);

// A file without a name in that folder, for reading and writing, that is gone when it is closed: O_TMPFILE (open(2)).
// Returns the descriptor or -errno (EOPNOTSUPP or EISDIR where the file system has no such files).
int pinproxy_open_unnamed(const char *folder, unsigned mode);
// Gives such a file a name that nothing has yet. Returns 0 or -errno.
int pinproxy_link_unnamed(int descriptor, const char *path);
// The same as `open` with O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC. Returns the descriptor or -errno.
int pinproxy_open_new(const char *path, unsigned mode);

// The words that this process was started with, the program's name first, from the C library and not from /proc; 0 and null where the
// C library does not tell them.
int pinproxy_argument_count(void);
const char *pinproxy_argument(int index);

// The processors that this process may run on, by its affinity; at least 1.
int pinproxy_processors(void);

// Has the allocator give freed memory back to the system: mimalloc where it is linked in (of the calling thread's heap),
// otherwise the C library's.
void pinproxy_release_memory(void);

// The name that `ps` and `perf` show; at most 15 bytes.
void pinproxy_name_thread(pthread_t thread, const char *name);

// Waits for a thread's end, so many nanoseconds: 0, or ETIMEDOUT; a step of the clock makes them more or fewer. (A GNU extension, which
// the Glibc module does not show.)
int pinproxy_join_thread(pthread_t thread, uint64_t nanoseconds);

// Blocks the signals that a program waits for (SIGTERM, SIGINT, SIGHUP) in this thread and all it starts; ignores SIGPIPE
// and SIGXFSZ.
void pinproxy_block_signals(void);
// Waits for one of them, at most `milliseconds` (-1: for ever). Returns the signal, or 0 when the time is over.
int pinproxy_wait_signal(int milliseconds);
// Blocks, beside these, all other signals that would end a server by mistake: SIGUSR1, SIGUSR2, SIGALRM and their like.
void pinproxy_block_servers_signals(void);
// The signals of the last function as a descriptor, non-blocking and closed on exec. Returns it or -errno.
int pinproxy_signal_descriptor(void);
// The next signal of that descriptor, or 0.
int pinproxy_take_signal(int descriptor);
// A descriptor that is readable when that child has ended, closed on exec. Returns it or -errno.
int pinproxy_process_descriptor(int process);
// A pipe, closed on exec (`pipe2` is a GNU extension). Its first end does not block; the second does, because programs that get it
// as their standard output do not know of any other kind. Returns 0 or -errno.
int pinproxy_pipe(int ends[2]);
// Has the program that `actions` start get the descriptors up to 2 and these, in rising order, and no other one: libraries open some
// that exec does not close, and another thread may do so until the program starts. Returns 0 or an error number.
int pinproxy_spawn_keeps_only(posix_spawn_file_actions_t *actions, const int *kept, size_t count);
// Starts a program, named by its path, in a process group of its own (posix_spawn(3)): its standard output is a descriptor of the
// caller, input and error are the null device, no other descriptor is open in it, no signal is blocked or ignored. Returns its
// number, or -errno when it could not be started.
int pinproxy_start_command(char *const *arguments, char *const *environment, int output);

#endif
