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

/* CODE or NO_CODE: whether an image has machine code beside its PTX. */
#define EMBED_CODE(name) EMBED(gpuopt_code_##name, #name ".fatbin")
#define EMBED_NO_CODE(name) _Static_assert(1, "")
#define ENDS_CODE(name) gpuopt_code_##name, gpuopt_code_##name##_end
#define ENDS_NO_CODE(name) NULL, NULL

#define KERNEL(symbol, image, ...)
#define SOURCES(...)
#define BLOCK(...)
#define IMAGE(name, code, ...) EMBED_##code(name);
#include "images.def"
#undef IMAGE

#define IMAGE(name, code, ...) {#name, ENDS_##code(name), {__VA_ARGS__}},
const struct device_image gpuopt_images[] = {
#include "images.def"
};
#undef IMAGE
#undef KERNEL
const size_t gpuopt_image_count = sizeof gpuopt_images / sizeof *gpuopt_images;
_Static_assert(sizeof gpuopt_images / sizeof *gpuopt_images <= DEVICE_IMAGES_MAX,
               "more files of kernels: raise DEVICE_IMAGES_MAX");

#define IMAGE(name, code, ...)
#define KERNEL(symbol, image, ...) {#symbol, &gpuopt_images[image], {__VA_ARGS__}},
const struct image_kernel gpuopt_kernels[] = {
#include "images.def"
};
#undef KERNEL
#undef SOURCES
#undef BLOCK
const size_t gpuopt_kernel_count = sizeof gpuopt_kernels / sizeof *gpuopt_kernels;

/* The archive's streams: where each begins, its compressed bytes and those of its text. */
#define KERNEL(symbol, image, ...)
#define SOURCES(...)
#define BLOCK(...) __VA_ARGS__,
static const struct {
    uint32_t offset, packed, bytes;
} blocks[] = {
#include "images.def"
};
#undef SOURCES
#undef BLOCK

size_t gpuopt_archive_bytes(void) {
    const size_t last = sizeof blocks / sizeof *blocks - 1;
    return (size_t)blocks[last].offset + blocks[last].packed;
}

#define BLOCK(...)
#define SOURCES(...) static const struct image_chunk sources = __VA_ARGS__;
#include "images.def"

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

/* Joins two chunks to one text with a NUL at its end, which the caller frees. */
static enum status join(struct image_chunk first, struct image_chunk second, char **text,
                        size_t *bytes) {
    *bytes = (size_t)first.bytes + second.bytes;
    *text = malloc(*bytes + 1);
    enum status status = STATUS_OK;
    if (!*text)
        return status_fail(STATUS_NO_HOST_MEMORY, "no memory for %zu bytes of PTX", *bytes + 1);
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

enum status gpuopt_sources(char **text, size_t *bytes) {
    return join(sources, (struct image_chunk){0}, text, bytes);
}
