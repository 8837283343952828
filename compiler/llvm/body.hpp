// Emits the element code of one phase for one signature: a loop over the vectors of a chunk. Knows the
// plan, the kernel ABI, and the expression table.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "compiler/llvm/uniform.hpp"

namespace stepfuse::llvm {

// Names of a chunk's fields, all i64.
struct ChunkNames {
  std::string index, tensor, begin, length;
  std::string position;      // position of its first element in the full tensor
  std::string scratch_base;  // the tensor's
  std::string record;        // the tensor's record, a ptr
  std::string slot;          // slot in every reduction
  // Set if rows are in order: the elements of each row of the tensor, the row in it, where the chunk begins in the row,
  // and the number of that column among all.
  std::string columns, line, in_line, column;
};

// Stack memory that the bodies of a function share, by purpose.
class Storage {
 public:
  Storage(Function& function, int lanes) : f_(function), lanes_(lanes) {}
  // Returns the 2,048 lanes of a reduction.
  const std::string& lanes(int reduction);
  // Returns one vector, for the elements after a tensor's last whole vector.
  const std::string& tail(size_t stream);
  const std::string& lanes_tail(int reduction);
  // Returns as many elements as the largest block has.
  const std::string& unit(std::string_view purpose, size_t number);

 private:
  const std::string& get(const std::string& name, int elements);
  Function& f_;
  int lanes_;
  std::map<std::string, std::string> names_;
};

// A vector of the numbers 0, 1, 2, …, one per lane.
std::string steps(int lanes);

class BodyEmitter {
 public:
  BodyEmitter(const KernelPlan& plan, Module& module, Function& function, Uniform& uniform,
              Storage& storage, const ChunkNames& chunk, const plan::Body& body)
      : plan_(plan),
        body_(body),
        m_(module),
        f_(function),
        u_(uniform),
        storage_(storage),
        chunk_(chunk),
        scalar_(module, function, 1),
        vector_(module, function, module.lanes) {}

  // Emits what the body does for the chunk. `is_large` (i1): the step is far larger than any cache.
  void emit(const std::string& is_large);

 private:
  // An array that the loop accesses.
  struct Stream {
    const plan::ArrayUse* use = nullptr;
    DType dtype = DType::f32;
    bool read_first = false;  // its old contents are needed
    std::string base, tail, pointer, address;
    std::string in_place;  // in a body with blocks: the unit's part of the array
    std::string begins;    // set if rows are combined in it; i1: the chunk's row begins a tile
    // Set for arrays that are only written: i1, whether stores bypass the caches.
    std::string streams, streams_in_pass;
  };
  // A reduction. If the order matters, as in floating-point sums, it has lanes in memory. Otherwise it has one vector,
  // in memory, which LLVM turns into a register.
  struct Reducer {
    std::string name;
    std::string text;  // for comments
    int32_t index = -1;
    plan::Id operand = plan::kNone;
    Op op = Op::reduce_add;
    DType slot_dtype = DType::f32;
    DType dtype = DType::f32;  // type of the vector; bool is counted in i32
    bool in_lanes = false;
    std::string array;
    std::string tail, pointer;  // in_lanes
  };

  // A random number: the values that are the same for the whole chunk.
  struct Draw {
    std::string counter;
    std::vector<std::string> keys;  // [round]
  };

  // In a body with blocks: the current unit, and values on the stack.
  struct Unit {
    std::string first, left, ragged, size;  // i1 ragged: the chunk ends within the unit
  };
  struct StackArray {
    std::string array;
    DType dtype = DType::f32;
    int block = 1;
  };
  // A divisor that is not per element.
  struct Divisor {
    std::string reciprocal;  // in every lane
    std::string is_far;      // i1: dividing by it takes the divider
  };

  void collect();
  void open_streams(const std::string& is_large);
  std::string base_of(const Stream& s);
  std::string first_tile(Granularity at);
  std::string or_identity(const Stream& s, Ops& ops, const std::string& loaded,
                          const std::string& hint);
  void open_lanes();
  void zero_lanes();
  void splat_uniforms();
  void need_vector(plan::Id v);

  // Whole pieces of a phase that only reads.
  bool walks_columns() const;
  void emit_columns();

  // Chunks of a few vectors in a phase that only reads.
  static constexpr int kShortElements = 64;
  bool has_short_chunks() const;
  void emit_short();

