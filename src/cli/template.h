/* template.h - job files with placeholders: `firn submit --template NAME`.
 *
 * A template is a job file in which {{name}} stands for a value that --with
 * name=VALUE gives, and {{name:default}} for one that may be left out.
 * Templates are looked for by their names in $XDG_CONFIG_HOME/firn/templates
 * (or
 * ~/.config), then in /etc/firn/templates; a word with a '/' is a path.
 *
 * Values are put into the text as they are, before YAML is read. A value that
 * is missing, and one that no placeholder asks for, are errors that name it.
 */
#ifndef CLI_TEMPLATE_H
#define CLI_TEMPLATE_H
#include "cli/flags.h"
#include <firn/bytes.h>
#include <firn/status.h>

/* Appends the path of a template. FIRN_ENOENT names the places. */
enum firn_status template_find(struct firn_buf *path, const char *name,
                               struct firn_error *err);
/* Appends the text with all placeholders replaced. `with` has "name=value". */
enum firn_status template_fill(struct firn_buf *out, const char *text,
                               const struct words *with,
                               struct firn_error *err);

#endif
