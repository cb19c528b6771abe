/* cuda_texture.c: texture and surface objects over linear memory and arrays. Invariant: an array
 * lives as long as its objects. Knows no kernel.
 */
#include "cuda_queue.h"

#include <stdlib.h>
#include <string.h>

#define MOST(what) CU_DEVICE_ATTRIBUTE_MAXIMUM_##what

/* Checks the GPU's limits and names them: the driver only reports "invalid value". */
static enum status check_size(const struct gpu *gpu, const struct device_texture *texture) {
    static const CUdevice_attribute attributes[8][3] = {
        {MOST(TEXTURE1D_LINEAR_WIDTH)},
        {MOST(TEXTURE1D_WIDTH)},
        {MOST(TEXTURE2D_WIDTH), MOST(TEXTURE2D_HEIGHT)},
        {MOST(TEXTURE3D_WIDTH), MOST(TEXTURE3D_HEIGHT), MOST(TEXTURE3D_DEPTH)},
        {MOST(TEXTURE1D_LAYERED_WIDTH), 0, MOST(TEXTURE1D_LAYERED_LAYERS)},
        {MOST(TEXTURE2D_LAYERED_WIDTH), MOST(TEXTURE2D_LAYERED_HEIGHT),
         MOST(TEXTURE2D_LAYERED_LAYERS)},
        {MOST(TEXTURECUBEMAP_WIDTH), MOST(TEXTURECUBEMAP_WIDTH)},
        {MOST(TEXTURECUBEMAP_LAYERED_WIDTH), MOST(TEXTURECUBEMAP_LAYERED_WIDTH),
         MOST(TEXTURECUBEMAP_LAYERED_LAYERS)},
    };
    const unsigned row = texture->cube      ? 6u + texture->layered
                         : texture->layered ? 3u + texture->dimensions
                                            : texture->dimensions;
    const unsigned slices = texture->layered ? texture->layers : texture->depth;
    const unsigned asked[3] = {texture->width, texture->height, slices};
    int most[3] = {1, 1, 1};
    enum status status = STATUS_OK;
    bool fits = true;
    for (int i = 0; i < 3 && !status; i++) {
        const CUdevice_attribute attribute = attributes[row][i];
        if (attribute)
            status = cuda_check(cuda.cuDeviceGetAttribute(&most[i], attribute, gpu->device),
                                "cuDeviceGetAttribute");
        fits &= asked[i] <= (unsigned)most[i];
    }
    if (!status && !fits)
        return status_fail(STATUS_BAD_VALUE,
                           "cuda:%d: a texture of %u x %u x %u texels is larger than the GPU's "
                           "%d x %d x %d",
                           gpu->ordinal, asked[0], asked[1], asked[2], most[0], most[1], most[2]);
    return status;
}

enum {
    FORMAT_FLOAT32 = CU_AD_FORMAT_FLOAT,
    FORMAT_INT32 = CU_AD_FORMAT_SIGNED_INT32,
    FORMAT_UINT32 = CU_AD_FORMAT_UNSIGNED_INT32,
    FORMAT_UINT8 = CU_AD_FORMAT_UNSIGNED_INT8,
    FORMAT_INT8 = CU_AD_FORMAT_SIGNED_INT8,
    FORMAT_UINT16 = CU_AD_FORMAT_UNSIGNED_INT16,
    FORMAT_INT16 = CU_AD_FORMAT_SIGNED_INT16,
    FORMAT_FLOAT16 = CU_AD_FORMAT_HALF,
};
static const CUarray_format formats[TEXEL_COUNT] = {
#define TEXEL(name, bytes) [TEXEL_##name] = (CUarray_format)FORMAT_##name,
    DEVICE_TEXELS(TEXEL)
#undef TEXEL
};

/* Whether tex2Dgather may read the array, which has to be made for it and is smaller at most. The
 * driver refuses the flag for layers and cubes. */
static bool gathers(const struct gpu *gpu, const struct device_texture *texture) {
    int width = 0, height = 0;
    return texture->dimensions == 2 && !texture->layered && !texture->cube &&
           texture->levels == 1 &&
           !cuda.cuDeviceGetAttribute(&width, MOST(TEXTURE2D_GATHER_WIDTH), gpu->device) &&
           !cuda.cuDeviceGetAttribute(&height, MOST(TEXTURE2D_GATHER_HEIGHT), gpu->device) &&
           texture->width <= (unsigned)width && texture->height <= (unsigned)height;
}

