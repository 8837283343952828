// Look-ups by name in a Program. Knows ir only.
#include <set>

#include <stepfuse/program.hpp>

namespace stepfuse {
namespace {
template <class T>
int find_named(const std::vector<T>& list, std::string_view wanted) {
  for (size_t i = 0; i < list.size(); ++i) {
    if (list[i].name == wanted) return static_cast<int>(i);
  }
  return -1;
}
}  // namespace

std::string_view name(Access a) {
  switch (a) {
    case Access::in:
      return "in";
    case Access::out:
      return "out";
    case Access::inout:
      return "inout";
  }
  internal_error("bad Access");
}

int Program::find_buffer(std::string_view n) const { return find_named(buffers, n); }
int Program::find_state(std::string_view n) const { return find_named(states, n); }
int Program::find_arg(std::string_view n) const { return find_named(args, n); }

std::vector<uint64_t> tensor_classes(const Program& program) {
  std::set<uint64_t> begins = {0};
  for (const Buffer& b : program.buffers) {
    begins.insert(b.from);
    if (b.below != Buffer::kAnySize) begins.insert(b.below);
  }
  return {begins.begin(), begins.end()};
}

}  // namespace stepfuse
