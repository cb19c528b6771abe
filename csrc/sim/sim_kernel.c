/* sim_kernel.c: a module's kernel: decoded when first requested, and queries on it. Runs nothing.
 */
#include "../float_state.h"
#include "decode/sim_decode.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum sim_status sim_kernel_get(struct sim_module *module, const char *name,
                               struct sim_kernel **kernel, struct sim_error *error) {
    struct sim_gpu *gpu = module->gpu;
    enum sim_status status = SIM_OK;
    *kernel = NULL;
    pthread_mutex_lock(&gpu->lock);
    const fenv_t before = float_state_enter_all(); /* for constants */
    struct sim_function *function = sim_module_function(module, name, strlen(name));
    if (!function || !function->is_entry || !function->has_body)
        status = sim_fail(error, SIM_NOT_FOUND, 0, 0, "the module has no kernel '%.200s'", name);
    else if (!function->kernel)
        status = sim_decode_kernel(module, function, &function->kernel, error);
    if (!status)
        *kernel = function->kernel;
    float_state_leave_all(before);
    pthread_mutex_unlock(&gpu->lock);
    return status;
}

void sim_kernel_describe(const struct sim_kernel *k, struct sim_kernel_info *info) {
    *info = (struct sim_kernel_info){
        .name = k->function->c_name,
        .param_count = k->param_count,
        .param_bytes = k->param_bytes,
        .params = k->params,
        .registers = k->registers,
        .shared_bytes = (unsigned)k->shared_bytes - k->reserved_bytes,
        .local_bytes = k->functions[0].local_bytes,
        .max_threads = k->function->max_threads,
        .communicates = k->communicates,
    };
    for (uint32_t i = 0; i < k->block_count; i++)
        info->instructions += k->blocks[i].count;
}

struct output {
    char *to;
    size_t room, wanted;
};

static void put(struct output *o, const char *format, ...) SIM_PRINTF(2, 3);
static void put(struct output *o, const char *format, ...) {
    char line[256];
    va_list list;
    va_start(list, format);
    int n = vsnprintf(line, sizeof line, format, list);
    va_end(list);
    if (n < 0)
        return;
    size_t length = (size_t)n < sizeof line ? (size_t)n : sizeof line - 1;
    for (size_t i = 0; i < length; i++, o->wanted++)
        if (o->wanted + 1 < o->room)
            o->to[o->wanted] = line[i];
}

static void put_slot(struct output *o, const char *name, uint32_t slot) {
    if (slot != UINT32_MAX)
        put(o, " %s=%u", name, slot);
}

size_t sim_kernel_disassemble(const struct sim_kernel *k, char *to, size_t bytes) {
    static const char *const names[] = {
#define SIM_X(id) #id,
        SIM_CONTROL_OPS(SIM_X)
#undef SIM_X
    };
    struct output o = {to, bytes, 0};
    for (uint32_t pc = 0; pc < k->code_count; pc++) {
        const struct sim_insn *in = &k->code[pc];
        put(&o, "%5u %c ", pc, in->flags & SIM_F_HELPER ? '.' : ' ');
        if (in->flags & SIM_F_GUARD)
            put(&o, "@%s%u ", in->flags & SIM_F_GUARD_NOT ? "!" : "", in->guard);
        if (in->op == SIM_OP_BLOCK) {
            const struct sim_block_info *b = &k->blocks[in->ext];
            put(&o, "block %u: %u instructions, meets at %d", in->ext, b->count,
                (int)b->reconverge);
        } else if (in->op == SIM_OP_LANE || in->op == SIM_OP_MASK) {
            const struct sim_lane_op *row = &sim_lane_ops[in->ext];
            put(&o, "%s d=%u", row->mnemonic, in->dst);
            const uint32_t slots[4] = {in->a, in->b, in->c, in->e};
            for (int i = 0; i < 4 && row->types[i + 1]; i++)
                put(&o, "%s%u", i ? ", " : " <- ", slots[i]);
            if (in->mods)
                put(&o, " mods=%u", in->mods);
        } else {
            put(&o, "%s", names[in->op]);
            put_slot(&o, "d", in->dst);
            put_slot(&o, "a", in->a);
            put(&o, " imm=%lld ext=%u type=%s", (long long)in->imm, in->ext,
                sim_types[in->type].name);
        }
        put(&o, "  ; PTX line %u\n", k->where[pc].ptx_line);
    }
    if (bytes)
        to[o.wanted < bytes ? o.wanted : bytes - 1] = 0;
    return o.wanted;
}
