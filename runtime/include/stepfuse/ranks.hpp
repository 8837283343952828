// A step on many ranks: what they tell each other between its phases, over somebody else's transport.
// Knows the public API.
//
//   sf::Collectives& ranks = …;                      // sf::nccl_collectives(), or a class of yours: MPI in
//                                                    // samples/ranks
//   sf::agree(ranks, sf::facts_of(step, layout, args));  // once: throws on every rank, says which differs
//   step.reduce(gradients, args, stream);
//   sf::share_partials(step, ranks, stream);         // one norm, one verdict
//   step.run(gradients, args, stream);
//
// For one device's bits on any number of ranks, with shards cut at piece borders, a PieceExchange instead
// of reduce() and share_partials().
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include <stepfuse/stepfuse.hpp>

#pragma GCC visibility push(default)
namespace stepfuse {

// Memory is the step's device's, work is in the stream's order; on the CPU both are done on return. Every
// rank calls the same functions in the same order. A failure is thrown as Error{device} that says which
// rank does not answer, where the transport knows.
class Collectives {
 public:
  Collectives() = default;
  virtual ~Collectives() = default;
  Collectives(const Collectives&) = delete;
  Collectives& operator=(const Collectives&) = delete;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Sum or maximum (Op::reduce_add, Op::reduce_max) over ranks, in place and equal on all of them.
  virtual void all_reduce(float* values, size_t count, Op op, Stream stream) = 0;
  // `bytes` of each rank, one behind the other in the order of ranks. `mine` may be this rank's
  // part of `all`.
  virtual void all_gather(const void* mine, void* all, size_t bytes, Stream stream) = 0;
};

// NCCL's, opened when this is called: libnccl.so.2, or the file that $STEPFUSE_NCCL_LIBRARY names. One rank
// makes the id and brings it to the others, who then call nccl_collectives() all at once, with
// their device's context current. Throws Error{device}. The destructor waits for queued collectives, at most
// so many seconds, in which every call of another rank has to come, too. An error that NCCL reports of
// another rank ends what waits for it on the device, and the next call throws. Of a rank that dies in the
// same machine NCCL may report none.
struct NcclId {
  char bytes[128] = {};
};
NcclId nccl_id();
std::unique_ptr<Collectives> nccl_collectives(int rank, int size, const NcclId& id,
                                              double seconds = 600);

// What ranks must have in common: a name, "layout", and its text.
struct Fact {
  std::string name;
  std::string text;
};
// Version, program, and the layout of the whole with its columns, ids and storage types. Ranks may have
// shards of it.
std::vector<Fact> facts_of(const Step& step, const Layout& whole);
// The same, and the arguments of the step and its groups.
std::vector<Fact> facts_of(const Step& step, const Layout& whole, const Args& args);
// Throws Error{usage} on every rank, with ranks and names, unless all texts are the same. On host
// memory: for a transport of device memory call it over another one.
void agree(Collectives& ranks, const std::vector<Fact>& facts);

// After reduce(), which a recipe with all_reduce is made for: one all-reduce of what it left, and where a formula
// reduces by another operation one for each. Throws Error{usage} where something is neither a sum nor a
// maximum of f32.
void share_partials(const Step& step, Collectives& ranks, Stream stream = nullptr);

// In the place of reduce(): ranks exchange what each piece of 16,384 elements left, and fold all of them in
// one device's order. For steps on the CPU.
class PieceExchange {
 public:
  // `whole`: the full tensors in one device's order, by name. The step's tensors are shards of them by name
  // and offset. Every rank makes its own at the same time: they compare the facts of step and `whole`. Throws
  // Error{usage} on every rank where facts differ, where a tensor is no shard of the whole, or where shards of
  // all ranks leave gaps or overlap. Make another one after append().
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
