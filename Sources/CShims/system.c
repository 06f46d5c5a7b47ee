// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "pinproxy_system.h"

#include <stdatomic.h>
#include <errno.h>

#include <fcntl.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

_Static_assert(PINPROXY_EVENT_IN == EPOLLIN && PINPROXY_EVENT_OUT == EPOLLOUT, "epoll's bits");
_Static_assert(PINPROXY_EVENT_ERROR == EPOLLERR && PINPROXY_EVENT_HANGUP == EPOLLHUP, "epoll's bits");
_Static_assert(PINPROXY_EVENT_PEER_CLOSED == EPOLLRDHUP, "epoll's bits");
_Static_assert(PINPROXY_EVENT_EXCLUSIVE == EPOLLEXCLUSIVE && PINPROXY_EVENT_EDGE == EPOLLET, "epoll's bits");
_Static_assert(PINPROXY_EPOLL_ADD == EPOLL_CTL_ADD && PINPROXY_EPOLL_DELETE == EPOLL_CTL_DEL, "epoll's calls");
_Static_assert(PINPROXY_EPOLL_MODIFY == EPOLL_CTL_MOD, "epoll's calls");

enum { EVENTS_A_CALL = 256 };

int pinproxy_epoll_create(void) {
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    return epoll < 0 ? -errno : epoll;
}

int pinproxy_epoll_control(int epoll, int operation, int descriptor, uint32_t events, uint64_t key) {
    struct epoll_event event = {.events = events, .data = {.u64 = key}};
    return epoll_ctl(epoll, operation, descriptor, &event) < 0 ? -errno : 0;
}

int pinproxy_epoll_wait(int epoll, struct pinproxy_event *events, int capacity, int milliseconds) {
    struct epoll_event packed[EVENTS_A_CALL];
    int count = epoll_wait(epoll, packed, capacity < EVENTS_A_CALL ? capacity : EVENTS_A_CALL, milliseconds);
    if (count < 0)
        return errno == EINTR ? 0 : -errno;
    for (int index = 0; index < count; index++) {
        events[index].events = packed[index].events;
        events[index].key = packed[index].data.u64;
    }
    return count;
}

int pinproxy_hide_memory(void) {
    return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 ? -errno : 0;
}

int pinproxy_eventfd(void) {
    int descriptor = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return descriptor < 0 ? -errno : descriptor;
}

