// A chunk of a few vectors in a phase that only reads, processed at once. Its lanes stay in registers, and
// with thousands of such tensors none of them waits for a different one. Knows the plan and the reduction
// order.
#include <algorithm>
#include <vector>

#include "compiler/llvm/body.hpp"
#include "ir/semantics/reduction.hpp"

namespace stepfuse::llvm {
namespace {
constexpr int kElements = 64;
// The code is repeated for each vector.
constexpr size_t kLongestCode = 96;
}  // namespace

bool BodyEmitter::has_short_chunks() const {
  bool only_reads =
      std::none_of(streams_.begin(), streams_.end(), [](const Stream& s) { return s.use->stored; });
  bool has_masks = std::all_of(streams_.begin(), streams_.end(), [&](const Stream& s) {
    return m_.has_masks || (m_.has_word_masks && size_of(s.dtype) == 4);
  });
  return only_reads && has_masks && !reducers_.empty() && body_.code.size() <= kLongestCode;
}

// Afterwards the current block is where all other chunks go. The starting lane does not matter: the fold
// combines lanes at fixed distances modulo the lane count.
void BodyEmitter::emit_short(const std::string& next) {
  std::string few = f_.label("few");
  std::string many = f_.label("many");
  f_.branch(f_.set("short", "icmp ule i64 {}, {}", chunk_.length, kElements), few, many);
  f_.block(few);
  std::vector<std::vector<std::string>> of_vectors(reducers_.size());
  pass_position_ = chunk_.position;
  for (int k = 0; k < kElements / m_.lanes; ++k) {
    std::string i = std::to_string(k);
    std::string left = f_.set("left", "sub i64 {}, {}", chunk_.length, k * m_.lanes);
    std::string some = f_.set("left", "call i64 @llvm.smax.i64(i64 {}, i64 0)", left);
    m_.declarations.insert("declare i64 @llvm.smax.i64(i64, i64)");
    active_ = active_lanes(some);
    for (Stream& s : streams_) s.address = f_.address("at", s.base, i, vector_bytes(s.dtype));
    emit_code(i);
    for (size_t r = 0; r < reducers_.size(); ++r) {
      f_.comment(reducers_[r].text);
      const Reducer& reducer = reducers_[r];
      of_vectors[r].push_back(combine_next(reducer, identity(reducer)));
    }
    f_.end_comment();
  }
  active_.clear();
  for (size_t k = 0; k < reducers_.size(); ++k) {
    Reducer r = reducers_[k];
    std::vector<std::string>& v = of_vectors[k];
    for (size_t d = v.size() / 2; d > 0; d /= 2) {
      for (size_t l = 0; l < d; ++l) v[l] = combine(r, v[l], v[l + d], r.name);
    }
    r.before = v[0];
    write_folded(r);
  }
  f_.jump(next);
  f_.block(many);
}

}  // namespace stepfuse::llvm
