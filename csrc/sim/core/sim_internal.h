/* sim_internal.h: types that all files of the simulator share: the parsed form of a function, the
 * decoded form of a kernel, and memory. Each folder includes only those on its right:
 *
 *   sim_launch.c, sim_block.c -> exec (instructions) -> observe (counters, races, traces) -> core
 *   sim_kernel.c -> decode (opcodes, slots, reconvergence) -> ptx (text, names resolved) -> core
 */
#ifndef SIM_INTERNAL_H
#define SIM_INTERNAL_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* clocks and threads under -std=c11; every file includes this header first */
#endif

#include "../sim.h"

#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#define SIM_LANES 32
#define SIM_FULL 0xffffffffu
#define SIM_SECTOR 32

#if defined(__GNUC__)
#define SIM_PRINTF(a, b) __attribute__((format(printf, a, b)))
#define SIM_LIKELY(x) __builtin_expect(!!(x), 1)
#define SIM_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define SIM_NOINLINE __attribute__((noinline))
#define SIM_ALIAS __attribute__((may_alias))
#else
#error "the simulator needs gcc or clang"
#endif

/* ---- errors ---- */

enum sim_status sim_fail(struct sim_error *error, enum sim_status status, unsigned line,
                         unsigned column, const char *format, ...) SIM_PRINTF(5, 6);

/* ---- arena: holds everything of a module or a kernel; bounded, freed at once ---- */

struct sim_arena {
    struct sim_chunk *chunks;
    uint64_t used, limit;
    int host_is_full; /* the host ran out of memory before the arena reached its limit */
};
void *sim_arena_alloc(struct sim_arena *arena, uint64_t count,
                      uint64_t size); /* zeroed; NULL when out of memory */
void sim_arena_free(struct sim_arena *arena);
/* Why an allocation returned NULL: a status, and the end of a sentence that names the purpose. */
enum sim_status sim_arena_why(const struct sim_arena *arena, char *text, size_t bytes);

/* Replaces `old` by a larger array with room for `need`; NULL when out of memory. The new elements
 * of an arena are zeroed. Without an arena the array is malloc's, and stays as it is on failure. */
void *sim_grow(struct sim_arena *arena, void *old, uint32_t *capacity, uint32_t need, size_t size);
uint32_t sim_hash(const char *text, size_t length);

/* ---- types: name, bytes, class ---- */

/* clang-format off */
#define SIM_TYPES(X)                                                                                     \
    X(NONE, "", 0, NONE)      X(PRED, "pred", 4, PRED)                                                  \
    X(B8, "b8", 1, BITS)      X(B16, "b16", 2, BITS)   X(B32, "b32", 4, BITS)   X(B64, "b64", 8, BITS)  \
    X(B128, "b128", 16, BITS)                                                                           \
    X(U8, "u8", 1, UINT)      X(U16, "u16", 2, UINT)   X(U32, "u32", 4, UINT)   X(U64, "u64", 8, UINT)  \
    X(S8, "s8", 1, SINT)      X(S16, "s16", 2, SINT)   X(S32, "s32", 4, SINT)   X(S64, "s64", 8, SINT)  \
    X(F16, "f16", 2, HALF)    X(F16X2, "f16x2", 4, HALF) X(BF16, "bf16", 2, HALF) X(BF16X2, "bf16x2", 4, HALF) \
    X(F32, "f32", 4, FLOAT)   X(F64, "f64", 8, FLOAT)

enum sim_type {
#define SIM_X(id, name, bytes, class) SIM_T_##id,
    SIM_TYPES(SIM_X)
#undef SIM_X
    SIM_T_COUNT
};
/* clang-format on */
enum sim_type_class {
    SIM_C_NONE,
    SIM_C_PRED,
    SIM_C_BITS,
    SIM_C_UINT,
    SIM_C_SINT,
    SIM_C_HALF,
    SIM_C_FLOAT
};

struct sim_type_info {
    const char *name;
    uint8_t bytes, class;
};
extern const struct sim_type_info sim_types[SIM_T_COUNT];
enum sim_type sim_type_find(const char *name, size_t length);

enum sim_space {
    SIM_S_GENERIC,
    SIM_S_GLOBAL,
    SIM_S_SHARED,
    SIM_S_LOCAL,
    SIM_S_CONST,
    SIM_S_PARAM,
    SIM_S_REG,
    SIM_S_COUNT
};