static unsigned halved(unsigned extent, unsigned level) {
    return extent >> level ? extent >> level : 1;
}

static enum status copy_level(struct queue *queue, const struct device_texture *texture,
                              unsigned level, CUdeviceptr from, CUarray to) {
    const size_t rows = halved(texture->height, level),
                 slices = texture->layers > 1 ? texture->layers : halved(texture->depth, level),
                 row = device_level_bytes(texture, level) / rows / slices;
    const CUDA_MEMCPY3D copy = {
        .srcMemoryType = CU_MEMORYTYPE_DEVICE,
        .srcDevice = from,
        .srcPitch = row,
        .srcHeight = rows,
        .dstMemoryType = CU_MEMORYTYPE_ARRAY,
        .dstArray = to,
        .WidthInBytes = row,
        .Height = rows,
        .Depth = slices,
    };
    return cuda_check(cuda.cuMemcpy3DAsync(&copy, queue->stream), "cuMemcpy3DAsync");
}

static enum status array_open(struct queue *queue, const struct device_texture *texture,
                              struct texture *made) {
    const bool in_layers = texture->layered || texture->cube;
    const CUDA_ARRAY3D_DESCRIPTOR shape = {
        .Width = texture->width,
        .Height = texture->dimensions > 1 ? texture->height : 0,
        .Depth = in_layers                 ? texture->layers
                 : texture->dimensions > 2 ? texture->depth
                                           : 0,
        .Format = formats[texture->texel],
        .NumChannels = texture->channels,
        .Flags = (texture->layered ? CUDA_ARRAY3D_LAYERED : 0u) |
                 (texture->cube ? CUDA_ARRAY3D_CUBEMAP : 0u) |
                 (texture->writable ? CUDA_ARRAY3D_SURFACE_LDST : 0u) |
                 (gathers(queue->gpu, texture) ? CUDA_ARRAY3D_TEXTURE_GATHER : 0u),
    };
    const size_t bytes = device_texture_bytes(texture);
    enum status status;
    if (texture->levels > 1)
        status = cuda_check_memory(
            queue->gpu, cuda.cuMipmappedArrayCreate(&made->levels, &shape, texture->levels), bytes,
            "cuMipmappedArrayCreate");
    else
        status = cuda_check_memory(queue->gpu, cuda.cuArray3DCreate(&made->array, &shape), bytes,
                                   "cuArray3DCreate");
    CUdeviceptr from = texture->data;
    for (unsigned level = 0; level < texture->levels && !status; level++) {
        CUarray array = made->array;
        if (made->levels)
            status = cuda_check(cuda.cuMipmappedArrayGetLevel(&array, made->levels, level),
                                "cuMipmappedArrayGetLevel");
        if (!status)
            status = copy_level(queue, texture, level, from, array);
        made->array = level ? made->array : array;
        from += device_level_bytes(texture, level);
    }
    made->rows = texture->height;
    made->slices = texture->layers > 1 ? texture->layers : texture->depth;
    made->row = device_level_bytes(texture, 0) / made->rows / made->slices;
    return status;
}

static enum status objects_open(const struct device_texture *texture, struct texture *made) {
    CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_ARRAY};
    enum status status = STATUS_OK;
    if (made->array) {
        resource.res.array.hArray = made->array;
        if (texture->writable)
            status = cuda_check(cuda.cuSurfObjectCreate(&made->surface, &resource),
                                "cuSurfObjectCreate");
    } else {
        resource.resType = CU_RESOURCE_TYPE_LINEAR;
        resource.res.linear.devPtr = texture->data;
        resource.res.linear.format = formats[texture->texel];
        resource.res.linear.numChannels = texture->channels;
        resource.res.linear.sizeInBytes = device_texture_bytes(texture);
    }
    if (status)
        return status;
    if (made->levels) {
        resource.resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
        resource.res.mipmap.hMipmappedArray = made->levels;
    }
    static const CUaddress_mode modes[OUTSIDE_COUNT] = {
        [OUTSIDE_WRAP] = CU_TR_ADDRESS_MODE_WRAP,
        [OUTSIDE_CLAMP] = CU_TR_ADDRESS_MODE_CLAMP,
        [OUTSIDE_MIRROR] = CU_TR_ADDRESS_MODE_MIRROR,
        [OUTSIDE_BORDER] = CU_TR_ADDRESS_MODE_BORDER,
    };
    const CUaddress_mode outside = modes[texture->outside];
    CUDA_TEXTURE_DESC sampling = {
        .addressMode = {outside, outside, outside},
        .filterMode = texture->linear_filter ? CU_TR_FILTER_MODE_LINEAR : CU_TR_FILTER_MODE_POINT,
        .flags = texture->normalised ? CU_TRSF_NORMALIZED_COORDINATES : 0,
        .mipmapFilterMode =
            texture->linear_levels ? CU_TR_FILTER_MODE_LINEAR : CU_TR_FILTER_MODE_POINT,
        .mipmapLevelBias = texture->level_bias,
        .maxMipmapLevelClamp = (float)(texture->levels - 1),
    };
    memcpy(sampling.borderColor, texture->border, sizeof texture->border);
    if (texture->as_integer || texture->texel == TEXEL_INT32 || texture->texel == TEXEL_UINT32)
        sampling.flags |= CU_TRSF_READ_AS_INTEGER;
    return cuda_check(cuda.cuTexObjectCreate(&made->object, &resource, &sampling, NULL),
                      "cuTexObjectCreate");
}

