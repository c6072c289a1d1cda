/* devices.c - see the header.
 *
 * Source: the kernel's Documentation/admin-guide/cgroup-v1/devices.rst and
 * cgroup-v2.rst (device controller), linux/bpf.h.
 *
 * In version 1 a group that was allowed all devices keeps a list of exceptions:
 * `c 195:3 rwm` in devices.deny adds one, the same line in devices.allow takes
 * it away again. So one line for each GPU says the whole set.
 *
 * Cost: 64 writes, or two calls of bpf().
 */
#define _GNU_SOURCE
#include "launch/devices.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* --- version 1 ------------------------------------------------------------ */

static int open_in(const char *folder, const char *file, int how)
{
    char path[300];
    snprintf(path, sizeof path, "%.200s/%s", folder, file);
    return open(path, how | O_CLOEXEC);
}

bool devices_set_v1(const char *folder, uint64_t gpus)
{
    int allow = open_in(folder, "devices.allow", O_WRONLY);
    int deny = open_in(folder, "devices.deny", O_WRONLY);
    bool is_set = allow >= 0 && deny >= 0;
    for (int i = 0; is_set && i < DEVICES_GPUS; i++) {
        char line[32];
        int n = snprintf(line, sizeof line, "c %d:%d rwm", DEVICES_MAJOR, i);
        is_set = write(gpus >> i & 1 ? allow : deny, line, (size_t)n) == n;
    }
    if (allow >= 0)
        close(allow);
    if (deny >= 0)
        close(deny);
    return is_set;
}

bool devices_can_v1(const char *folder)
{
    static const char all[] = "a *:* rwm";
    char text[64] = "";
    int fd = open_in(folder, "devices.list", O_RDONLY);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (fd >= 0)
        close(fd);
    return n > 0 && strncmp(text, all, sizeof all - 1) == 0;
}

/* --- version 2 ------------------------------------------------------------ */

#define OP(c, d, s, o, i) \
    ((struct bpf_insn){   \
        .code = (c), .dst_reg = (d), .src_reg = (s), .off = (o), .imm = (i)})
#define WORD_OF_CONTEXT(to, member)              \
    OP(BPF_LDX | BPF_MEM | BPF_W, to, BPF_REG_1, \
       offsetof(struct bpf_cgroup_dev_ctx, member), 0)

/* Loads the program for this set; its descriptor, or -1. */
static int load(uint64_t gpus)
{
    enum { ALLOW = 12 };
    const struct bpf_insn program[] = {
        WORD_OF_CONTEXT(BPF_REG_2, access_type), /* access << 16 | kind */
        OP(BPF_ALU | BPF_AND | BPF_K, BPF_REG_2, 0, 0, 0xffff),
        OP(BPF_JMP | BPF_JNE | BPF_K, BPF_REG_2, 0, ALLOW - 3,
           BPF_DEVCG_DEV_CHAR),
        WORD_OF_CONTEXT(BPF_REG_2, major),
        OP(BPF_JMP | BPF_JNE | BPF_K, BPF_REG_2, 0, ALLOW - 5, DEVICES_MAJOR),
        WORD_OF_CONTEXT(BPF_REG_2, minor),
        OP(BPF_JMP | BPF_JGT | BPF_K, BPF_REG_2, 0, ALLOW - 7,
           DEVICES_GPUS - 1),
        OP(BPF_LD | BPF_DW | BPF_IMM, BPF_REG_0, 0, 0,
           (int32_t)(uint32_t)gpus), /* of 64 bits: two instructions */
        OP(0, 0, 0, 0, (int32_t)(uint32_t)(gpus >> 32)),
        OP(BPF_ALU64 | BPF_RSH | BPF_X, BPF_REG_0, BPF_REG_2, 0, 0),
        OP(BPF_ALU64 | BPF_AND | BPF_K, BPF_REG_0, 0, 0, 1),
        OP(BPF_JMP | BPF_EXIT, 0, 0, 0, 0),
        OP(BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_0, 0, 0, 1), /* ALLOW */
        OP(BPF_JMP | BPF_EXIT, 0, 0, 0, 0),
    };
    union bpf_attr attr;
    memset(&attr, 0, sizeof attr);
    attr.prog_type = BPF_PROG_TYPE_CGROUP_DEVICE;
    attr.insns = (uint64_t)(uintptr_t)program;
    attr.insn_cnt = sizeof program / sizeof *program;
    attr.license = (uint64_t)(uintptr_t) "GPL";
    return (int)syscall(SYS_bpf, BPF_PROG_LOAD, &attr, sizeof attr);
}

/* Without BPF_F_ALLOW_MULTI a group has one program, and attaching another
 * replaces it. (1) */
bool devices_set_v2(const char *folder, uint64_t gpus)
{
    int program = load(gpus);
    int group = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool is_set = false;
    if (program >= 0 && group >= 0) {
        union bpf_attr attr;
        memset(&attr, 0, sizeof attr);
        attr.target_fd = (uint32_t)group;
        attr.attach_bpf_fd = (uint32_t)program;
        attr.attach_type = BPF_CGROUP_DEVICE;
        is_set = syscall(SYS_bpf, BPF_PROG_ATTACH, &attr, sizeof attr) == 0;
    }
    int error = errno;
    if (program >= 0)
        close(program);
    if (group >= 0)
        close(group);
    errno = error;
    return is_set;
}

bool devices_can_v2(const char *folder)
{
    union bpf_attr attr;
    if (!devices_set_v2(folder, DEVICES_ALL))
        return false;
    /* Groups below have programs of their own, which this one would forbid. */
    int group = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    memset(&attr, 0, sizeof attr);
    attr.target_fd = (uint32_t)group;
    attr.attach_type = BPF_CGROUP_DEVICE;
    bool is_gone = group >= 0 &&
                   syscall(SYS_bpf, BPF_PROG_DETACH, &attr, sizeof attr) == 0;
    if (group >= 0)
        close(group);
    return is_gone;
}
