// The streams and the arrays that they run over. Knows the steps' threads and the system's pages.
#include "tools/workload/stream.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <new>
#include <sys/mman.h>

// One clone per processor level, chosen when the program starts.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__)
#define STEPFUSE_CLONES \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define STEPFUSE_CLONES
#endif

namespace stepfuse {
namespace {

constexpr size_t kPiece = 16384;
constexpr uint32_t kPiecesPerRange = 8;
constexpr size_t kHugePage = size_t{2} << 20;

// One register of AVX-512, two or four of the narrower sets.
using Vector = float __attribute__((vector_size(64), aligned(4)));
constexpr size_t kLanes = 16;

STEPFUSE_CLONES
void update_range(const float* g, float* w, float* m, float* v, size_t count) {
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    Vector x = *reinterpret_cast<const Vector*>(g + i);
    Vector a = *reinterpret_cast<Vector*>(w + i);
    Vector b = *reinterpret_cast<Vector*>(m + i);
    Vector c = *reinterpret_cast<Vector*>(v + i);
    *reinterpret_cast<Vector*>(w + i) = a + x;
    *reinterpret_cast<Vector*>(m + i) = b + x;
    *reinterpret_cast<Vector*>(v + i) = c + x;
  }
  for (; i < count; ++i) {
    w[i] += g[i];
    m[i] += g[i];
    v[i] += g[i];
  }
}

STEPFUSE_CLONES
void triad_range(float* a, const float* b, const float* c, size_t count) {
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    *reinterpret_cast<Vector*>(a + i) =
        *reinterpret_cast<const Vector*>(b + i) + 3.0F * *reinterpret_cast<const Vector*>(c + i);
  }
  for (; i < count; ++i) a[i] = b[i] + 3.0F * c[i];
}

// The sum, read at four positions at once: reads at a single one would wait for memory.
STEPFUSE_CLONES
float read_range(const float* a, size_t count) {
  constexpr size_t kPlaces = 4;
  size_t stride = count / kPlaces / kLanes * kLanes;
  Vector sums[kPlaces] = {};
  for (size_t i = 0; i < stride; i += kLanes) {
    for (size_t p = 0; p < kPlaces; ++p) {
      sums[p] += *reinterpret_cast<const Vector*>(a + p * stride + i);
    }
  }
  float sum = 0;
  for (size_t i = kPlaces * stride; i < count; ++i) sum += a[i];
  for (const Vector& v : sums) {
    for (size_t lane = 0; lane < kLanes; ++lane) sum += v[lane];
  }
  return sum;
}

// Calls f(first element, count) for ranges that cover [0, count).
template <class F>
void for_ranges(const CpuExecutor& executor, size_t count, const F& f) {
  size_t pieces = (count + kPiece - 1) / kPiece;
  struct Work {
    const F& f;
    size_t count;
  } work{f, count};
  executor.for_ranges(
      0, static_cast<uint32_t>(pieces), kPiecesPerRange,
      [](const void* context, uint32_t begin, uint32_t end) {
        const Work& w = *static_cast<const Work*>(context);
        size_t at = begin * kPiece;
        w.f(at, std::min(end * kPiece, w.count) - at);
      },
      &work);
}

}  // namespace

HugeArray::HugeArray(size_t count)
    : bytes_((std::max<size_t>(1, count) * sizeof(float) + kHugePage - 1) / kHugePage * kHugePage) {
  // Mapped with one extra huge page, so that the array can start at a huge page.
  void* p =
      mmap(nullptr, bytes_ + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) throw std::bad_alloc();
  auto at = reinterpret_cast<uintptr_t>(p);
  uintptr_t border = (at + kHugePage - 1) / kHugePage * kHugePage;
  if (border > at) munmap(p, border - at);
  munmap(reinterpret_cast<void*>(border + bytes_), at + kHugePage - border);
  data_ = reinterpret_cast<float*>(border);
  madvise(data_, bytes_, MADV_HUGEPAGE);
  std::fill_n(data_, count, 0.0F);
}

HugeArray::~HugeArray() { munmap(data_, bytes_); }

void Streams::update(const float* grad, float* weight, float* exp_avg, float* exp_avg_sq,
                     size_t count) const {
  for_ranges(executor_, count, [=](size_t at, size_t n) {
    update_range(grad + at, weight + at, exp_avg + at, exp_avg_sq + at, n);
  });
}

float Streams::read(std::initializer_list<const float*> arrays, size_t count) const {
  std::atomic<float> last = 0;  // uses the sums, so that no read is optimised away
  for_ranges(executor_, count, [&](size_t at, size_t n) {
    float sum = 0;
    for (const float* a : arrays) sum += read_range(a + at, n);
    last.store(sum, std::memory_order_relaxed);
  });
  return last.load();
}

void Streams::triad(float* a, const float* b, const float* c, size_t count) const {
  for_ranges(executor_, count,
             [=](size_t at, size_t n) { triad_range(a + at, b + at, c + at, n); });
}

}  // namespace stepfuse