void cuda_texture_end(struct texture **at) {
    struct texture *texture = *at;
    *at = texture->next;
    if (texture->object)
        cuda.cuTexObjectDestroy(texture->object);
    if (texture->surface)
        cuda.cuSurfObjectDestroy(texture->surface);
    if (texture->levels) /* and with it the array of its first level */
        cuda.cuMipmappedArrayDestroy(texture->levels);
    else if (texture->array)
        cuda.cuArrayDestroy(texture->array);
    free(texture);
}

enum status cuda_texture_open(struct device *device, const struct device_texture *texture,
                              struct device_texture_handles *handles) {
    struct queue *queue = queue_of(device);
    *handles = (struct device_texture_handles){0};
    enum status status = cuda_enter(queue->gpu);
    if (status)
        return status;
    struct texture *made = malloc(sizeof *made);
    if (!made)
        return cuda_leave(queue->gpu,
                          status_fail(STATUS_NO_HOST_MEMORY, "cuda: no memory for a texture"));
    *made = (struct texture){.next = queue->textures};
    queue->textures = made;
    status = check_size(queue->gpu, texture);
    if (!status && texture->dimensions)
        status = array_open(queue, texture, made);
    if (!status)
        status = objects_open(texture, made);
    if (status) {
        cuda.cuStreamSynchronize(queue->stream); /* copies of rows may be in flight */
        cuda_texture_end(&queue->textures);
    } else {
        *handles = (struct device_texture_handles){made->object, made->surface};
    }
    return cuda_leave(queue->gpu, status);
}

enum status cuda_texture_read(struct device *device, uint64_t handle, void *to, size_t bytes) {
    struct queue *queue = queue_of(device);
    const struct texture *texture = queue->textures;
    while (texture && texture->object != handle)
        texture = texture->next;
    if (!texture || !texture->array || bytes != texture->row * texture->rows * texture->slices)
        return status_fail(STATUS_BAD_VALUE, "cuda: not an array's texture");
    const CUDA_MEMCPY3D copy = {
        .srcMemoryType = CU_MEMORYTYPE_ARRAY,
        .srcArray = texture->array,
        .dstMemoryType = CU_MEMORYTYPE_HOST,
        .dstHost = to,
        .dstPitch = texture->row,
        .dstHeight = texture->rows,
        .WidthInBytes = texture->row,
        .Height = texture->rows,
        .Depth = texture->slices,
    };
    enum status status = cuda_enter(queue->gpu);
    if (status)
        return status;
    status = cuda_check(cuda.cuMemcpy3DAsync(&copy, queue->stream), "cuMemcpy3DAsync");
    if (!status)
        status = cuda_wait(queue, NULL);
    return cuda_leave(queue->gpu, status);
}

void cuda_texture_close(struct device *device, uint64_t handle) {
    struct queue *queue = queue_of(device);
    struct texture **at = &queue->textures;
    while (*at && (*at)->object != handle)
        at = &(*at)->next;
    if (!*at || cuda_enter(queue->gpu))
        return;                              /* a lost context has destroyed everything */
    cuda.cuStreamSynchronize(queue->stream); /* a kernel may still read it */
    cuda_texture_end(at);
    cuda_leave(queue->gpu, STATUS_OK);
}
