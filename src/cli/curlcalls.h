/* curlcalls.h - libcurl, loaded by the commands that need it.
 *
 * Debian's libcurl brings two dozen libraries, and the linker's work on them is
 * 6 ms of every start: half of what `firn sim` takes for five thousand jobs. So
 * firn is not linked to it; the first question to the daemon loads it, by the
 * name whose binary interface the headers describe.
 */
#ifndef CLI_CURLCALLS_H
#define CLI_CURLCALLS_H
#include <curl/curl.h>
#include <firn/status.h>

#define CURL_CALLS(X)      \
    X(easy_cleanup)        \
    X(easy_getinfo)        \
    X(easy_init)           \
    X(easy_reset)          \
    X(easy_setopt)         \
    X(easy_strerror)       \
    X(global_init)         \
    X(multi_add_handle)    \
    X(multi_cleanup)       \
    X(multi_info_read)     \
    X(multi_init)          \
    X(multi_perform)       \
    X(multi_poll)          \
    X(multi_remove_handle) \
    X(slist_append)        \
    X(slist_free_all)

/* curl_easy_init() is curl.easy_init(), and so on. */
struct curl_calls {
#define X(name) __typeof__(&curl_##name) name;
    CURL_CALLS(X)
#undef X
};
extern struct curl_calls curl;

/* Fills `curl`, once. FIRN_ENOENT names what lacks. */
enum firn_status curl_load(struct firn_error *err);

#endif
