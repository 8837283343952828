// A step on many ranks: the values that ranks exchange between its phases, over a transport of the caller.
// Knows the public API.
//
//   sf::Collectives& ranks = …;                      // sf::nccl_collectives(), or a class of yours: MPI in
//                                                    // samples/ranks
//   sf::agree(ranks, sf::facts_of(step, layout, args));  // once: throws on every rank, says which differs
//   step.reduce(gradients, args, stream);
//   sf::share_partials(step, ranks, stream);         // one norm, one verdict
//   step.run(gradients, args, stream);
//
// A PieceExchange in place of reduce() and share_partials() gives the bits of one device on any number of
// ranks. It needs shards that are cut at piece borders.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include <stepfuse/stepfuse.hpp>

#pragma GCC visibility push(default)
namespace stepfuse {

// A transport between ranks. The memory belongs to the step's device, and work follows the order of the
// stream; on the CPU it is finished on return. Every rank calls the same functions in the same order. A
// failure throws Error{device}, which names the rank that does not answer if the transport knows it.
class Collectives {
 public:
  Collectives() = default;
  virtual ~Collectives() = default;
  Collectives(const Collectives&) = delete;
  Collectives& operator=(const Collectives&) = delete;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Computes the sum or maximum (Op::reduce_add, Op::reduce_max) over ranks, in place. The result is equal
  // on all of them.
  virtual void all_reduce(float* values, size_t count, Op op, Stream stream) = 0;
  // Gathers `bytes` of each rank, one after the other in the order of ranks. `mine` may be this rank's part
  // of `all`.
  virtual void all_gather(const void* mine, void* all, size_t bytes, Stream stream) = 0;
};

// Collectives over NCCL. The library is opened by these calls: libnccl.so.2, or the file that
// $STEPFUSE_NCCL_LIBRARY names. One rank makes the id and sends it to the others; then all ranks call
// nccl_collectives() at the same time, each with its device's context current. They throw Error{device}.
// `seconds` limits how long a call may wait for the other ranks, and how long the destructor waits for queued
// collectives; only nccl_collectives() itself waits without a limit. If NCCL reports an error of another rank, work that waits for that rank on the device
// is ended, and the next call throws. NCCL may report no error when a rank of the same machine dies.
struct NcclId {
  char bytes[128] = {};
};
NcclId nccl_id();
std::unique_ptr<Collectives> nccl_collectives(int rank, int size, const NcclId& id,
                                              double seconds = 600);

// A property that must be equal on all ranks: its name, such as "layout", and its text.
struct Fact {
  std::string name;
  std::string text;
};
// Returns version, program, and the layout of the whole with its columns, ids and storage types. Ranks may
// have shards of it.
std::vector<Fact> facts_of(const Step& step, const Layout& whole);
// Returns the same and the arguments of the step and its groups.
std::vector<Fact> facts_of(const Step& step, const Layout& whole, const Args& args);
// Throws Error{usage} on every rank, with ranks and names, unless all texts are the same. It uses host
// memory; if your transport is for device memory only, pass another one here.
void agree(Collectives& ranks, const std::vector<Fact>& facts);

// Combines the partial results that reduce() left on each rank; make the recipe with all_reduce. Adjacent
// values with the same operation share one all-reduce. Throws Error{usage} if a value is neither a sum nor a
// maximum of f32.
void share_partials(const Step& step, Collectives& ranks, Stream stream = nullptr);

// Replaces reduce(): ranks exchange the partial result of each piece of 16,384 elements, and each of them
// folds all of these in the order of one device. Only for steps on the CPU.
class PieceExchange {
 public:
  // `whole` has the full tensors in the order of one device, by name. The step's tensors are shards of them
  // by name and offset. Every rank constructs its PieceExchange at the same time, because the constructors
  // compare the facts of step and `whole`. Throws Error{usage} on every rank if facts differ, if a tensor is
  // not a shard of the whole, or if the shards of all ranks leave gaps or overlap. Make another one after
  // append().
  PieceExchange(Step& step, const Layout& whole, Collectives& ranks);
  ~PieceExchange();
  PieceExchange(PieceExchange&&) noexcept;
  // run() with the same gradients follows.
  void reduce(Pointers gradients, const Args& args);

 private:
  struct Plan;
  std::unique_ptr<Plan> plan_;
};

}  // namespace stepfuse
#pragma GCC visibility pop
