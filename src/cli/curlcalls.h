/* curlcalls.h - libcurl, loaded at the first request.
 *
 * firn is not linked with libcurl: Debian's libcurl loads two dozen libraries,
 * which takes 6 ms at every start, half the time of `firn sim` for five
 * thousand jobs.
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

/* curl_easy_init() is called as curl.easy_init(). */
struct curl_calls {
#define X(name) __typeof__(&curl_##name) name;
    CURL_CALLS(X)
#undef X
};
extern struct curl_calls curl;

/* Fills `curl` at the first call. FIRN_ENOENT if libcurl cannot be loaded. */
enum firn_status curl_load(struct firn_error *err);

#endif
