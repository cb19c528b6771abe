/* image.c: the compiled kernels and their source, taken into the extension as they are. setup.py
 * compiles every kernels/<name>.cu and lists them, as rows IMAGE(name), in images.def.
 */
#include "device.h"

#include <string.h>

#define EMBED(symbol, file)                                                 \
    __asm__(".pushsection .rodata\n"                                        \
            ".globl " #symbol ", " #symbol "_end\n"                         \
            ".hidden " #symbol ", " #symbol "_end\n"                        \
            ".balign 16\n" #symbol ":\n"                                    \
            ".incbin \"" GPUOPT_IMAGE_DIR "/" file "\"\n" #symbol "_end:\n" \
            ".byte 0\n"                                                     \
            ".popsection\n");                                               \
    extern __attribute__((visibility("hidden"))) const char symbol[], symbol##_end[]

#define IMAGE(name)                             \
    EMBED(gpuopt_code_##name, #name ".fatbin"); \
    EMBED(gpuopt_ptx_##name, #name ".ptx");     \
    EMBED(gpuopt_kernels_##name, #name ".kernels");
#include "images.def"
#undef IMAGE
EMBED(gpuopt_sources_text, "kernels.sources");

#define IMAGE(name)               \
    {                             \
        #name,                    \
        gpuopt_code_##name,       \
        gpuopt_code_##name##_end, \
        gpuopt_ptx_##name,        \
        gpuopt_ptx_##name##_end,  \
        gpuopt_kernels_##name,    \
    },
const struct device_image gpuopt_images[] = {
#include "images.def"
};
#undef IMAGE
const size_t gpuopt_image_count = sizeof gpuopt_images / sizeof *gpuopt_images;
_Static_assert(sizeof gpuopt_images / sizeof *gpuopt_images <= DEVICE_IMAGES_MAX,
               "more files of kernels: raise DEVICE_IMAGES_MAX");

const struct device_text gpuopt_sources = {gpuopt_sources_text, gpuopt_sources_text_end};

enum status gpuopt_image_of(const char *kernel, const struct device_image **image) {
    const size_t length = strlen(kernel);
    for (size_t i = 0; i < gpuopt_image_count && length; i++)
        for (const char *line = gpuopt_images[i].kernels; (line = strstr(line, kernel)); line++)
            if (line[-1] == '\n' && line[length] == '\n') {
                *image = &gpuopt_images[i];
                return STATUS_OK;
            }
    return status_fail(STATUS_BAD_VALUE, "kernel: gpuopt has none named '%.120s'", kernel);
}
