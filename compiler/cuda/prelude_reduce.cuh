// The device code by which threads and blocks cooperate: the canonical fold, the grid, the work list;
// follows prelude_tiles.cuh. Knows the other preludes and abi.hpp.

// ---- the canonical fold

struct Add {
  template <class T>
  static SF_DEVICE T identity() {
    return T(0);
  }
  template <class T>
  static SF_DEVICE T combine(T a, T b) {
    return add(a, b);
  }
};
struct Min {
  template <class T>
  static SF_DEVICE T identity() {
    if constexpr (T(0.5f) != T(0)) return T(__uint_as_float(0x7f800000u));
    return T(sizeof(T) == 8 ? 0x7fffffffffffffffll : 0x7fffffff);
  }
  template <class T>
  static SF_DEVICE T combine(T a, T b) {
    return minimum(a, b);
  }
};
struct Max {
  template <class T>
  static SF_DEVICE T identity() {
    if constexpr (T(0.5f) != T(0)) return T(__uint_as_float(0xff800000u));
    return T(sizeof(T) == 8 ? -0x7fffffffffffffffll - 1 : -0x7fffffff - 1);
  }
  template <class T>
  static SF_DEVICE T combine(T a, T b) {
    return maximum(a, b);
  }
};

struct Lanes {
  u32 all[2][kThreads * 8];  // a piece's lanes, or those of each warp's small chunk
  u64 partial[kThreads];
  u32 long_parts[kWarps];  // fold_parts: a bit for each part that a warp leaves to the block
};

template <class R, class T>
SF_DEVICE T fold8(const T (&v)[8]) {
  return R::combine(R::combine(R::combine(v[0], v[4]), R::combine(v[2], v[6])),
                    R::combine(R::combine(v[1], v[5]), R::combine(v[3], v[7])));
}
// ---- blocks: elements that share a value. A thread has eight of one block, a warp all of it.

struct Or {
  template <class T>
  static SF_DEVICE T identity() {
    return false;
  }
  template <class T>
  static SF_DEVICE T combine(T a, T b) {
    return a || b;
  }
};
template <class T>
SF_DEVICE T from_other(T v, i32 thread) {
  return __shfl_xor_sync(~0u, v, thread);
}
SF_DEVICE bool from_other(bool v, i32 thread) { return __shfl_xor_sync(~0u, i32(v), thread) != 0; }

// Reduces a block, and gives each of its threads the result. A thread holds eight values from element `at`
// of the chunk on. Element k + d is combined into element k, for d from half a block down to 1. A reduction
// without an order starts within the thread, which takes one exchange instead of eight.
template <class R, i32 kBlock, bool kOrdered, class T>
SF_DEVICE T reduce_block(const T* values, i32 at, i32 length) {
  T v[8];
#pragma unroll
  for (i32 e = 0; e < 8; ++e) v[e] = values[e];
  if (at + 8 > length) {
#pragma unroll
    for (i32 e = 0; e < 8; ++e) {
      if (at + e >= length) v[e] = R::template identity<T>();
    }
  }
  if constexpr (kOrdered) {
#pragma unroll
    for (i32 d = kBlock / 16; d > 0; d /= 2) {
#pragma unroll
      for (i32 e = 0; e < 8; ++e) v[e] = R::combine(v[e], from_other(v[e], d));
    }
    return fold8<R>(v);
  } else {
    T all = fold8<R>(v);
#pragma unroll
    for (i32 d = kBlock / 16; d > 0; d /= 2) all = R::combine(all, from_other(all, d));
    return all;
  }
}
// Returns the value of the block that contains element `at`; zero behind the chunk's end.
template <class T>
SF_DEVICE T load_shared(u64 p, i32 at, i32 block, i32 length) {
  T v;
  from_bits(load_if<T>(p + u64(u32(at) / u32(block)) * sizeof(T), at, length), v);
  return v;
}
// The thread with the block's first element stores.
template <class T>
SF_DEVICE void store_shared(u64 p, u32 bits, i32 at, i32 block, i32 length) {
  if (at % block == 0) store_if<T>(p + u64(u32(at) / u32(block)) * sizeof(T), bits, at, length);
}

