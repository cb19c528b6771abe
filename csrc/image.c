/* image.c: the embedded kernels and their source. csrc/build_kernels.py writes their table
 * images.def and the archive kernels.xz of xz streams; the Python layer sets the decompressor.
 * Knows no device.
 */
#include "device.h"

#include <stdlib.h>
#include <string.h>

#define EMBED(symbol, file)                                                 \
    __asm__(".pushsection .rodata\n"                                        \
            ".globl " #symbol ", " #symbol "_end\n"                         \
            ".hidden " #symbol ", " #symbol "_end\n"                        \
            ".balign 16\n" #symbol ":\n"                                    \
            ".incbin \"" GPUOPT_IMAGE_DIR "/" file "\"\n" #symbol "_end:\n" \
            ".popsection\n");                                               \
    extern __attribute__((visibility("hidden"))) const char symbol[], symbol##_end[]

EMBED(gpuopt_archive, "kernels.xz");

#define CODE(capability, exact)
#define KERNEL(symbol, image, ...)
#define SOURCES(...)
#define BLOCK(...)
#define IMAGE(name, ...) {#name, __VA_ARGS__},
const struct device_image gpuopt_images[] = {
#include "images.def"
};
#undef IMAGE
#undef KERNEL
const size_t gpuopt_image_count = sizeof gpuopt_images / sizeof *gpuopt_images;

#define IMAGE(name, ...)
#define KERNEL(symbol, image, ...) {#symbol, &gpuopt_images[image], {__VA_ARGS__}},
const struct image_kernel gpuopt_kernels[] = {
#include "images.def"
};
#undef KERNEL
#undef CODE
const size_t gpuopt_kernel_count = sizeof gpuopt_kernels / sizeof *gpuopt_kernels;

/* The architectures of the machine code, in the order of each image's; 9.0a runs on 9.0 alone. */
#define KERNEL(symbol, image, ...)
#define CODE(capability, exact) {capability, exact},
static const struct {
    int capability;
    bool exact;
} codes[] = {
#include "images.def"
    {0, false}};
#undef CODE
#undef BLOCK
_Static_assert(sizeof codes / sizeof *codes <= IMAGE_CODES_MAX + 1,
               "more architectures: raise IMAGE_CODES_MAX");

/* The archive's streams: where each begins, its compressed bytes and those of its content. */
#define CODE(capability, exact)
#define BLOCK(...) __VA_ARGS__,
static const struct {
    uint32_t offset, packed, bytes;
} blocks[] = {
#include "images.def"
};
#undef SOURCES
#undef BLOCK

#define BLOCK(...)
#define SOURCES(...) static const struct image_chunk sources = __VA_ARGS__;
#include "images.def"

/* Machine code is behind the source text. */
size_t gpuopt_archive_bytes(size_t *machine_code) {
    const size_t texts = (size_t)blocks[sources.block].offset + blocks[sources.block].packed;
    *machine_code = (uintptr_t)gpuopt_archive_end - (uintptr_t)gpuopt_archive - texts;
    return texts;
}

enum status (*gpuopt_inflate)(const char *packed, size_t packed_bytes, size_t whole, size_t offset,
                              char *to, size_t bytes);

static int by_symbol(const void *symbol, const void *kernel) {
    return strcmp(symbol, ((const struct image_kernel *)kernel)->symbol);
}

enum status gpuopt_kernel_of(const char *symbol, const struct image_kernel **kernel) {
    *kernel =
        bsearch(symbol, gpuopt_kernels, gpuopt_kernel_count, sizeof *gpuopt_kernels, by_symbol);
    return *kernel
               ? STATUS_OK
               : status_fail(STATUS_BAD_VALUE, "kernel: gpuopt has none named '%.120s'", symbol);
}

static enum status inflate(struct image_chunk chunk, char *to) {
    return gpuopt_inflate(gpuopt_archive + blocks[chunk.block].offset, blocks[chunk.block].packed,
                          blocks[chunk.block].bytes, chunk.offset, to, chunk.bytes);
}

/* Joins two chunks; the caller frees the result, behind which is a NUL. */
static enum status join(struct image_chunk first, struct image_chunk second, char **text,
                        size_t *bytes) {
    *bytes = (size_t)first.bytes + second.bytes;
    *text = malloc(*bytes + 1);
    enum status status = STATUS_OK;
    if (!*text)
        return status_fail(STATUS_NO_HOST_MEMORY, "no memory for %zu bytes of a kernel",
                           *bytes + 1);
    if (!status && first.bytes)
        status = inflate(first, *text);
    if (!status && second.bytes)
        status = inflate(second, *text + first.bytes);
    (*text)[*bytes] = 0;
    if (status) {
        free(*text);
        *text = NULL;
    }
    return status;
}

enum ptx_target gpuopt_ptx_target(const struct image_kernel *kernel, int compute_capability) {
    return compute_capability >= 90 && kernel->ptx[PTX_90].bytes ? PTX_90 : PTX_75;
}

enum status gpuopt_kernel_ptx(const struct image_kernel *kernel, enum ptx_target target,
                              char **text, size_t *bytes) {
    return join(kernel->image->common[target], kernel->ptx[target], text, bytes);
}

enum status gpuopt_kernel_code(const struct image_kernel *kernel, int compute_capability,
                               char **code, size_t *bytes) {
    int best = -1, capability = 0;
    for (int i = 0; codes[i].capability; i++) {
        const int made_for = codes[i].capability;
        const bool runs = codes[i].exact ? made_for == compute_capability
                                         : made_for / 10 == compute_capability / 10 &&
                                               made_for <= compute_capability;
        if (runs && made_for >= capability) {
            best = i;
            capability = made_for;
        }
    }
    *code = NULL;
    *bytes = 0;
    return best < 0 ? STATUS_OK
                    : join(kernel->image->code[best], (struct image_chunk){0}, code, bytes);
}

enum status gpuopt_sources(char **text, size_t *bytes) {
    return join(sources, (struct image_chunk){0}, text, bytes);
}
