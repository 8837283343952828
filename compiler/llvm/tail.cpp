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

std::string steps(int lanes) {
  return vector_of("i32", lanes, [](int k) { return k; });
}

// The first `tail` lanes of a vector: those that are the chunk's.
std::string BodyEmitter::active_lanes(const std::string& tail) {
  std::string count = f_.set("tail.count", "trunc i64 {} to i32", tail);
  std::string counts = vector_.splat(DType::i32, count, "tail.count");
  return f_.set("active", "icmp ult {} {}, {}", vector_.type(DType::i32), steps(m_.lanes), counts);
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

// The loop, and the same code once more for what is left.
void BodyEmitter::emit_whole() {
  pass_position_ = chunk_.position;
  for (Stream& s : streams_) {
    s.pointer = s.base;
    s.streams_in_pass = s.streams;
  }
  for (Reducer& r : reducers_) r.pointer = r.array;
  emit_loop(vectors_count_);
  std::string some = f_.set("tail.some", "icmp ne i64 {}, 0", tail_count_);
  f_.if_("tail", some, [&] {
    active_ = active_lanes(tail_count_);
    for (Stream& s : streams_) {
      s.address = f_.address("at", s.base, vectors_count_, vector_bytes(s.dtype));
    }
    emit_code(vectors_count_);
    for (const Reducer& r : reducers_) {
      f_.comment(r.text);
      reduce(r, vectors_count_);
    }
    emit_stores();
    f_.end_comment();
    active_.clear();
  });
}

// Elsewhere the loop runs in two passes of one code: the second one is for what is left, once over copies of one vector
// on the stack.
void BodyEmitter::emit_passes() {
  std::string some = f_.set("tail.some", "icmp ne i64 {}, 0", tail_count_);
  std::string passes = f_.set("passes", "select i1 {}, i64 2, i64 1", some);
  f_.loop("pass", "0", passes, [&](const std::string& pass) {
    std::string is_tail = f_.set("is_tail", "icmp ne i64 {}, 0", pass);
    std::string whole = f_.set("whole", "icmp eq i64 {}, 0", pass);
    std::string count = f_.set("count", "select i1 {}, i64 1, i64 {}", is_tail, vectors_count_);
    auto either = [&](const std::string& tail, const std::string& base) {
      return f_.set("p", "select i1 {}, ptr {}, ptr {}", is_tail, tail, base);
    };
    for (Stream& s : streams_) {
      s.pointer = either(s.tail, s.base);
      if (!s.streams.empty()) {
        s.streams_in_pass = f_.set("streams", "and i1 {}, {}", s.streams, whole);
      }
    }
    std::vector<std::string> before;
    for (Reducer& r : reducers_) {
      if (r.in_lanes) r.pointer = either(r.tail, r.array);
      before.push_back(r.in_lanes ? "" : load_register(r));
    }
    if (uses_index_) {
      std::string walked = f_.set("walked", "mul i64 {}, {}", vectors_count_, m_.lanes);
      std::string from = f_.set("walked", "select i1 {}, i64 {}, i64 0", is_tail, walked);
      pass_position_ = f_.set("position", "add i64 {}, {}", chunk_.position, from);
    }
    f_.if_("tail.in", is_tail, [&] { fill_tails(); });
    emit_loop(count);
    f_.if_("tail.out", is_tail, [&] { empty_tails(before); });
  });
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

// `before`: the registers of reductions, as they were before the tail.
void BodyEmitter::empty_tails(const std::vector<std::string>& before) {
  for (const Stream& s : streams_) {
    if (s.use->stored) copy_tail(s, false);
  }
  if (reducers_.empty()) return;
  std::string mask = active_lanes(tail_count_);
  auto merge = [&](const Reducer& r, const std::string& with, const std::string& without) {
    return f_.set("merged", "select {} {}, {} {}, {} {}", vector_.type(DType::boolean), mask,
                  vector_.type(r.dtype), with, vector_.type(r.dtype), without);
  };
  for (size_t k = 0; k < reducers_.size(); ++k) {
    const Reducer& r = reducers_[k];
    if (!r.in_lanes) {
      set_register(r, merge(r, load_register(r), before[k]));
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
