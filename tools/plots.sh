#!/bin/sh
# plots.sh - measured against predicted, as SVG files for docs/models.md.
#
# `make plots` runs it from the root of the tree, with FIRN set. Points come
# from `firn profile eval --points` (the half of a table that was not fitted,
# seed 1) and from `firn memory`; gnuplot draws them. Tables that are not
# shipped are read from $FIRN_DATA; without that folder their plots stay as
# they are. At most 400 points are drawn of each, evenly taken.
set -u
FIRN=${FIRN:-build/firn}
out=docs/models/plots
LC_ALL=C
export LC_ALL

if ! command -v gnuplot >/dev/null 2>&1; then
    echo "make plots draws with gnuplot, which is not here;" \
        "Debian's package is gnuplot-nox." >&2
    exit 1
fi
tmp=$(mktemp -d "${TMPDIR:-/tmp}/firn-plots.XXXXXX") || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM
mkdir -p "$out"

# points FILE QUANTITY: "measured predicted" by application, as blocks that
# gnuplot calls by index, and their names in $tmp/names.
points()
{
    awk -F, -v want="$2" -v names="$tmp/names" '
        $2 == want { row[++n] = $7 " " $8; app[n] = $1 }
        END {
            step = n > 400 ? n / 400 : 1
            for (i = 1; i <= n; i++) {
                if (app[i] != last) {
                    if (last != "")
                        printf "\n\n"
                    last = app[i]
                    print last >names
                }
                if (int(i / step) != int((i - 1) / step) || step == 1)
                    print row[i]
            }
        }' "$1" >"$tmp/points"
}

# draw NAME TITLE UNIT [SCALE]: both axes logarithmic unless SCALE is linear.
draw()
{
    plot=
    i=0
    while read -r app; do
        plot="$plot, '$tmp/points' index $i with points pt 7 ps 0.5 \
            title '$(echo "$app" | tr _ ' ')'"
        i=$((i + 1))
    done <"$tmp/names"
    log="set logscale xy"
    [ "${4:-log}" = linear ] && log="set xrange [0:*]; set yrange [0:*]"
    gnuplot <<EOF || exit 1
set terminal svg size 560,420 font "sans-serif,11" background "white"
set output "$tmp/plot.svg"
set title "$2"
set xlabel "measured, $3"
set ylabel "predicted, $3"
$log
set key outside right top samplen 1
set grid
plot x with lines lc rgb "#888888" title "equal" $plot
EOF
    grep -v '<desc>Produced by' "$tmp/plot.svg" >"$out/$1.svg"
    echo "  PLOT $out/$1.svg"
}

# table NAME TITLE FILE QUANTITY UNIT [SCALE]
table()
{
    if [ ! -f "$3" ]; then
        echo "  $1: $3 is not here; left as it is"
        return
    fi
    "$FIRN" profile eval --fit "$3" --seed 1 --points "$tmp/all.csv" \
        >/dev/null 2>"$tmp/err" || { cat "$tmp/err" >&2; exit 1; }
    points "$tmp/all.csv" "$4"
    draw "$1" "$2" "$5" "${6:-log}"
}

# llama: what `firn memory` says of each row of the table of LLaMA shapes.
llama()
{
    tail -n +2 profiles/h200/llm_memory.csv | tr , ' ' |
        while read -r model h l a kv mlp v seq b prec attn ckpt opt rest; do
            reserved=$(echo "$rest" | cut -d ' ' -f 3)
            [ -n "$reserved" ] || continue
            more=
            [ "$ckpt" = 1 ] && more=--checkpointing
            [ "$opt" = adamw ] && opt=adamw-foreach # PyTorch's default
            got=$("$FIRN" memory --family llama --hidden "$h" --layers "$l" \
                --heads "$a" --kv-heads "$kv" --ffn "$mlp" --vocab "$v" \
                --seq "$seq" --micro-batch "$b" --precision "$prec" \
                --attention "$attn" --optimizer "$opt" --free-gradients \
                $more -o json | grep -o '"reserved_mib":[0-9.e+]*' |
                cut -d : -f 2)
            echo "$model,memory,1,1,$b,1,$reserved,$got"
        done >"$tmp/all.csv"
    points "$tmp/all.csv" memory
    draw llama-memory "LLaMA shapes, H200: reserved memory" MiB
}

h200=profiles/h200/freeze.csv
data=${FIRN_DATA:-data}
table h200-iteration "H200: iteration, half held out" $h200 iteration s
table h200-backward "H200: backward pass, half held out" $h200 backward s
table h200-memory "H200: peak memory, half held out" $h200 memory MiB
table h200-utilisation "H200: utilisation, half held out" $h200 utilisation \
    % linear
llama
sh tools/memory_plot.sh || exit 1
table icefrog-bert "IceFrog, BERT: step, half held out" \
    "$data/icefrog/bert_wikitext2/placements.csv" iteration s
table icefrog-yolov3 "IceFrog, YOLOv3: step, half held out" \
    "$data/icefrog/yolov3_voc/placements.csv" iteration s
for app in bert cifar10 deepspeech2 imagenet ncf yolov3; do
    table "pollux-$app" "Pollux, $app: step, half held out" \
        "$data/pollux/apps/$app/placements.csv" iteration s
done
