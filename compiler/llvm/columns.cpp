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
  return only_reads && follows_few_streams() && !reducers_.empty() &&
         body_.code.size() <= kLongestColumnCode;
}

void BodyEmitter::emit_columns(const std::string& done) {
  std::string columns = f_.label("columns");
  std::string column = f_.label("column");
  std::string column_end = f_.label("column.end");
  std::string rows = f_.label("rows");
  std::string full = f_.set("piece.full", "icmp eq i64 {}, {}", chunk_.length, kPieceElements);
  f_.branch(full, columns, rows);
  f_.block(columns);
  f_.jump(column);

  f_.block(column);
  std::string next = f_.name("column.next");
  std::string c = f_.set("column", "phi i64 [ 0, %{} ], [ {}, %{} ]", columns, next, column_end);
  std::vector<std::string> before;  // initial values of reductions in registers
  for (Reducer& r : reducers_) {
    before.push_back(r.before);
    r.after = f_.name(r.name + ".column");
    if (r.in_lanes) {
      r.in_loop = vector_.constant(r.dtype, {});
    } else {
      r.in_loop = f_.set(r.name, "phi {} [ {}, %{} ], [ {}, %{} ]", vector_.type(r.dtype), r.before,
                         columns, r.after, column_end);
    }
  }
  pass_position_ = chunk_.position;
  for (int row = 0; row < kRows; ++row) {
    std::string i = f_.set("i", "add i64 {}, {}", c, row * (kLanes / m_.lanes));
    for (Stream& s : streams_) s.address = f_.address("at", s.base, i, vector_bytes(s.dtype));
    emit_code(i);
    for (Reducer& r : reducers_) {
      f_.comment(r.text);
      r.in_loop = combine_next(r, r.in_loop);
    }
    f_.end_comment();
  }
  f_.jump(column_end);
  f_.block(column_end);
  for (size_t k = 0; k < reducers_.size(); ++k) {
    Reducer& r = reducers_[k];
    if (r.in_lanes) {
      std::string at = f_.address("lane", r.array, c, vector_bytes(r.dtype));
      vector_.store(r.dtype, r.in_loop, at);
    } else {
      // The column's phi already uses r.after under its own name.
      f_.line("{} = bitcast {} {} to {}", r.after, vector_.type(r.dtype), r.in_loop,
              vector_.type(r.dtype));
      r.arrivals = fmt::format("[ {}, %{} ], ", r.after, column_end);
      r.before = before[k];
    }
  }
  f_.line("{} = add nuw i64 {}, 1", next, c);
  std::string more = f_.set("more", "icmp ult i64 {}, {}", next, kLanes / m_.lanes);
  f_.branch(more, column, done);
  f_.block(rows);
}

}  // namespace stepfuse::llvm
