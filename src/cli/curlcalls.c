/* curlcalls.c - libcurl, loaded at the first request.
 *
 * libcurl-gnutls is Debian's variant with GnuTLS.
 */
#include "cli/curlcalls.h"
#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>

struct curl_calls curl;

/* dlsym() returns a data pointer; POSIX allows to copy it to a function
 * pointer. */
static bool load(void *library, const char *name, void *function)
{
    void *symbol = dlsym(library, name);
    if (symbol != NULL)
        memcpy(function, &symbol, sizeof symbol);
    return symbol != NULL;
}

enum firn_status curl_load(struct firn_error *err)
{
    static const char *const names[] = {"libcurl.so.4", "libcurl-gnutls.so.4"};
    void *library = NULL;
    if (curl.easy_init != NULL)
        return FIRN_OK;
    for (size_t i = 0; library == NULL && i < sizeof names / sizeof *names; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        return firn_fail(err, FIRN_ENOENT,
                         "cannot load libcurl, which connects to firnd: "
                         "%.200s",
                         dlerror());
    struct curl_calls calls = {0};
    bool is_whole = true;
#define X(name) \
    is_whole = load(library, "curl_" #name, &calls.name) && is_whole;
    CURL_CALLS(X)
#undef X
    if (!is_whole)
        return firn_fail(err, FIRN_ENOENT,
                         "libcurl is too old: 7.66 or newer is needed");
    curl = calls;
    return FIRN_OK;
}
