/* sim_count_report.c: adds up a launch's counters, by source line and by statement. Knows no rule
 * of coalescing.
 */
#include "sim_observe.h"

#include <stdlib.h>
#include <string.h>

/* An instruction's class, and its floating-point operations per thread by precision (0 f16, 1 f32,
 * 2 f64). */
enum sim_class sim_class_of(const struct sim_kernel *k, uint32_t pc, unsigned *flops,
                            unsigned *precision) {
    const struct sim_insn *in = &k->code[pc];
    *flops = 0;
    *precision = 1;
    if ((in->op != SIM_OP_LANE && in->op != SIM_OP_MASK) || k->where[pc].lane_op == UINT16_MAX)
        return (enum sim_class)in->class;
    const struct sim_lane_op *row = &sim_lane_ops[k->where[pc].lane_op];
    const char *m = row->mnemonic;
    static const char *const special[] = {"rcp.", "sqrt.", "rsqrt.", "sin.",
                                          "cos.", "ex2.",  "lg2.",   "tanh."};
    static const char *const counted[] = {"add.", "sub.", "mul.", "div.", "fma.", "min.", "max."};
    enum sim_type type = (enum sim_type)row->types[1];
    int floating = sim_types[type].class == SIM_C_FLOAT || sim_types[type].class == SIM_C_HALF;
    if (strncmp(m, "cvt.", 4) == 0 || strncmp(m, "~r", 2) == 0)
        return SIM_CLASS_CONVERT;
    if (strncmp(m, "mov.", 4) == 0 || strncmp(m, "slct.", 5) == 0 || m[0] == '~')
        return SIM_CLASS_MOVE;
    if (floating) {
        *precision = type == SIM_T_F32 ? 1 : type == SIM_T_F64 ? 2 : 0;
        int packed = type == SIM_T_F16X2 || type == SIM_T_BF16X2;
        for (size_t i = 0; i < sizeof special / sizeof *special; i++) {
            if (strncmp(m, special[i], strlen(special[i])) == 0) {
                *flops = packed ? 2 : 1;
                return SIM_CLASS_SPECIAL;
            }
        }
        for (size_t i = 0; i < sizeof counted / sizeof *counted - 2; i++)
            if (strncmp(m, counted[i], 4) == 0)
                *flops = (i == 4 ? 2u : 1u) * (packed ? 2u : 1u);
        return *precision == 1 ? SIM_CLASS_F32 : *precision == 2 ? SIM_CLASS_F64 : SIM_CLASS_F16;
    }
    if (strncmp(m, "div.", 4) == 0 || strncmp(m, "rem.", 4) == 0)
        return SIM_CLASS_DIVIDE;
    return strncmp(m, "mul", 3) == 0 || strncmp(m, "mad", 3) == 0 || strncmp(m, "dp", 2) == 0
               ? SIM_CLASS_MULTIPLY
               : SIM_CLASS_INTEGER;
}

/* Adds one instruction's work in each space: generic addresses may lie in any. An asynchronous copy
 * counts as a load from global memory or a store to it; its access to shared memory counts as no
 * instruction. */
static void add_memory(struct sim_counters *c, const struct sim_insn *in,
                       const struct sim_pc_count *n, const struct sim_cached *cached) {
    const int copy = in->op == SIM_OP_CPASYNC || in->op == SIM_OP_BULK,
              to_global = in->op == SIM_OP_BULK && in->sub == SIM_BULK_OUT;
    if (in->op == SIM_OP_TEX) {
        c->texture_requests += n->requests;
        c->texture_sectors += n->sectors;
        c->texture_hits += cached->l1_hits;
    }
    c->l2_sectors += cached->l2_sectors;
    c->l2_halves += cached->l2_halves;
    c->l2_hits += cached->l2_hits;
    c->l2_first_misses += cached->l2_first;
    c->l2_warm_misses += cached->l2_warm;
    c->l2_far_sectors += cached->l2_far;
    c->tag_passes += cached->tag_passes;
    c->waits += cached->waits;
    c->first_waits += cached->first_waits;
    c->dram_waits += cached->dram_waits;
    if (in->op == SIM_OP_BAR)
        c->barriers += n->requests;
    if (in->op == SIM_OP_LD) {
        c->shared_load_requests += n->shared_requests;
        c->shared_load_wavefronts += n->wavefronts;
        c->shared_load_conflicts += n->conflicts;
        c->local_load_requests += n->local_requests;
    } else if (in->op == SIM_OP_ST) {
        c->shared_store_requests += n->shared_requests;
        c->shared_store_wavefronts += n->wavefronts;
        c->shared_store_conflicts += n->conflicts;
        c->local_store_requests += n->local_requests;
    } else if (in->op == SIM_OP_ATOM) {
        c->shared_atomics += n->shared_requests;
        c->shared_atomic_wavefronts += n->wavefronts;
        c->shared_atomic_turns += n->turns;
        c->global_atomics += n->requests;
    }
    if (in->op == SIM_OP_LD || (copy && !to_global)) {
        c->global_load_requests += n->requests;
        c->global_load_sectors += n->sectors;
        c->global_load_transactions += n->transactions;
        c->global_load_bytes_moved += n->moved;
        c->global_load_bytes += n->bytes;
        c->l1_load_hits += cached->l1_hits;
    } else if (in->op == SIM_OP_ST || to_global) {
        c->global_store_requests += n->requests;
        c->global_store_sectors += n->sectors;
        c->global_store_transactions += n->transactions;
        c->global_store_bytes_moved += n->moved;
        c->global_store_bytes += n->bytes;
        c->l1_store_hits += cached->l1_hits;
    }
    c->global_bytes_moved += n->moved;
    c->global_transactions += n->transactions;
    c->global_lines += n->lines;
}