// Folds 256 lanes: v[k] is lane threadIdx.x % 32 + k * 32. The result is valid in lane 0 of the warp.
template <class R, class T>
SF_DEVICE T fold_warp(const T (&v)[8]) {
  T sum = fold8<R>(v);
#pragma unroll 1
  for (u32 d = kWarp / 2; d > 0; d /= 2) {
    sum = R::combine(sum, T(__shfl_down_sync(~0u, sum, d)));
  }
  return sum;
}
// Does the same for lanes in `lanes`.
template <class R, class T>
SF_DEVICE T fold_warp(const T* lanes) {
  const T* const mine = lanes + threadIdx.x % kWarp;
  T v[8];
#pragma unroll
  for (u32 k = 0; k < 8; ++k) v[k] = mine[k * kWarp];
  return fold_warp<R>(v);
}
// Folds the 2,048 lanes in `lanes`; the result is valid in lane 0 of the warp.
template <class R, class T>
SF_DEVICE T fold_lanes(const T* lanes) {
  const T* const mine = lanes + threadIdx.x % kWarp;
  T v[8];
#pragma unroll
  for (u32 k = 0; k < 8; ++k) {
    T w[8];
#pragma unroll
    for (u32 j = 0; j < 8; ++j) w[j] = mine[k * kWarp + j * kThreads];
    v[k] = fold8<R>(w);
  }
  return fold_warp<R>(v);
}
// Folds 2,048 lanes to 256, for fold_warp: v[k] is lane threadIdx.x + k * 256.
template <class R, class T>
SF_DEVICE const T* fold_to_warp(const T (&v)[8], Lanes& lanes) {
  T* const partial = reinterpret_cast<T*>(lanes.partial);
  partial[threadIdx.x] = fold8<R>(v);
  __syncthreads();
  return partial;
}

// The positions of a thread's eight lanes: four from `low`, four from `high`. The chunk's starting lane
// does not matter, because the fold combines lanes at fixed distances modulo the number of lanes.
struct LanePlace {
  u32 low, high;
};
template <int kTile>
SF_DEVICE LanePlace lane_place(i32 skew, u32 worker, u32 workers) {
  const u32 low = worker * kTile - u32(skew);
  return {low, low + (kTile == 8 ? 4 : workers * 4)};
}

// Folds a chunk's lanes and writes the slot. Each thread holds eight lanes in `acc`. In a block, the
// warps take turns to fold, while the others continue: they write the next lanes into the other buffer, and
// wait for this warp before they write the lanes after those. A warp's own chunk uses the buffer that
// nobody reads.
template <class R, class T>
SF_DEVICE void fold_chunk(const T (&acc)[8], LanePlace place, bool packed, Lanes& lanes, u32& folds,
                          T* slot) {
  T* const base =
      reinterpret_cast<T*>(lanes.all[folds % 2]) + (packed ? threadIdx.x / kWarp * 256 : 0);
  const u32 mask = packed ? 255 : abi::kLanes - 1;
#pragma unroll
  for (u32 s = 0; s < 4; ++s) {
    base[(place.low + s) & mask] = acc[s];
    base[(place.high + s) & mask] = acc[4 + s];
  }
  if (packed) {
    __syncwarp();
  } else {
    __syncthreads();
  }
  if (packed || threadIdx.x / kWarp == folds % kWarps) {
    const T sum = packed ? fold_warp<R>(base) : fold_lanes<R>(base);
    if (threadIdx.x % kWarp == 0) *slot = sum;
    __syncwarp();  // before the next fold writes these lanes
  }
  if (!packed) ++folds;
}
// A logical or does not depend on the order.
SF_DEVICE void any_chunk(bool acc, bool packed, bool* slot) {
  const bool any = packed ? __any_sync(~0u, acc) != 0 : __syncthreads_or(acc) != 0;
  if (threadIdx.x % (packed ? kWarp : kThreads) == 0) *slot = any;
}

