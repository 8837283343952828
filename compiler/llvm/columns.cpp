// A whole piece of a phase that only reads, column by column. Knows the plan, the kernel ABI, and the
// reduction order.
//
// A lane combines the elements of its column in ascending order, so the lanes of a column's vector can stay
// in registers for all rows of the piece. The loads of all rows are in one block and follow that many
// address streams, while a walk along the piece would wait for the memory's latency.
#include <algorithm>

#include "compiler/llvm/body.hpp"
#include "ir/semantics/reduction.hpp"

namespace stepfuse::llvm {
namespace {
constexpr int kRows = kPieceElements / kLanes;
// The code is repeated for each row.
constexpr size_t kLongestColumnCode = 48;
}  // namespace

bool BodyEmitter::walks_columns() const {
  bool only_reads =
      std::none_of(streams_.begin(), streams_.end(), [](const Stream& s) { return s.use->stored; });
  return only_reads && follows_few_streams() && !reducers_.empty() && body_.unit == 1 &&
         body_.code.size() <= kLongestColumnCode;
}

void BodyEmitter::emit_columns() {
  pass_position_ = chunk_.position;
  f_.loop("column", "0", std::to_string(kLanes / m_.lanes), [&](const std::string& c) {
    std::vector<std::string> so_far;  // [reduction]
    for (const Reducer& r : reducers_) {
      so_far.push_back(r.in_lanes ? vector_.constant(r.dtype, {}) : load_register(r));
    }
    for (int row = 0; row < kRows; ++row) {
      std::string i = f_.set("i", "add i64 {}, {}", c, row * (kLanes / m_.lanes));
      for (Stream& s : streams_) s.address = f_.address("at", s.base, i, vector_bytes(s.dtype));
      emit_code(i);
      for (size_t k = 0; k < reducers_.size(); ++k) {
        f_.comment(reducers_[k].text);
        so_far[k] = combine_next(reducers_[k], so_far[k]);
      }
      f_.end_comment();
    }
    for (size_t k = 0; k < reducers_.size(); ++k) {
      const Reducer& r = reducers_[k];
      if (!r.in_lanes) {
        set_register(r, so_far[k]);
        continue;
      }
      vector_.store(r.dtype, so_far[k], f_.address("lane", r.array, c, vector_bytes(r.dtype)));
    }
  });
}

}  // namespace stepfuse::llvm
