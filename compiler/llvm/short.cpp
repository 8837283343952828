// A chunk of a few vectors in a phase that only reads, processed at once. Its lanes stay in registers, and
// with thousands of such tensors none of them waits for a different one. Knows the plan and the reduction
// order.
#include <algorithm>
#include <vector>

#include "compiler/llvm/body.hpp"
#include "ir/semantics/reduction.hpp"

namespace stepfuse::llvm {
namespace {
// The code stands once for each vector.
constexpr size_t kLongestCode = 96;
}  // namespace

bool BodyEmitter::has_short_chunks() const {
  bool only_reads =
      std::none_of(streams_.begin(), streams_.end(), [](const Stream& s) { return s.use->stored; });
  bool has_masks = std::all_of(streams_.begin(), streams_.end(), [&](const Stream& s) {
    return m_.has_masks || (m_.has_word_masks && size_of(s.dtype) == 4);
  });
  return only_reads && has_masks && !reducers_.empty() && body_.unit == 1 &&
         body_.code.size() <= kLongestCode;
}

// The lane with which the chunk begins does not matter: the fold combines lanes at fixed distances, counted around the
// end.
void BodyEmitter::emit_short() {
  std::vector<std::vector<std::string>> of_vectors(reducers_.size());
  pass_position_ = chunk_.position;
  for (int k = 0; k < kShortElements / m_.lanes; ++k) {
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
    const Reducer& r = reducers_[k];
    std::vector<std::string>& v = of_vectors[k];
    for (size_t d = v.size() / 2; d > 0; d /= 2) {
      for (size_t l = 0; l < d; ++l) v[l] = combine(r, v[l], v[l + d], r.name);
    }
    write_folded(r, v[0]);
  }
}

}  // namespace stepfuse::llvm
