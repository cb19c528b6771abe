/* sim_exec_lane.c: the rare parts of lane operations: modifiers around them, special registers,
 * carry chains. Accesses no memory of the simulated GPU.
 */
#include "sim_exec.h"

#include <fenv.h>
#include <string.h>

/* ---- modifiers: rounding, flushing and saturation around a lane operation ---- */

/* Whether .ftz applies to values of this type. Conversions flush only single precision; rcp and
 * rsqrt also flush double precision. */
static int flushes(const struct sim_lane_op *row, unsigned type) {
    return type == SIM_T_F32 ||
           (type == SIM_T_F64 &&
            (memcmp(row->mnemonic, "rcp.", 4) == 0 || memcmp(row->mnemonic, "rsqrt.", 6) == 0)) ||
           ((type == SIM_T_F16 || type == SIM_T_F16X2) && memcmp(row->mnemonic, "cvt", 3) != 0);
}

static void flush(uint8_t *lanes, unsigned type) {
    for (int i = 0; i < SIM_LANES && type == SIM_T_F32; i++) {
        sim_u32 *u = (sim_u32 *)(void *)lanes + i;
        if (!(*u & 0x7f800000u))
            *u &= 0x80000000u;
    }
    for (int i = 0; i < SIM_LANES && type == SIM_T_F64; i++) {
        sim_u64 *u = (sim_u64 *)(void *)lanes + i;
        if (!(*u & 0x7ff0000000000000ull))
            *u &= 0x8000000000000000ull;
    }
    const int halves = type == SIM_T_F16 ? 1 : type == SIM_T_F16X2 ? 2 : 0;
    for (int i = 0; i < SIM_LANES * halves; i++) {
        sim_u16 *u = (sim_u16 *)(void *)lanes + i;
        if (!(*u & 0x7c00u))
            *u &= 0x8000u;
    }
}

static void saturate(uint8_t *lanes, unsigned type) {
    for (int i = 0; i < SIM_LANES; i++) {
        if (type == SIM_T_F32) {
            float x;
            memcpy(&x, lanes + i * 4, 4);
            x = !(x > 0) ? 0 : x > 1 ? 1 : x; /* NaN too becomes +0 */
            memcpy(lanes + i * 4, &x, 4);
        } else if (type == SIM_T_F64) {
            double x;
            memcpy(&x, lanes + i * 8, 8);
            x = !(x > 0) ? 0 : x > 1 ? 1 : x;
            memcpy(lanes + i * 8, &x, 8);
        } else if (type == SIM_T_F16 || type == SIM_T_BF16 || type == SIM_T_F16X2 ||
                   type == SIM_T_BF16X2) {
            uint16_t one = type == SIM_T_F16 || type == SIM_T_F16X2 ? 0x3c00 : 0x3f80,
                     infinity = one == 0x3c00 ? 0x7c00 : 0x7f80;
            int halves = type == SIM_T_F16 || type == SIM_T_BF16 ? 1 : 2;
            for (int h = 0; h < halves; h++) {
                uint16_t x;
                memcpy(&x, lanes + (i * halves + h) * 2, 2);
                x = (x & 0x8000) || x > infinity ? 0 : x > one ? one : x;
                memcpy(lanes + (i * halves + h) * 2, &x, 2);
            }
        }
    }
}

static void relu(uint8_t *lanes, unsigned type) {
    int halves = type == SIM_T_F16 || type == SIM_T_BF16       ? 1
                 : type == SIM_T_F16X2 || type == SIM_T_BF16X2 ? 2
                                                               : 0;
    for (int i = 0; i < SIM_LANES * halves; i++) {
        uint16_t x;
        memcpy(&x, lanes + i * 2, 2);
        if ((x & 0x8000) &&
            (x & 0x7fff) <= (type == SIM_T_F16 || type == SIM_T_F16X2 ? 0x7c00 : 0x7f80))
            x = 0;
        memcpy(lanes + i * 2, &x, 2);
    }
}

/* .ftz tests a result before rounding (measured on an H200): a result that only rounding lifts to
 * the smallest normal number is flushed too. Rounded toward zero it stays below. */
