// A 128-bit hash of everything that a step has computed. It is equal if the bits are, whatever form,
// backend or thread count computed them. Knows ir and the public API.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include <stepfuse/stepfuse.hpp>

namespace stepfuse {

// XXH3_128 over names, types, shapes and values. All NaNs of a type count as one pattern. The host arrays
// may have any alignment.
class Digest {
 public:
  Digest();
  ~Digest();
  Digest(const Digest&) = delete;
  Digest& operator=(const Digest&) = delete;

  // Adds `count` values; `kind` and `name` say what they are ("buffer", "grad").
  void add(std::string_view kind, std::string_view name, DType dtype, const void* data,
           uint64_t count);
  // Adds every state of the step, in declared order; waits for the device.
  void add_states(const Step& step);

  std::string hex() const;  // 32 digits

 private:
  struct Hash;
  void add_header(std::string_view kind, std::string_view name, DType dtype, uint64_t count);
  std::unique_ptr<Hash> hash_;
};

}  // namespace stepfuse
