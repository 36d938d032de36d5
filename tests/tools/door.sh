#!/bin/sh
# door.sh goal...: where one of the goals given to make cannot work, prints in one line why not and what to do instead.
# Prints nothing where all is well. The Makefile calls it before anything else and hands it what it knows:
#   CHAPTERS   the chapters that are there         PLAIN      goals that are a word
#   NUMBERED   goals that take a chapter: test-07  VARIABLES  variables that may be given; GIVEN: those that were
#   VERBS      what may be done with an exercise   EXERCISES  those that are there: NN-slug
#   MAKE_VERSION CC PYTHON SERVER CLIENT HEADERS PORT SUBMISSION SUBMISSIONS   as make has them

here=$(dirname "$0")

goal=

refuse() {
    echo "$*"
    exit 0
}

# Prints the one of the words after the first that is nearest to it, if one is near enough for a slip of the fingers:
# a letter too many, missing, wrong, or two that changed places count 1 each, and 2 are allowed.
nearest() {
    awk 'BEGIN {
        best = 3
        for (i = 2; i < ARGC; i++) {
            d = distance(ARGV[1], ARGV[i])
            if (d < best && 3 * d <= length(ARGV[i]) + 2) { best = d; word = ARGV[i] }
        }
        print word
    }
    function least(a, b) { return a < b ? a : b }
    function distance(s, t,    i, j, d, wrong) {
        for (i = 0; i <= length(s); i++) d[i, 0] = i
        for (j = 0; j <= length(t); j++) d[0, j] = j
        for (i = 1; i <= length(s); i++)
            for (j = 1; j <= length(t); j++) {
                wrong = substr(s, i, 1) != substr(t, j, 1)
                d[i, j] = least(d[i - 1, j - 1] + wrong, 1 + least(d[i - 1, j], d[i, j - 1]))
                if (i > 1 && j > 1 && substr(s, i - 1, 1) == substr(t, j, 1) && substr(s, i, 1) == substr(t, j - 1, 1))
                    d[i, j] = least(d[i, j], d[i - 2, j - 2] + 1)
            }
        return d[length(s), length(t)]
    }' "$@"
}

has() { case " $2 " in *" $1 "*) return 0 ;; esac; return 1; }

first=${CHAPTERS%% *}
last=${CHAPTERS##* }

# chapter NUMBER FRONT BACK: refuses a number that is not a chapter's; FRONT and BACK are what stands around it in the goal.
chapter() {
    has "$1" "$CHAPTERS" && return
    has "0$1" "$CHAPTERS" && refuse "make $goal: chapters have two digits: make ${2}0$1$3"
    case $1 in
    1 | 2 | 01 | 02) refuse "make $goal: chapters 01 and 02 are text alone, the programs begin with $first: make $2$first$3" ;;
    esac
    refuse "make $goal: there is no chapter $1, they are $first to $last: make $2$last$3"
}

# exercise VERB NAME: refuses a name that is not an exercise's.
exercise() {
    one=${EXERCISES%% *}
    [ -z "$one" ] && refuse "make $goal: there are no exercises in this copy of the workbook"
    [ -z "$2" ] && refuse "make $goal: which exercise? For example: make $1-$one (make exercises lists all)"
    has "$2" "$EXERCISES" && return
    near=$(nearest "$2" $EXERCISES)
    [ -n "$near" ] && refuse "make $goal: there is no exercise $2, did you mean make $1-$near? (make exercises lists all)"
    own=
    for each in $EXERCISES; do
        case $each in "${2%%-*}"-*) own="$own${own:+, }$each" ;; esac
    done
    [ -n "$own" ] && refuse "make $goal: there is no exercise $2; those of chapter ${2%%-*} are $own"
    refuse "make $goal: there is no exercise $2, for example: make $1-$one (make exercises lists all)"
}

# Is there such a goal?
known() {
    if has "$goal" "$VERBS"; then
        [ -n "$next" ] && has "$next" "$EXERCISES" && refuse "make $goal $next: did you mean make $goal-$next?"
        has "$goal" "$PLAIN" || exercise "$goal" ""
    fi
    if has "$goal" "$NUMBERED"; then
        has "$next" "$CHAPTERS" && refuse "make $goal $next: did you mean make $goal-$next?"
        has "$goal" "$PLAIN" || refuse "make $goal: of which chapter? For example: make $goal-$last"
    fi
    has "$goal" "$PLAIN" && return
    case $goal in test-[a-z]*) [ -e "tests/test_${goal#test-}.py" ] && return ;; esac
    verb=${goal%%-*} name=${goal#*-}
    if [ "$verb" != "$goal" ]; then
        has "$verb" "$VERBS" && exercise "$verb" "$name" && return
        near=$(nearest "$verb" $VERBS)
        [ -n "$near" ] && has "$name" "$EXERCISES" && refuse "make $goal: did you mean make $near-$name?"
        has "$goal" "$EXERCISES" && refuse "make $goal: to begin it, make start-$goal; to grade it, make check-$goal"
    fi
    word=${goal%%[0-9]*} number=${goal#"${goal%%[0-9]*}"}
    case $number in
    "" | *[!0-9-]* | -* | *- | *-*-*) ;;
    *-*)
        from=${number%-*} to=${number#*-}
        if [ "$word" = diff- ]; then
            chapter "$from" diff- "-$to"
            chapter "$to" "diff-$from-"
            [ "$from" = "$to" ] && refuse "make $goal: these are not two chapters; make diff-$to compares with the one before"
            [ "$from" -gt "$to" ] && refuse "make $goal: the earlier chapter comes first: make diff-$to-$from"
            return
        fi ;;
    *)
        [ -z "$word" ] && chapter "$number" && return
        has "${word%-}" "$NUMBERED" && [ "$word" != "${word%-}" ] && chapter "$number" "$word" && return
        near=$(nearest "${word%[-_]}" $NUMBERED)
        [ -n "$near" ] && refuse "make $goal: there is no such target, did you mean make $near-$number? (make help lists all)" ;;
    esac
    near=$(nearest "$goal" $PLAIN $NUMBERED $VERBS)
    example=$last
    [ -n "$near" ] && has "$near" "$VERBS" && example=${EXERCISES%% *}
    [ -n "$near" ] && has "$near" "$PLAIN" || near=${near:+$near-$example}
    refuse "make $goal: there is no such target${near:+, did you mean make $near?} (make help lists all)"
}

