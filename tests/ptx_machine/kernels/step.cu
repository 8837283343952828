// A fused optimizer step in the shape of the generated ones, small enough to read: phase 1 sums
// the squares of the gradients, a grid barrier folds them, phase 2 updates. The tests plant their
// faults by replacing single lines of this text.
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

enum { kPiece = 4096, kLanes = 512, kThreads = 128 };

struct Chunk {
  u32 tensor;
  u32 length;
  u64 begin;
};
struct Tensor {
  const void* grad;
  float* master;
  float* exp_avg;
  u16* weight;
  u32 dtype;  // of grad: 0 f32, 1 f16, 2 bf16
  u32 present;
};
struct Context {
  const Chunk* chunks;
  const Tensor* tensors;
  float* slots;       // one sum per chunk
  u32* nonfinite;
  float* scalars;     // {clip_coef, norm}
  double* state;      // {steps}
  u32* arrived;
  u32* generation;
  u32* finished;
  u32 chunk_count;
  float max_norm;
  double lr;
  double beta;
};

__device__ __forceinline__ float from_f16(u16 bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
}
__device__ __forceinline__ float from_bf16(u16 bits) { return __uint_as_float((u32)bits << 16); }
__device__ u16 to_f16(float value) {
  u16 bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}

__device__ __forceinline__ float grad_at(const Tensor& tensor, u64 index) {
  if (tensor.dtype == 0) return ((const float*)tensor.grad)[index];
  u16 bits = ((const u16*)tensor.grad)[index];
  return tensor.dtype == 1 ? from_f16(bits) : from_bf16(bits);
}

__device__ __forceinline__ void four_grads(const Tensor& tensor, u64 index, float* g) {
  if (tensor.dtype == 0) {
    float4 v = *(const float4*)((const float*)tensor.grad + index);
    g[0] = v.x, g[1] = v.y, g[2] = v.z, g[3] = v.w;
    return;
  }
  ushort4 v = *(const ushort4*)((const u16*)tensor.grad + index);
  u16 bits[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
  for (int k = 0; k < 4; ++k) g[k] = tensor.dtype == 1 ? from_f16(bits[k]) : from_bf16(bits[k]);
}

// Lane l + d is added to lane l, for d = 256, 128, … 1; the sum is returned to thread 0.
__device__ __forceinline__ float fold(const float* lane, float* shared) {
  u32 t = threadIdx.x;
#pragma unroll
  for (int k = 0; k < 4; ++k) shared[4 * t + k] = lane[k];
  __syncthreads();  // fold: lanes
  for (u32 d = 256; d >= 32; d >>= 1) {
    for (u32 l = t; l < d; l += kThreads) shared[l] = shared[l] + shared[l + d];
    __syncthreads();
  }
  float sum = shared[t % 32];
#pragma unroll
  for (u32 d = 16; d >= 1; d >>= 1) sum = sum + __shfl_down_sync(~0u, sum, d);
  __syncthreads();
  return sum;
}

__device__ __forceinline__ double power(double base, u64 n) {
  double r = 1;
  while (n) {
    if (n & 1) r = r * base;
    n >>= 1;
    if (n) base = base * base;
  }
  return r;
}

__device__ __forceinline__ void fold_slots(const Context& c, float* shared) {
  float lane[4] = {0, 0, 0, 0};
  for (u32 i = 4 * threadIdx.x; i < c.chunk_count; i += kLanes) {
    for (u32 k = 0; k < 4 && i + k < c.chunk_count; ++k) lane[k] = lane[k] + c.slots[i + k];
  }
  float sum = fold(lane, shared);
  if (threadIdx.x == 0) {
    float norm = __fsqrt_rn(sum);
    bool good = *c.nonfinite == 0;
    float coef = c.max_norm / (norm + 1e-6f);
    coef = coef < 1.0f ? coef : 1.0f;
    c.scalars[0] = good ? coef : 0.0f;
    c.scalars[1] = norm;
  }
}

// Two words: the last block to arrive folds and only then releases the others.
__device__ __forceinline__ void grid_barrier(const Context& c, float* shared, u32* is_last) {
  __syncthreads();  // barrier: before arriving
  u32 before = 0;
  if (threadIdx.x == 0) {
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(before) : "l"(c.generation) : "memory");
    u32 arrived;
    asm volatile("atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;"
                 : "=r"(arrived) : "l"(c.arrived), "r"(gridDim.x - 1) : "memory");
    *is_last = arrived == gridDim.x - 1;
  }
  __syncthreads();  // barrier: is_last
  if (*is_last) {
    fold_slots(c, shared);
    __syncthreads();  // barrier: folded
    if (threadIdx.x == 0) {
      asm volatile("st.release.gpu.global.u32 [%0], %1;" : : "l"(c.generation), "r"(before + 1) : "memory");
    }
  } else if (threadIdx.x == 0) {
    u32 now;
    do {
      asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(c.generation) : "memory");
    } while (now == before);
  }
  __syncthreads();  // barrier: released
}

