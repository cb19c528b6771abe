// Layered, cube and mipmapped textures, gathers, and surfaces: one point a thread.
#define I threadIdx.x
#define POINT const float *x, const float *y, const float *z, const int *layer, const float *level
extern "C" {
__global__ void layered1(cudaTextureObject_t t, float4 *o, POINT) { o[I] = tex1DLayered<float4>(t, x[I], layer[I]); }
__global__ void layered2(cudaTextureObject_t t, float4 *o, POINT) { o[I] = tex2DLayered<float4>(t, x[I], y[I], layer[I]); }
__global__ void cube(cudaTextureObject_t t, float4 *o, POINT) { o[I] = texCubemap<float4>(t, x[I], y[I], z[I]); }
__global__ void cubes(cudaTextureObject_t t, float4 *o, POINT) { o[I] = texCubemapLayered<float4>(t, x[I], y[I], z[I], layer[I]); }
__global__ void plane(cudaTextureObject_t t, float4 *o, POINT) { o[I] = tex2D<float4>(t, x[I], y[I]); }
__global__ void integers(cudaTextureObject_t t, int4 *o, POINT) { o[I] = tex2D<int4>(t, x[I], y[I]); }
__global__ void volume(cudaTextureObject_t t, float4 *o, POINT) { o[I] = tex3D<float4>(t, x[I], y[I], z[I]); }
__global__ void level1(cudaTextureObject_t t, float4 *o, POINT) { o[I] = tex1DLod<float4>(t, x[I], level[I]); }
__global__ void level2(cudaTextureObject_t t, float4 *o, POINT) { o[I] = tex2DLod<float4>(t, x[I], y[I], level[I]); }
__global__ void level3(cudaTextureObject_t t, float4 *o, POINT) { o[I] = tex3DLod<float4>(t, x[I], y[I], z[I], level[I]); }
__global__ void layered_level(cudaTextureObject_t t, float4 *o, POINT) { o[I] = tex2DLayeredLod<float4>(t, x[I], y[I], layer[I], level[I]); }
__global__ void gradient(cudaTextureObject_t t, float4 *o, POINT) {
    o[I] = tex2DGrad<float4>(t, x[I], y[I], make_float2(level[I], 0), make_float2(0, level[I] / 2));
}
__global__ void cube_level(cudaTextureObject_t t, float4 *o, POINT) { o[I] = texCubemapLod<float4>(t, x[I], y[I], z[I], level[I]); }
__global__ void gathers(cudaTextureObject_t t, float4 *o, POINT) {
    o[2 * I] = tex2Dgather<float4>(t, x[I], y[I], 0);
    o[2 * I + 1] = tex2Dgather<float4>(t, x[I], y[I], 1);
}
__global__ void resident(cudaTextureObject_t t, int *o, POINT) {
    bool is;
    tex2D<float>(t, x[I], y[I], &is);
    o[I] = is;
}

#define SURFACE(T, name)                                                                                     \
    __global__ void name##1(cudaSurfaceObject_t s, T *o, const int *x, int put) {                            \
        if (put) surf1Dwrite(o[I], s, x[I] * (int)sizeof(T)); else o[I] = surf1Dread<T>(s, x[I] * (int)sizeof(T)); \
    }                                                                                                        \
    __global__ void name##2(cudaSurfaceObject_t s, T *o, const int *x, const int *y, int put) {              \
        if (put) surf2Dwrite(o[I], s, x[I] * (int)sizeof(T), y[I]); else o[I] = surf2Dread<T>(s, x[I] * (int)sizeof(T), y[I]); \
    }
SURFACE(float, f)
SURFACE(float4, f4)
SURFACE(unsigned char, u8)
SURFACE(uchar4, u8x4)
SURFACE(short2, s16x2)
SURFACE(long long, s64)
__global__ void clamped(cudaSurfaceObject_t s, float *o, const int *x, const int *y, int put) {
    if (put) surf2Dwrite(o[I], s, x[I] * 4, y[I], cudaBoundaryModeClamp);
    else o[I] = surf2Dread<float>(s, x[I] * 4, y[I], cudaBoundaryModeClamp);
}
__global__ void zeroed(cudaSurfaceObject_t s, float *o, const int *x, const int *y, int put) {
    if (put) surf2Dwrite(o[I], s, x[I] * 4, y[I], cudaBoundaryModeZero);
    else o[I] = surf2Dread<float>(s, x[I] * 4, y[I], cudaBoundaryModeZero);
}
__global__ void deep(cudaSurfaceObject_t s, float *o, const int *x, const int *y, const int *z, int put) {
    if (put) surf3Dwrite(o[I], s, x[I] * 4, y[I], z[I]); else o[I] = surf3Dread<float>(s, x[I] * 4, y[I], z[I]);
}
__global__ void in_layers(cudaSurfaceObject_t s, float *o, const int *x, const int *y, const int *z, int put) {
    if (put) surf2DLayeredwrite(o[I], s, x[I] * 4, y[I], z[I]); else o[I] = surf2DLayeredread<float>(s, x[I] * 4, y[I], z[I]);
}
__global__ void on_faces(cudaSurfaceObject_t s, float *o, const int *x, const int *y, const int *z, int put) {
    if (put) surfCubemapwrite(o[I], s, x[I] * 4, y[I], z[I]); else o[I] = surfCubemapread<float>(s, x[I] * 4, y[I], z[I]);
}
__global__ void unscaled(cudaSurfaceObject_t s, float *o) { o[I] = surf1Dread<float>(s, I); } // I counts elements
__global__ void shifted(cudaSurfaceObject_t s, int n, int barrier) { // a race, unless all read before any writes
    float v = surf1Dread<float>(s, ((I + 1) % n) * 4);
    if (barrier)
        __syncthreads();
    surf1Dwrite(v + 1, s, I * 4);
}
__global__ void fetched(cudaTextureObject_t t, cudaSurfaceObject_t s, int n) {
    float v = tex1D<float>(t, (I + 1) % n + 0.5f);
    surf1Dwrite(v + 1, s, I * 4);
}
}
