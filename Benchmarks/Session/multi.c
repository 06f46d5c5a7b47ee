// SPDX-License-Identifier: Apache-2.0
// What libcurl costs by itself: COUNT requests with WIDTH in flight over its multi interface, driven by epoll as its
// manual recommends for many transfers (libcurl-multi(3)). Nothing is kept of the answers but their length.
//
//   multi 1.1|2 URL COUNT WIDTH [CAFILE CONNECT_TO]
//
// The first word is the version of HTTP. Over HTTP/2 all requests wait for the first connection, and share it.
//
// Prints: microseconds of CPU time, microseconds of time, bytes.

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <time.h>

static int poll_descriptor;
static CURLM *multi;
// In microseconds of the monotonic clock; -1 without one. libcurl names a time once: kept as a length of time, a 0 would make every
// further wait none, 40 of them for each request.
static long deadline = -1;
static long bytes;

static long now(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec * 1000000L + time.tv_nsec / 1000;
}

static size_t on_body(char *data, size_t size, size_t count, void *owner) {
    (void)data;
    (void)owner;
    bytes += (long)(size * count);
    return size * count;
}

static int on_socket(CURL *easy, curl_socket_t socket, int what, void *owner, void *known) {
    (void)easy;
    (void)owner;
    struct epoll_event event = {0};
    event.data.fd = socket;
    if (what == CURL_POLL_REMOVE) {
        epoll_ctl(poll_descriptor, EPOLL_CTL_DEL, socket, NULL);
        return 0;
    }
    if (what & CURL_POLL_IN)
        event.events |= EPOLLIN;
    if (what & CURL_POLL_OUT)
        event.events |= EPOLLOUT;
    epoll_ctl(poll_descriptor, known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, socket, &event);
    curl_multi_assign(multi, socket, &poll_descriptor);
    return 0;
}

static int on_timer(CURLM *owner, long milliseconds, void *data) {
    (void)owner;
    (void)data;
    deadline = milliseconds < 0 ? -1 : now(CLOCK_MONOTONIC) + milliseconds * 1000;
    return 0;
}

int main(int count_of_words, char **words) {
    if ((count_of_words != 5 && count_of_words != 7) || (strcmp(words[1], "1.1") && strcmp(words[1], "2"))) {
        fprintf(stderr, "multi 1.1|2 URL COUNT WIDTH [CAFILE CONNECT_TO]\n");
        return 64;
    }
    int is_http2 = !strcmp(words[1], "2");
    long version = is_http2 ? CURL_HTTP_VERSION_2TLS : CURL_HTTP_VERSION_1_1;
    long count = atol(words[3]), width = atol(words[4]), started = 0, done = 0, failed = 0, connections = 0;
    struct curl_slist *connect_to = count_of_words == 7 ? curl_slist_append(NULL, words[6]) : NULL;
    curl_global_init(CURL_GLOBAL_DEFAULT);
    poll_descriptor = epoll_create1(EPOLL_CLOEXEC);
    multi = curl_multi_init();
    curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, on_socket);
    curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, on_timer);
    long cpu = now(CLOCK_PROCESS_CPUTIME_ID), time = now(CLOCK_MONOTONIC);
    for (; started < width && started < count; started++) {
        CURL *easy = curl_easy_init();
        curl_easy_setopt(easy, CURLOPT_URL, words[2]);
        curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
        curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, version);
        curl_easy_setopt(easy, CURLOPT_PIPEWAIT, (long)is_http2);
        curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
        if (connect_to) {
            curl_easy_setopt(easy, CURLOPT_CAINFO, words[5]);
            curl_easy_setopt(easy, CURLOPT_CONNECT_TO, connect_to);
        }
        curl_multi_add_handle(multi, easy);
    }
    int running;
    while (done < count) {
        struct epoll_event events[64];
        long left_time = deadline < 0 ? 1000 : (deadline - now(CLOCK_MONOTONIC) + 999) / 1000;
        int ready = epoll_wait(poll_descriptor, events, 64, left_time < 0 ? 0 : (int)left_time);
        if (deadline >= 0 && now(CLOCK_MONOTONIC) >= deadline) {
            deadline = -1;
            curl_multi_socket_action(multi, CURL_SOCKET_TIMEOUT, 0, &running);
        }
        for (int index = 0; index < ready; index++) {
            int what = (events[index].events & (EPOLLIN | EPOLLHUP | EPOLLERR) ? CURL_CSELECT_IN : 0) |
                       (events[index].events & EPOLLOUT ? CURL_CSELECT_OUT : 0);
            curl_multi_socket_action(multi, events[index].data.fd, what, &running);
        }
        CURLMsg *message;
        int left;
        while ((message = curl_multi_info_read(multi, &left))) {
            CURL *easy = message->easy_handle;
            long status = 0, used = 0, made = 0;
            curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
            curl_easy_getinfo(easy, CURLINFO_HTTP_VERSION, &used);
            curl_easy_getinfo(easy, CURLINFO_NUM_CONNECTS, &made);
            connections += made;
            failed += message->data.result != CURLE_OK || status != 200 ||
                      used != (is_http2 ? CURL_HTTP_VERSION_2_0 : CURL_HTTP_VERSION_1_1);
            done++;
            curl_multi_remove_handle(multi, easy);
            // The handle is used again, as a program that cares would.
            if (started < count) {
                started++;
                curl_multi_add_handle(multi, easy);
            } else {
                curl_easy_cleanup(easy);
            }
        }
    }
    printf("%ld %ld %ld\n", now(CLOCK_PROCESS_CPUTIME_ID) - cpu, now(CLOCK_MONOTONIC) - time, bytes);
    if (failed)
        fprintf(stderr, "%ld of %ld requests failed\n", failed, count);
    if (is_http2 && connections != 1)
        fprintf(stderr, "%ld connections instead of one\n", connections);
    return failed != 0 || (is_http2 && connections != 1);
}
