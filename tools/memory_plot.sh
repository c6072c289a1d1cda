#!/bin/sh
# memory_plot.sh - measured against predicted peaks of memory, as an SVG.
#
# Reads the rows of profiles/h200/modern_memory.csv with their predictions from
# build/bench/peakfit and writes docs/models/plots/modern-memory.svg: above, the
# predicted peak by the measured one; below, the error in percent. Needs awk
# alone; the same rows give the same bytes.
set -eu
cd "$(dirname "$0")/.."
PEAKFIT=${PEAKFIT:-${BUILD:-build}/bench/peakfit}
out=docs/models/plots/modern-memory.svg
LC_ALL=C
export LC_ALL

if [ ! -x "$PEAKFIT" ]; then
    echo "memory_plot.sh: $PEAKFIT is missing: make $PEAKFIT" >&2
    exit 1
fi
{ "$PEAKFIT" --rows | sed 's/^/fit,/'; "$PEAKFIT" --rows-held | sed 's/^/held,/'; } |
    awk -F, '
    # Logarithmic from 256 MiB to 128 GiB; pixels.
    function x_of(mib) { return 70 + 560 * log(mib / 256) / log(512) }
    function y_of(mib) { return 380 - 350 * log(mib / 256) / log(512) }
    function e_of(percent) { return 510 - 10 * percent }
    function line(a, b, c, d, color) {
        printf "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\"/>\n", a, b, c, d, color
    }
    function text(x, y, anchor, words) {
        printf "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s</text>\n", x, y, anchor, words
    }
    function dot(x, y, row) {
        printf "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2.4\" fill=\"%s\" stroke=\"%s\"/>\n", x, y, fill[row], color[row]
    }
    BEGIN {
        colors["bf16"] = "#1b6ca8"; colors["amp"] = "#c1440e"
        colors["fp32"] = "#3a7d44"; colors["lora"] = "#7b4fa3"
        print "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"760\" height=\"630\" font-family=\"sans-serif\" font-size=\"11\">"
        print "<title>Peaks of training measured on an H200 against predicted ones</title>"
        print "<rect width=\"760\" height=\"630\" fill=\"white\"/>"
    }
    {
        n++
        color[n] = colors[$4]
        fill[n] = $1 == "held" ? colors[$4] : "none"
        measured[n] = $9; predicted[n] = $11
    }
    END {
        for (g = 0; g <= 9; g++) {
            mib = 256 * 2 ^ g
            words = mib / 1024
            line(x_of(mib), 30, x_of(mib), 380, "#dddddd")
            line(70, y_of(mib), 630, y_of(mib), "#dddddd")
            line(x_of(mib), 430, x_of(mib), 590, "#dddddd")
            text(x_of(mib), 395, "middle", words)
            text(x_of(mib), 605, "middle", words)
            text(64, y_of(mib) + 4, "end", words)
        }
        for (p = -8; p <= 8; p += 4) {
            line(70, e_of(p), 630, e_of(p), p == 0 ? "#888888" : "#dddddd")
            text(64, e_of(p) + 4, "end", p " %")
        }
        line(70, 380, 630, 30, "#888888")
        for (i = 1; i <= n; i++) {
            dot(x_of(measured[i]), y_of(predicted[i]), i)
            dot(x_of(measured[i]), e_of(100 * (predicted[i] / measured[i] - 1)), i)
        }
        text(350, 18, "middle", "Peak of all tensors, GiB: predicted by measured, " n " rows of an H200")
        text(350, 424, "middle", "Error of the prediction by the measured peak, GiB")
        y = 40
        for (k = 1; k <= 4; k++) {
            mode = k == 1 ? "bf16" : k == 2 ? "amp" : k == 3 ? "fp32" : "lora"
            printf "<circle cx=\"650\" cy=\"%d\" r=\"4\" fill=\"%s\"/>\n", y, colors[mode]
            text(660, y + 4, "start", mode)
            y += 18
        }
        text(644, y + 4, "start", "filled: held back")
        text(644, y + 20, "start", "hollow: fitted")
        print "</svg>"
    }' >"$out.new"
mv "$out.new" "$out"
echo "  PLOT $out"