/* ---- parsed form ---- */

/* Where a value comes from: see sim_decode_flow.c. */
enum sim_sameness { SIM_SAME_GRID, SIM_SAME_BLOCK, SIM_VARIES };
struct sim_flow {
    uint64_t params; /* bit i: from the kernel's parameter i */
    uint8_t same;    /* enum sim_sameness: threads that have the same value */
    uint8_t data;    /* the same: threads whose values, if they are equal, are so by construction */
};

struct sim_name {
    const char *text;
    uint32_t length;
};
int sim_name_is(struct sim_name name, const char *text);

enum sim_symbol_kind { SIM_SYM_REG, SIM_SYM_VAR, SIM_SYM_FUNC, SIM_SYM_TABLE };

struct sim_symbol {
    struct sim_name name;
    enum sim_symbol_kind kind;
    enum sim_type type;
    enum sim_space space;
    uint32_t reg;          /* REG: its number in the function, once used */
    uint64_t count;        /* REG range: number of registers; 0 for a single one */
    uint64_t bytes, align; /* VAR; the bytes of a REG: how many its vector has, 0 for one */
    uint64_t address;      /* VAR: device address, or offset in its space */
    uint32_t element;      /* VAR: bytes of an array's element; 0: no array */
    int is_extern, is_entry_param;
    enum { SIM_PASSED, SIM_RECEIVED, SIM_RETURNED } role; /* .param: of a call, or the function's */
    struct sim_symbol *in_register; /* .param: of a .reg parameter, the register */
    struct sim_flow flow;           /* .param */
    uint8_t compared;               /* .param: its value is an operand of a compare-and-swap */
    struct sim_function *function;  /* FUNC */
    struct sim_label_list *targets; /* TABLE (.branchtargets) */
    const struct sim_kernel
        *user; /* module-level shared VAR: the kernel last laid out that uses it */
    struct sim_symbol *shadowed, *next_in_scope, *chain;
    uint32_t hash, depth;
};

enum sim_operand_kind {
    SIM_O_NONE,
    SIM_O_REG,
    SIM_O_INT,
    SIM_O_FLOAT,
    SIM_O_SYMBOL,
    SIM_O_ADDRESS,
    SIM_O_VECTOR,
    SIM_O_PAIR,
    SIM_O_LABEL,
    SIM_O_SPECIAL,
    SIM_O_LIST,
    SIM_O_SINK,
    SIM_O_SUM /* of a register and a constant */
};

struct sim_operand {
    enum sim_operand_kind kind;
    enum sim_type type;        /* REG, FLOAT */
    uint32_t reg;              /* REG; ADDRESS with a register base */
    int negated;               /* !p */
    int is_element;            /* array[3]: an address, or in a mov a symbol with an offset */
    struct sim_symbol *symbol; /* SYMBOL; ADDRESS with a symbol base */
    uint64_t bits;             /* INT, FLOAT; ADDRESS: offset; SPECIAL: its index */
    struct sim_name name;      /* LABEL, or an unresolved name */
    uint32_t scope;            /* LABEL */
    struct sim_operand *items; /* VECTOR, PAIR, LIST */
    uint32_t count;
};

#define SIM_MAX_OPERANDS 8

struct sim_statement {
    struct sim_name mnemonic;
    struct sim_operand *operands;
    uint32_t count;
    uint32_t guard; /* register, or UINT32_MAX */
    uint8_t guard_negated;
    uint8_t compared;       /* a load whose value a compare-and-swap compares */
    struct sim_flow stored; /* the value of a store */
    uint64_t from;          /* kernel parameters that the address of an access may come from */
    unsigned line, column;
    unsigned file, source_line; /* from .loc; 0 for none */
};

struct sim_label {
    struct sim_name name;
    uint32_t scope, statement;
};

struct sim_label_list {
    struct sim_operand *items;
    uint32_t count;
};

struct sim_function {
    struct sim_name name;
    char *c_name;
    int is_entry, has_body;
    unsigned line;
    struct sim_module *module;
    const char *header, *body; /* text of the parameter list and of the body, past its brace */
    unsigned header_line, body_line;
    const char *body_end;
    unsigned max_threads, min_blocks, cluster_blocks, max_registers; /* 0 where not stated */
    uint32_t block[3]; /* the only one allowed; 0 where not stated */
    struct sim_function *next;
    uint32_t ordinal;          /* in the module, from 1: its address, for indirect calls */
    uint8_t address_taken;     /* by a variable's initial value */
    struct sim_kernel *kernel; /* once decoded */
    struct sim_parsed *parsed; /* while a kernel is being decoded */
};

