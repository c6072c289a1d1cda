/* reprosvg.c - plots a sweep as SVG, one line per policy.
 *
 * A vertical line through a dot is the 95 % interval of the mean over draws.
 * Axes from 0 (y) and from the first point to the last (x), ticks at round
 * numbers, a legend on the right. Numbers are printed with one decimal, so the
 * same results give the same bytes.
 */
#include "repro/reprosvg.h"
#include "base/buf.h"
#include "base/str.h"
#include "repro/repropage.h"
#include <math.h>

enum {
    WIDTH = 640,
    HEIGHT = 320,
    LEFT = 64,
    RIGHT = 460, /* the legend is to the right of it */
    TOP = 16,
    BOTTOM = 268,
    TICKS = 5,
};

/* Colours that colour-blind people can distinguish (Okabe and Ito). */
static const char *const colours[] = {"#0072b2", "#d55e00", "#009e73",
                                      "#cc79a7", "#e69f00", "#56b4e9",
                                      "#000000", "#999999"};

struct frame {
    const struct repro_book *book;
    const struct repro_part *part;
    double x_min, x_max, y_max;
    bool is_numbered; /* x is the number in the name of a point */
};

static double x_of(const struct frame *frame, int point)
{
    double value;
    const struct repro_sweep *sweep = frame->part->scenario->sweep;
    if (frame->is_numbered && str_double(sweep->points[point].at, &value))
        return value;
    return point;
}

/* In the scenario's unit. */
static struct repro_figure y_of(const struct frame *frame, int policy,
                                int point)
{
    const struct repro_scenario *it = frame->part->scenario;
    struct repro_figure value =
        book_value(frame->book, frame->part, REPRO_HONEST, policy, point, 0);
    double unit_s = it->metric[0].is_time ? it->unit_s : 1;
    return (struct repro_figure){value.at / unit_s, fmax(0, value.low / unit_s),
                                 value.high / unit_s, value.draws};
}

static double px(const struct frame *frame, double x)
{
    double span = frame->x_max - frame->x_min;
    return LEFT + (span > 0 ? (x - frame->x_min) / span : 0.5) * (RIGHT - LEFT);
}

static double py(const struct frame *frame, double y)
{
    return BOTTOM - y / frame->y_max * (BOTTOM - TOP);
}

static void measure(struct frame *frame)
{
    const struct repro_scenario *it = frame->part->scenario;
    double value;
    frame->is_numbered = true;
    for (int i = 0; i < it->npoints; i++)
        frame->is_numbered &= str_double(it->sweep->points[i].at, &value);
    frame->x_min = INFINITY;
    frame->x_max = -INFINITY;
    for (int i = 0; i < it->npoints; i++) {
        frame->x_min = fmin(frame->x_min, x_of(frame, i));
        frame->x_max = fmax(frame->x_max, x_of(frame, i));
        for (int k = 0; k < (int)it->policies_count; k++) {
            double paper = paper_number(it, k, i, 0);
            double ours = y_of(frame, k, i).high;
            frame->y_max = fmax(frame->y_max, isnan(paper) ? 0 : paper);
            frame->y_max = fmax(frame->y_max, isnan(ours) ? 0 : ours);
        }
    }
}

/* A round step between ticks, for about TICKS ticks. */
static double step_for(double span)
{
    double rough = span / TICKS, ten = 1;
    while (ten > rough)
        ten /= 10;
    while (ten * 10 <= rough)
        ten *= 10;
    return rough <= 2 * ten ? 2 * ten : rough <= 5 * ten ? 5 * ten : 10 * ten;
}

static void put_text(struct firn_buf *out, double x, double y,
                     const char *anchor, const char *text)
{
    buf_printf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y,
               anchor);
    for (; *text != '\0'; text++) {
        if (*text == '<' || *text == '>' || *text == '&')
            buf_printf(out, "&#%d;", *text);
        else
            buf_putc(out, *text);
    }
    buf_puts(out, "</text>\n");
}