static void add_class(struct sim_counters *c, enum sim_class class, uint64_t warps) {
    switch (class) {
#define SIM_X(id, field)                                          \
    case SIM_CLASS_##id:                                          \
        c->field += SIM_CLASS_##id == SIM_CLASS_NONE ? 0 : warps; \
        break;
        SIM_CLASSES(SIM_X)
#undef SIM_X
    default:
        break;
    }
}

/* Adds one instruction's counts from all workers to a set of counters. */
static void add_instruction(const struct sim_kernel *k, uint32_t pc,
                            const struct sim_block_count *b, const struct sim_pc_count *n,
                            const struct sim_cached *cached, struct sim_counters *c) {
    const struct sim_insn *in = &k->code[pc];
    unsigned flops, precision;
    enum sim_class class = sim_class_of(k, pc, &flops, &precision);
    uint64_t on = b->threads - (n->guard_off < b->threads ? n->guard_off : b->threads);
    c->warp_instructions += b->warps;
    c->thread_instructions += b->threads;
    c->predicated_on_threads += on;
    add_class(c, class, b->warps);
    *(precision == 0   ? &c->flops_f16
      : precision == 1 ? &c->flops_f32
                       : &c->flops_f64) += flops * on;
    if (in->op == SIM_OP_BRA || in->op == SIM_OP_BRX) {
        c->branches += b->warps;
        c->divergent_branches += n->divergent;
    }
    c->odd_operands += n->odd;
    add_memory(c, in, n, cached);
}

static int same_line(const struct sim_line *line, const char *file, unsigned number, unsigned ptx) {
    return line->file == file && line->line == number && (file || line->ptx_line == ptx);
}

/* Appends a row to an array of `count`; NULL when out of memory. */
static struct sim_line *add_line(struct sim_line **lines, size_t *count, uint32_t *capacity,
                                 const char *file, unsigned number, unsigned ptx) {
    struct sim_line *grown = sim_grow(NULL, *lines, capacity, (uint32_t)*count + 1, sizeof *grown);
    if (!grown)
        return NULL;
    *lines = grown;
    grown[*count] = (struct sim_line){.file = file, .line = number, .ptx_line = ptx};
    return &grown[(*count)++];
}

static struct sim_line *line_of(struct sim_report *report, uint32_t *capacity, const char *file,
                                unsigned number, unsigned ptx) {
    for (size_t i = report->line_count; i-- > 0;)
        if (same_line(&report->lines[i], file, number, ptx))
            return &report->lines[i];
    return add_line(&report->lines, &report->line_count, capacity, file, number, ptx);
}

static int by_place(const void *a, const void *b) {
    const struct sim_line *x = a, *y = b;
    int files =
        !x->file || !y->file ? (x->file != NULL) - (y->file != NULL) : strcmp(x->file, y->file);
    return files                ? files
           : x->line != y->line ? (x->line > y->line) - (x->line < y->line)
                                : (x->ptx_line > y->ptx_line) - (x->ptx_line < y->ptx_line);
}

/* The row of an executed statement, whose instructions are adjacent; NULL: there are too many, or
 * no memory. */
static struct sim_line *statement_of(const struct sim_kernel *k, uint32_t pc, const char *file,
                                     struct sim_report *report, uint32_t *capacity) {
    enum { MOST = 1 << 16 };
    const char *text = k->where[pc].text;
    struct sim_line *last = report->statements + report->statement_count;
    if (report->statement_count && last[-1].text == text)
        return last - 1;
    if (report->statement_count == MOST)
        return NULL;
    struct sim_line *made = add_line(&report->statements, &report->statement_count, capacity, file,
                                     file ? k->where[pc].line : 0, k->where[pc].ptx_line);
    if (made)
        made->text = text; /* of the module, until all are known */
    return made;
}

