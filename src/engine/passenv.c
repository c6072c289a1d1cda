/* passenv.c - the list of variables that jobs get; also in docs/jobs.md.
 */
#include "engine/passenv.h"
#include <ctype.h>
#include <string.h>

static const char *const usual[] = {
    /* user and locale */
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "TZ", "TZDIR", "LANG",
    "LANGUAGE", "LC_*",
    /* paths of programs and libraries */
    "LD_LIBRARY_PATH", "LIBRARY_PATH", "MANPATH", "PYTHON*", "VIRTUAL_ENV",
    "CONDA_PREFIX", "CONDA_DEFAULT_ENV",
    /* GPUs and training libraries */
    "CUDA_*", "CUDNN_*", "CUBLAS_*", "NVIDIA_*", "NCCL_*", "GLOO_*", "UCX_*",
    "FI_*", "TORCH_*", "PYTORCH_*", "XLA_*", "OMP_*", "GOMP_*", "KMP_*",
    "MKL_*", "OPENBLAS_*", "HSA_*", "HIP_*", "ROCR_*", "MIOPEN_*"};

static bool is_between(char c)
{
    return c == ',' || c == ' ';
}

/* The variable matches `word`, a name or a prefix with a star. */
static bool matches(const char *variable, const char *word, size_t n)
{
    size_t size = strcspn(variable, "=");
    if (n > 0 && word[n - 1] == '*')
        return size >= n - 1 && strncmp(variable, word, n - 1) == 0;
    return size == n && strncmp(variable, word, n) == 0;
}

bool passenv_has(const char *variable, const char *more)
{
    if (strchr(variable, '=') == NULL || variable[0] == '=' ||
        strncmp(variable, "FIRN_", 5) == 0)
        return false;
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        if (matches(variable, usual[i], strlen(usual[i])))
            return true;
    while (*more != '\0') {
        size_t n = strcspn(more, ", ");
        if (n > 0 && matches(variable, more, n))
            return true;
        more += n;
        more += is_between(*more);
    }
    return false;
}

enum firn_status passenv_check(const char *more, struct firn_error *err)
{
    for (const char *at = more; *at != '\0';) {
        size_t n = strcspn(at, ", "), k = 0;
        while (k < n && (isalnum((unsigned char)at[k]) || at[k] == '_'))
            k++;
        bool has_star = k < n && at[k] == '*';
        if (k + has_star != n || (n > 0 && isdigit((unsigned char)at[0])))
            return firn_fail(
                err, FIRN_EINVAL,
                "pass-env: '%.*s' is neither a variable's name nor "
                "PREFIX_*",
                (int)(n < 80 ? n : 80), at);
        if (strncmp(at, "FIRN_", 5) == 0)
            return firn_fail(err, FIRN_EINVAL,
                             "pass-env: '%.*s' is firn's own and is not passed "
                             "to jobs",
                             (int)(n < 80 ? n : 80), at);
        at += n;
        at += is_between(*at);
    }
    return FIRN_OK;
}
