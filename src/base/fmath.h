/* fmath.h - log, exp, pow and sine with the same bits everywhere.
 *
 * libm's answers differ in the last bit between machines (fused multiply-add
 * or not). These use only +, -, *, / and sqrt-free series in a fixed order,
 * so a simulation gives identical bytes on arm64 and x86-64. Accurate to
 * two units in the last place: relative error below 4e-16, measured against
 * long double (pow: for |y log x| <= 700).
 */
#ifndef BASE_FMATH_H
#define BASE_FMATH_H

double fm_log(double x);           /* x > 0 */
double fm_exp(double x);           /* |x| <= 700 */
double fm_pow(double x, double y); /* x > 0; exact for y = 1, and for x = 1 */
double fm_sin_turn(double turns);  /* sin(2 pi turns) */

#endif
