/* report_svg.c - charts of a report: lines over time, and jobs as bars.
 *
 * Plain SVG without a script; a pointer over a line or a bar shows its name
 * (<title>). Numbers are printed with one decimal, so that the same results
 * give the same bytes. Long lines are thinned to POINTS points, of each group
 * of neighbours the first.
 */
#include "base/buf.h"
#include "base/fmath.h"
#include "cli/report.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    WIDTH = 760,
    HEIGHT = 260,
    LEFT = 60,
    RIGHT = 590, /* the legend is to the right of it */
    TOP = 14,
    BOTTOM = 216,
    POINTS = 600,
    BARS = 200,
    BAR_LEFT = 10,
    BAR_RIGHT = 750,
    NCOLOURS = 8
};

/* Colours that colour-blind people can distinguish (Okabe and Ito). */
const char *report_colour(size_t i)
{
    static const char *const colours[NCOLOURS] = {
        "#0072b2", "#d55e00", "#009e73", "#cc79a7",
        "#e69f00", "#56b4e9", "#555555", "#a0a000"};
    return colours[i % NCOLOURS];
}

/* The next lines have the same colours again, dashed. */
static const char *dashes(size_t i)
{
    return i / NCOLOURS % 2 == 0 ? "" : " stroke-dasharray='5 3'";
}

void report_text(struct firn_buf *out, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '<')
            buf_puts(out, "&lt;");
        else if (*text == '>')
            buf_puts(out, "&gt;");
        else if (*text == '&')
            buf_puts(out, "&amp;");
        else if (*text == '"')
            buf_puts(out, "&quot;");
        else if (*text == '\'')
            buf_puts(out, "&#39;");
        else if ((unsigned char)*text >= ' ' && *text != 0x7f)
            buf_putc(out, *text);
    }
}

void report_span(struct firn_buf *out, double seconds)
{
    double s = fabs(seconds);
    const char *sign = seconds < 0 ? "-" : "";
    if (!isfinite(seconds))
        buf_puts(out, "-");
    else if (s < 60)
        buf_printf(out, "%s%.0fs", sign, s);
    else if (s < 3600)
        buf_printf(out, "%s%dm%02ds", sign, (int)(s / 60), (int)s % 60);
    else if (s < 172800)
        buf_printf(out, "%s%dh%02dm", sign, (int)(s / 3600),
                   (int)(s / 60) % 60);
    else
        buf_printf(out, "%s%dd%02dh", sign, (int)(s / 86400),
                   (int)(s / 3600) % 24);
}

struct frame {
    double x_min, x_max, y_max;
    bool is_log;
};

static double px(const struct frame *frame, double x)
{
    double a = frame->x_min, b = frame->x_max;
    if (frame->is_log) {
        a = fm_log(a);
        b = fm_log(b);
        x = fm_log(fmax(x, frame->x_min));
    }
    return LEFT + (b > a ? (x - a) / (b - a) : 0) * (RIGHT - LEFT);
}

static double py(const struct frame *frame, double y)
{
    return BOTTOM - y / frame->y_max * (BOTTOM - TOP);
}

static double round_up(double value)
{
    static const double steps[] = {1, 2, 4, 5, 8, 10};
    double power = 1;
    while (power * 10 <= value)
        power *= 10;
    while (power > value && power > 1e-6)
        power /= 10;
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        if (value <= steps[i] * power)
            return steps[i] * power;
    return 10 * power;
}

static struct frame frame_of(const struct report_chart *chart)
{
    struct frame frame = {INFINITY, -INFINITY, 0, chart->is_log};
    for (size_t i = 0; i < chart->nlines; i++)
        for (size_t k = 0; k < chart->lines[i].n; k++) {
            double x = chart->lines[i].x[k];
            if (chart->is_log && x < 1)
                x = 1;
            frame.x_min = fmin(frame.x_min, x);
            frame.x_max = fmax(frame.x_max, x);
            frame.y_max = fmax(frame.y_max, chart->lines[i].y[k]);
        }
    if (!(frame.x_max > frame.x_min))
        frame.x_max = frame.x_min + 1;
    frame.y_max = frame.y_max > 0 ? round_up(frame.y_max) : 1;
    return frame;
}

static void put_axes(const struct frame *frame,
                     const struct report_chart *chart, struct firn_buf *out)
{
    for (int i = 0; i <= 4; i++) {
        double y = frame->y_max * i / 4;
        buf_printf(out,
                   "<line x1='%d' x2='%d' y1='%.1f' y2='%.1f' "
                   "class='g'/><text x='%d' y='%.1f' class='e'>%g</text>\n",
                   LEFT, RIGHT, py(frame, y), py(frame, y), LEFT - 6,
                   py(frame, y) + 4, y);
    }
    for (int i = 0; i <= 4; i++) {
        double share = i / 4.0, x;
        if (frame->is_log)
            x = fm_exp(fm_log(frame->x_min) +
                       share * (fm_log(frame->x_max) - fm_log(frame->x_min)));
        else
            x = frame->x_min + share * (frame->x_max - frame->x_min);
        buf_printf(out, "<text x='%.1f' y='%d' class='m'>", px(frame, x),
                   BOTTOM + 16);
        report_span(out, x);
        buf_puts(out, "</text>\n");
    }
    buf_printf(out, "<text x='%d' y='%d' class='m'>%s</text>\n",
               (LEFT + RIGHT) / 2, BOTTOM + 34, chart->x_title);
}

