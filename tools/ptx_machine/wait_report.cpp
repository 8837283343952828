// Groups the waiting threads by block and place and names what each group waits for.
#include "tools/ptx_machine/wait_report.hpp"

#include <map>

#include <fmt/format.h>

namespace ptx {
namespace {

constexpr std::size_t kMaxLines = 24;

struct Group {
  std::vector<u32> threads;
  std::string what;
};

u32 place(const Kernel& kernel, const Thread& t) {
  if (t.pending != nullptr) return static_cast<u32>(t.pending - kernel.code.data());
  if (t.spinning) return t.poll_pc;
  return t.pc;
}

std::string waits_for(const Thread& t) {
  const Block& block = *t.block;
  switch (t.state) {
    case State::at_barrier: {
      const Barrier& b = block.barriers[t.barrier];
      return fmt::format("waits at barrier {} ({} of {} threads have arrived)", t.barrier,
                         b.arrived.size(), b.expected == 0 ? block.live : b.expected);
    }
    case State::at_warp_operation:
      return fmt::format("waits for the lanes {:#010x} of its warp", t.pending_mask);
    case State::ready:
      return t.spinning ? fmt::format("polls {:#x}, which stays {}", t.poll_address, t.poll_value)
                        : "runs";
    case State::exited:
      break;
  }
  return "";
}

std::string ranges(const std::vector<u32>& threads) {
  std::string out;
  for (std::size_t i = 0; i < threads.size();) {
    std::size_t end = i + 1;
    while (end < threads.size() && threads[end] == threads[end - 1] + 1) ++end;
    if (!out.empty()) out += ",";
    out += end - i == 1 ? fmt::format("{}", threads[i])
                        : fmt::format("{}-{}", threads[i], threads[end - 1]);
    i = end;
  }
  return out;
}

}  // namespace

std::string report_waiting(const Kernel& kernel, const std::vector<const Block*>& blocks) {
  std::string out;
  std::size_t lines = 0;
  for (const Block* block : blocks) {
    if (block->parked) continue;
    std::map<std::pair<u32, std::string>, Group> groups;
    for (const Thread& t : block->threads) {
      if (t.state == State::exited) continue;
      groups[{place(kernel, t), waits_for(t)}].threads.push_back(t.index);
    }
    for (const auto& [key, group] : groups) {
      if (++lines > kMaxLines) return out + "  …\n";
      out += fmt::format("  block {} thread {} {} at {} (pc {})\n", block->index,
                         ranges(group.threads), key.second, kernel.place(key.first), key.first);
    }
  }
  return out;
}

}  // namespace ptx