uint64_t pinproxy_monotonic(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t pinproxy_thread_processor_time(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

int64_t pinproxy_realtime(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static int set_flag(int descriptor, int level, int option) {
    int on = 1;
    return setsockopt(descriptor, level, option, &on, sizeof on) < 0 ? -errno : 0;
}

int pinproxy_stream_socket(int family) {
    int descriptor = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    return descriptor < 0 ? -errno : descriptor;
}

void pinproxy_keep_alive(int descriptor, int idle, int interval) {
    set_flag(descriptor, SOL_SOCKET, SO_KEEPALIVE);
    setsockopt(descriptor, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(descriptor, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
}

int pinproxy_datagram_socket(int family) {
    int descriptor = socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    return descriptor < 0 ? -errno : descriptor;
}

int pinproxy_accept(int listener, struct sockaddr_storage *address, socklen_t *length) {
    for (;;) {
        *length = sizeof *address;
        int descriptor = accept4(listener, (struct sockaddr *)address, length, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (descriptor >= 0)
            return descriptor;
        if (errno != EINTR && errno != ECONNABORTED)
            return -errno;
    }
}

int pinproxy_set_no_delay(int descriptor) { return set_flag(descriptor, IPPROTO_TCP, TCP_NODELAY); }
int pinproxy_set_reuse_address(int descriptor) { return set_flag(descriptor, SOL_SOCKET, SO_REUSEADDR); }
int pinproxy_set_v6_only(int descriptor) { return set_flag(descriptor, IPPROTO_IPV6, IPV6_V6ONLY); }

int pinproxy_set_non_blocking(int descriptor) {
    int flags = fcntl(descriptor, F_GETFL);
    if (flags < 0 || fcntl(descriptor, F_SETFL, flags | O_NONBLOCK) < 0)
        return -errno;
    return 0;
}

int pinproxy_set_close_on_exec(int descriptor, int on) {
    return fcntl(descriptor, F_SETFD, on ? FD_CLOEXEC : 0) < 0 ? -errno : 0;
}

int pinproxy_peer(int descriptor, uint32_t *user, uint32_t *group) {
    struct ucred peer;
    socklen_t length = sizeof peer;
    if (getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) return -errno;
    *user = peer.uid;
    *group = peer.gid;
    return 0;
}

static ptrdiff_t send_flags(int descriptor, const void *bytes, size_t count, int flags) {
    for (;;) {
        ssize_t sent = send(descriptor, bytes, count, flags);
        if (sent >= 0)
            return sent;
        if (errno != EINTR)
            return -errno;
    }
}

ptrdiff_t pinproxy_send(int descriptor, const void *bytes, size_t count) {
    return send_flags(descriptor, bytes, count, MSG_NOSIGNAL);
}

ptrdiff_t pinproxy_send_more(int descriptor, const void *bytes, size_t count) {
    return send_flags(descriptor, bytes, count, MSG_NOSIGNAL | MSG_MORE);
}

static ptrdiff_t send_parts(int descriptor, struct iovec *parts, size_t count) {
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = count};
    for (;;) {
        ssize_t sent = sendmsg(descriptor, &message, MSG_NOSIGNAL);
        if (sent >= 0)
            return sent;
        if (errno != EINTR)
            return -errno;
    }
}

ptrdiff_t pinproxy_send2(int descriptor, const void *first, size_t first_count, const void *second, size_t second_count) {
    struct iovec parts[2] = {{(void *)first, first_count}, {(void *)second, second_count}};
    return send_parts(descriptor, parts, 2);
}

ptrdiff_t pinproxy_send3(
    int descriptor, const void *first, size_t first_count, const void *second, size_t second_count, const void *third,
    size_t third_count
) {
    struct iovec parts[3] = {{(void *)first, first_count}, {(void *)second, second_count}, {(void *)third, third_count}};
    return send_parts(descriptor, parts, 3);
}

ptrdiff_t pinproxy_receive(int descriptor, void *bytes, size_t count) {
    for (;;) {
        ssize_t got = read(descriptor, bytes, count);
        if (got >= 0)
            return got;
        if (errno != EINTR)
            return -errno;
    }
}

// When something was last found that is not in the page cache, in seconds: a thread reads it then, and the system may read ahead.
static _Atomic int64_t missed_at = INT64_MIN / 2;

static int64_t coarse_seconds(void) {
    struct timespec now = {0};
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return now.tv_sec;
}

static void note_miss(void) { atomic_store_explicit(&missed_at, coarse_seconds(), memory_order_relaxed); }

ptrdiff_t pinproxy_read_cached(int descriptor, void *bytes, size_t count, int64_t offset) {
    struct iovec part = {bytes, count};
    for (;;) {
        ssize_t got = preadv2(descriptor, &part, 1, (off_t)offset, RWF_NOWAIT);
        if (got < (ssize_t)count)
            note_miss();
        if (got >= 0)
            return got;
        if (errno != EINTR)
            return -errno;
    }
}

// Whether all of it is in the page cache, by cachestat(2) of Linux 6.5, which is a fiftieth of the work of mincore(2). It counts what is
// on its way from the disk, too: so only where this process has read nothing from a disk for a minute.
static bool is_all_cached(int descriptor, size_t count, int64_t offset, size_t page) {
    enum { call = 451, settled = 60 };
    static atomic_bool is_lacking;
    struct {
        uint64_t offset, length;
    } range = {(uint64_t)offset, count};
    struct {
        uint64_t cached, dirty, written_back, evicted, recently_evicted;
    } found;
    if (atomic_load_explicit(&is_lacking, memory_order_relaxed)
        || coarse_seconds() - atomic_load_explicit(&missed_at, memory_order_relaxed) < settled)
        return false;
    if (syscall(call, descriptor, &range, &found, 0) != 0) {
        if (errno == ENOSYS || errno == EPERM)
            atomic_store_explicit(&is_lacking, true, memory_order_relaxed);
        return false;
    }
    if (found.cached <= ((uint64_t)offset + count - 1) / page - (uint64_t)offset / page)
        return false;
    // What is sent may have the system read ahead. That is a run of pages, and the last of them is here last.
    unsigned char byte;
    struct iovec part = {&byte, 1};
    return preadv2(descriptor, &part, 1, (off_t)(offset + (int64_t)count - 1), RWF_NOWAIT) == 1;
}

size_t pinproxy_cached_count(int descriptor, size_t count, int64_t offset) {
    enum { most = 1 << 20, least_page = 4 << 10 };
    struct stat status;
    // mincore(2) tells others than the owner that everything is there.
    if (offset < 0 || fstat(descriptor, &status) != 0 || status.st_uid != geteuid() || offset >= status.st_size)
        return 0;
    if ((int64_t)count > status.st_size - offset)
        count = (size_t)(status.st_size - offset);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t before = (size_t)offset & (page - 1);
    if (page < least_page || count == 0)
        return 0;
    size_t length = before + count < most ? before + count : most;
    count = length - before;
    if (is_all_cached(descriptor, count, offset, page))
        return count;
    // Nothing is read through it: a file that becomes shorter is no fault.
    void *map = mmap(NULL, length, PROT_NONE, MAP_SHARED, descriptor, offset - (int64_t)before);
    if (map == MAP_FAILED)
        return 0;
    unsigned char resident[most / least_page];
    size_t pages = (length + page - 1) / page, known = 0;
    if (mincore(map, length, resident) == 0)
        while (known < pages && (resident[known] & 1))
            known++;
    munmap(map, length);
    if (known == pages)
        return count;
    note_miss();
    return known * page > before ? known * page - before : 0;
}

ptrdiff_t pinproxy_send_file(int descriptor, int file, int64_t offset, size_t count) {
    for (;;) {
        off_t position = (off_t)offset;
        ssize_t sent = sendfile(descriptor, file, &position, count);
        if (sent >= 0)
            return sent;
        if (errno == EINTR)
            continue;
        int code = errno;
        // A page that the disk did not give stays in the cache without its bytes.
        if (code == EIO)
            note_miss();
        return -code;
    }
}

ptrdiff_t pinproxy_write_file(int descriptor, const void *bytes, size_t count) {
    for (;;) {
        ssize_t written = write(descriptor, bytes, count);
        if (written >= 0)
            return written;
        if (errno != EINTR)
            return -errno;
    }
}

int pinproxy_open_append(const char *path) {
    // A FIFO that no process reads is an error (ENXIO), where a blocking open would wait for a reader.
    int descriptor = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0640);
    return descriptor < 0 ? -errno : descriptor;
}

int pinproxy_open_unnamed(const char *folder, unsigned mode) {
    int descriptor = open(folder, O_RDWR | O_TMPFILE | O_CLOEXEC, (mode_t)mode);
    return descriptor < 0 ? -errno : descriptor;
}

int pinproxy_link_unnamed(int descriptor, const char *path) {
    // The way that needs no privilege (open(2)); AT_EMPTY_PATH would.
    char source[40];
    snprintf(source, sizeof source, "/proc/self/fd/%d", descriptor);
    return linkat(AT_FDCWD, source, AT_FDCWD, path, AT_SYMLINK_FOLLOW) < 0 ? -errno : 0;
}

int pinproxy_open_new(const char *path, unsigned mode) {
    int descriptor = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, (mode_t)mode);
    return descriptor < 0 ? -errno : descriptor;
}

static int argument_count;
static char **argument_words;

#ifdef __GLIBC__
// The C library passes the arguments to constructors. Swift reads /proc for them, which need not be there.
__attribute__((constructor)) static void keep_arguments(int count, char **words) {
    argument_count = count;
    argument_words = words;
}
#endif

int pinproxy_argument_count(void) { return argument_count; }

const char *pinproxy_argument(int index) {
    return index >= 0 && index < argument_count ? argument_words[index] : NULL;
}

int pinproxy_processors(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) < 0)
        return 1;
    int count = CPU_COUNT(&set);
    return count > 0 ? count : 1;
}

// mimalloc.h: null unless the program is linked with it.
extern void mi_collect(bool force) __attribute__((weak));
extern long mi_option_get(int option) __attribute__((weak));
extern void mi_option_set(int option, long value) __attribute__((weak));

// mi_option_decommit_delay, mi_option_purge_delay from 2.1 on: milliseconds between a free page and its return.
enum { MI_PURGE_DELAY = 15 };

void pinproxy_release_memory(void) {
    if (mi_collect) {
        // Otherwise the pages that it frees are returned after the delay, and only when this thread allocates again.
        static _Atomic long delay = -2;
        if (mi_option_get && mi_option_set) {
            long unset = -2;
            atomic_compare_exchange_strong(&delay, &unset, mi_option_get(MI_PURGE_DELAY));
            mi_option_set(MI_PURGE_DELAY, 0);
        }
        mi_collect(true);
        if (mi_option_set && delay != -2)
            mi_option_set(MI_PURGE_DELAY, delay);
    } else
        malloc_trim(0);
}

void pinproxy_name_thread(pthread_t thread, const char *name) { pthread_setname_np(thread, name); }

int pinproxy_join_thread(pthread_t thread, uint64_t nanoseconds) {
    // Not pthread_clockjoin_np: ThreadSanitizer does not know it, and takes the next thread with the same handle for an
    // error of its own.
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    nanoseconds += (uint64_t)time.tv_nsec;
    time.tv_sec += (time_t)(nanoseconds / 1000000000);
    time.tv_nsec = (long)(nanoseconds % 1000000000);
    return pthread_timedjoin_np(thread, NULL, &time);
}

static sigset_t awaited_signals(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    return set;
}

// What else another process may send, and would end this one at once. Not among them: SIGQUIT, SIGABRT and the signals of
// faults, which are to leave a core; SIGXCPU, a limit that was set on purpose; those that stop and continue a process.
static sigset_t servers_signals(void) {
    static const int others[] = {SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM, SIGPROF, SIGIO, SIGPWR, SIGSTKFLT};
    sigset_t set = awaited_signals();
    for (size_t index = 0; index < sizeof others / sizeof *others; index++)
        sigaddset(&set, others[index]);
    for (int real_time = SIGRTMIN; real_time <= SIGRTMAX; real_time++)
        sigaddset(&set, real_time);
    return set;
}

void pinproxy_block_servers_signals(void) {
    sigset_t set = servers_signals();
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    pinproxy_block_signals();
}

void pinproxy_block_signals(void) {
    sigset_t set = awaited_signals();
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    // A file at the limit of its size (RLIMIT_FSIZE) is a failed write, and no reason to end.
    signal(SIGXFSZ, SIG_IGN);
}

int pinproxy_wait_signal(int milliseconds) {
    sigset_t set = awaited_signals();
    struct timespec limit = {milliseconds / 1000, (long)(milliseconds % 1000) * 1000000};
    for (;;) {
        int caught = milliseconds < 0 ? sigwaitinfo(&set, NULL) : sigtimedwait(&set, NULL, &limit);
        if (caught > 0)
            return caught;
        if (errno != EINTR)
            return 0;
    }
}

int pinproxy_signal_descriptor(void) {
    sigset_t set = servers_signals();
    int descriptor = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return descriptor < 0 ? -errno : descriptor;
}

int pinproxy_take_signal(int descriptor) {
    struct signalfd_siginfo information;
    for (;;) {
        ssize_t count = read(descriptor, &information, sizeof information);
        if (count == sizeof information)
            return (int)information.ssi_signo;
        if (count >= 0 || errno != EINTR)
            return 0;
    }
}

int pinproxy_process_descriptor(int process) {
    int descriptor = pidfd_open(process, 0);
    return descriptor < 0 ? -errno : descriptor;
}

int pinproxy_pipe(int ends[2]) {
    if (pipe2(ends, O_CLOEXEC) < 0)
        return -errno;
    int result = pinproxy_set_non_blocking(ends[0]);
    if (result != 0) {
        close(ends[0]);
        close(ends[1]);
    }
    return result;
}

int pinproxy_spawn_keeps_only(posix_spawn_file_actions_t *actions, const int *kept, size_t count) {
    int next = 3;
    int code = 0;
    for (size_t index = 0; index < count && code == 0; index++) {
        while (next < kept[index] && code == 0)
            code = posix_spawn_file_actions_addclose(actions, next++);
        if (next == kept[index])
            next++;
    }
    if (code == 0)
        code = posix_spawn_file_actions_addclosefrom_np(actions, next);
    // `next` is no less than the limit of open files, above which nothing can be opened.
    return code == EBADF ? 0 : code;
}

int pinproxy_start_command(char *const *arguments, char *const *environment, int output) {
    posix_spawnattr_t attributes;
    int code = posix_spawnattr_init(&attributes);
    if (code != 0)
        return -code;
    posix_spawn_file_actions_t actions;
    code = posix_spawn_file_actions_init(&actions);
    if (code != 0) {
        posix_spawnattr_destroy(&attributes);
        return -code;
    }
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
    pid_t process = 0;
    // `output` is above 2 in every process that has its standard descriptors, or else is one of them already.
    if ((code = posix_spawn_file_actions_adddup2(&actions, output, 1)) == 0
        && (code = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)) == 0
        && (code = posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0)) == 0
        && (code = posix_spawn_file_actions_addclosefrom_np(&actions, 3)) == 0)
        code = posix_spawn(&process, arguments[0], &actions, &attributes, arguments, environment);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    return code == 0 ? process : -code;
}

int pinproxy_terminal_columns(int descriptor) {
    struct winsize size;
    return ioctl(descriptor, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}
