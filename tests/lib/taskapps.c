/* taskapps.c - see taskapps.h.
 */
#define _GNU_SOURCE
#include "lib/taskapps.h"
#include "lib/play.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

char taskapps_folder[64];
static char files[2][96];

static void make_profile(char *path, const char *app)
{
    char text[400];
    snprintf(text, sizeof text,
             "app %s\nsource test\norigin none\nhardware none\nmethod made "
             "up\nsynthetic yes\nlocal_min 1\nlocal_max 4000\nrestart_s 0\n"
             "time v100 beta_s 0.01 batch_max 4000\n",
             app);
    snprintf(path, sizeof files[0], "%s/%s.txt", taskapps_folder, app);
    play_write(path, text);
}

int taskapps_make(void **state)
{
    (void)state;
    snprintf(taskapps_folder, sizeof taskapps_folder, "/tmp/firn-tasks-XXXXXX");
    if (mkdtemp(taskapps_folder) == NULL)
        return -1;
    make_profile(files[0], "vit");
    make_profile(files[1], "roberta-base");
    return 0;
}

int taskapps_remove(void **state)
{
    (void)state;
    unlink(files[0]);
    unlink(files[1]);
    rmdir(taskapps_folder);
    return 0;
}
