// The elements of a chunk after its last whole vector: some lanes of one more vector, so that nothing
// outside the chunk is ever accessed. Knows the plan and the reduction order.
#include "compiler/llvm/body.hpp"
#include "compiler/llvm/prelude.hpp"
#include "ir/semantics/reduction.hpp"

namespace stepfuse::llvm {
namespace {
// The code is repeated once for it.
constexpr size_t kLongestTailCode = 64;
}  // namespace

// Returns the mask of the first `tail` lanes, which belong to the chunk.
std::string BodyEmitter::active_lanes(const std::string& tail) {
  std::string steps;
  for (int k = 0; k < m_.lanes; ++k) steps += fmt::format("{}i32 {}", k == 0 ? "" : ", ", k);
  std::string count = f_.set("tail.count", "trunc i64 {} to i32", tail);
  std::string counts = vector_.splat(DType::i32, count, "tail.count");
  return f_.set("active", "icmp ult {} <{}>, {}", vector_.type(DType::i32), steps, counts);
}

// Loads the lanes that belong to the chunk, and zeros in the others.
std::string BodyEmitter::load_active(const Stream& s, const std::string& hint) {
  int bits = static_cast<int>(size_of(s.dtype)) * 8;
  std::string integers = integer_type_text(bits, m_.lanes);
  std::string mask = vector_.type(DType::boolean);
  std::string suffix = fmt::format("v{}i{}.p0", m_.lanes, bits);
  m_.declarations.insert(
      fmt::format("declare {0} @llvm.masked.load.{1}(ptr, i32, {2}, {0})", integers, suffix, mask));
  std::string v =
      f_.set(hint, "call {0} @llvm.masked.load.{1}(ptr {2}, i32 1, {3} {4}, {0} zeroinitializer)",
             integers, suffix, s.address, mask, active_);
  if (s.dtype == DType::boolean) return f_.set(hint, "icmp ne {} {}, zeroinitializer", integers, v);
  return f_.set(hint, "bitcast {} {} to {}", integers, v, vector_.type(s.dtype));
}

void BodyEmitter::store_active(const Stream& s, const std::string& value) {
  int bits = static_cast<int>(size_of(s.dtype)) * 8;
  std::string integers = integer_type_text(bits, m_.lanes);
  std::string mask = vector_.type(DType::boolean);
  std::string suffix = fmt::format("v{}i{}.p0", m_.lanes, bits);
  m_.declarations.insert(fmt::format("declare void @llvm.masked.store.{1}({0}, ptr, i32, {2})",
                                     integers, suffix, mask));
  std::string v = f_.set("bits", "{} {} {} to {}", s.dtype == DType::boolean ? "zext" : "bitcast",
                         vector_.type(s.dtype), value, integers);
  f_.line("call void @llvm.masked.store.{}({} {}, ptr {}, i32 1, {} {})", suffix, integers, v,
          s.address, mask, active_);
}

bool BodyEmitter::keeps_tails_in_place() const {
  return m_.has_masks && body_.code.size() <= kLongestTailCode;
}

// Emits the loop, and the same code once more for the remaining elements.
void BodyEmitter::emit_whole(const std::string& done) {
  std::string before = f_.label("body");
  std::string after = f_.label("whole.end");
  std::string tail = f_.label("tail");
  std::string tail_end = f_.label("tail.end");
  f_.jump(before);
  f_.block(before);
  pass_position_ = chunk_.position;
  for (Stream& s : streams_) {
    s.pointer = s.base;
    s.streams_in_pass = s.streams;
  }
  for (Reducer& r : reducers_) {
    r.pointer = r.array;
    r.in_pass = r.before;
    r.after = f_.name(r.name + ".after");
  }
  emit_loop(vectors_count_, before, after);
  std::string none = f_.set("tail.none", "icmp eq i64 {}, 0", tail_count_);
  f_.branch(none, done, tail);

  f_.block(tail);
  active_ = active_lanes(tail_count_);
  for (Stream& s : streams_) {
    s.address = f_.address("at", s.base, vectors_count_, vector_bytes(s.dtype));
  }
  emit_code(vectors_count_);
  for (Reducer& r : reducers_) {
    f_.comment(r.text);
    r.in_loop = r.after;
    r.next = f_.name(r.name + ".next");
    reduce(r, vectors_count_);
  }
  emit_stores();
  f_.end_comment();
  active_.clear();
  f_.jump(tail_end);
  f_.block(tail_end);
  f_.jump(done);
  for (Reducer& r : reducers_) {
    if (r.in_lanes) continue;
    r.before =
        fmt::format("{}[ {}, %{} ], [ {}, %{} ]", r.arrivals, r.after, after, r.next, tail_end);
  }
}

// --- otherwise the loop runs its code in two passes: the second one, for the remaining elements, on copies
// of one vector on the stack

void BodyEmitter::emit_passes(const std::string& done) {
  std::string before = f_.label("body");
  std::string pass = f_.label("pass");
  std::string after = f_.label("pass.after");
  std::string whole_end = f_.label("pass.whole.end");
  std::string tail_in = f_.label("tail.in");
  std::string tail_out = f_.label("tail.out");
  f_.jump(before);
  f_.block(before);
  f_.jump(pass);

  f_.block(pass);
  std::string is_tail = f_.set("is_tail", "phi i1 [ false, %{} ], [ true, %{} ]", before, tail_in);
  std::string count =
      f_.set("count", "phi i64 [ {}, %{} ], [ 1, %{} ]", vectors_count_, before, tail_in);
  auto either = [&](std::string_view hint, const std::string& whole, const std::string& tail) {
    return f_.set(hint, "phi ptr [ {}, %{} ], [ {}, %{} ]", whole, before, tail, tail_in);
  };
  for (Stream& s : streams_) s.pointer = either("p", s.base, s.tail);
  for (Reducer& r : reducers_) {
    r.after = f_.name(r.name + ".after");
    if (r.in_lanes) {
      r.pointer = either("lanes", r.array, r.tail);
    } else {
      r.in_pass = f_.set(r.name, "phi {} [ {}, %{} ], [ {}, %{} ]", vector_.type(r.dtype), r.before,
                         before, r.after, tail_in);
    }
  }
  std::string tail_position = f_.name("position.tail");
  std::string whole = f_.name("whole");
  if (uses_index_) {
    pass_position_ = f_.set("position", "phi i64 [ {}, %{} ], [ {}, %{} ]", chunk_.position, before,
                            tail_position, tail_in);
  }
  f_.line("{} = xor i1 {}, true", whole, is_tail);
  for (Stream& s : streams_) {
    if (!s.streams.empty()) {
      s.streams_in_pass = f_.set("streams", "and i1 {}, {}", s.streams, whole);
    }
  }
  emit_loop(count, pass, after);

  f_.branch(is_tail, tail_out, whole_end);
  f_.block(whole_end);
  std::string none = f_.set("tail.none", "icmp eq i64 {}, 0", tail_count_);
  f_.branch(none, done, tail_in);
  f_.block(tail_in);
  if (uses_index_) {
    std::string walked = f_.set("walked", "mul i64 {}, {}", vectors_count_, m_.lanes);
    f_.line("{} = add i64 {}, {}", tail_position, chunk_.position, walked);
  }
  fill_tails();
  f_.jump(pass);
  f_.block(tail_out);
  empty_tails();
  f_.jump(done);
  // fold() decides from which of the two passes a register reduction comes.
  for (Reducer& r : reducers_) {
    if (!r.in_lanes) {
      r.before = fmt::format("{}[ {}, %{} ], [ {}, %{} ]", r.arrivals, r.after, whole_end, r.next,
                             tail_out);
    }
  }
}

// Copies the remaining elements of an array from or to their vector on the stack.
void BodyEmitter::copy_tail(const Stream& s, bool in) {
  std::string rest = f_.address("rest", s.base, vectors_count_, vector_bytes(s.dtype));
  if (in && m_.has_word_masks && size_of(s.dtype) == 4) {
    Stream of_rest = s;
    of_rest.address = rest;
    active_ = active_lanes(tail_count_);
    vector_.store(s.dtype, load_active(of_rest, "rest"), s.tail);
    active_.clear();
    return;
  }
  use_helper(m_, "sf_copy");
  std::string bytes = f_.set("bytes", "mul i64 {}, {}", tail_count_, size_of(s.dtype));
  f_.line("call void @sf_copy(ptr {}, ptr {}, i64 {})", in ? s.tail : rest, in ? rest : s.tail,
          bytes);
}

void BodyEmitter::fill_tails() {
  for (const Stream& s : streams_) {
    if (s.read_first) copy_tail(s, true);
  }
  for (const Reducer& r : reducers_) {
    if (!r.in_lanes) continue;
    std::string walked = f_.set("walked", "mul i64 {}, {}", vectors_count_, m_.lanes);
    std::string lane = f_.set("lane", "and i64 {}, {}", walked, kLanes - 1);
    std::string from = f_.address("lane", r.array, lane, sizeof(float));
    vector_.store(r.dtype, vector_.load(r.dtype, from, "lanes"), r.tail);
  }
}

void BodyEmitter::empty_tails() {
  for (const Stream& s : streams_) {
    if (s.use->stored) copy_tail(s, false);
  }
  if (reducers_.empty()) return;
  std::string mask = active_lanes(tail_count_);
  auto merge = [&](const Reducer& r, const std::string& with, const std::string& without) {
    return f_.set("merged", "select {} {}, {} {}, {} {}", vector_.type(DType::boolean), mask,
                  vector_.type(r.dtype), with, vector_.type(r.dtype), without);
  };
  for (Reducer& r : reducers_) {
    if (!r.in_lanes) {
      r.next = merge(r, r.after, r.in_pass);
      continue;
    }
    std::string walked = f_.set("walked", "mul i64 {}, {}", vectors_count_, m_.lanes);
    std::string lane = f_.set("lane", "and i64 {}, {}", walked, kLanes - 1);
    std::string at = f_.address("lane", r.array, lane, sizeof(float));
    std::string with = vector_.load(r.dtype, r.tail, "lanes");
    vector_.store(r.dtype, merge(r, with, vector_.load(r.dtype, at, "lanes")), at);
  }
}

}  // namespace stepfuse::llvm
