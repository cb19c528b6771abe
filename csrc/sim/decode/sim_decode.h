/* sim_decode.h: declarations shared by the decoder's files.
 *
 * sim_decode.c           functions, frames
 * sim_emit.c             helpers of all
 * sim_decode_operand.c   operands
 * sim_decode_lane.c      arithmetic; sim_decode_packed.c: packed pairs and fours, video
 * sim_decode_memory.c    memory; sim_decode_texture.c: textures and surfaces
 * sim_decode_special.c   control flow, barriers, instructions of a whole warp
 * sim_decode_compared.c  loads whose value a compare-and-swap compares
 * sim_decode_flow.c      where addresses and stored values come from
 */
#ifndef SIM_DECODE_H
#define SIM_DECODE_H

#include "../core/sim_internal.h"
#include "../ptx/sim_forms.h"

#define SIM_TEMPS 24u

struct sim_decoder;
typedef enum sim_status (*sim_decode_fn)(struct sim_decoder *d);

/* A checked and looked-up mnemonic, shared by all statements of the kernel that use it. */
struct sim_known {
    struct sim_name text;
    struct sim_mnemonic m;
    sim_decode_fn decode;
    int row;       /* in sim_lane_ops; -1: no lane operation */
    unsigned mods; /* SIM_M_* around the row's own mnemonic */
    struct sim_known *next;
};
#define SIM_KNOWN 256u

struct sim_constant {
    uint64_t bits;
    uint32_t bytes, offset, next;
};

struct sim_decoder {
    struct sim_kernel *kernel;
    struct sim_module *module;
    struct sim_arena *arena;
    struct sim_arena scratch; /* parsed functions; freed after decoding */
    struct sim_error *error;
    struct sim_parsed **parsed;
    uint32_t parsed_count, parsed_capacity;
    uint32_t code_capacity, where_capacity, block_capacity, extra_capacity;
    /* the function being decoded */
    struct sim_parsed *f;
    struct sim_code_function *cf;
    uint32_t *slots; /* frame offset by register */
    uint32_t frame_bytes;
    struct sim_constant *constants;
    uint32_t constant_count, constant_capacity;
    uint32_t constant_heads[256];
    uint32_t carry_slot, temp_next;
    struct sim_known *known[SIM_KNOWN]; /* by hash: the kernel's mnemonics so far */
    uint32_t *statement_block; /* basic block by statement; UINT32_MAX if none starts there */
    uint32_t return_block;
    /* the statement being decoded */
    const struct sim_statement *s;
    const struct sim_mnemonic *m; /* its own */
    const struct sim_known *op;
};

enum sim_status sim_refuse(struct sim_decoder *d, const char *format, ...) SIM_PRINTF(2, 3);
enum sim_status sim_malformed(struct sim_decoder *d, const char *format, ...) SIM_PRINTF(2, 3);
enum sim_status sim_emit(struct sim_decoder *d, const struct sim_insn *insn);
enum sim_status sim_constant_slot(struct sim_decoder *d, uint64_t bits, uint32_t bytes,
                                  uint32_t *slot);
uint32_t sim_temp(struct sim_decoder *d);
uint32_t sim_storage(enum sim_type type);
/* How a register's size may differ from the instruction's type: not at all; larger; in any way. */
enum sim_fit { SIM_EXACT, SIM_WIDER, SIM_ANY_SIZE };
int sim_fits(enum sim_type have, enum sim_type want, enum sim_fit fit);
enum sim_status sim_source_fit(struct sim_decoder *d, const struct sim_operand *o,
                               enum sim_type type, enum sim_fit fit, uint32_t *slot);
enum sim_status sim_source(struct sim_decoder *d, const struct sim_operand *o, enum sim_type type,
                           uint32_t *slot); /* SIM_EXACT */
enum sim_status sim_predicate(struct sim_decoder *d, const struct sim_operand *o, uint32_t *slot);
/* A destination of the given type: returns the slot to write. After the write, sim_finish() widens
 * it. */
enum sim_status sim_target_fit(struct sim_decoder *d, const struct sim_operand *o,
                               enum sim_type type, enum sim_fit fit, uint32_t *slot);
enum sim_status sim_target(struct sim_decoder *d, const struct sim_operand *o, enum sim_type type,
                           uint32_t *slot);
enum sim_status sim_finish(struct sim_decoder *d, const struct sim_operand *o, enum sim_type type,
                           uint32_t slot);
