/* image.c: the compiled kernels, taken into the extension as they are. setup.py compiles them and
 * names their folder in GPUOPT_IMAGE_DIR.
 */
#include "device.h"

#define EMBED(symbol, file)                                           \
    __asm__(".pushsection .rodata\n"                                  \
            ".globl " #symbol ", " #symbol "_size\n"                  \
            ".hidden " #symbol ", " #symbol "_size\n"                 \
            ".balign 16\n" #symbol ":\n"                              \
            ".incbin \"" GPUOPT_IMAGE_DIR "/" file "\"\n"             \
            "0: .byte 0\n"                                            \
            ".balign 8\n" #symbol "_size:\n"                          \
            ".quad 0b - " #symbol "\n"                                \
            ".popsection\n");                                         \
    extern __attribute__((visibility("hidden"))) const char symbol[]; \
    extern __attribute__((visibility("hidden"))) const uint64_t symbol##_size

EMBED(gpuopt_machine_code, "kernels.fatbin");
EMBED(gpuopt_ptx, "kernels.ptx");

const struct device_image *gpuopt_image(void) {
    static struct device_image image; /* another object's value is no constant to C: filled here */
    image = (struct device_image){
        .machine_code = gpuopt_machine_code,
        .machine_code_size = gpuopt_machine_code_size,
        .ptx = gpuopt_ptx,
        .ptx_size = gpuopt_ptx_size,
    };
    return &image;
}
