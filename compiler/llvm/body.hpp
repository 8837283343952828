// The element code of one phase for one signature: a loop over the vectors of a chunk. Knows the
// schedule, the kernel ABI, and the expression table.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/llvm/uniform.hpp"

namespace stepfuse::llvm {

// Names of a chunk's fields, all i64.
struct ChunkNames {
  std::string index, tensor, begin, length;
  std::string position;      // of its first element in the full tensor
  std::string scratch_base;  // of its tensor
};

// Stack memory that the bodies of a function share, by purpose.
class Storage {
 public:
  Storage(Function& function, int lanes) : f_(function), lanes_(lanes) {}
  // 2,048 lanes of a reduction.
  const std::string& lanes(int reduction);
  // One vector, for what a tensor has after its last whole vector.
  const std::string& tail(size_t stream);
  const std::string& lanes_tail(int reduction);

 private:
  const std::string& get(const std::string& name, int elements);
  Function& f_;
  int lanes_;
  std::map<std::string, std::string> names_;
};

class BodyEmitter {
 public:
  BodyEmitter(const Schedule& schedule, Module& module, Function& function, Uniform& uniform,
              Storage& storage, const ChunkNames& chunk, size_t signature)
      : s_(schedule),
        p_(schedule.program),
        m_(module),
        f_(function),
        u_(uniform),
        storage_(storage),
        chunk_(chunk),
        signature_(signature),
        scalar_(module, function, 1),
        vector_(module, function, module.lanes) {}

  // Emits into the current block what `body` does for the chunk, ending with a jump to `next`.
  // Reductions of `all` that are not the body's get their identity.
  // `is_large` (i1): the step is far larger than any cache.
  void emit(const Body& body, const std::vector<ValueId>& all, const std::string& is_large,
            const std::string& next);
  void write_identities(const std::vector<ValueId>& reductions);

 private:
  // An array that the loop walks along: a buffer of the tensor, or a scratch array.
  struct Stream {
    bool is_scratch = false;
    int32_t slot = -1;
    DType dtype = DType::f32;
    bool read_first = false;  // its old contents are needed
    bool written = false;
    std::string base, tail, pointer, address;
    // Set for arrays that are only written: i1, whether stores go past the caches.
    std::string streams, streams_in_pass;
  };
  // A reduction: lanes in memory where the order matters (floating-point sums), else one vector.
  struct Reducer {
    ValueId value = kNoValue;
    int32_t index = -1;
    Op op = Op::reduce_add;
    DType dtype = DType::f32;  // of the vector; bool is counted in i32
    bool in_lanes = false;
    std::string array, tail, pointer;                   // in_lanes
    std::string before, in_pass, in_loop, next, after;  // else
  };

  void collect(const Body& body);
  Stream& stream(bool is_scratch, int32_t slot, DType dtype);
  void open_streams(const std::string& is_large);
  void splat_uniforms(const Body& body);
  void need_vector(ValueId v);

  void emit_passes(const Body& body, const std::string& done);
  void emit_loop(const Body& body, const std::string& count, const std::string& pass_label,
                 const std::string& after);
  void prefetch();
  void emit_element(const Body& body, const std::string& i);
  void evaluate(ValueId v, const std::string& i);
  void reduce(Reducer& r, const std::string& i);
  void emit_stores(const Body& body);
  void store(const StoreAction& action);
  void store_vector(const Stream& s, const std::string& value);
  void fill_tails();
  void empty_tails();
  void copy_tail(const Stream& s, bool in, const std::string& active);
  std::string active_lanes();
  void fold();
  std::string across_lanes(const Reducer& r);
  std::string combine(const Reducer& r, const std::string& a, const std::string& b,
                      std::string_view hint);
  void write_slot(ValueId reduction, const std::string& value);

  size_t vector_bytes(DType t) const { return size_of(t) * static_cast<size_t>(m_.lanes); }
  DType dtype(ValueId v) const { return s_.dtype_of(v, signature_); }
  const std::string& name(ValueId v) const { return p_.names[static_cast<size_t>(v)]; }
  bool is_uniform(ValueId v) const { return p_[v].type.domain != Domain::element; }

  const Schedule& s_;
  const Program& p_;
  Module& m_;
  Function& f_;
  Uniform& u_;
  Storage& storage_;
  const ChunkNames& chunk_;
  size_t signature_;
  Ops scalar_;
  Ops vector_;
  std::vector<Stream> streams_;
  std::vector<Reducer> reducers_;
  std::map<ValueId, std::string> vectors_;
  bool uses_index_ = false;
  std::string vectors_count_, tail_count_, lane_start_, lane_count_, pass_position_;
};

}  // namespace stepfuse::llvm
