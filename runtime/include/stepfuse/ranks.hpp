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
// ranks. It needs shards that are cut at piece borders. stepfuse.hpp says what "@throws" and "@thread" mean.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include <stepfuse/stepfuse.hpp>

#pragma GCC visibility push(default)
namespace stepfuse {

/// A transport between ranks. The memory belongs to the step's device, and work follows the order of the
/// stream; on the CPU it is finished on return. Every rank calls the same functions in the same order. A
/// failure throws Error{device}, which names the rank that does not answer if the transport knows it.
/// @thread one
class Collectives {
 public:
  Collectives() = default;
  virtual ~Collectives() = default;
  Collectives(const Collectives&) = delete;
  Collectives& operator=(const Collectives&) = delete;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Computes the sum (Reduction::add) or maximum (Reduction::max) over ranks, in place. The result is equal
  /// on all of them.
  /// @throws Error{device}
  virtual void all_reduce(float* values, size_t count, Reduction op, Stream stream) = 0;
  /// Gathers `bytes` of each rank, one after the other in the order of ranks. `mine` may be this rank's part
  /// of `all`.
  /// @throws Error{device}
  virtual void all_gather(const void* mine, void* all, size_t bytes, Stream stream) = 0;
};

/// Identifies one group of ranks to NCCL. One rank makes it with nccl_id() and sends it to the others.
struct NcclId {
  char bytes[128] = {};
};
/// @throws Error{device} if there is no NCCL or it fails
/// @thread any
NcclId nccl_id();
/// Makes collectives over NCCL. This call opens the library: libnccl.so.2, or the file that
/// $STEPFUSE_NCCL_LIBRARY names. All ranks call it at the same time, each with its device's context current, and
/// it waits for them without a limit. `seconds` limits how long a later call waits for the other ranks, and how
/// long the destructor waits for queued collectives. If NCCL reports an error of another rank, work that waits
/// for that rank on the device is ended, and the next call throws. NCCL may report no error when a rank of the
/// same machine dies.
/// @throws Error{device}
/// @thread any
std::unique_ptr<Collectives> nccl_collectives(int rank, int size, const NcclId& id,
                                              double seconds = 600);

/// A property that must be equal on all ranks: its name, such as "layout", and its text.
struct Fact {
  std::string name;
  std::string text;
};
/// Return version, program, and the layout of the whole with its columns, ids and storage types; with `args`
/// also the arguments of the step and its groups. Ranks may have shards of the layout.
/// @throws Error{usage} if the arguments belong to a different step
/// @thread one
std::vector<Fact> facts_of(const Step& step, const Layout& whole);
std::vector<Fact> facts_of(const Step& step, const Layout& whole, const Args& args);
/// Compares facts over ranks, in host memory. If your transport is for device memory only, pass another one
/// here.
/// @throws Error{usage} on every rank, with ranks and names, if a text differs; Error{device}
/// @thread one
void agree(Collectives& ranks, const std::vector<Fact>& facts);

/// Combines the partial results that reduce() left on each rank; make the recipe with all_reduce. Adjacent
/// values with the same operation share one all-reduce.
/// Values per row, column or block stay on their rank.
/// @throws Error{usage} if a value is neither a sum nor a maximum of f32, or belongs to a report of layer_norms
///         or check_updates; Error{device}
/// @thread one
void share_partials(const Step& step, Collectives& ranks, Stream stream = {});

/// Replaces reduce(): ranks exchange the partial result of each piece of 16,384 elements, and each of them
/// folds all of these in the order of one device. Only for steps on the CPU.
/// @thread one
class PieceExchange {
 public:
  /// `whole` has the full tensors in the order of one device, by name. The step's tensors are shards of them
  /// by name and offset. Every rank constructs its PieceExchange at the same time, because the constructors
  /// compare the facts of step and `whole`. Make another one after append().
  /// @throws Error{usage} on every rank if facts differ, if a tensor is not a shard of the whole, or if the
  ///         shards of all ranks leave gaps or overlap; Error{device}
  PieceExchange(Step& step, const Layout& whole, Collectives& ranks);
  ~PieceExchange();
  PieceExchange(PieceExchange&&) noexcept;
  /// Does what Step::reduce() does, over all ranks. Call run() with the same gradients next.
  /// @throws Error{usage} and Error{bind} as Step::reduce(); Error{device}
  void reduce(Pointers gradients, const Args& args);

 private:
  struct Plan;
  std::unique_ptr<Plan> plan_;
};

}  // namespace stepfuse
#pragma GCC visibility pop
