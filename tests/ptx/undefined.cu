// Values that nobody defined: moved about, they are no mistake; once something depends on them, they are, at the
// line that read them. nvcc loads and divides above the conditions that say whether the value counts, and it
// copies padding.
// arch: 80
struct alignas(16) Three {
    float x, y, z;
};
struct Bits {
    int a : 5, b : 7, c : 3;
};
struct Flags {
    unsigned on : 1, mode : 3;
};
struct List {
    int n, items[7];
};

extern "C" __global__ void padded(float *out) {
    __shared__ Three s[64];
    s[threadIdx.x].x = 1;
    s[threadIdx.x].y = 2;
    s[threadIdx.x].z = threadIdx.x;
    __syncthreads();
    Three t = s[threadIdx.x ^ 1];
    out[threadIdx.x] = t.x + t.y + t.z;
}
extern "C" __global__ void copied(Three *from, float *out) { // 16 bytes at once
    __shared__ Three s[32];
    from[threadIdx.x].x = 1;
    from[threadIdx.x].z = 2;
    unsigned to = (unsigned)__cvta_generic_to_shared(&s[threadIdx.x]);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16;\n\tcp.async.wait_all;" ::"r"(to), "l"(&from[threadIdx.x])
                 : "memory");
    out[threadIdx.x] = s[threadIdx.x].x + s[threadIdx.x].z;
}
extern "C" __global__ void bits(int *out, int n) {
    __shared__ Bits s[64];
    s[threadIdx.x].a = n;
    s[threadIdx.x].b = threadIdx.x;
    s[threadIdx.x].c = 1;
    __syncthreads();
    Bits t = s[threadIdx.x ^ 1];
    out[threadIdx.x] = t.a + t.b * t.c;
}
extern "C" __global__ void zeroed(int *out) {
    __shared__ Flags s[32];
    s[threadIdx.x].on = 0;
    s[threadIdx.x].mode = 0;
    __syncwarp();
    out[threadIdx.x] = s[31 - threadIdx.x].on + s[31 - threadIdx.x].mode;
}
extern "C" __global__ void either(int *out, int first) {
    __shared__ int u, v;
    if (threadIdx.x == 0) {
        if (first)
            u = 1;
        else
            v = 2;
    }
    __syncthreads();
    out[threadIdx.x] = first ? u : v;
}
extern "C" __global__ void merge(int *out, int n) { // looks one past the end of either half
    __shared__ int s[64];
    int a = 0, b = 0;
    if (threadIdx.x < 2 * n)
        s[threadIdx.x < n ? threadIdx.x : 32 + threadIdx.x - n] = threadIdx.x % n;
    __syncthreads();
    int x = s[a], y = s[32 + b];
    for (int i = 0; i < 2 * n; i++) {
        bool left = b >= n || (a < n && x <= y);
        if (threadIdx.x == i)
            out[i] = left ? x : y;
        (left ? x : y) = s[left ? ++a : 32 + ++b];
    }
}
extern "C" __global__ void guarded(int *out, int n) {
    int sum = 0;
    for (int i = 0; i < 3; i++)
        if (n)
            sum += threadIdx.x % n;
        else
            sum++;
    out[threadIdx.x] = sum;
}
extern "C" __global__ void unfilled(int *out, int n, int i) {
    List a;
    a.n = n;
    for (int k = 0; k < n; k++)
        a.items[(k + threadIdx.x) % 7] = k;
    List b = a;
    out[threadIdx.x] = i < b.n ? b.items[(i + threadIdx.x) % 7] : -1;
}
extern "C" __global__ void branch(const int *in, int *out) {
    if (in[threadIdx.x] > 3)
        out[threadIdx.x] = 1;
}
extern "C" __global__ void index(const int *in, int *out) { out[in[threadIdx.x] & 31] = 1; }
extern "C" __global__ void through(const int *in, int *out) { // shared memory that was written, but with nothing
    __shared__ int s[32];
    s[threadIdx.x] = in[threadIdx.x];
    __syncwarp();
    out[threadIdx.x] = s[31 - threadIdx.x] * 3;
}
__device__ __noinline__ int more(int x) { return x + 5; }
extern "C" __global__ void called(const int *in, int *out) { out[threadIdx.x] = more(in[threadIdx.x]); }
extern "C" __global__ void vector(float4 *out) {
    __shared__ float4 s[32];
    s[threadIdx.x].x = s[threadIdx.x].y = s[threadIdx.x].w = 1;
    __syncwarp();
    float4 t = s[31 - threadIdx.x];
    out[threadIdx.x] = make_float4(t.x + t.z, t.y, t.w, 0);
}
extern "C" __global__ void atomic(const int *in, int *out) { atomicAdd(out, in[threadIdx.x]); }
extern "C" __global__ void quotient(int *out, int n) {
    int q = threadIdx.x % n;
    if (q != 1)
        out[threadIdx.x] = threadIdx.x;
}

// buffer: out s32 64 zero
// buffer: f f32 128 zero
// buffer: none s32 64 none
// launch: padded 1 64 0 f
// expect: f[0] 4 3 6 5
// buffer: holes f32 128 none
// launch: copied 1 32 0 holes f
// expect: f[0] 3 3
// launch: bits 1 64 0 out s32:3
// expect: out[0] 4 3 6 5
// launch: zeroed 1 32 0 out
// expect: out[0] 0 0
// launch: either 1 32 0 out s32:0
// expect: out[0] 2 2
// launch: merge 1 32 0 out s32:2
// expect: out[0] 0 0 1 1
// launch: guarded 1 32 0 out s32:0
// expect: out[0] 3 3 3
// launch: guarded 1 32 0 out s32:2
// expect: out[0] 0 3 0
// launch: unfilled 1 32 0 out s32:3 s32:2
// expect: out[0] 2 2
// launch: unfilled 1 32 0 out s32:3 s32:5
// expect: out[0] -1 -1
// launch: either 1 32 0 out s32:1
// expect: out[0] 1 1
// launch: branch 1 32 0 none out
// finding: UNINITIALISED undefined.cu:95
// launch: index 1 32 0 none out
// finding: UNINITIALISED undefined.cu:98
// launch: through 1 32 0 none out
// finding: UNINITIALISED undefined.cu:103
// launch: called 1 32 0 none out
// finding: UNINITIALISED undefined.cu:106
// launch: vector 1 32 0 f
// finding: UNINITIALISED undefined.cu:111
// launch: atomic 1 32 0 none out
// finding: UNINITIALISED undefined.cu:114
// launch: quotient 1 32 0 out s32:0
// finding: DIVISION undefined.cu:116