static void flush_before_rounding(struct sim_worker *w, const struct sim_insn *in, uint8_t *d,
                                  const uint8_t *const inputs[4]) {
    enum { LEAST_NORMAL = 0x00800000, MAGNITUDE = 0x7fffffff };
    uint32_t result[SIM_LANES], toward_zero[SIM_LANES], least = 0;
    memcpy(result, d, sizeof result);
    for (int i = 0; i < SIM_LANES; i++)
        least |= (result[i] & MAGNITUDE) == LEAST_NORMAL;
    if (!least)
        return;
    fesetround(FE_TOWARDZERO);
    __asm__ volatile("" ::: "memory");
    in->fn(w->scratch[0], inputs[0], inputs[1], inputs[2], inputs[3]);
    __asm__ volatile("" ::: "memory");
    fesetround(FE_TONEAREST);
    memcpy(toward_zero, w->scratch[0], sizeof toward_zero);
    for (int i = 0; i < SIM_LANES; i++)
        if ((result[i] & MAGNITUDE) == LEAST_NORMAL && (toward_zero[i] & MAGNITUDE) < LEAST_NORMAL)
            result[i] &= ~(uint32_t)MAGNITUDE;
    memcpy(d, result, sizeof result);
}

/* Divisions and roots in machine code are a few instructions for ordinary operands; for others,
 * such as zero, they call a subroutine. The tests are those of ptxas's code; FCHK's, which is
 * hardware, by exponents. */
static int is_odd_f32(char root, uint32_t a, uint32_t b) {
    enum { LEAST = 24, MOST = 252, SPREAD = 125 }; /* exponents; their difference */
    const int x = (int)(a >> 23 & 255), y = (int)(b >> 23 & 255);
    if (root == 's')
        return a - 0x0d000000u > 0x727fffffu;
    if (root == 'r')
        return ((a + 0x01800000u) & 0x7f800000u) <= 0x01ffffffu;
    return x < LEAST || x == 255 || !y || y > MOST || x - y > SPREAD || y - x > SPREAD;
}

static int is_odd_f64(char root, uint64_t a, uint64_t b) {
    const uint32_t x = (uint32_t)(a >> 32), y = (uint32_t)(b >> 32) & 0x7fffffffu,
                   size = x & 0x7fffffffu;
    const int quotient = (int)(size >> 20) - (int)(y >> 20) + 1023; /* its exponent, about */
    if (root == 's')
        return x - 0x03500000u >= 0x7ca00000u;
    if (root == 'r')
        return ((x + 0x00300402u) & 0x7fffffffu) < 0x00400402u;
    return size < 0x03600000u || y >= 0x7f800000u || quotient < 2 || quotient > 2046;
}

/* Whether a lane's operands need the subroutine: the whole warp waits for it. */
static int has_odd_operand(const struct sim_insn *in, uint32_t mask, const uint8_t *regs) {
    const char root = sim_lane_ops[in->ext].mnemonic[0]; /* of "sqrt", "rcp", "div" */
    for (uint32_t lanes = mask; lanes; lanes &= lanes - 1) {
        const int i = __builtin_ctz(lanes);
        if (in->dsize == 4 ? is_odd_f32(root, ((const sim_u32 *)(const void *)(regs + in->a))[i],
                                        ((const sim_u32 *)(const void *)(regs + in->b))[i])
                           : is_odd_f64(root, ((const sim_u64 *)(const void *)(regs + in->a))[i],
                                        ((const sim_u64 *)(const void *)(regs + in->b))[i]))
            return 1;
    }
    return 0;
}

void sim_exec_modified(struct sim_worker *w, const struct sim_insn *in, uint32_t pc, uint32_t mask,
                       uint8_t *d, const uint8_t *regs) {
    static const int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
    const struct sim_lane_op *row = &sim_lane_ops[in->ext];
    const uint32_t slots[4] = {in->a, in->b, in->c, in->e};
    const uint8_t *inputs[4];
    if (in->mods & SIM_M_ODD)
        w->pcs[pc].odd += (uint64_t)has_odd_operand(in, mask, regs);
    for (int i = 0; i < 4; i++) {
        unsigned type = row->types[i + 1];
        inputs[i] = regs + slots[i];
        if ((in->mods & SIM_M_FTZ) && flushes(row, type)) {
            memcpy(w->scratch[i + 1], inputs[i], SIM_LANES * sim_types[type].bytes);
            flush(w->scratch[i + 1], type);
            inputs[i] = w->scratch[i + 1];
        }
    }
    if (in->mods & SIM_M_ROUND)
        fesetround(modes[in->mods & SIM_M_ROUND]);
    /* the operation accesses memory: keeps it between the two changes of rounding mode */
    __asm__ volatile("" ::: "memory");
    in->fn(d, inputs[0], inputs[1], inputs[2], inputs[3]);
    __asm__ volatile("" ::: "memory");
    if (in->mods & SIM_M_ROUND)
        fesetround(FE_TONEAREST);
    if (in->op == SIM_OP_MASK)
        return;
    if ((in->mods & SIM_M_FTZ) && in->type == SIM_T_F32 && row->types[1] == SIM_T_F32)
        flush_before_rounding(w, in, d, inputs);
    if ((in->mods & SIM_M_FTZ) && flushes(row, in->type))
        flush(d, in->type);
    if (in->mods & SIM_M_SAT)
        saturate(d, in->type);
    if (in->mods & SIM_M_RELU)
        relu(d, in->type);
}