/* One function after parsing. */
struct sim_parsed {
    struct sim_function *function;
    struct sim_statement *statements;
    uint32_t count, capacity;
    struct sim_label *labels;
    uint32_t label_count, label_capacity;
    uint32_t *scope_parent;
    uint32_t scope_count, scope_capacity;
    enum sim_type *reg_types;
    uint32_t reg_count, reg_capacity;
    struct sim_symbol **params, **returns;
    uint32_t param_count, return_count;
    struct sim_symbol **variables; /* local, shared and parameter variables declared inside */
    uint32_t variable_count, variable_capacity;
    uint32_t index; /* in the kernel's list of functions */
};

struct sim_file_name {
    unsigned number;
    const char *path;
    int system; /* a toolkit header: work there is the caller's */
};

struct sim_function_use {
    struct sim_name name;
    uint8_t *host;
    uint64_t more, mask; /* is added to the address; the bits that are kept, shifted down */
    uint32_t bytes;
};

struct sim_module {
    struct sim_gpu *gpu;
    struct sim_arena arena;
    char *text;
    size_t bytes;
    unsigned target;
    int specific; /* the target has a letter, as sm_100a */
    struct sim_function *functions, **last_function;
    struct sim_function **by_name; /* hash table */
    uint32_t function_count, table_size;
    struct sim_function **entries;
    uint32_t entry_count;
    struct sim_symbol **globals;  /* hash table of module variables */
    struct sim_symbol *variables; /* the same, listed */
    struct sim_symbol *statics;   /* those that functions declare */
    uint32_t global_table;
    uint64_t shared_bytes; /* all module-level shared variables together */
    struct sim_file_name *files;
    uint32_t file_count, file_capacity;
    struct sim_function_use *uses; /* functions' addresses among initial values, while loading */
    uint32_t use_count, use_capacity;
    uint64_t *allocations;
    uint32_t allocation_count, allocation_capacity;
    struct sim_module *next;
};

/* sim_symbols.c */
struct sim_symbol *sim_module_variable(const struct sim_module *module, const char *name,
                                       size_t length);
struct sim_function *sim_module_function(const struct sim_module *module, const char *name,
                                         size_t length);
const char *sim_module_file(const struct sim_module *module, unsigned number, int *system);

/* ---- decoded form ---- */

/* A lane operation computes all 32 lanes: d[i] = f(a[i], b[i], c[i], e[i]); a comparison writes a
 * 32-bit mask. */
typedef void (*sim_lane_fn)(void *d, const void *a, const void *b, const void *c, const void *e);

struct sim_lane_op {
    const char *name, *mnemonic;
    uint8_t is_mask;         /* writes a mask */
    uint8_t types[5];        /* enum sim_type of d, a, b, c, e; NONE where absent */
    sim_lane_fn plain, wide; /* portable, and for AVX2 with FMA */
};
extern const struct sim_lane_op sim_lane_ops[];
/* A half as a number, and the half that is nearest to a float's bits or the next toward zero. */
double sim_half_value(uint16_t h);
uint16_t sim_half_nearest(uint32_t bits);
uint16_t sim_half_toward_zero(uint32_t bits);
extern const size_t sim_lane_op_count;
struct sim_lane_alias {
    const char *mnemonic, *target;
};
extern const struct sim_lane_alias sim_lane_aliases[];
extern const size_t sim_lane_alias_count;

int sim_lanes_wide(void); /* the processor can run the wide forms */
/* 32 lanes of 2, 4 or 8 bytes: a where the mask has a bit, else b. */
void sim_select(int wide, void *d, const void *a, const void *b, uint32_t mask, uint32_t bytes);

/* Instructions of whole warps that have a result; sim_exec_warp.c has a function for each. Like
 * WARPSYNC, they wait for the lanes of their member mask. */