// The whole block folds values[index[0 … count)] (or values[0 … count) if index is null), piece by piece
// and in place, until one is left, and writes it to *result.
template <class R, class T>
SF_DEVICE void fold_list(T* values, const u32* index, u32 count, T* result, Lanes& lanes) {
#pragma unroll 1
  for (bool more = true; more;) {
    u32 pieces = 0;
#pragma unroll 1
    for (u32 begin = 0; begin < count || pieces == 0; begin += kPieceElements, ++pieces) {
      T v[8];
#pragma unroll
      for (u32 k = 0; k < 8; ++k) v[k] = R::template identity<T>();
      const u32 end = count - begin < kPieceElements ? count : begin + kPieceElements;
#pragma unroll 1
      for (u32 row = begin + threadIdx.x; row < end; row += kThreads * 8) {
#pragma unroll
        for (u32 k = 0; k < 8; ++k) {
          const u32 i = row + k * kThreads;
          const u32 near = i < end ? i : row;
          const T value = R::combine(v[k], values[index != nullptr ? index[near] : near]);
          v[k] = i < end ? value : v[k];
        }
      }
      const T* left = fold_to_warp<R>(v, lanes);
      more = count > kPieceElements;
      if (threadIdx.x < kWarp) {
        const T sum = fold_warp<R>(left);
        T* const out = !more ? result : values + (index != nullptr ? index[pieces] : pieces);
        if (threadIdx.x == 0) *out = sum;
      }
      __syncthreads();
    }
    count = pieces;
  }
}
SF_DEVICE void any_list(const bool* values, const u32* index, u32 count, bool* result) {
  struct alignas(16) Sixteen {
    u32 words[4];
  };
  bool any = false;
  // Read one by one before and behind the aligned values.
  const u32 before = u32(0 - reinterpret_cast<u64>(values)) % sizeof(Sixteen);
  const u32 head = index != nullptr || count < before ? count : before;
#pragma unroll 1
  for (u32 i = threadIdx.x; i < head; i += kThreads) {
    any |= values[index != nullptr ? index[i] : i];
  }
  const u32 wide = (count - head) / sizeof(Sixteen);
#pragma unroll 1
  for (u32 i = threadIdx.x; i < wide; i += kThreads) {
    const Sixteen v = reinterpret_cast<const Sixteen*>(values + head)[i];
    any |= (v.words[0] | v.words[1] | v.words[2] | v.words[3]) != 0;
  }
  const u32 tail = head + wide * sizeof(Sixteen) + threadIdx.x;
  if (tail < count) any |= values[tail];
  any = __syncthreads_or(any) != 0;
  if (threadIdx.x == 0) *result = any;
}

struct Any {
  template <class T>
  static SF_DEVICE T identity() {
    return T{};
  }
  template <class T>
  static SF_DEVICE T combine(T a, T b) {
    return a | b;
  }
};

// Number of values that a warp folds at once.
inline constexpr u32 kFewValues = 256;
// Does the same as fold_list by one warp; valid in its lane 0.
template <class R, class T>
SF_DEVICE T fold_few(const T* values, const u32* index, u32 count) {
  T v[8];
#pragma unroll
  for (u32 k = 0; k < 8; ++k) {
    const u32 i = k * kWarp + threadIdx.x % kWarp;
    v[k] = R::template identity<T>();
    if (i < count) v[k] = R::combine(v[k], values[index != nullptr ? index[i] : i]);
  }
  return fold_warp<R>(v);
}

// Computes a result per part of a partition. `blocks` blocks do it, and this one has number `block`. A thread
// handles a part of at most one value and combines it with the identity, as a lane would (-0 becomes +0). A
// warp handles a part of few values, and the block any other. Adjacent parts go to different warps.
template <class R, class T>
SF_DEVICE void fold_parts(const abi::Partition& parts, T* values, T* results, Lanes& lanes,
                          u32 block, u32 blocks) {
  const u32 warps = blocks * kWarps;
#pragma unroll 1
  for (u32 first = block * kWarps; first < parts.count; first += warps * kWarp) {
    const u32 own = first + threadIdx.x / kWarp;  // this warp's lane l has part own + l * warps
    const u32 mine = own + threadIdx.x % kWarp * warps;
    const bool here = mine < parts.count;
    const u32 begin = here ? parts.begin[mine] : 0;
    const u32 count = here ? parts.begin[mine + 1] - begin : 0;
    if (here && count <= 1) {
      T value = R::template identity<T>();
      if (count == 1) {
        value = R::combine(value, values[parts.members != nullptr ? parts.members[begin] : begin]);
      }
      results[mine] = value;
    }
    auto fold = [&](u32 part, u32 from, u32 n, auto&& way) {
      const u32* const index = parts.members != nullptr ? parts.members + from : nullptr;
      way(index != nullptr ? values : values + from, index, n, results + part);
    };
#pragma unroll 1
    for (u32 left = __ballot_sync(~0u, count > 1 && count <= kFewValues); left != 0;
         left &= left - 1) {
      const u32 l = __ffs(left) - 1;
      fold(own + l * warps, __shfl_sync(~0u, begin, l), __shfl_sync(~0u, count, l),
           [](const T* own_values, const u32* index, u32 n, T* result) {
             const T sum = fold_few<R>(own_values, index, n);
             if (threadIdx.x % kWarp == 0) *result = sum;
           });
    }
    const u32 others = __ballot_sync(~0u, count > kFewValues);
    if (__syncthreads_or(others != 0) == 0) continue;
    if (threadIdx.x % kWarp == 0) lanes.long_parts[threadIdx.x / kWarp] = others;
    __syncthreads();
#pragma unroll 1
    for (u32 w = 0; w < kWarps; ++w) {
#pragma unroll 1
      for (u32 left = lanes.long_parts[w]; left != 0; left &= left - 1) {
        const u32 part = first + w + (__ffs(left) - 1) * warps;
        const u32 from = parts.begin[part];
        fold(part, from, parts.begin[part + 1] - from,
             [&](T* own_values, const u32* index, u32 n, T* result) {
               if constexpr (sizeof(T) == 1) {
                 any_list(own_values, index, n, result);
               } else {
                 fold_list<R>(own_values, index, n, result, lanes);
               }
             });
      }
    }
    __syncthreads();
  }
}