/* ---- special registers ---- */

static uint32_t special_value(const struct sim_worker *w, const struct sim_warp *warp,
                              unsigned which, uint32_t lane) {
    const struct sim_block *block = warp->block;
    const struct sim_run *run = w->run;
    const struct sim_launch *launch = run->launch;
    switch (which) {
    case SIM_SPECIAL_TID_X:
        return warp->tid[0][lane];
    case SIM_SPECIAL_TID_Y:
        return warp->tid[1][lane];
    case SIM_SPECIAL_TID_Z:
        return warp->tid[2][lane];
    case SIM_SPECIAL_NTID_X:
        return launch->block[0];
    case SIM_SPECIAL_NTID_Y:
        return launch->block[1];
    case SIM_SPECIAL_NTID_Z:
        return launch->block[2];
    case SIM_SPECIAL_CTAID_X:
    case SIM_SPECIAL_CLUSTERID_X:
        return block->index[0];
    case SIM_SPECIAL_CTAID_Y:
    case SIM_SPECIAL_CLUSTERID_Y:
        return block->index[1];
    case SIM_SPECIAL_CTAID_Z:
    case SIM_SPECIAL_CLUSTERID_Z:
        return block->index[2];
    case SIM_SPECIAL_NCTAID_X:
    case SIM_SPECIAL_NCLUSTERID_X:
        return launch->grid[0];
    case SIM_SPECIAL_NCTAID_Y:
    case SIM_SPECIAL_NCLUSTERID_Y:
        return launch->grid[1];
    case SIM_SPECIAL_NCTAID_Z:
    case SIM_SPECIAL_NCLUSTERID_Z:
        return launch->grid[2];
    case SIM_SPECIAL_LANEID:
        return lane;
    case SIM_SPECIAL_WARPID:
        return warp->index;
    case SIM_SPECIAL_NWARPID:
        return run->preset->warps_per_sm;
    case SIM_SPECIAL_SMID:
        return (uint32_t)(block->linear % run->preset->sm_count);
    case SIM_SPECIAL_NSMID:
        return run->preset->sm_count;
    case SIM_SPECIAL_LANEMASK_EQ:
        return 1u << lane;
    case SIM_SPECIAL_LANEMASK_LE:
        return (uint32_t)((2ull << lane) - 1);
    case SIM_SPECIAL_LANEMASK_LT:
        return (1u << lane) - 1;
    case SIM_SPECIAL_LANEMASK_GE:
        return ~((1u << lane) - 1);
    case SIM_SPECIAL_LANEMASK_GT:
        return ~(uint32_t)((2ull << lane) - 1);
    case SIM_SPECIAL_DYN_SMEM:
        return launch->shared_bytes;
    case SIM_SPECIAL_TOTAL_SMEM:
    case SIM_SPECIAL_AGGR_SMEM:
        return (uint32_t)run->shared_bytes - run->kernel->reserved_bytes;
    case SIM_SPECIAL_CLUSTER_NCTAID_X:
    case SIM_SPECIAL_CLUSTER_NCTAID_Y:
    case SIM_SPECIAL_CLUSTER_NCTAID_Z:
    case SIM_SPECIAL_CLUSTER_NCTARANK:
        return 1;
    case SIM_SPECIAL_WARP_SZ:
        return SIM_LANES;
    case SIM_SPECIAL_RESERVED_BEGIN:
    case SIM_SPECIAL_RESERVED_0:
        return run->kernel->reserved_at;
    case SIM_SPECIAL_RESERVED_1: /* cooperative groups use 288 bytes from here */
        return run->kernel->reserved_at + run->kernel->reserved_bytes / 2;
    case SIM_SPECIAL_RESERVED_END:
        return run->kernel->reserved_at + run->kernel->reserved_bytes;
    case SIM_SPECIAL_RESERVED_CAP:
        return run->kernel->reserved_bytes;
    default:
        return 0;
    }
}

