#!/bin/sh
# check_commits.sh - fails when a commit message breaks a rule of the house.
#
#   check_commits.sh              the commits since the date below
#   check_commits.sh RANGE        those of a range, as main..HEAD
#   check_commits.sh FILE         one message, not committed yet
#
# The last form is what git calls a commit-msg hook:
#
#   ln -s ../../tools/check_commits.sh .git/hooks/commit-msg
#
# The rules: the subject is "area: imperative" (engine: report a lost node) and
# has at most 72 characters; a blank line and a body follow, which say why and
# what was measured. Merges and reverts have the subjects that git gives them.
# Skipped (77) where there is no history, as in an unpacked archive. Commits
# before the date were made without these rules.

first_day=2026-11-17
max_subject=72

# Is a file, whose first line names the commit, a good message? Prints each
# rule that it breaks. Whether a word is an imperative cannot be known here:
# what is refused are articles, and the endings of other forms of a verb.
judge()
{
    awk -v name="$1" -v max=$max_subject '
    function say(what)
    {
        printf "%s: %s: %s\n", name, what, subject
        bad = 1
    }
    function is_imperative(word)
    {
        if (word ~ /^(a|an|the|no|not|one|each|every|all|some|this|that|it)$/ ||
            word ~ /^(what|who|which|when|where|there|these|those|its)$/)
            return 0
        if (word ~ /[^su]s$/ || word ~ /[^e]ed$/ && word !~ /^(em)?bed$|^sh?ed$/)
            return 0
        return word !~ /ing$/ || word ~ /^(br|str|r|sw|cl|st)ing$/
    }
    /^#/ || /^Signed-off-by: / { next }
    !seen { subject = $0; seen = 1; next }
    seen == 1 && $0 != "" { say("no blank line below the subject") }
    { seen = 2 }
    $0 != "" { has_body = 1 }
    END {
        if (subject ~ /^(Merge|Revert) /)
            exit 0
        if (length(subject) > max)
            say("the subject has " length(subject) " characters, at most " max)
        at = match(subject, /^[A-Za-z0-9_.,\/ -]+: [^ ]/)
        if (!at)
            say("the subject is not \"area: imperative\"")
        else {
            split(substr(subject, RLENGTH), word, /[^A-Za-z\047-]+/)
            if (!is_imperative(tolower(word[1])))
                say("the subject does not begin with an imperative")
        }
        if (!has_body)
            say("no body: say why, and what was measured")
        exit bad
    }' "$2"
}

if [ -f "${1:-}" ]; then
    judge commit "$1"
    exit
fi
cd "$(dirname "$0")/.." || exit 2
[ -e .git ] && command -v git >/dev/null ||
    { echo "there is no history here"; exit 77; }
unknown=2
[ $# -gt 0 ] || {
    set -- --since="$first_day 00:00:00 +0000" HEAD
    unknown=77
}
commits=$(git rev-list --no-merges "$@" 2>/dev/null) ||
    { echo "git cannot list the commits of $*"; exit $unknown; }
message=$(mktemp "${TMPDIR:-/tmp}/firn-message.XXXXXX") || exit 2
trap 'rm -f "$message"' EXIT
trap 'exit 130' INT TERM
bad=0
for commit in $commits; do
    git log -1 --format=%B "$commit" >"$message"
    judge "$(git rev-parse --short "$commit")" "$message" || bad=1
done
exit $bad