static void put_line(const struct frame *frame, const struct report_line *line,
                     bool is_step, size_t number, struct firn_buf *out)
{
    size_t every = line->n / POINTS + 1;
    buf_puts(out, "<path d='");
    for (size_t k = 0; k < line->n; k += every) {
        double x = px(frame, line->x[k]), y = py(frame, line->y[k]);
        if (k == 0)
            buf_printf(out, "M%.1f %.1f", x, y);
        else if (is_step)
            buf_printf(out, "H%.1fV%.1f", x, y);
        else
            buf_printf(out, "L%.1f %.1f", x, y);
    }
    buf_printf(out, "' fill='none' stroke='%s' stroke-width='1.6'%s><title>",
               report_colour(number), dashes(number));
    report_text(out, line->name);
    buf_puts(out, "</title></path>\n");
    if (number >= 13)
        return;
    buf_printf(out,
               "<path d='M%d %dh14' stroke='%s' stroke-width='3'%s/><text "
               "x='%d' y='%d'>",
               RIGHT + 12, TOP + 8 + 16 * (int)number, report_colour(number),
               dashes(number), RIGHT + 32, TOP + 12 + 16 * (int)number);
    report_text(out, line->name);
    buf_puts(out, "</text>\n");
}

/* Wide enough for the longest name of the legend. */
static int width_of(const struct report_chart *chart)
{
    enum { LETTER = 7 };
    size_t most = 0;
    for (size_t i = 0; i < chart->nlines; i++)
        most = strlen(chart->lines[i].name) > most
                   ? strlen(chart->lines[i].name)
                   : most;
    int width = RIGHT + 40 + LETTER * (int)(most < 60 ? most : 60);
    return width > WIDTH ? width : WIDTH;
}

void report_svg(const struct report_chart *chart, struct firn_buf *out)
{
    int width = width_of(chart);
    struct frame frame = frame_of(chart);
    buf_puts(out, "<figure><figcaption>");
    report_text(out, chart->title);
    buf_printf(out,
               "</figcaption><svg viewBox='0 0 %d %d' width='%d' role='img'>\n",
               width, HEIGHT, width);
    put_axes(&frame, chart, out);
    for (size_t i = 0; i < chart->nlines; i++)
        if (chart->lines[i].n > 0)
            put_line(&frame, &chart->lines[i], chart->is_step, i, out);
    buf_puts(out, "</svg></figure>\n");
}

static double bar_x(double at_s, double first_s, double last_s)
{
    double span_s = last_s > first_s ? last_s - first_s : 1;
    return BAR_LEFT + (at_s - first_s) / span_s * (BAR_RIGHT - BAR_LEFT);
}

/* The jobs that are shown: by submit, every so often one. */
void report_bars(const struct report_run *run, struct firn_buf *out)
{
    double first_s = INFINITY, last_s = 0;
    size_t n = run->jobs.n, every = n / BARS + 1, row = 0;
    for (size_t i = 0; i < n; i++) {
        first_s = fmin(first_s, run->jobs.at[i].submit_s);
        last_s = fmax(last_s, run->jobs.at[i].end_s);
    }
    size_t nrows = (n + every - 1) / every;
    buf_puts(out, "<figure><figcaption>");
    report_text(out, run->policy);
    buf_printf(out,
               ": %zu of %zu jobs</figcaption><svg viewBox='0 0 %d %zu' "
               "width='%d' role='img'>\n",
               nrows, n, WIDTH, nrows * 3 + 4, WIDTH);
    for (size_t i = 0; i < n; i += every, row++) {
        const struct report_job *job = &run->jobs.at[i];
        double a = bar_x(job->submit_s, first_s, last_s);
        double c = bar_x(job->end_s, first_s, last_s);
        double b =
            isnan(job->start_s) ? c : bar_x(job->start_s, first_s, last_s);
        buf_printf(out,
                   "<g><rect x='%.1f' y='%zu' width='%.1f' height='2' "
                   "fill='#e6c27a'/><rect x='%.1f' y='%zu' width='%.1f' "
                   "height='2' fill='#0072b2'/><title>",
                   a, row * 3 + 2, fmax(b - a, 0), b, row * 3 + 2,
                   fmax(c - b, 0.5));
        report_text(out, job->name);
        buf_puts(out, "</title></g>\n");
    }
    buf_puts(out, "</svg></figure>\n");
}
