// The CUDA context that a backend works in: the caller's, or the device's primary context. Knows the
// driver.
#pragma once

#include <memory>
#include <string>

#include "runtime/cuda/driver.hpp"

namespace stepfuse::cuda {

class Context {
 public:
  // Takes the calling thread's current context if it belongs to this device, else the device's primary
  // context, which is retained while this object lives. Throws Error{device}.
  explicit Context(int ordinal);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  int ordinal() const { return ordinal_; }
  const DeviceInfo& device() const { return *info_; }
  CuContext handle() const { return context_; }
  // No other context of this process, living or destroyed, has this id. An address is not an id, because
  // addresses are reused.
  const std::string& id() const { return id_; }

  // Makes the context current for a scope, and restores the caller's context afterwards.
  class Scope {
   public:
    explicit Scope(const Context& context);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    bool pushed_ = false;
  };

 private:
  int ordinal_;
  const DeviceInfo* info_ = nullptr;
  CuContext context_ = nullptr;
  std::string id_;
  bool retained_ = false;
};

}  // namespace stepfuse::cuda