#define SIM_WARP_OPS(X) X(SHFL) X(VOTE) X(MATCH) X(REDUX) X(ELECT) X(MOVMATRIX) X(MATRIX) X(MMA)
#define SIM_WARP_CASE(id) SIM_OP_##id : case
#define SIM_WARP_CASES SIM_WARP_OPS(SIM_WARP_CASE) SIM_OP_WARPSYNC /* case SIM_WARP_CASES: */

/* Instructions that are not lane operations. */
/* clang-format off */
#define SIM_CONTROL_OPS(X)                                                                              \
    X(LANE) X(MASK) X(BLOCK) X(BRA) X(BRX) X(CALL) X(RET) X(EXIT) X(TRAP) X(NOP)                        \
    X(PAND) X(POR) X(PXOR) X(PNOT) X(PMOV) X(PCONST) X(SELP) X(PSELP) X(SREG) X(LOCALADDR)              \
    X(ADDCC) X(SUBCC) X(MADCC) X(LD) X(ST) X(LDPARAM) X(ATOM) X(CVTA) X(ISSPACEP) X(PREFETCH)          \
    SIM_WARP_OPS(X) X(WARPSYNC) X(ACTIVEMASK)                                                           \
    X(BAR) X(FENCE) X(NANOSLEEP) X(CPASYNC) X(CPWAIT) X(BULK) X(MBAR) X(TEX) X(VCOPY) X(SYSCALL) X(ALLOCA) X(TRACE) X(WATCH)

enum sim_op {
#define SIM_X(id) SIM_OP_##id,
    SIM_CONTROL_OPS(SIM_X)
#undef SIM_X
    SIM_OP_COUNT
};

#define SIM_CLASSES(X)                                                                                  \
    X(NONE, blocks) X(INTEGER, inst_integer) X(MULTIPLY, inst_multiply) X(DIVIDE, inst_divide)          \
    X(CONVERT, inst_convert) X(F32, inst_f32) X(F64, inst_f64) X(F16, inst_f16) X(SPECIAL, inst_special) \
    X(MOVE, inst_move) X(GLOBAL, inst_global) X(SHARED, inst_shared) X(LOCAL, inst_local)               \
    X(CONST, inst_const) X(TEXTURE, inst_texture) X(CONTROL, inst_control) X(BARRIER, inst_barrier) X(WARP, inst_warp)
enum sim_class {
#define SIM_X(id, field) SIM_CLASS_##id,
    SIM_CLASSES(SIM_X)
#undef SIM_X
    SIM_CLASS_COUNT
};
/* clang-format on */

enum { /* flags: whatever the fast path does not handle */
       SIM_F_GUARD = 1,
       SIM_F_GUARD_NOT = 2,
       SIM_F_MODS = 4,    /* rounding, ftz or sat around a lane operation */
       SIM_F_DIV = 8,     /* check for a zero divisor */
       SIM_F_HELPER = 16, /* made by the decoder: no instruction of the program, never counted */
       SIM_F_LATER = 32   /* an asynchronous store or reduction: sim_exec_later() */
};
enum {                  /* mods */
       SIM_M_ROUND = 3, /* 0 nearest, 1 zero, 2 down, 3 up */
       SIM_M_FTZ = 4,
       SIM_M_SAT = 8,
       SIM_M_RELU = 16,
       SIM_M_ODD = 32 /* machine code has a subroutine for odd operands: they are counted */
};

enum sim_order {
    SIM_ORDER_WEAK,
    SIM_ORDER_VOLATILE,
    SIM_ORDER_RELAXED,
    SIM_ORDER_ACQUIRE,
    SIM_ORDER_RELEASE,
    SIM_ORDER_ACQ_REL
};

/* Formats of 8 bits and fewer, of which registers hold two: name in PTX, mantissa bits, bias, code
 * of the largest number and of NaN (or, without NaN, of that number), bits. */
/* clang-format off */
#define SIM_SMALL_FORMATS(X)                                                                     \
    X(E4M3, "e4m3x2", 3, 7, 0x7e, 0x7f, 8)  X(E5M2, "e5m2x2", 2, 15, 0x7b, 0x7f, 8)              \
    X(E2M3, "e2m3x2", 3, 1, 0x1f, 0x1f, 6)  X(E3M2, "e3m2x2", 2, 3, 0x1f, 0x1f, 6)               \
    X(E2M1, "e2m1x2", 1, 1, 0x07, 0x07, 4)
