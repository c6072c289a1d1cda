/* arch.h - what arch.c and arch_config.c share: the families by model_type. */
#ifndef MODEL_ARCH_H
#define MODEL_ARCH_H
#include <firn/arch.h>

/* The family called `model_type`: its members as arch_families.def has them,
 * the rest 0. NULL: not known. */
const struct firn_arch *arch_family(const char *model_type);

/* Puts the members that the family decides into `arch`. */
void arch_adopt(struct firn_arch *arch, const struct firn_arch *family);

/* Parameters of the adapters on all experts of a layer; 0: none there. */
double arch_expert_lora_params(const struct firn_arch *arch, int rank,
                               unsigned on);

#endif
