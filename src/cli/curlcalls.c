/* curlcalls.c - libcurl, loaded by the commands that need it.
 *
 * The library stays loaded until the program ends: it is used until then. The
 * second name is the one under which Debian has the variant with GnuTLS.
 */
#include "cli/curlcalls.h"
#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>

struct curl_calls curl;

/* dlsym() gives a data pointer; POSIX lets it be copied into a function's. */
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
                         "the daemon is asked by libcurl, which is not there: "
                         "%.200s",
                         dlerror());
    struct curl_calls calls = {0};
    bool is_whole = true;
#define X(name) \
    is_whole = load(library, "curl_" #name, &calls.name) && is_whole;
    CURL_CALLS(X)
#undef X
    if (!is_whole)
        return firn_fail(err, FIRN_ENOENT, "libcurl is older than 7.66");
    curl = calls;
    return FIRN_OK;
}
