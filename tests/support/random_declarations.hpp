// Declarations of random programs: buffers, states and tables. Knows ir.
#pragma once

#include <string>

#include <fmt/format.h>

#include "ir/program/builder.hpp"
#include "tests/support/random_types.hpp"

namespace stepfuse::testing {

class RandomDeclarations : protected RandomTypes {
 protected:
  explicit RandomDeclarations(uint64_t seed) : RandomTypes(seed), b_("random") {}

  void declare_buffers() {
    if (squares_) add_buffer(DType::f32, Access::out, any_shared());
    int count = rng_.between(1, 4);
    for (int i = 0; i < count; ++i) {
      add_buffer(any_storage(), rng_.pick({Access::in, Access::inout, Access::inout, Access::out}));
    }
  }
  BufferRef add_buffer(DTypeSet types, Access access) {
    bool shared = may_share() && !(squares_ && access == Access::inout) &&
                  rng_.chance(rows_ && !squares_ ? 35 : 12);
    return add_buffer(types, access, shared ? any_shared() : per::element);
  }
  BufferRef add_buffer(DTypeSet types, Access access, Granularity at) {
    std::string name = fmt::format("b{}", b_.program().buffers.size());
    BufferRef buffer = b_.buffer(name, types, access, at);
    auto [from, below] = any_sizes(types);
    b_.only_of(buffer, from, below);
    return buffer;
  }
  StateRef add_state(Type t) {
    bool shared = t.at == per::step && rng_.chance(20);
    return b_.state(fmt::format("s{}", b_.program().states.size()), t, shared);
  }
  TableRef any_table() {
    size_t known = b_.program().tables.size();
    if (known > 0 && rng_.chance(60)) return {static_cast<int32_t>(rng_.below(known))};
    return b_.table(fmt::format("t{}", known), rising_values());
  }

  Builder b_;
};

}  // namespace stepfuse::testing