/* Gives the statements texts of their own: the module may go before the report. */
static int copy_statements(const struct sim_kernel *k, struct sim_report *report) {
    size_t at = 0;
    if (!report->statement_count)
        return 1;
    report->statement_texts = malloc(report->statement_count * SIM_STATEMENT_BYTES);
    for (size_t i = 0; i < report->statement_count && report->statement_texts; i++) {
        char *to = report->statement_texts + at;
        at += sim_trace_statement(k->module, report->statements[i].text, to);
        report->statements[i].text = to;
    }
    return report->statement_texts != NULL;
}

/* Sectors that this launch has read without touching the other sector of their 64 bytes, which DRAM
 * delivers together. */
static uint64_t lone_sectors(const struct sim_run *run) {
    const uint8_t tag = (uint8_t)((run->launch_number % 63 + 1) << 2);
    uint64_t count = 0;
    for (size_t i = 0; i < run->gpu->region_count; i++) {
        const struct sim_region *r = &run->gpu->regions[i];
        for (uint64_t s = 0; r->touched && s <= r->bytes / SIM_SECTOR; s += 2) {
            const uint8_t one = r->touched[s], two = r->touched[s + 1];
            const int first = (one & ~3) == tag, second = (two & ~3) == tag;
            count += first != second && ((first ? one : two) & 1);
        }
    }
    return count;
}

static struct sim_pc_count sum_of(const struct sim_worker *workers, unsigned count, uint32_t pc) {
    struct sim_pc_count sum = {0};
    for (unsigned i = 0; i < count; i++) {
        const struct sim_pc_count *n = &workers[i].pcs[pc];
        sum.requests += n->requests;
        sum.shared_requests += n->shared_requests;
        sum.local_requests += n->local_requests;
        sum.wavefronts += n->wavefronts;
        sum.turns += n->turns;
        sum.sectors += n->sectors;
        sum.lines += n->lines;
        sum.bytes += n->bytes;
        sum.moved += n->moved;
        sum.transactions += n->transactions;
        sum.conflicts += n->conflicts;
        sum.guard_off += n->guard_off;
        sum.divergent += n->divergent;
        sum.odd += n->odd;
    }
    return sum;
}

int sim_count_report(struct sim_run *run, struct sim_worker *workers, unsigned count,
                     struct sim_report *report) {
    const struct sim_kernel *k = run->kernel;
    uint32_t capacity = 0, statements = 0;
    if (run->caches && sim_caches_lost(run))
        return 0;
    report->spread.lone_sectors = lone_sectors(run);
    struct sim_block_count block = {0, 0};
    for (uint32_t pc = 0; pc < k->code_count; pc++) {
        struct sim_cached cached = {0};
        if (k->code[pc].op == SIM_OP_BLOCK) {
            block = (struct sim_block_count){0, 0};
            for (unsigned i = 0; i < count; i++) {
                block.warps += workers[i].blocks[k->code[pc].ext].warps;
                block.threads += workers[i].blocks[k->code[pc].ext].threads;
            }
            continue;
        }
        if ((k->code[pc].flags & SIM_F_HELPER) || !block.warps)
            continue;
        const struct sim_pc_count sum = sum_of(workers, count, pc);
        if (run->caches)
            cached = sim_caches_of(run, pc, sum.sectors);
        int system;
        const char *file = sim_module_file(k->module, k->where[pc].file, &system);
        struct sim_line *line =
            line_of(report, &capacity, file, file ? k->where[pc].line : 0, k->where[pc].ptx_line);
        add_instruction(k, pc, &block, &sum, &cached, &report->total);
        if (!line)
            return 0;
        add_instruction(k, pc, &block, &sum, &cached, &line->counters);
        struct sim_line *statement = run->launch->flags & SIM_LAUNCH_STATEMENTS && k->where[pc].text
                                         ? statement_of(k, pc, file, report, &statements)
                                         : NULL;
        if (statement)
            add_instruction(k, pc, &block, &sum, &cached, &statement->counters);
    }
    if (!copy_statements(k, report))
        return 0;
    for (unsigned i = 0; i < count; i++) {
        report->total.blocks += workers[i].blocks_done;
        report->total.warps += workers[i].warps_done;
        report->total.dram_read_bytes += workers[i].dram_read * SIM_SECTOR;
        report->total.dram_write_bytes += workers[i].dram_write * SIM_SECTOR;
    }
    if (run->caches)
        sim_caches_traffic(run, &report->total);
    if (report->line_count)
        qsort(report->lines, report->line_count, sizeof *report->lines, by_place);
    return 1;
}