  void emit_units();
  void emit_unit();
  std::string count_in_unit(int elements);
  void copy_unit(bool in);
  void emit_elements(const plan::Pass& pass);
  void decode_bytes(const plan::Pass& pass);
  std::string look_up(const plan::ByteFunction& function, const Stream& stream);
  void decode(const plan::ByteFunction& function, const Stream& stream, const std::string& array);
  std::string byte_of(const plan::ByteFunction& function, int number, const std::string& codes,
                      const std::string& is_upper);
  void combine_unit(const plan::Pass& pass, const std::string& i);
  void emit_blocks(const plan::Pass& pass);
  bool goes_in_vectors(const plan::Pass& pass) const;
  void emit_block_vectors(const plan::Pass& pass);
  std::string reduce_blocks(const plan::Inst& inst, const std::string& i);
  bool reduces_by_bits(const plan::Inst& inst) const;
  std::string halved(const plan::Inst& inst, DType t, const std::string& i);
  std::string combined_block(const plan::Inst& inst, DType t, const std::string& a,
                             const std::string& b);
  void fill_with_identities(const plan::Inst& inst, const StackArray& k, const std::string& i,
                            int block);
  std::string reduce_block(const plan::Inst& inst, const std::string& i);
  std::string reduce_short_block(const plan::Inst& inst, const std::string& i);
  std::string load_short_blocks(const StackArray& k, const std::string& i, const std::string& hint);
  int block_of(const Stream& s) const { return stepfuse::block_of(plan_.array(*s.use).at); }
  static int block_of(Granularity g) { return stepfuse::block_of(g); }
  // Reading several arrays hides the memory's latency well enough. Measures for one or two arrays would
  // then be in the way.
  bool follows_few_streams() const { return streams_.size() <= 2; }

  void emit_passes();
  void emit_loop(const std::string& count);
  void prefetch();
  void emit_element(const std::string& i);
  void emit_code(const std::string& i);
  void evaluate(const plan::Inst& inst, const std::string& i);
  std::string pairs(const std::string& a, const std::string& b);
  void prepare_division(const plan::Inst& inst);
  std::string divide(const plan::Inst& inst, const Divisor& divisor);
  std::string is_far(plan::Id x, const std::string& value, const std::string& hint);
  void prepare_draw(const plan::Inst& inst);
  std::string draw(const plan::Inst& inst, const std::string& i);
  std::string draw_at(const plan::Inst& inst, const std::string& first);
  std::string load_register(const Reducer& r);
  void set_register(const Reducer& r, const std::string& value);
  void reduce(const Reducer& r, const std::string& i);
  std::string identity(const Reducer& r) const;
  // Combines the current element's values into a vector of the reduction, in the active lanes.
  std::string combine_next(const Reducer& r, const std::string& old);
  void emit_stores();
  void emit_stores(std::span<const size_t> stores);
  void store(size_t index, plan::Id predicate);
  void store_vector(const Stream& s, const std::string& value);

  // The elements after the last whole vector.
  bool keeps_tails_in_place() const;
  void emit_whole();
  std::string active_lanes(const std::string& tail);
  std::string load_active(const Stream& s, const std::string& hint);
  void store_active(const Stream& s, const std::string& value);
  void fill_tails();
  void empty_tails(const std::vector<std::string>& before);
  void copy_tail(const Stream& s, bool in);

  void fold();
  std::string across_lanes(const Reducer& r, std::string all);
  std::string rotated(const std::string& v, DType t, int lanes);
  std::string combine(const Reducer& r, const std::string& a, const std::string& b,
                      std::string_view hint);
  void write_folded(const Reducer& r, const std::string& lanes);
  void write_slot(const Reducer& r, const std::string& value);

  size_t vector_bytes(DType t) const { return size_of(t) * static_cast<size_t>(m_.lanes); }
  const std::string& name(plan::Id v) const { return plan_[v].name; }

  const KernelPlan& plan_;
  const plan::Body& body_;
  Module& m_;
  Function& f_;
  Uniform& u_;
  Storage& storage_;
  const ChunkNames& chunk_;
  Ops scalar_;
  Ops vector_;
  std::vector<Stream> streams_;
  std::vector<Reducer> reducers_;
  std::map<plan::Id, std::string> vectors_;
  std::map<plan::Id, Draw> draws_;
  std::map<plan::Id, StackArray> stack_arrays_;
  // Functions of bytes, of the pass at hand: arrays of the unit's values; with their streams,
  // where each vector is looked up.
  std::map<plan::Id, std::string> decoded_;
  std::map<plan::Id, std::pair<plan::ByteFunction, size_t>> looked_up_;
  Unit unit_;
  std::map<plan::Id, Divisor> divisors_;
  std::map<size_t, std::string> narrowed_;  // uniform values in the type of the array, by store
  std::string active_;                      // lanes that are loaded and stored; "": all
  bool uses_index_ = false;
  std::string vectors_count_, tail_count_, lane_count_, pass_position_;
};

}  // namespace stepfuse::llvm
