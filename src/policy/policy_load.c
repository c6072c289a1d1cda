/* policy_load.c - policies from outside: given by pointer, or in shared
 * objects.
 *
 * A program may be compiled against older headers than the library that it
 * runs with. struct firn_policy_def begins with its size, and fields are only
 * ever added at its end: what a shorter one lacks is zero, which means "not
 * set" for each field. A longer one is refused, since its policy may rely on a
 * hook that this library does not know.
 *
 * (1) A loaded policy is never unloaded: rounds, forecasts and threads keep
 * pointers to it. (2) A name means one policy: a shared object whose policy is
 * named like another one is refused. (3) Only firn_policy_load() loads; finding
 * by name, which requests over HTTP can ask for, never does.
 */
#include "policy/policy_load.h"
#include "base/mem.h"
#include "base/vec.h"
#include <dlfcn.h>
#include <firn/version.h>
#include <string.h>
#include <unistd.h>

_Static_assert(offsetof(struct firn_policy_def, size) == 0 &&
                   offsetof(struct firn_policy_plugin, size) == 0,
               "policies of every version begin with their size");

struct loaded {
    void *object; /* the same for each dlopen() of one file */
    struct firn_policy_def def;
};

static VEC(struct loaded *) all;

const struct firn_policy_def *policy_loaded(const char *name)
{
    for (size_t i = 0; i < all.n; i++)
        if (strcmp(all.at[i]->def.name, name) == 0)
            return &all.at[i]->def;
    return NULL;
}

static bool is_name(const char *name)
{
    size_t n = name != NULL ? strlen(name) : 0;
    return n > 0 && n < FIRN_NAME_MAX &&
           strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == n;
}

enum firn_status policy_adopt(struct firn_policy_def *out,
                              const struct firn_policy_def *given,
                              struct firn_error *err)
{
    size_t least =
        offsetof(struct firn_policy_def, decide) + sizeof given->decide;
    struct firn_policy_def full = {0};
    if (given->size < least)
        return firn_fail(err, FIRN_EINVAL,
                         "the policy's size is %zu bytes: set .size = "
                         "sizeof(struct firn_policy_def)",
                         given->size);
    if (given->size > sizeof full)
        return firn_fail(err, FIRN_EINVAL,
                         "the policy was built for a newer firn: its struct "
                         "firn_policy_def has %zu bytes, that of firn %s %zu",
                         given->size, firn_version(), sizeof full);
    memcpy(&full, given, given->size);
    full.size = sizeof full;
    if (!is_name(full.name))
        return firn_fail(err, FIRN_EINVAL,
                         "'%.60s' is no name for a policy: use 1 to %d of a-z, "
                         "0-9 and -",
                         full.name != NULL ? full.name : "", FIRN_NAME_MAX - 1);
    if (full.decide == NULL || (full.save == NULL) != (full.load == NULL))
        return firn_fail(err, FIRN_EINVAL, "policy %s has %s", full.name,
                         full.decide == NULL ? "no `decide`"
                                             : "only one of `save` and `load`");
    if (full.summary == NULL)
        full.summary = "";
    *out = full;
    return FIRN_OK;
}

/* Is it a plug-in for this firn? */
static enum firn_status check_plugin(const struct firn_policy_plugin *plugin,
                                     const char *path, struct firn_error *err)
{
    if (plugin == NULL)
        return firn_fail(err, FIRN_EINVAL,
                         "%.200s has no policy: it does not define "
                         "firn_policy_plugin; use FIRN_POLICY_PLUGIN()",
                         path);
    if (plugin->size < sizeof *plugin || plugin->abi != FIRN_POLICY_ABI)
        return firn_fail(err, FIRN_EINVAL,
                         "%.200s was built for version %d of the policy "
                         "interface; firn %s has version %d: build it again "
                         "with this firn's headers",
                         path, plugin->abi, firn_version(), FIRN_POLICY_ABI);
    if (plugin->job_size > sizeof(struct firn_job) ||
        plugin->view_size > sizeof(struct firn_view))
        return firn_fail(err, FIRN_EINVAL,
                         "%.200s was built with the headers of a newer firn "
                         "than %s: build it again with this firn's headers",
                         path, firn_version());
    return FIRN_OK;
}

/* Takes the policy of an open shared object into the list. */
static const struct firn_policy_def *take(void *object, const char *path,
                                          struct firn_error *err)
{
    const struct firn_policy_plugin *plugin =
        dlsym(object, "firn_policy_plugin");
    struct firn_policy_def def = {0};
    struct firn_error unknown = {0};
    if (check_plugin(plugin, path, err) != FIRN_OK)
        return NULL;
    if (policy_adopt(&def, plugin->policy, err) != FIRN_OK) {
        firn_fail_in(err, path);
        return NULL;
    }
    if (firn_policy_find(def.name, &unknown) != NULL) {
        firn_fail(err, FIRN_EINVAL,
                  "%.200s: there is a policy '%s' already: give it another "
                  "name",
                  path, def.name);
        return NULL;
    }
    struct loaded *one = mem_new(1, sizeof *one);
    *one = (struct loaded){.object = object, .def = def};
    vec_add(&all, one);
    return &one->def;
}

const struct firn_policy_def *firn_policy_load(const char *path,
                                               struct firn_error *err)
{
    const struct firn_policy_def *found = NULL;
    if (strchr(path, '/') == NULL) {
        firn_fail(err, FIRN_EINVAL,
                  "'%.200s' is no path of a shared object: write ./%.200s",
                  path, path);
        return NULL;
    }
    if (access(path, F_OK) != 0) {
        firn_fail(err, FIRN_ENOENT, "there is no shared object '%.200s'", path);
        return NULL;
    }
    void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (object == NULL) {
        firn_fail(err, FIRN_EINVAL, "cannot load a policy: %.300s", dlerror());
        return NULL;
    }
    for (size_t i = 0; i < all.n && found == NULL; i++)
        if (all.at[i]->object == object)
            found = &all.at[i]->def;
    if (found != NULL) {
        dlclose(object); /* it is open once more than needed */
        return found;
    }
    found = take(object, path, err);
    if (found == NULL)
        dlclose(object);
    return found;
}
