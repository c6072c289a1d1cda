/* siashelf.h - a cache of the applications in a run of Sia's simulator.
 *
 * Tables are read when an application first comes: step times on each GPU type
 * from ROOT/sia/apps/APP, what training gains from ROOT/pollux/apps/APP.
 */
#ifndef COMPAT_SIASHELF_H
#define COMPAT_SIASHELF_H
#include "compat/adaptdlapp.h"

enum { SIA_TYPES = 3, SIA_APPS = 6 };

/* GPU types of the artifact's default cluster, in its order. */
struct siatype {
    const char *name, *suffix; /* ours, and of the tables */
    int nodes, per_node;
};

extern const struct siatype sia_types[SIA_TYPES];

struct siaapp {
    double restart_s;  /* what a restart takes (two-tables) */
    double believed_s; /* what the policy believes it takes */
    double slowdown;   /* true speeds are divided by it */
    struct adlapp truth;
    struct adlsteps steps[SIA_TYPES];
    struct adllimits limits[SIA_TYPES]; /* of a type, whatever the placement */
};

/* A cache, empty when zeroed but for `root`, which is borrowed. */
struct siashelf {
    const char *root;
    struct siaapp *apps[SIA_APPS];
};

void siashelf_release(struct siashelf *shelf);

/* FIRN_ENOENT names the known applications, or the table that is missing. The
 * entry lives as long as the shelf. */
enum firn_status siashelf_find(struct siashelf *shelf, const char *name,
                               const struct siaapp **out,
                               struct firn_error *err);

/* How long a job takes on `gpus` packed T4 at the measured speed, without
 * rounds, restarts or slowdown. */
double siaapp_alone_s(const struct siaapp *app, double batch, int gpus);

#endif