static void put_axes(const struct frame *frame, struct firn_buf *out)
{
    const struct repro_scenario *it = frame->part->scenario;
    struct firn_buf label = {0};
    double step = step_for(frame->y_max);
    for (int i = 0; i * step <= frame->y_max * 1.0001; i++) {
        double y = py(frame, i * step);
        buf_printf(out,
                   "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" "
                   "stroke=\"#ddd\"/>\n",
                   LEFT, y, RIGHT, y);
        buf_clear(&label);
        buf_double(&label, (double)(long)(i * step * 1e6 + 0.5) / 1e6);
        put_text(out, LEFT - 6, y + 4, "end", label.at);
    }
    for (int i = 0; i < it->npoints; i++)
        put_text(out, px(frame, x_of(frame, i)), BOTTOM + 16, "middle",
                 it->sweep->points[i].at);
    put_text(out, (LEFT + RIGHT) / 2.0, BOTTOM + 38, "middle", it->sweep->axis);
    buf_clear(&label);
    metric_text(it, 0, &label);
    buf_printf(out, "<g transform=\"rotate(-90 14 %.1f)\">\n",
               (TOP + BOTTOM) / 2.0);
    put_text(out, 14, (TOP + BOTTOM) / 2.0, "middle", label.at);
    buf_puts(out, "</g>\n");
    buf_release(&label);
}

/* Appends the line of one policy; dashed for the paper's numbers. */
static void put_line(const struct frame *frame, int policy, bool is_paper,
                     struct firn_buf *out)
{
    const struct repro_scenario *it = frame->part->scenario;
    const char *colour = colours[policy % 8];
    struct firn_buf dots = {0};
    buf_printf(out,
               "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\"%s "
               "points=\"",
               colour, is_paper ? " stroke-dasharray=\"5 4\"" : "");
    for (int i = 0; i < it->npoints; i++) {
        struct repro_figure ours = y_of(frame, policy, i);
        double y = is_paper ? paper_number(it, policy, i, 0) : ours.at;
        if (isnan(y))
            continue;
        double x = px(frame, x_of(frame, i));
        if (!is_paper && ours.draws > 1)
            buf_printf(&dots,
                       "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" "
                       "y2=\"%.1f\" stroke=\"%s\"/>\n",
                       x, py(frame, ours.low), x, py(frame, ours.high), colour);
        buf_printf(out, "%.1f,%.1f ", x, py(frame, y));
        buf_printf(&dots,
                   "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>\n", x,
                   py(frame, y), is_paper ? "#fff" : colour);
    }
    buf_puts(out, "\"/>\n");
    buf_add(out, dots.at, dots.n);
    buf_release(&dots);
}

static void put_legend(const struct frame *frame, struct firn_buf *out)
{
    const struct repro_scenario *it = frame->part->scenario;
    for (int i = 0; i < (int)it->policies_count; i++) {
        double y = TOP + 14 + 18 * i;
        buf_printf(out,
                   "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" "
                   "stroke=\"%s\" stroke-width=\"2\"/>\n",
                   RIGHT + 14, y - 4, RIGHT + 34, y - 4, colours[i % 8]);
        put_text(out, RIGHT + 40, y, "start", it->policies[i].label);
    }
    double y = TOP + 20 + 18 * (int)it->policies_count;
    if (it->numbers_count > 0)
        put_text(out, RIGHT + 14, y, "start", "dashed: the paper");
    if (has_draws(frame->part))
        put_text(out, RIGHT + 14, y + 18, "start", "upright: 95 % interval");
}

bool svg_plot(const struct repro_book *book, const struct repro_part *part,
              struct firn_buf *out)
{
    struct frame frame = {.book = book, .part = part};
    const struct repro_scenario *it = part->scenario;
    if (it->sweep == NULL || part->skip[0] != '\0')
        return false;
    measure(&frame);
    if (!(frame.y_max > 0))
        return false;
    buf_printf(out,
               "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" "
               "height=\"%d\" font-family=\"sans-serif\" font-size=\"12\">\n"
               "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
               WIDTH, HEIGHT);
    put_axes(&frame, out);
    for (int i = 0; i < (int)it->policies_count; i++) {
        if (it->numbers_count > 0)
            put_line(&frame, i, true, out);
        put_line(&frame, i, false, out);
    }
    put_legend(&frame, out);
    buf_puts(out, "</svg>\n");
    return true;
}
