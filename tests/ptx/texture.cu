// Texture fetches: linear memory, arrays, clamped and wrapped, point and linear.
// buffer: x f32 16 iota
// buffer: o f32 32 none
// texture: line x 16 0 1 f32
// launch: fetch 1 16 0 line o
// counter: texture_requests 1
// counter: inst_texture 1
// expect: o[0] 0 1 2 3 4
// expect: o[14] 14 15
// texture: point x 4 4 1 f32
// launch: plane 1 8 0 point o f32:0 f32:0.5 f32:1
// expect: o[0] 0 1 2 3 3 3
// launch: plane 1 8 0 point o f32:1.5 f32:-1 f32:1
// expect: o[0] 4 4 5 6 7 7 7 7
// launch: leveled 1 4 0 point o f32:1 f32:2
// expect: o[0] 4 5 6 7
// texture: smooth x 4 4 1 f32 linear
// launch: plane 1 8 0 smooth o f32:1 f32:0 f32:1
// expect: o[0] 2 2.5 3.5 4.5 5 5
// texture: wrapped x 4 4 1 f32 wrap normalised
// launch: plane 1 8 0 wrapped o f32:1.125 f32:-0.125 f32:0.25
// expect: o[0] 3 0 1 2 3 0
// texture: pairs x 8 0 2 f32
// launch: fetch2 1 8 0 pairs o
// expect: o[0] 1 5 9 13
// launch: fetch 1 16 0 u64:12345 o
// finding: OUT_OF_BOUNDS no texture
// launch: plane 1 8 0 line o f32:0 f32:0 f32:1
// finding: OUT_OF_BOUNDS the texture is of linear memory
// launch: line 1 8 0 point o f32:0 f32:1
// finding: OUT_OF_BOUNDS the texture is of a 2-D array
extern "C" {
__global__ void fetch(cudaTextureObject_t t, float *o) { o[threadIdx.x] = tex1Dfetch<float>(t, threadIdx.x); }
__global__ void fetch2(cudaTextureObject_t t, float *o) {
    float2 v = tex1Dfetch<float2>(t, threadIdx.x);
    o[threadIdx.x] = v.x + v.y;
}
__global__ void plane(cudaTextureObject_t t, float *o, float y, float x, float step) {
    o[threadIdx.x] = tex2D<float>(t, x + step * threadIdx.x, y);
}
__global__ void leveled(cudaTextureObject_t t, float *o, float y, float level) { // of which there is one
    o[threadIdx.x] = tex2DLod<float>(t, threadIdx.x, y, level);
}
__global__ void line(cudaTextureObject_t t, float *o, float x, float step) {
    o[threadIdx.x] = tex1D<float>(t, x + step * threadIdx.x);
}
__global__ void volume(cudaTextureObject_t t, float *o, float z, float y, float x, float step) {
    o[threadIdx.x] = tex3D<float>(t, x + step * threadIdx.x, y, z);
}
}
