/* image.c: the compiled kernels and their source, taken into the extension as they are. setup.py
 * compiles them and names their folder in GPUOPT_IMAGE_DIR.
 */
#include "device.h"

#define EMBED(symbol, file)                                                 \
    __asm__(".pushsection .rodata\n"                                        \
            ".globl " #symbol ", " #symbol "_end\n"                         \
            ".hidden " #symbol ", " #symbol "_end\n"                        \
            ".balign 16\n" #symbol ":\n"                                    \
            ".incbin \"" GPUOPT_IMAGE_DIR "/" file "\"\n" #symbol "_end:\n" \
            ".byte 0\n"                                                     \
            ".popsection\n");                                               \
    extern __attribute__((visibility("hidden"))) const char symbol[], symbol##_end[]

EMBED(gpuopt_machine_code, "kernels.fatbin");
EMBED(gpuopt_ptx, "kernels.ptx");
EMBED(gpuopt_sources, "kernels.sources");

const struct device_image gpuopt_image = {
    .machine_code = gpuopt_machine_code,
    .machine_code_end = gpuopt_machine_code_end,
    .ptx = gpuopt_ptx,
    .ptx_end = gpuopt_ptx_end,
    .sources = gpuopt_sources,
    .sources_end = gpuopt_sources_end,
};