/* clang-format on */
enum { SIM_SMALL_RELU = 64, SIM_SMALL_FINITE = 128, SIM_SMALL_AWAY = 256, SIM_SMALL_SIGNED = 512 };

/* Video instructions: how is an operation, with SIM_VIDEO_*. */
enum {
    SIM_VIDEO_ADD,
    SIM_VIDEO_SUB,
    SIM_VIDEO_DIFF,
    SIM_VIDEO_MIN,
    SIM_VIDEO_MAX,
    SIM_VIDEO_SHL,
    SIM_VIDEO_SHR,
    SIM_VIDEO_OPS = 7,
    SIM_VIDEO_SIGNED = 1 << 3,   /* the result */
    SIM_VIDEO_SIGNED_A = 1 << 4, /* the operands */
    SIM_VIDEO_SIGNED_B = 1 << 5,
    SIM_VIDEO_SAT = 1 << 6,
    SIM_VIDEO_WRAP = 1 << 7,
    SIM_VIDEO_THEN_ADD = 1 << 8, /* with the third operand */
    SIM_VIDEO_THEN_MIN = 1 << 9,
    SIM_VIDEO_THEN_MAX = 1 << 10
};

#define SIM_NO_SLOT UINT32_MAX

/* Variants that the decoder stores in sim_insn.sub. */
#define SIM_ATOMICS(X) X(ADD) X(MIN) X(MAX) X(INC) X(DEC) X(AND) X(OR) X(XOR) X(EXCH) X(CAS)
enum sim_atomic {
#define SIM_X(id) SIM_ATOM_##id,
    SIM_ATOMICS(SIM_X)
#undef SIM_X
};
/* struct sim_statement's `compared`; from the last on, rows of matrices, each of 8 lanes */
enum { SIM_LD_PLAIN, SIM_LD_COMPARED, SIM_LD_ROWS };
enum { SIM_MMA_TALL = 1, SIM_MMA_SAT = 2, SIM_MMA_SIGNED_A = 4, SIM_MMA_SIGNED_B = 8 };
enum { SIM_CALL_DIRECT, SIM_CALL_INDIRECT };
enum { SIM_SHFL_UP, SIM_SHFL_DOWN, SIM_SHFL_BFLY, SIM_SHFL_IDX };
enum { SIM_VOTE_ALL, SIM_VOTE_ANY, SIM_VOTE_UNI, SIM_VOTE_BALLOT };
enum { SIM_BAR_SYNC, SIM_BAR_ARRIVE, SIM_BAR_POPC, SIM_BAR_AND, SIM_BAR_OR };
/* Textures: what an instruction does, its coordinates in the kernel's extra operands, a query's
 * attribute, and a surface's rule for coordinates outside. */
enum {
    SIM_TEX_FETCH,
    SIM_TEX_GRAD,
    SIM_TEX_GATHER,
    SIM_TEX_QUERY,
    SIM_TEX_SULD,
    SIM_TEX_SUST,
    SIM_TEX_SURED
};
enum { SIM_TEX_X, SIM_TEX_LAYER = 3, SIM_TEX_LOD, SIM_TEX_DX, SIM_TEX_DY = 8, SIM_TEX_SLOTS = 11 };
enum {
    SIM_TEX_WIDTH = 1,
    SIM_TEX_HEIGHT,
    SIM_TEX_DEPTH,
    SIM_TEX_LAYERS,
    SIM_TEX_LEVELS,
    SIM_TEX_IS_NORMALISED,
    SIM_TEX_IS_TEXTURE,
    SIM_TEX_IS_SURFACE,
    SIM_TEX_IS_SAMPLER
};
enum {
    SIM_SURF_TRAP,
    SIM_SURF_CLAMP,
    SIM_SURF_ZERO,
    SIM_SURF_OUTSIDE = 3, /* the bits of these */
    SIM_SURF_TEXELS = 4   /* x counts texels, not bytes */
};
enum { /* 1d to 3d: the dimensions */
       SIM_GEOM_1D = 1,
       SIM_GEOM_2D,
       SIM_GEOM_3D,
       SIM_GEOM_A1D,
       SIM_GEOM_A2D,
       SIM_GEOM_CUBE,
       SIM_GEOM_ACUBE
};
enum {
    SIM_MBAR_INIT,
    SIM_MBAR_INVAL,
    SIM_MBAR_ARRIVE,
    SIM_MBAR_ARRIVE_DROP,
    SIM_MBAR_EXPECT,
    SIM_MBAR_ARRIVE_EXPECT,
    SIM_MBAR_COMPLETE,
    SIM_MBAR_WAIT,
    SIM_MBAR_WAIT_PARITY,
    SIM_MBAR_PENDING,
    SIM_MBAR_CPASYNC,
    SIM_MBAR_LATER /* tracks the lane's last asynchronous store or reduction */
};
enum { SIM_BULK_IN, SIM_BULK_OUT, SIM_BULK_WITHIN }; /* of shared memory */
enum { SIM_WAIT_COMMIT, SIM_WAIT_GROUP, SIM_WAIT_ALL };
enum { SIM_CALL_VPRINTF, SIM_CALL_ASSERT, SIM_CALL_MALLOC, SIM_CALL_FREE };
enum { SIM_SCOPE_CTA, SIM_SCOPE_GPU, SIM_SCOPE_SYS };

