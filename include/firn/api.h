/* api.h - marks of public declarations: exported, C linkage, no return.
 */
#ifndef FIRN_API_H
#define FIRN_API_H

/* An exported function or object; libfirn hides everything else. */
#define FIRN_API      __attribute__((visibility("default")))
#define FIRN_NORETURN __attribute__((noreturn))

/* Around the declarations of each header, so that C++ programs can use it. */
#ifdef __cplusplus
#define FIRN_C_BEGIN extern "C" {
#define FIRN_C_END   }
#else
#define FIRN_C_BEGIN
#define FIRN_C_END
#endif

#endif