extern "C" __global__ void __launch_bounds__(kThreads) step(const Context c) {
  __shared__ float shared[kLanes];
  __shared__ u32 is_last;
  u32 t = threadIdx.x;

  for (u32 chunk = blockIdx.x; chunk < c.chunk_count; chunk += gridDim.x) {
    Chunk piece = c.chunks[chunk];
    Tensor tensor = c.tensors[piece.tensor];
    float lane[4] = {0, 0, 0, 0};
    bool bad = false;
    if (tensor.present) {
      for (u32 i = 4 * t; i < piece.length; i += kLanes) {
        float g[4];
        u32 count = min(piece.length - i, 4);
        if (count == 4) {
          four_grads(tensor, piece.begin + i, g);
        } else {
          for (u32 k = 0; k < count; ++k) g[k] = grad_at(tensor, piece.begin + i + k);
        }
#pragma unroll
        for (u32 k = 0; k < 4; ++k) {
          if (k >= count) continue;
          bad = bad | !isfinite(g[k]);
          lane[k] = lane[k] + g[k] * g[k];
        }
      }
    }
    float sum = fold(lane, shared);
    if (t == 0) c.slots[chunk] = sum;
    if (__syncthreads_or(bad) && t == 0) atomicOr(c.nonfinite, 1u);
  }

  grid_barrier(c, shared, &is_last);

  float coef = c.scalars[0];
  double steps = c.state[0] + 1;
  float step_size = (float)(c.lr / (1.0 - power(c.beta, (u64)steps)));
  if (coef != 0.0f) {
    for (u32 chunk = blockIdx.x; chunk < c.chunk_count; chunk += gridDim.x) {
      Chunk piece = c.chunks[chunk];
      Tensor tensor = c.tensors[piece.tensor];
      if (!tensor.present) continue;
      for (u32 i = t; i < piece.length; i += kThreads) {
        u64 index = piece.begin + i;
        float g = grad_at(tensor, index) * coef;
        float m = fmaf((float)c.beta, tensor.exp_avg[index], (float)(1.0 - c.beta) * g);
        float w = tensor.master[index] - step_size * (m / (__int_as_float(__float_as_int(m) & 0x7fffffff) + 1e-3f));
        tensor.exp_avg[index] = m;
        tensor.master[index] = w;
        tensor.weight[index] = to_f16(w);
      }
    }
  }

  // State is written by the last block to finish, when nobody can read it any more.
  __syncthreads();
  if (t == 0) {
    __threadfence();  // finish: release
    u32 finished = atomicInc(c.finished, gridDim.x - 1);
    if (finished == gridDim.x - 1) {
      __threadfence();  // finish: acquire
      if (coef != 0.0f) c.state[0] = c.state[0] + 1;
      *c.nonfinite = 0;
    }
  }
}