/* How an address is formed, in sim_insn.dst2 of memory instructions. */
enum { SIM_A_BASE32 = 1, SIM_A_FRAME = 2, SIM_A_INTERNAL = 4 };

struct sim_insn {
    sim_lane_fn fn; /* LANE, MASK */
    uint16_t op;
    uint8_t flags, mods;
    uint8_t type, space, vec, order; /* memory: element type; others: a variant */
    uint8_t dsize, sub, scope, class;
    uint32_t dst, a, b, c, e; /* byte offsets in the frame */
    uint32_t guard;
    uint32_t ext; /* branch target, block, or index into the kernel's extra operands */
    uint32_t dst2;
    int64_t imm;
};

struct sim_where {
    unsigned ptx_line, file, line;
    uint16_t lane_op; /* which row, for the disassembler and the classes */
    uint16_t flops;   /* per thread; high bits: precision 0 f16, 1 f32, 2 f64 */
    const char *text; /* its mnemonic in the module's text */
    uint64_t from;    /* of its statement, as the following */
    uint8_t same;     /* the `data` of a stored value */
};

struct sim_block_info {    /* a basic block */
    uint32_t first, count; /* first instruction, instructions that count */
    uint32_t reconverge;   /* where a branch at its end reconverges (pc), or UINT32_MAX */
};

struct sim_code_function {
    struct sim_function *function;
    uint32_t entry_pc, end_pc;
    uint32_t frame_bytes; /* constants first, then registers */
    uint32_t registers_offset, const_offset, const_bytes;
    const uint8_t *constants;
    uint32_t local_bytes;
    uint32_t scratch; /* offset in local memory: arguments of calls that are no variables */
    uint32_t param_count, return_count;
    uint32_t *param_offsets, *param_sizes, *return_offsets,
        *return_sizes; /* in the function's local memory */
};

struct sim_kernel {
    struct sim_module *module;
    struct sim_function *function;
    char title[121]; /* its name in the source, for messages */
    struct sim_arena arena;
    struct sim_insn *code;
    struct sim_where *where;
    uint32_t code_count;
    struct sim_block_info *blocks;
    uint32_t block_count;
    uint32_t *extra;
    uint32_t extra_count;
    struct sim_code_function *functions;
    uint32_t function_count;
    struct sim_param *params;
    uint32_t param_count, param_bytes;
    uint64_t shared_bytes;                /* static, module-level and reserved included */
    uint64_t dynamic_at;                  /* where dynamic shared memory begins */
    uint32_t reserved_at, reserved_bytes; /* the system's part of shared_bytes */
    uint32_t registers;
    uint32_t *unassigned, unassigned_count; /* slots that the kernel reads and never writes */
    int communicates, recursive, allocates;
};

/* sim_rows.c */
int sim_rows_build(void);               /* once per process; 0 if the table is too small */
int sim_row_find(const char *mnemonic); /* -1 if none */

