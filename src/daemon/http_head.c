/* http_head.c - refuses request heads that two programs read differently.
 *
 * A proxy in front of firnd and firnd itself must agree where a request ends
 * and what it asks for; where they do not, a client can hide a second request
 * in the body of the first (request smuggling, RFC 9112 section 11.2).
 * libmicrohttpd reads some such heads in one of the ways; here they are
 * refused. The connection is closed with the refusal, so that the bytes behind
 * the head are never read as a request.
 *
 *     Content-Length and Transfer-Encoding together         400
 *     either of them twice, or another header of `single`   400
 *     Transfer-Encoding other than "chunked"                501
 *     Transfer-Encoding in HTTP/1.0                         400
 *     a name that is no token (a blank before the colon)    400
 *     a control character in a value (CR)                   400
 *     a value that is continued on a second line            400
 *     more than HEADERS_MOST headers                        431
 *
 * The second line of a value is added to the name by libmicrohttpd 0.9.75:
 * "Content-Length: 5" with a second line " 5" is a header Content-Length5, and
 * the body becomes the next request. Such a name was copied; any other lies
 * where it was received, with its value behind it: this is checked. For
 * libmicrohttpd a NUL ends a value or the path.
 * Requests that libmicrohttpd refuses by itself (a length that is no
 * number, a chunk whose size is not hexadecimal, HTTP/0.9, HTTP/2, a head of
 * more than 32 KiB, HTTP/1.1 without Host) do not come here.
 *
 * Cost: one pass over the headers.
 */
#include "daemon/httpwork.h"
#include <stdbool.h>
#include <string.h>
#include <strings.h>

enum { HEADERS_MOST = 100 };

/* Headers that must not come twice: programs differ in which one they use. */
static const char *const single[] = {
    "Content-Length", "Transfer-Encoding", "Host",       "Authorization",
    "Content-Type",   "Idempotency-Key",   "Request-Id", "Firn-Attempt",
    "Firn-Epoch",     "Last-Event-ID",
};
enum { LENGTH, ENCODING, NSINGLE = sizeof single / sizeof *single };

struct head {
    int n, seen[NSINGLE];
    bool has_bad_name, has_bad_value, has_fold, is_twice;
};

/* A token of RFC 9110 section 5.6.2. */
static bool is_token(const char *text, size_t n)
{
    static const char others[] = "!#$%&'*+-.^_`|~";
    for (size_t i = 0; i < n; i++) {
        char c = text[i];
        bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        bool is_digit = c >= '0' && c <= '9';
        if (!is_letter && !is_digit && (c == '\0' || !strchr(others, c)))
            return false;
    }
    return n > 0;
}

static bool is_clean(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (((unsigned char)text[i] < ' ' && text[i] != '\t') ||
            text[i] == 0x7f)
            return false;
    return true;
}

/* Is the value behind its name, with nothing but the colon (now a NUL) and
 * blanks between? */
static bool is_in_one_line(const char *name, size_t nname, const char *value)
{
    const char *at = name + nname;
    if ((uintptr_t)value <= (uintptr_t)at ||
        (uintptr_t)value - (uintptr_t)at > HTTP_HEAD_BYTES)
        return false;
    while (at < value && (*at == '\0' || *at == ' ' || *at == '\t'))
        at++;
    return at == value;
}

static enum MHD_Result note(void *arg, enum MHD_ValueKind kind,
                            const char *name, size_t nname, const char *value,
                            size_t nvalue)
{
    (void)kind;
    struct head *head = arg;
    head->n++;
    if (!is_token(name, nname))
        head->has_bad_name = true;
    if (value != NULL && !is_clean(value, nvalue))
        head->has_bad_value = true;
    if (value != NULL && !is_in_one_line(name, nname, value))
        head->has_fold = true;
    for (int i = 0; i < NSINGLE; i++)
        if (strlen(single[i]) == nname &&
            strncasecmp(name, single[i], nname) == 0)
            head->is_twice |= ++head->seen[i] > 1;
    return MHD_YES;
}

/* Of an encoding: 0 when it is one that firnd reads. */
static int wrong_encoding(const struct http_exchange *ex, const char *version,
                          const char **text)
{
    const char *encoding = http_header(ex, "Transfer-Encoding");
    if (encoding == NULL)
        return 0;
    *text = "the only Transfer-Encoding that firnd reads is 'chunked'";
    if (strcasecmp(encoding, "chunked") != 0)
        return MHD_HTTP_NOT_IMPLEMENTED;
    *text = "a request of HTTP/1.0 cannot have a Transfer-Encoding";
    return strcmp(version, "HTTP/1.0") == 0 ? MHD_HTTP_BAD_REQUEST : 0;
}

int http_head_wrong(struct http_exchange *ex, const char *version,
                    const char **text)
{
    struct head head = {0};
    MHD_get_connection_values_n(ex->mhd, MHD_HEADER_KIND, note, &head);
    const struct {
        bool is_so;
        int status;
        const char *text;
    } faults[] = {
        {head.n > HEADERS_MOST, MHD_HTTP_REQUEST_HEADER_FIELDS_TOO_LARGE,
         "the request has more than 100 headers"},
        {head.has_bad_name, MHD_HTTP_BAD_REQUEST,
         "the name of a header has a character that no name can have, such as "
         "a blank before the colon"},
        {head.has_bad_value, MHD_HTTP_BAD_REQUEST,
         "the value of a header has a control character"},
        {head.has_fold, MHD_HTTP_BAD_REQUEST,
         "the value of a header is continued on a second line"},
        {head.is_twice, MHD_HTTP_BAD_REQUEST,
         "the request has a header twice that it can have once"},
        {head.seen[LENGTH] > 0 && head.seen[ENCODING] > 0, MHD_HTTP_BAD_REQUEST,
         "the request has both Content-Length and Transfer-Encoding"},
    };
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        if (faults[i].is_so) {
            *text = faults[i].text;
            return faults[i].status;
        }
    return wrong_encoding(ex, version, text);
}
