/* askfield.c - a field of a job of firnd, printed, or waited for.
 *
 *   askfield SOCKET SECONDS field JOB NAME [PATTERN]
 *   askfield SOCKET SECONDS report JOB NAME [PATTERN]
 *   askfield SOCKET SECONDS text TARGET TEXT
 *
 * For tests/lib/firnd.sh. A shell that looks until a job is in a state starts
 * five processes at each look, 10 ms of processor time; this one asks over and
 * over in one process, 0.2 ms, and so may look more often.
 *
 * `field` is the first field of that name in the answer to GET /v1/jobs/JOB,
 * `report` one of the job's last report. Without PATTERN it asks once and
 * prints the value; with PATTERN, one of the shell, it asks until the value
 * matches, for SECONDS at most, and prints the last value. `text` asks until
 * the answer to GET /v1TARGET contains TEXT. The exit status is 0 if it
 * matched. A firnd that is away, or answers by an error, has no value: the next
 * try may.
 */
#include <fnmatch.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { ANSWER_MAX = 4 << 20, VALUE_MAX = 4096, TARGET_MAX = 600 };

static char answer[ANSWER_MAX];

static int dial(const char *path)
{
    struct sockaddr_un where = {.sun_family = AF_UNIX};
    snprintf(where.sun_path, sizeof where.sun_path, "%.100s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    struct timeval patience = {.tv_sec = 60};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (connect(fd, (struct sockaddr *)&where, sizeof where) == 0)
        return fd;
    close(fd);
    return -1;
}

/* The body of the answer, or "" if there is none or its status is not 2xx. */
static const char *get(const char *path, const char *target)
{
    char request[TARGET_MAX + 100];
    int nrequest = snprintf(request, sizeof request,
                            "GET /v1%s HTTP/1.1\r\nHost: firn\r\n"
                            "Connection: close\r\n\r\n",
                            target);
    size_t n = 0;
    int fd = dial(path);
    if (fd < 0)
        return "";
    if (send(fd, request, (size_t)nrequest, MSG_NOSIGNAL) == nrequest) {
        ssize_t got;
        while (n < sizeof answer - 1 &&
               (got = recv(fd, answer + n, sizeof answer - 1 - n, 0)) > 0)
            n += (size_t)got;
    }
    close(fd);
    answer[n] = '\0';
    const char *body = strstr(answer, "\r\n\r\n");
    bool is_good = strncmp(answer, "HTTP/1.1 2", 10) == 0;
    return is_good && body != NULL ? body + 4 : "";
}

/* The value of the first `"NAME":` behind one of `marks`, without quotes and up
 * to its first comma. */
static bool value_of(const char *text, const char *name, const char *marks,
                     char value[VALUE_MAX])
{
    size_t nname = strlen(name);
    value[0] = '\0';
    for (const char *at = text; at != NULL; at = strpbrk(at, marks)) {
        at += strspn(at, marks);
        at += strspn(at, " ");
        if (*at != '"' || strncmp(at + 1, name, nname) != 0 ||
            strncmp(at + 1 + nname, "\":", 2) != 0)
            continue;
        at += nname + 3;
        at += strspn(at, " ");
        at += *at == '"';
        snprintf(value, VALUE_MAX, "%.*s", (int)strcspn(at, "\",{}"), at);
        return true;
    }
    return false;
}

/* The last report of a job's answer, or "". */
static const char *report_in(const char *body)
{
    const char *mark = "\"report\":", *found = "";
    for (const char *at = strstr(body, mark); at; at = strstr(at + 1, mark))
        found = at + strlen(mark);
    return found;
}

static void nap(int ntries)
{
    long ms = ntries < 50 ? 10 : 50;
    nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
}

static bool look(char **args, const char *pattern, char value[VALUE_MAX])
{
    char target[TARGET_MAX];
    const char *socket = args[1], *what = args[3];
    if (strcmp(what, "text") == 0)
        return strstr(get(socket, args[4]), args[5]) != NULL;
    snprintf(target, sizeof target, "/jobs/%.500s", args[4]);
    const char *body = get(socket, target);
    bool is_found = strcmp(what, "report") == 0
                        ? value_of(report_in(body), args[5], "{},", value)
                        : value_of(body, args[5], "{,", value);
    return pattern == NULL ? is_found : fnmatch(pattern, value, 0) == 0;
}

int main(int nargs, char **args)
{
    static char value[VALUE_MAX];
    if (nargs != 6 && nargs != 7) {
        fputs("askfield: SOCKET SECONDS field|report JOB NAME [PATTERN], or "
              "SOCKET SECONDS text TARGET TEXT\n",
              stderr);
        return 2;
    }
    const char *pattern = nargs == 7 ? args[6] : NULL;
    bool is_text = strcmp(args[3], "text") == 0;
    double seconds = strtod(args[2], NULL);
    time_t since_s = time(NULL);
    bool is_so = look(args, pattern, value);
    for (int i = 0; !is_so && (pattern != NULL || is_text) &&
                    difftime(time(NULL), since_s) < seconds;
         i++) {
        nap(i);
        is_so = look(args, pattern, value);
    }
    if (!is_text)
        puts(value);
    return is_so ? 0 : 1;
}