// ---- the grid

// Counts an arrival; returns how many there were before. Wraps to 0 at `last`, so it needs no reset.
SF_DEVICE u32 arrive(abi::SyncWord& word, u32 last) {
  u32 before;
  asm volatile("atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;"
               : "=r"(before)
               : "l"(__cvta_generic_to_global(&word.value)), "r"(last)
               : "memory");
  return before;
}
SF_DEVICE u32 load_acquire(const abi::SyncWord& word) {
  u32 v;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];"
               : "=r"(v)
               : "l"(__cvta_generic_to_global(&word.value))
               : "memory");
  return v;
}
SF_DEVICE void store_release(abi::SyncWord& word, u32 v) {
  asm volatile("st.release.gpu.global.u32 [%0], %1;"
               :
               : "l"(__cvta_generic_to_global(&word.value)), "r"(v)
               : "memory");
}

// Returns true in all threads of the last block to arrive, which then sees what every block wrote.
SF_DEVICE bool last_to_arrive(abi::SyncWord& word) {
  __shared__ bool last;
  __syncthreads();
  if (threadIdx.x == 0) last = arrive(word, gridDim.x - 1) == gridDim.x - 1;
  __syncthreads();
  return last;
}

// Blocks that were not last wait here until the last one has done the fold.
SF_DEVICE void wait_for(const abi::SyncWord& generation, u32 before) {
  if (threadIdx.x == 0) {
    while (load_acquire(generation) == before) {
    }
  }
}

// Returns the index of the step that ends now, counted from 0. Called by one thread.
SF_DEVICE u32 count_step(const abi::DeviceContext& ctx) { return ctx.sync->steps.value++; }
// The host reads a record's index before and after its values.
SF_DEVICE void withdraw(u64* record) {
  asm volatile("st.relaxed.sys.global.u64 [%0], %1;"
               :
               : "l"(__cvta_generic_to_global(record)), "l"(u64(0))
               : "memory");
  __threadfence_system();
}
SF_DEVICE void publish(u64* record, u32 step) {
  asm volatile("st.release.sys.global.u64 [%0], %1;"
               :
               : "l"(__cvta_generic_to_global(record)), "l"(u64(step) + 1)
               : "memory");
}

// ---- the work list

// The work of this thread: together with its block, a chunk or a part of one; together with its warp, a
// small chunk or some columns.
struct Work {
  bool packed;
  u32 worker, workers;  // this thread among those on the chunk
  u32 section;          // of shared memory: 0 for the block, 1 + warp for a warp
};

// `split`: each chunk of a block is processed in 1 << split parts, of elements or of rows.
SF_DEVICE u32 unit_count(const abi::DeviceContext& ctx, u32 split) {
  return (ctx.block_chunks << split) + (ctx.small_count + kWarps - 1) / kWarps;
}
SF_DEVICE Work work_of(const abi::DeviceContext& ctx, u32 unit, u32 split) {
  const bool packed = unit >= ctx.block_chunks << split;
  if (!packed) return {false, threadIdx.x, kThreads, 0};
  return {true, threadIdx.x % kWarp, kWarp, 1 + threadIdx.x / kWarp};
}
// Returns null if this warp has no work.
SF_DEVICE const abi::Chunk* chunk_of(const abi::DeviceContext& ctx, u32 unit, u32 split) {
  const u32 of_blocks = ctx.block_chunks << split;
  if (unit < of_blocks) return ctx.step.chunks + (unit >> split);
  const u32 i = (unit - of_blocks) * kWarps + threadIdx.x / kWarp;
  return i < ctx.small_count ? ctx.small_chunks + i : nullptr;
}
// Reduces a block's chunk to the unit's part; returns false if that is empty.
SF_DEVICE bool take_part(abi::Chunk& chunk, const Work& work, u32 unit, u32 split) {
  if (work.packed) return true;
  const u32 size = kPieceElements >> split;
  const u32 from = (unit & ((1 << split) - 1)) * size;
  if (from >= chunk.length) return false;
  chunk.begin += from;
  chunk.length = chunk.length - from < size ? chunk.length - from : size;
  return true;
}
SF_DEVICE void synchronize(bool packed) {
  if (packed) {
    __syncwarp();
  } else {
    __syncthreads();
  }
}
