#!/bin/sh
# plant.sh - each check script fails on the mistake it is there for.
#
# Makes a small tree that keeps all rules, shows that the scripts pass it, and
# then plants one mistake at a time: the script must fail, name the file and
# line, and say which rule. TAP on stdout.

tools=$(cd "$(dirname "$0")/../../tools" && pwd) || exit 1
root=$(dirname "$tools")
tmp=$(mktemp -d "${TMPDIR:-/tmp}/firn-plant.XXXXXX") || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM
n=0

# c_file PATH [LINE...]: a C file with a proper first line and these lines.
c_file()
{
    mkdir -p "$(dirname "$1")"
    printf '/* %s - a sample.\n */\n' "$(basename "$1")" >"$1"
    path=$1
    shift
    for line in "$@"; do
        printf '%s\n' "$line" >>"$path"
    done
}

# A tree without mistakes, in $tmp/tree.
fresh()
{
    rm -rf "$tmp/tree"
    mkdir -p "$tmp/tree/tools" && cd "$tmp/tree" || exit 1
    cp "$tools/layers.txt" tools/
    cp "$root/.clang-format" .
    c_file include/firn/status.h '#ifndef A_H' '#define A_H' '#endif'
    c_file include/firn/policy.h '#ifndef B_H' '#define B_H' \
        '#include <firn/status.h>' '#endif'
    c_file include/firn/sim.h '#ifndef S_H' '#define S_H' '#endif'
    c_file src/base/mem.h '#ifndef C_H' '#define C_H' '#endif'
    c_file src/core/plan.h '#ifndef D_H' '#define D_H' '#endif'
    c_file src/core/plan.c '#include "core/plan.h"' '#include "base/mem.h"'
    c_file src/policy/fifo.c '#include <firn/policy.h>' \
        'const struct firn_policy_def firn_policy_fifo = {0};'
    echo 'POLICY(fifo)' >src/policy/policies.def
    c_file src/trace/csv.c \
        'const struct firn_trace_def firn_trace_csv = {0};'
    echo 'TRACE(csv)' >src/trace/traces.def
    c_file src/trace/row.h '#ifndef E_H' '#define E_H' '#endif'
    c_file src/engine/local.c \
        'const struct firn_engine_def firn_engine_local = {0};'
    echo 'ENGINE(local)' >src/engine/engines.def
    c_file src/sim/sim.c '#include <firn/sim.h>'
    c_file src/cli/cmd_sim.c '#include <firn/sim.h>'
    echo 'COMMAND(sim, "replay")' >src/cli/commands.def
    for folder in src/*/; do
        echo "# $folder" >"${folder}README.md"
    done
}

report()
{
    n=$((n + 1))
    if [ "$1" -eq 0 ]; then
        echo "ok $n - $2"
    else
        echo "not ok $n - $2"
        sed 's/^/# /' "$tmp/said"
    fi
}

# passes SCRIPT NAME
passes()
{
    "$tools/$1" "$tmp/tree" >"$tmp/said" 2>&1
    report $? "$2"
}

# fails SCRIPT PATTERN NAME: it fails, and a line of its output matches.
fails()
{
    if "$tools/$1" "$tmp/tree" >"$tmp/said" 2>&1; then
        report 1 "$3"
    else
        grep -q "$2" "$tmp/said"
        report $? "$3"
    fi
    fresh
}

# message SUBJECT [LINE...]: a commit message, in $tmp/message.
message()
{
    printf '%s\n' "$@" >"$tmp/message"
}

# takes NAME, refuses PATTERN NAME: what the check of commits does with it.
takes()
{
    "$tools/check_commits.sh" "$tmp/message" >"$tmp/said" 2>&1
    report $? "$1"
}

refuses()
{
    ! "$tools/check_commits.sh" "$tmp/message" >"$tmp/said" 2>&1 &&
        grep -q "$1" "$tmp/said"
    report $? "$2"
}

# many N TEXT: N lines of it.
many()
{
    awk -v n="$1" -v text="$2" 'BEGIN { while (n-- > 0) print text }'
}

fresh
for script in check_layers check_headers check_style; do
    passes $script.sh "${script}_passes_a_tree_without_mistakes"
done

c_file src/base/up.c '#include "core/plan.h"'
fails check_layers.sh '^src/base/up.c:3: includes upwards' \
    an_include_that_points_up_is_refused
c_file src/policy/side.c '#include "trace/row.h"'
fails check_layers.sh '^src/policy/side.c:3: includes sideways' \
    an_include_that_points_sideways_is_refused
c_file src/core/sees.c '#include <firn/sim.h>'
fails check_layers.sh '^src/core/sees.c:3: includes upwards' \
    a_public_header_has_a_row_too
c_file include/firn/status.h '#include "base/mem.h"'
fails check_layers.sh '^include/firn/status.h:3: a public header includes' \
    a_public_header_includes_no_private_one
c_file src/core/bare.c '#include "plan.h"'
fails check_layers.sh '^src/core/bare.c:3: write includes from the root' \
    an_include_without_its_folder_is_refused
c_file src/core/all.c '#include <firn/firn.h>'
fails check_layers.sh '^src/core/all.c:3: firn.h is for users' \
    the_header_of_all_headers_is_refused_in_src
c_file include/firn/new.h '#ifndef N_H' '#define N_H' '#endif'
fails check_layers.sh '^include/firn/new.h:1: has no row' \
    a_public_header_without_a_row_is_refused
c_file src/daemon/loop.h '#ifndef L_H' '#define L_H' '#endif'
c_file src/cli/cmd_sim.c '#include "daemon/loop.h"'
fails check_layers.sh '^src/cli/cmd_sim.c:3: cli never includes daemon' \
    the_command_never_includes_the_daemon

c_file src/base/mem.h '#ifndef C_H' '#define C_H' 'size_t f(void);' '#endif'
fails check_headers.sh '^src/base/mem.h:1: does not compile alone' \
    a_header_that_lacks_an_include_is_refused
c_file src/base/mem.h 'struct twice { int a; };'
fails check_headers.sh '^src/base/mem.h:1: does not compile alone' \
    a_header_without_a_guard_is_refused

c_file src/policy/las.c 'const struct firn_policy_def firn_policy_las = {0};'
fails check_style.sh '^src/policy/las.c:3: list: .* no line POLICY(las)' \
    a_policy_without_its_line_is_refused
echo 'POLICY(gone)' >>src/policy/policies.def
fails check_style.sh '^src/policy/policies.def:2: list: .*gone' \
    a_line_without_its_policy_is_refused
c_file src/trace/philly.c \
    'const struct firn_trace_def firn_trace_philly = {0};'
fails check_style.sh '^src/trace/philly.c:3: list: ' \
    a_trace_format_without_its_line_is_refused
c_file src/engine/slurm.c \
    'const struct firn_engine_def firn_engine_slurm = {0};'
fails check_style.sh '^src/engine/slurm.c:3: list: ' \
    an_engine_without_its_line_is_refused
c_file src/cli/cmd_top.c
fails check_style.sh '^src/cli/cmd_top.c:1: list: ' \
    a_command_without_its_line_is_refused
echo 'COMMAND(why)' >>src/cli/commands.def
fails check_style.sh '^src/cli/commands.def:2: list: ' \
    a_line_without_its_command_is_refused
c_file src/policy/odd.c 'const struct firn_policy_def firn_policy_fifo = {0};'
fails check_style.sh '^src/policy/odd.c:3: list: .* belongs in' \
    a_policy_in_a_file_of_another_name_is_refused

many 2000 'extern int a;' >>src/core/plan.c
passes check_style.sh a_long_file_of_short_functions_is_accepted
fresh
{ echo 'int f(void)'; echo '{'; many 81 '    f();'; echo '}'; } >>src/core/plan.c
fails check_style.sh '^src/core/plan.c:6: length: a function of 81 lines' \
    a_function_that_is_too_long_is_refused

c_file src/core/odd.c 'int *f(void)' '{' '    return malloc(4);' '}'
fails check_style.sh '^src/core/odd.c:5: banned: malloc' \
    malloc_outside_base_is_refused
c_file src/sim/odd.c 'void f(void)' '{' '    printf("x");' '}'
fails check_style.sh '^src/sim/odd.c:5: banned: printf' \
    printing_outside_the_command_is_refused
c_file src/sim/odd.c 'void f(void)' '{' '    fputs("x", stderr);' '}'
fails check_style.sh '^src/sim/odd.c:5: banned: stdout and stderr' \
    writing_to_stderr_in_the_library_is_refused
c_file src/core/odd.c 'long f(void)' '{' '    return time(0);' '}'
fails check_style.sh '^src/core/odd.c:5: banned: time' \
    a_clock_below_the_engine_is_refused
c_file src/base/odd.c 'int f(char *s)' '{' '    return rand() + atoi(s);' '}'
fails check_style.sh '^src/base/odd.c:5: banned: atoi' \
    a_function_banned_everywhere_is_refused_in_base_too
c_file src/core/odd.c 'double f(double x)' '{' '    return pow(x, 2);' '}'
fails check_style.sh '^src/core/odd.c:5: banned: pow' \
    inexact_mathematics_is_refused
c_file src/core/odd.c '/* malloc(4) and time(0) are not called here. */' \
    'const char *f(void)' '{' '    return "printf(x)";' '}'
passes check_style.sh a_banned_name_in_a_comment_or_string_is_no_call
fresh

echo 'int a;' >src/core/plan.c
fails check_style.sh '^src/core/plan.c:1: opening: ' \
    a_file_that_does_not_say_what_it_is_is_refused
rm src/core/README.md
fails check_style.sh '^src/core/README.md:1: readme: ' \
    a_folder_without_a_readme_is_refused
c_file src/sim/plan.c
fails check_style.sh '^src/sim/plan.c:1: unique: ' \
    two_files_of_one_name_are_refused
c_file src/core/odd.c "/* TO""DO: more. */"
fails check_style.sh '^src/core/odd.c:3: words: ' \
    an_unfinished_thought_is_refused
c_file src/core/odd.c "/* The GPUs that no""body holds. */"
fails check_style.sh '^src/core/odd.c:3: riddle: ' \
    a_riddle_in_a_comment_is_refused
c_file src/core/odd.c "const char *f(void)" '{' \
    "    return \"who""ever asked\";" '}'
fails check_style.sh '^src/core/odd.c:5: riddle: ' \
    a_riddle_in_a_string_is_refused
c_file src/core/odd.c "void some""body_waits(void);"
fails check_style.sh '^src/core/odd.c:3: riddle: ' \
    a_riddle_in_a_name_is_refused
mkdir -p docs
printf '# A page\n\nIt takes %s\nmany seconds.\n' so >docs/page.md
fails check_style.sh '^docs/page.md:4: riddle: "s. many"' \
    a_riddle_over_two_lines_of_a_page_is_refused
mkdir -p docs
printf 'There is no%s of it.\n' ' word' >docs/page.md
fails check_style.sh '^docs/page.md:1: riddle: ' \
    a_missing_message_called_a_word_is_refused
mkdir -p docs
printf 'And what%s goes.\n' " is the daemon's" >docs/page.md
fails check_style.sh '^docs/page.md:1: riddle: ' \
    a_thing_named_by_its_owner_alone_is_refused
mkdir -p docs
printf 'No job waits; what is left of the job'"'"'s time is so short; many.\n' \
    >docs/page.md
passes check_style.sh a_plain_sentence_is_accepted
fresh
if clang-format --version 2>/dev/null | grep -q 'version 14'; then
    c_file src/core/odd.c 'int   a;'
    fails check_style.sh '^src/core/odd.c:3: format: ' \
        a_file_not_formatted_is_refused
else
    n=$((n + 1))
    echo "ok $n # SKIP a_file_not_formatted_is_refused"
fi

message 'engine, train: report a lost node at once' '' 'Measured: 2 s, was 40.'
takes a_good_commit_message_is_accepted
message "Merge branch 'x'"
takes a_merge_keeps_the_subject_that_git_gives_it
message 'report a lost node' '' 'Why.'
refuses 'not "area: imperative"' a_commit_without_an_area_is_refused
message 'engine: a lost node is reported' '' 'Why.'
refuses 'imperative' a_commit_that_tells_a_story_is_refused
message 'engine: reports a lost node' '' 'Why.'
refuses 'imperative' a_commit_in_the_third_person_is_refused
message "engine: $(many 66 x | tr -d '\n')" '' 'Why.'
refuses '74 characters, at most 72' a_long_subject_is_refused
message 'engine: report a lost node'
refuses 'no body' a_commit_without_a_body_is_refused
message 'engine: report a lost node' 'Why.'
refuses 'no blank line' a_body_that_touches_the_subject_is_refused
echo "1..$n"