void sim_exec_special(struct sim_worker *w, const struct sim_warp *warp, const struct sim_insn *in,
                      uint32_t mask, uint8_t *regs) {
    uint64_t clock = warp->block->steps + warp->steps, grid_sync = 0;
    /* cooperative groups find the grid's barrier through these two registers; it follows the
     * parameters */
    if (in->sub == SIM_SPECIAL_ENVREG1 || in->sub == SIM_SPECIAL_ENVREG2)
        grid_sync = w->run->launch->flags & SIM_LAUNCH_COOPERATIVE ? w->run->gpu->grid_sync : 0;
    if (mask == SIM_FULL && in->dsize == 4) {
        sim_u32 *to = U32(in->dst);
        if (in->sub <= SIM_SPECIAL_TID_Z) {
            memcpy(to, warp->tid[in->sub - SIM_SPECIAL_TID_X], SIM_LANES * 4);
            return;
        }
        if (in->sub <= SIM_SPECIAL_NCTAID_Z) {
            uint32_t value = special_value(w, warp, in->sub, 0);
            for (int i = 0; i < SIM_LANES; i++)
                to[i] = value;
            return;
        }
    }
    for (uint32_t m = mask; m; m &= m - 1) {
        uint32_t lane = (uint32_t)__builtin_ctz(m);
        uint64_t value;
        switch (in->sub) {
        case SIM_SPECIAL_CLOCK:
        case SIM_SPECIAL_CLOCK64:
        case SIM_SPECIAL_GLOBALTIMER:
            value = clock;
            break;
        case SIM_SPECIAL_GLOBALTIMER_LO:
            value = (uint32_t)clock;
            break;
        case SIM_SPECIAL_CLOCK_HI:
        case SIM_SPECIAL_GLOBALTIMER_HI:
            value = clock >> 32;
            break;
        case SIM_SPECIAL_ENVREG1:
            value = grid_sync >> 32;
            break;
        case SIM_SPECIAL_ENVREG2:
            value = (uint32_t)grid_sync;
            break;
        default:
            value = special_value(w, warp, in->sub, lane);
            break;
        }
        memcpy(regs + in->dst + lane * in->dsize, &value, in->dsize);
    }
}

/* ---- carry chains ---- */

/* A subtraction's carry is that of a + ~b + carry: 1 where nothing is borrowed. Programs mix both
 * forms (nvcc's 128-bit divisions read such a carry with addc). */
void sim_exec_carry(const struct sim_insn *in, uint32_t mask, uint8_t *regs) {
    __extension__ typedef unsigned __int128 u128;
    __extension__ typedef __int128 s128;
    uint32_t carry = PRED(in->e);
    unsigned bits = in->dsize * 8u;
    const uint32_t subtracts = in->op == SIM_OP_SUBCC;
    for (uint32_t m = mask; m; m &= m - 1) {
        uint32_t lane = (uint32_t)__builtin_ctz(m), cout;
        uint32_t cin = in->sub & 1 ? carry >> lane & 1 : subtracts;
        uint64_t a = 0, b = 0, c = 0, r;
        memcpy(&a, regs + in->a + lane * in->dsize, in->dsize);
        memcpy(&b, regs + in->b + lane * in->dsize, in->dsize);
        if (in->op == SIM_OP_MADCC) {
            memcpy(&c, regs + in->c + lane * in->dsize, in->dsize);
            u128 product = (u128)a * b;
            if (in->sub & 8)
                product = bits == 16   ? (u128)(uint64_t)((int64_t)(int16_t)a * (int16_t)b)
                          : bits == 32 ? (u128)(uint64_t)((int64_t)(int32_t)a * (int32_t)b)
                                       : (u128)((s128)(int64_t)a * (int64_t)b);
            a = in->sub & 4 ? (uint64_t)(product >> bits) : (uint64_t)product;
            b = c;
            if (bits < 64)
                a &= (1ull << bits) - 1;
        }
        if (subtracts)
            b = bits < 64 ? ~b & ((1ull << bits) - 1) : ~b;
        u128 sum = (u128)a + b + cin;
        r = (uint64_t)sum;
        if (in->sub & 16) { /* 32 bits, signed */
            const int64_t exact = (int64_t)(int32_t)a + (int32_t)b + cin;
            r = (uint32_t)(int32_t)(exact > INT32_MAX   ? INT32_MAX
                                    : exact < INT32_MIN ? INT32_MIN
                                                        : exact);
        }
        cout = (uint32_t)(sum >> bits) & 1;
        memcpy(regs + in->dst + lane * in->dsize, &r, in->dsize);
        if (in->sub & 2)
            carry = (carry & ~(1u << lane)) | cout << lane;
    }
    PRED(in->e) = carry;
}
