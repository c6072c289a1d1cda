/* devices.h - which GPUs the processes of a control group can open.
 *
 * NVIDIA's driver has one character device for each GPU: /dev/nvidiaN is number
 * 195:N. The devices of GPUs that an attempt does not hold are closed to its
 * control group: open() fails with EPERM. All other devices stay as their
 * permissions say (a job is not root), among them 195:255, which every program
 * of CUDA opens.
 *
 *     version 1   devices.deny and devices.allow, a line for each GPU
 *     version 2   a BPF program of 14 instructions that belongs to the group
 *
 * (1) A set of GPUs replaces the one before, at once; a device that is open
 *     stays open.
 * (2) Processes in the group cannot change it: both need root.
 */
#ifndef LAUNCH_DEVICES_H
#define LAUNCH_DEVICES_H
#include <stdbool.h>
#include <stdint.h>

enum { DEVICES_GPUS = 64, DEVICES_MAJOR = 195 };
#define DEVICES_ALL UINT64_MAX /* no limit */

/* Bit N of `gpus`: /dev/nvidiaN can be opened. False: errno. */
bool devices_set_v1(const char *folder, uint64_t gpus);
bool devices_set_v2(const char *folder, uint64_t gpus);
/* Would a group below this folder obey devices.deny? (In a container whose own
 * group has a list of allowed devices it would not.) */
bool devices_can_v1(const char *folder);
/* Can a group be given a BPF program here? Tries it with no limit. */
bool devices_can_v2(const char *folder);

#endif
