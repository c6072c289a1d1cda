/* slurmbed.c - a real Slurm on this host, of tools/slurm-bed, for C tests.
 */
#define _GNU_SOURCE
#include "lib/slurmbed.h"
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

void slurmbed_exec(const struct slurmbed *bed, const char *const *argv)
{
    int fd = open(bed->log, O_WRONLY | O_APPEND | O_CREAT, 0600);
    if (dup2(fd, 1) >= 0 && dup2(fd, 2) >= 0)
        execvp(argv[0], (char *const *)argv);
    _exit(127);
}

int slurmbed_run(const struct slurmbed *bed, const char *const *argv)
{
    int status = -1;
    pid_t pid = fork();
    if (pid == 0)
        slurmbed_exec(bed, argv);
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

bool slurmbed_is_possible(const struct slurmbed *bed)
{
    const char *look[] = {"sh", "-c",
                          "PATH=$PATH:/usr/sbin; command -v slurmctld && "
                          "command -v munged && command -v sbatch",
                          NULL};
    return slurmbed_run(bed, look) == 0;
}

bool slurmbed_up(struct slurmbed *bed, int nnodes)
{
    char conf[SLURMBED_PATH + 20], cluster[16];
    const char *up[] = {
        "tools/slurm-bed", "up", "--dir", bed->dir, "--cluster", cluster,
        "--credentials",   "5",  NULL,    NULL};
    snprintf(bed->dir, sizeof bed->dir, "/tmp/firn-bed.XXXXXX");
    if (mkdtemp(bed->dir) == NULL) {
        bed->dir[0] = '\0';
        return false;
    }
    if (getenv("FIRND_HOSTS") != NULL)
        up[8] = "--hosts";
    snprintf(cluster, sizeof cluster, "%dx4:v100", nnodes);
    snprintf(conf, sizeof conf, "%s/etc/slurm.conf", bed->dir);
    if (slurmbed_run(bed, up) != 0)
        return false;
    setenv("SLURM_CONF", conf, 1);
    return true;
}

void slurmbed_down(struct slurmbed *bed)
{
    const char *argv[] = {"tools/slurm-bed", "down", "--dir", bed->dir, NULL};
    if (bed->dir[0] != '\0')
        slurmbed_run(bed, argv);
    bed->dir[0] = '\0';
}

int slurmbed_tell(const struct slurmbed *bed, const char *verb,
                  const char *what, const char *option)
{
    const char *argv[] = {"tools/slurm-bed", verb,   what, "--dir",
                          bed->dir,          option, NULL};
    return slurmbed_run(bed, argv);
}

void slurmbed_word(const struct slurmbed *bed, const char *name,
                   const char *otherwise, char out[32])
{
    char path[SLURMBED_PATH + 40];
    snprintf(path, sizeof path, "%s/%.30s", bed->dir, name);
    FILE *f = fopen(path, "r");
    if (f == NULL || fscanf(f, "%31s", out) != 1)
        snprintf(out, 32, "%s", otherwise);
    if (f != NULL)
        fclose(f);
}

bool slurmbed_signal(const struct slurmbed *bed, int number)
{
    char word[32];
    slurmbed_word(bed, "run/slurmctld.pid", "0", word);
    long pid = strtol(word, NULL, 10);
    return pid > 0 && kill((pid_t)pid, number) == 0;
}