case $MAKE_VERSION in [123].*) refuse "this is GNU Make $MAKE_VERSION, and 4.0 or later is needed (macOS: brew install make, then gmake)" ;; esac

for next in "$@" ""; do
    [ -n "$goal" ] && known
    goal=$next
done

# A misspelt variable would be passed over in silence, and a test would look at another program than was meant.
for variable in $GIVEN; do
    has "$variable" "$VARIABLES" && continue
    near=$(nearest "$variable" $VARIABLES)
    [ -n "$near" ] && refuse "there is no variable $variable, did you mean $near=?"
done

# program NAME FILE CHAPTER: refuses a SERVER or CLIENT that cannot be run.
program() {
    file=$(echo "$2" | sed "s/\bNN\b/$3/g")
    case $file in
    "") ;;
    */*) [ -f "$file" ] && [ ! -x "$file" ] && refuse "$1=$file may not be executed: chmod +x $file"
        [ -x "$file" ] || refuse "$1=$file: there is no such program" ;;
    *) command -v "$file" >/dev/null || refuse "$1=$file: there is no such program" ;;
    esac
}

# Is what they need there?
for goal; do
    case $goal in
    all | [0-9]* | build* | run-* | check-* | watch-* | exercises-check | grade* | class-check | asan | tsan | valgrind | broken | bench* | book-check) needs=cc ;;
    demo* | test*) needs=cc; [ -n "$SERVER" ] && [ -n "$CLIENT" ] && needs= ;;
    *) needs= ;;
    esac
    if [ -n "$needs" ] && ! command -v ${CC%% *} >/dev/null; then
        case $CC in cc) compiler=gcc ;; *) compiler=$CC ;; esac
        case $CC in
        cc | gcc | clang) refuse "make $goal needs a C compiler: sudo apt-get install $compiler libc6-dev" ;;
        *) refuse "make $goal: there is no compiler ${CC%% *}; without CC= it is cc" ;;
        esac
    fi
    module=
    case $goal in
    test* | asan | tsan | broken | check-* | watch-* | exercises-check | grade | grade-all | class-check | book-check) module=pytest ;;
    demo* | diff-* | forward-* | check | bench* | book-*) module=sys ;;
    start-* | hint-* | solution-* | reset-* | exercises | progress | next | handout | gradescope) module=sys ;;
    esac
    if [ -n "$module" ] && ! found=$(sh "$here/findpython.sh" $module 2>&1); then
        refuse "make $goal: $found"
    fi
    case $goal in
    test-*) number=${goal#test-} ;;
    *) number=$first ;;
    esac
    case $goal in
    grade) [ -d "$SUBMISSION" ] || refuse "make grade: ${SUBMISSION:-SUBMISSION=} is no folder: make grade SUBMISSION=folder, with a folder for each exercise in it" ;;
    grade-all) [ -d "$SUBMISSIONS" ] || refuse "make grade-all: ${SUBMISSIONS:-SUBMISSIONS=} is no folder: make grade-all SUBMISSIONS=folder, with a folder for each student in it" ;;
    esac
    program SERVER "${SERVER%% *}" "$number"
    program CLIENT "${CLIENT%% *}" "$number"
    case $goal in
    valgrind) tool=valgrind ;;
    format*) tool=clang-format ;;
    *) tool= ;;
    esac
    [ -n "$tool" ] && ! command -v $tool >/dev/null && refuse "make $goal: $tool is missing: sudo apt-get install $tool"
    case $goal in
    run-*)
        hex=$(printf %04X "${PORT:-1234}" 2>/dev/null)
        if [ "$hex" != 0000 ] && cat /proc/net/tcp /proc/net/tcp6 2>/dev/null |
            awk -v end=":$hex\$" '$4 == "0A" && $2 ~ end { found = 1 } END { exit !found }'; then
            refuse "port ${PORT:-1234} is in use: stop the server that has it, or take another: make $goal PORT=2345"
        fi ;;
    esac
done

if [ -n "$HEADERS" ]; then
    [ -d "$HEADERS" ] || refuse "HEADERS=$HEADERS: there is no such folder"
    for header in "$HEADERS"/*.h; do
        [ -e "common/$(basename "$header")" ] && exit 0
    done
    refuse "HEADERS=$HEADERS: none of the headers of common/ is in that folder"
fi