/* Special registers: name, and where a lane's value comes from (see sim_exec_lane.c). */
/* clang-format off */
#define SIM_SPECIALS(X)                                                                                            \
    X(TID_X, "%tid.x") X(TID_Y, "%tid.y") X(TID_Z, "%tid.z") X(NTID_X, "%ntid.x") X(NTID_Y, "%ntid.y")             \
    X(NTID_Z, "%ntid.z") X(CTAID_X, "%ctaid.x") X(CTAID_Y, "%ctaid.y") X(CTAID_Z, "%ctaid.z")                      \
    X(NCTAID_X, "%nctaid.x") X(NCTAID_Y, "%nctaid.y") X(NCTAID_Z, "%nctaid.z") X(LANEID, "%laneid")                \
    X(WARPID, "%warpid") X(NWARPID, "%nwarpid") X(SMID, "%smid") X(NSMID, "%nsmid") X(GRIDID, "%gridid")           \
    X(LANEMASK_EQ, "%lanemask_eq") X(LANEMASK_LE, "%lanemask_le") X(LANEMASK_LT, "%lanemask_lt")                   \
    X(LANEMASK_GE, "%lanemask_ge") X(LANEMASK_GT, "%lanemask_gt") X(CLOCK, "%clock") X(CLOCK_HI, "%clock_hi")      \
    X(CLOCK64, "%clock64") X(GLOBALTIMER, "%globaltimer") X(GLOBALTIMER_LO, "%globaltimer_lo")                     \
    X(GLOBALTIMER_HI, "%globaltimer_hi") X(DYN_SMEM, "%dynamic_smem_size") X(TOTAL_SMEM, "%total_smem_size")       \
    X(AGGR_SMEM, "%aggr_smem_size") X(ENVREG1, "%envreg1") X(ENVREG2, "%envreg2") X(ENVREG_ZERO, "%envreg0")       \
    X(CLUSTERID_X, "%clusterid.x") X(CLUSTERID_Y, "%clusterid.y") X(CLUSTERID_Z, "%clusterid.z")                   \
    X(NCLUSTERID_X, "%nclusterid.x") X(NCLUSTERID_Y, "%nclusterid.y") X(NCLUSTERID_Z, "%nclusterid.z")             \
    X(CLUSTER_CTAID_X, "%cluster_ctaid.x") X(CLUSTER_CTAID_Y, "%cluster_ctaid.y")                                  \
    X(CLUSTER_CTAID_Z, "%cluster_ctaid.z") X(CLUSTER_NCTAID_X, "%cluster_nctaid.x")                                \
    X(CLUSTER_NCTAID_Y, "%cluster_nctaid.y") X(CLUSTER_NCTAID_Z, "%cluster_nctaid.z")                              \
    X(CLUSTER_CTARANK, "%cluster_ctarank") X(CLUSTER_NCTARANK, "%cluster_nctarank")                                \
    X(IS_EXPLICIT_CLUSTER, "%is_explicit_cluster") X(WARP_SZ, "WARP_SZ")                                           \
    X(RESERVED_BEGIN, "%reserved_smem_offset_begin") X(RESERVED_END, "%reserved_smem_offset_end")                  \
    X(RESERVED_CAP, "%reserved_smem_offset_cap") X(RESERVED_0, "%reserved_smem_offset_0")                          \
    X(RESERVED_1, "%reserved_smem_offset_1")
enum sim_special {
#define SIM_X(id, name) SIM_SPECIAL_##id,
    SIM_SPECIALS(SIM_X)
#undef SIM_X
    SIM_SPECIAL_COUNT
};
/* clang-format on */
int sim_special_find(const char *name, size_t length); /* -1 if none */

/* ---- memory ---- */

/* Windows of the generic address space. Global memory lies below; address 0 is never valid. */
#define SIM_GLOBAL_BASE 0x0000010000000000ull
#define SIM_WINDOW_BASE 0x0000700000000000ull
#define SIM_SHARED_WINDOW 0x0000700000000000ull
#define SIM_LOCAL_WINDOW 0x0000710000000000ull
#define SIM_PARAM_WINDOW 0x0000720000000000ull
#define SIM_WINDOW_BYTES 0x0000010000000000ull
/* Addresses of functions lie in no memory. */
#define SIM_FUNCTION_BASE 0x0000780000000000ull
#define SIM_FUNCTION_BYTES 16u
static inline uint64_t sim_function_address(const struct sim_function *function) {
    return SIM_FUNCTION_BASE + (uint64_t)function->ordinal * SIM_FUNCTION_BYTES;
}

#define SIM_CELLS_A_PAGE 512u
struct sim_cells {
    uint64_t cells[SIM_CELLS_A_PAGE];
    uint16_t pcs[SIM_CELLS_A_PAGE];
};

