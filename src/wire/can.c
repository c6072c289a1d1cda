/* can.c - the words for what a trainer can do.
 *
 * One table of words, in the order of their bits: reports, job files, pages and
 * sentences take theirs from here.
 *
 * Invariant: firn_can_read() of what firn_can_write() wrote is the same set.
 */
#include <firn/can.h>
#include <string.h>

static const char *const words[FIRN_CAN_WORDS] = {
    "resize",    "passes", "freeze",  "batch",     "partner",
    "after",     "tensor", "sharded", "pipeline",  "join",
    "executors", "ahead",  "zero",    "recompute", "offload",
};

const char *firn_can_name(unsigned can)
{
    for (unsigned i = 0; i < FIRN_CAN_WORDS; i++)
        if (can == 1u << i)
            return words[i];
    return "?";
}

unsigned firn_can_named(const char *word, size_t n)
{
    for (unsigned i = 0; i < FIRN_CAN_WORDS; i++)
        if (strlen(words[i]) == n && memcmp(words[i], word, n) == 0)
            return 1u << i;
    return 0;
}

void firn_can_write(char out[FIRN_CAN_TEXT], unsigned can)
{
    size_t n = 0;
    for (unsigned i = 0; i < FIRN_CAN_WORDS; i++) {
        if ((can >> i & 1) == 0)
            continue;
        if (n > 0)
            out[n++] = ',';
        memcpy(out + n, words[i], strlen(words[i]));
        n += strlen(words[i]);
    }
    if (n == 0)
        memcpy(out, "none", n = 4);
    out[n] = '\0';
}

static bool is(const char *text, size_t n, const char *word)
{
    return strlen(word) == n && memcmp(text, word, n) == 0;
}

bool firn_can_read(const char *text, size_t n, unsigned *can)
{
    unsigned all = 0;
    if (is(text, n, "none") || is(text, n, "all")) {
        *can = text[0] == 'n' ? FIRN_CAN_NONE : FIRN_CAN_ALL;
        return true;
    }
    for (size_t from = 0; from <= n;) {
        size_t to = from;
        while (to < n && text[to] != ',' && text[to] != '|')
            to++;
        unsigned one = firn_can_named(text + from, to - from);
        if (one == 0)
            return false;
        all |= one;
        from = to + 1;
    }
    *can = all;
    return true;
}
