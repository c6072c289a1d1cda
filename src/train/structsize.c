/* structsize.c - sizes of the structs that bindings in other languages repeat.
 *
 * python/firn/_lib.py has these structs once more, for ctypes. It compares
 * sizes when it loads the library, so that a library of another version is
 * refused by a sentence rather than read wrongly.
 */
#include <firn/join.h>
#include <firn/train.h>
#include <string.h>

#define OF(name)                   \
    {                              \
#name, sizeof(struct name) \
    }

size_t firn_struct_size(const char *name)
{
    static const struct {
        const char *name;
        size_t size;
    } all[] = {
        OF(firn_error),          OF(firn_group_config),
        OF(firn_ckpt_section),   OF(firn_ckpt_difference),
        OF(firn_sampler),        OF(firn_feed_config),
        OF(firn_feed_request),   OF(firn_trainer_report),
        OF(firn_orders),         OF(firn_reporter_config),
        OF(firn_freeze),         OF(firn_tuner),
        OF(firn_freezeout),      OF(firn_freezer_ask),
        OF(firn_freezer_config), OF(firn_decision),
        OF(firn_task_mix),       OF(firn_task_guard),
        OF(firn_pass),           OF(firn_switch_stage),
        OF(firn_batch_noise),    OF(firn_switch_times),
        OF(firn_train_config),   OF(firn_join_told),
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcmp(all[i].name, name) == 0)
            return all[i].size;
    return 0;
}