struct sim_region {
    uint64_t base, bytes;
    uint8_t *host;
    uint64_t *valid;          /* one bit a byte; NULL once all bytes are initialized */
    uint64_t *cells;          /* race cells, one a word */
    uint16_t *pcs;            /* the instruction of each cell; 65535: unknown */
    struct sim_cells **pages; /* further cells, in pages allocated when needed: see below */
    int any_after;            /* whether there are cells for reads after a write */
    uint8_t *touched; /* one byte a sector: bit 0 loaded, bit 1 stored, in this launch; NULL if not
                         counted */
    uint8_t read_only, module_owned, is_heap;
    uint8_t
        is_copy; /* of an array, for one launch: only a kernel may know its address afterwards */
};
#define SIM_PAGES_ALWAYS (16ull << 20) /* bytes of such pages that every GPU may use */

/* Further cells: one a word for its reads after a write, one a byte, and one a byte for the byte's
 * reads after a write. Each kind begins at a page of its own. */
static inline uint64_t sim_pages_by_word(const struct sim_region *region) {
    return (region->bytes / 4 + SIM_CELLS_A_PAGE) / SIM_CELLS_A_PAGE;
}
static inline uint64_t sim_pages(const struct sim_region *region) {
    return sim_pages_by_word(region) * 9;
}

struct sim_freed {
    uint64_t base, bytes;
    uint8_t is_copy; /* the user has freed nothing: see sim_region */
};

struct sim_gpu {
    pthread_mutex_t lock;
    const struct sim_preset *preset;
    struct sim_limits limits;
    struct sim_region *regions; /* sorted by base */
    size_t region_count;
    uint32_t region_capacity, freed_capacity;
    struct sim_freed *freed;
    size_t freed_count;
    uint64_t next_address, used_bytes;
    uint64_t page_bytes; /* of all regions' pages of race cells */
    struct sim_texture *textures;
    size_t texture_count;
    struct sim_module *modules;
    uint32_t launches;
    uint64_t grid_sync;    /* the barrier of cooperative launches */
    struct sim_heap *heap; /* see sim_heap.c; NULL until a kernel needs it */
};

enum sim_status sim_memory_allocate(struct sim_gpu *gpu, uint64_t bytes, uint64_t align,
                                    int module_owned, uint64_t *address, struct sim_error *error);
enum sim_status sim_memory_release(struct sim_gpu *gpu, uint64_t address, struct sim_error *error);
struct sim_region *sim_memory_find(struct sim_gpu *gpu, uint64_t address);
const struct sim_freed *sim_memory_find_freed(const struct sim_gpu *gpu, uint64_t address);
void sim_memory_mark(struct sim_region *region, uint64_t offset, uint64_t bytes);
int sim_memory_is_valid(const struct sim_region *region, uint64_t offset, uint64_t bytes);
void sim_memory_close(struct sim_gpu *gpu);
void sim_memory_forget_races(struct sim_gpu *gpu, struct sim_region *region);

/* ---- sim_heap.c: memory that kernels allocate ---- */
struct sim_taken {
    struct sim_region *region;
    uint64_t offset, bytes;
};
enum sim_status sim_heap_open(struct sim_gpu *gpu, struct sim_error *error);
void sim_heap_close(struct sim_gpu *gpu);
/* The address of a block, or 0. */
uint64_t sim_heap_take(struct sim_gpu *gpu, uint64_t bytes, struct sim_taken *taken);
/* Frees a block; `where` is the place that a later access to it names. 0: there is no such block.
 */
int sim_heap_give(struct sim_gpu *gpu, uint64_t address, const char *where);
/* Whether blocks in use own all bytes of an access to the heap. */
int sim_heap_is_live(const struct sim_gpu *gpu, uint64_t address, uint32_t bytes);
struct sim_heap_block {
    uint64_t base, bytes; /* as malloc returned it; base 0: none */
    const char *freed;    /* where; NULL: it is in use */
};
/* The last block that begins before an address of the heap. 0: the address is elsewhere. */
int sim_heap_block(const struct sim_gpu *gpu, uint64_t address, struct sim_heap_block *block);

int sim_add(uint64_t a, uint64_t b, uint64_t *sum); /* 0 on overflow */
int sim_multiply(uint64_t a, uint64_t b, uint64_t *product);

#endif
