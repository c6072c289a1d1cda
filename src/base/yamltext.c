/* yamltext.c - libyaml's events and libcyaml's complaints.
 *
 * libcyaml reports errors through its log only: the first sentence is kept, and
 * the first place of the backtrace behind it. An error about a key names the
 * place before it; the key is the first scalar of its name from there on. Both
 * libraries refuse a NULL text, which an empty buffer is; they get "" instead.
 *
 * Cost: O(text) for each pass, and a copy of every scalar that is noted.
 */
#include "base/yamltext.h"
#include "base/str.h"
#include "base/vec.h"
#include <stdio.h>
#include <string.h>

static const unsigned char *bytes_of(struct firn_bytes text)
{
    return (const unsigned char *)(text.at != NULL ? text.at : "");
}

const char *yaml_note(struct yaml_words *words, const yaml_event_t *event)
{
    const char *text = (const char *)event->data.scalar.value;
    struct yaml_word word = {arena_strdup(&words->arena, text),
                             (long)event->start_mark.line + 1};
    vec_add(words, word);
    return word.text;
}

enum firn_status yaml_walk(struct firn_bytes text, const char *where,
                           yaml_judge *judge, void *arg, struct firn_error *err)
{
    yaml_parser_t parser;
    yaml_event_t event;
    const char *why = NULL;
    long line = 0;
    if (!yaml_parser_initialize(&parser))
        FIRN_BUG("no YAML parser");
    yaml_parser_set_input_string(&parser, bytes_of(text), text.n);
    for (bool is_done = false; !is_done && why == NULL;) {
        if (!yaml_parser_parse(&parser, &event)) {
            why = parser.problem ? parser.problem : "not YAML";
            line = (long)parser.problem_mark.line + 1;
            break;
        }
        why = judge(arg, &event);
        line = (long)event.start_mark.line + 1;
        is_done = event.type == YAML_STREAM_END_EVENT;
        yaml_event_delete(&event);
    }
    enum firn_status status = FIRN_OK;
    if (why != NULL)
        status =
            firn_fail(err, FIRN_EINVAL, "%s: line %ld: %s", where, line, why);
    yaml_parser_delete(&parser);
    return status;
}

/* libcyaml's message: its first sentence, and the first place it named. */
struct complaint {
    char text[160];
    char place[96]; /* "in mapping field 'gpus'" */
    long line;
};

static void hear(cyaml_log_t level, void *ctx, const char *fmt, va_list args)
{
    struct complaint *complaint = ctx;
    char text[160];
    (void)level;
    vsnprintf(text, sizeof text, fmt, args);
    text[strcspn(text, "\n")] = '\0';
    for (char *at = text; *at != '\0'; at++)
        if ((unsigned char)*at < ' ' || *at == 0x7f)
            *at = '?';
    char *message = str_trim(text);
    if (strncmp(message, "Load: ", 6) == 0)
        message += 6;
    char *line = strstr(message, " (line: ");
    if (strcmp(message, "Backtrace:") == 0)
        return;
    if (line == NULL && complaint->text[0] == '\0')
        str_copy(complaint->text, sizeof complaint->text, message);
    if (line == NULL || complaint->line != 0)
        return;
    *line = '\0';
    line += 8;
    line[strspn(line, "0123456789")] = '\0';
    if (str_int(line, 1, 1L << 40, &complaint->line))
        str_copy(complaint->place, sizeof complaint->place, message);
}

/* The line of the key in libcyaml's message: the first key of this name from
 * the reported place on; for a key given twice, the second. */
static void correct_line(struct complaint *complaint,
                         const struct yaml_words *words)
{
    static const char *const about_keys[] = {"Unexpected key: ",
                                             "Mapping field already seen: "};
    for (size_t k = 0; k < 2; k++) {
        size_t n = strlen(about_keys[k]);
        if (strncmp(complaint->text, about_keys[k], n) != 0)
            continue;
        complaint->place[0] = '\0';
        for (size_t i = 0; i < words->n; i++) {
            const struct yaml_word *word = &words->at[i];
            if (word->line < complaint->line + (k == 1) ||
                strcmp(word->text, complaint->text + n) != 0)
                continue;
            complaint->line = word->line;
            return;
        }
    }
}

static cyaml_config_t config_of(struct complaint *complaint)
{
    return (cyaml_config_t){.log_fn = hear,
                            .log_ctx = complaint,
                            .mem_fn = cyaml_mem,
                            .log_level = CYAML_LOG_ERROR,
                            .flags = CYAML_CFG_NO_ALIAS};
}

enum firn_status yaml_load(void **out, const cyaml_schema_value_t *schema,
                           struct firn_bytes text, const char *where,
                           const struct yaml_words *words,
                           struct firn_error *err)
{
    struct complaint complaint = {0};
    const cyaml_config_t config = config_of(&complaint);
    cyaml_data_t *data = NULL;
    cyaml_err_t result =
        cyaml_load_data(bytes_of(text), text.n, &config, schema, &data, NULL);
    if (result == CYAML_OK && data != NULL) {
        *out = data;
        return FIRN_OK;
    }
    if (result == CYAML_OK)
        return firn_fail(err, FIRN_EINVAL, "%s: the file is empty", where);
    correct_line(&complaint, words);
    bool has_place = complaint.place[0] != '\0';
    return firn_fail(
        err, FIRN_EINVAL, "%s: line %ld: %s%s%s%s", where,
        complaint.line > 0 ? complaint.line : 1,
        complaint.text[0] ? complaint.text : cyaml_strerror(result),
        has_place ? " (" : "", complaint.place, has_place ? ")" : "");
}

void yaml_free(void *data, const cyaml_schema_value_t *schema)
{
    struct complaint unused = {0};
    const cyaml_config_t config = config_of(&unused);
    if (data != NULL)
        cyaml_free(&config, schema, data, 0);
}

long yaml_line(const struct yaml_words *words, const char *text)
{
    for (size_t i = 0; text != NULL && i < words->n; i++)
        if (strcmp(words->at[i].text, text) == 0)
            return words->at[i].line;
    return 1;
}

void yaml_words_release(struct yaml_words *words)
{
    arena_release(&words->arena);
    vec_release(words);
}