enum sim_status sim_predicate_target(struct sim_decoder *d, const struct sim_operand *o,
                                     uint32_t *slot);
/* Emits a lane operation: a row of ops.def, by its index or its mnemonic. */
enum sim_status sim_lane_row(struct sim_decoder *d, int row, unsigned mods, uint32_t dst,
                             const uint32_t *sources, int helper);
enum sim_status sim_lane(struct sim_decoder *d, const char *mnemonic, unsigned mods, uint32_t dst,
                         const uint32_t *sources, int helper);
/* A load or store of the function's own local memory, at a fixed offset; no instruction of the
 * program. */
enum sim_status sim_frame_access(struct sim_decoder *d, enum sim_op op, enum sim_type type,
                                 uint64_t offset, uint32_t slot);
/* The same of a predicate, which is a word there. */
enum sim_status sim_frame_predicate(struct sim_decoder *d, enum sim_op op, uint64_t offset,
                                    uint32_t slot);
/* A warp-wide instruction without operands yet. */
struct sim_insn sim_warp_wide(enum sim_op op);

enum sim_status sim_extra(struct sim_decoder *d, uint32_t value, uint32_t *index);
enum sim_status sim_symbol_address(struct sim_decoder *d, const struct sim_symbol *symbol,
                                   uint64_t *address);
int sim_is_frame_local(const struct sim_symbol *symbol);
int sim_part(const struct sim_decoder *d,
             const char *text); /* whether the mnemonic has this part */
int sim_part_at(const struct sim_decoder *d, uint32_t i, const char *text);
enum sim_type sim_last_type(const struct sim_decoder *d, uint32_t from_end);
unsigned sim_modifiers(const struct sim_decoder *d);

enum sim_status sim_decode_lane(struct sim_decoder *d);
/* sim_decode_packed.c */
sim_decode_fn sim_decode_packed(const struct sim_decoder *d); /* NULL: another file's */
int sim_is_narrow(const struct sim_decoder *d);               /* a conversion of that file's */
enum sim_status sim_decode_narrow(struct sim_decoder *d);
enum sim_status sim_decode_three(struct sim_decoder *d);
int sim_find_lane(const struct sim_decoder *d, unsigned *mods); /* row of d->m; -1: none */
/* One function for each instruction that is no lane operation. */
/* clang-format off */
#define SIM_DECODERS(X)                                                                            \
    X(ld) X(st) X(atom) X(cvta) X(isspacep) X(mapa) X(createpolicy) X(cp) X(mbarrier) X(tex)       \
    X(surface) X(query)                                                                            \
    X(cvt) X(setp) X(set) X(selp) X(predicate) X(mov) X(carry) X(ldmatrix) X(mma)
/* clang-format on */
#define SIM_X(name) enum sim_status sim_decode_##name(struct sim_decoder *d);
SIM_DECODERS(SIM_X)
#undef SIM_X
/* Begins a load of matrices' rows; kind: SIM_LD_ROWS + their number. */
enum sim_status sim_decode_rows(struct sim_decoder *d, const struct sim_operand *address,
                                unsigned kind, struct sim_insn *in);
int sim_shown(struct sim_name name); /* length that an error text shows of a name */
enum sim_status sim_unsupported(struct sim_decoder *d);
enum sim_status sim_operands(struct sim_decoder *d, uint32_t least, uint32_t most);
sim_decode_fn
sim_decode_special(const struct sim_decoder *d); /* NULL: a lane operation, or unknown */
enum sim_status sim_decode_no_memory(struct sim_decoder *d);
enum sim_status sim_find_reconvergence(struct sim_decoder *d, uint32_t first, uint32_t last);
int sim_writes_first(const struct sim_statement *s);
int sim_allocate_registers(struct sim_decoder *d, uint64_t *at, uint32_t *registers);
int sim_begins_with(const struct sim_statement *s,
                    const char *word); /* whether its mnemonic does */
int sim_has_part(const struct sim_statement *s, const char *part);
enum sim_status sim_decode_kernel(struct sim_module *module, struct sim_function *function,
                                  struct sim_kernel **kernel, struct sim_error *error);
enum sim_status sim_find_compared(struct sim_decoder *d);
enum sim_status sim_find_flow(struct sim_decoder *d);
uint32_t sim_find_label(const struct sim_parsed *f, struct sim_name name, uint32_t scope);

#endif
