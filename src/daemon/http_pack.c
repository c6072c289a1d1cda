/* http_pack.c - compresses answers for clients that accept gzip.
 *
 * The list of 5000 jobs is 1.6 MB of JSON, mostly names of members: zlib's
 * fastest level makes 73 KB of it in about 5 ms. It runs on the only loop, so
 * small answers stay as they are, and level 1 is used.
 * Answers that have secrets, such as a new token, are below the limit; those
 * that are compressed have nothing that a caller and a foreign page can both
 * choose.
 *
 * Without zlib nothing is compressed.
 */
#include "base/buf.h"
#include "base/mem.h"
#include "daemon/httpwork.h"
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#ifdef FIRN_WITH_ZLIB
#include <zlib.h>
#endif

enum { PACK_BYTES = 4096 };

bool http_accepts(const struct http_exchange *exchange, const char *coding)
{
    size_t n = strlen(coding);
    const char *list = http_header(exchange, "Accept-Encoding");
    for (; list != NULL; list = strchr(list, ',')) {
        list += strspn(list, ", \t");
        if (strncasecmp(list, coding, n) != 0 || strcspn(list, ",; \t") != n)
            continue;
        const char *q = list + n + strspn(list + n, "; \t");
        return strncmp(q, "q=", 2) != 0 || strtod(q + 2, NULL) > 0;
    }
    return false;
}

static bool is_text(const char *type)
{
    static const char *const types[] = {"application/json", "text/csv",
                                        "application/openmetrics-text"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strncmp(type, types[i], strlen(types[i])) == 0)
            return true;
    return false;
}

#ifdef FIRN_WITH_ZLIB
static bool pack(struct firn_bytes body, char **out, size_t *n)
{
    enum { GZIP = 16 + MAX_WBITS, MEMORY = 8 };
    z_stream stream = {0};
    union { /* zlib reads it, and takes a pointer that is not const */
        const char *in;
        Bytef *out;
    } bytes = {.in = body.at};
    if (body.n > UINT32_MAX / 2 ||
        deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, GZIP, MEMORY,
                     Z_DEFAULT_STRATEGY) != Z_OK)
        return false;
    uLong room = deflateBound(&stream, (uLong)body.n);
    *out = mem_new(room, 1);
    stream.next_in = bytes.out;
    stream.avail_in = (uInt)body.n;
    stream.next_out = (Bytef *)*out;
    stream.avail_out = (uInt)room;
    bool is_whole = deflate(&stream, Z_FINISH) == Z_STREAM_END;
    *n = stream.total_out;
    deflateEnd(&stream);
    if (!is_whole)
        mem_free(*out);
    return is_whole;
}
#else
static bool pack(struct firn_bytes body, char **out, size_t *n)
{
    (void)body;
    (void)out;
    (void)n;
    return false;
}
#endif

bool http_pack(const struct http_exchange *exchange, const char *type,
               struct firn_bytes body, char **out, size_t *n)
{
    return body.n >= PACK_BYTES && is_text(type) &&
           http_accepts(exchange, "gzip") && pack(body, out, n);
}
