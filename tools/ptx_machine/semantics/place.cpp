// The words of the memory errors: what was touched, where it lies, who else was there.
#include "tools/ptx_machine/semantics/place.hpp"

#include <fmt/format.h>

namespace ptx {
namespace {

const char* name_of(Space space) {
  switch (space) {
    case Space::generic:
      return "generic";
    case Space::global:
      return "global";
    case Space::constant:
      return "constant";
    case Space::shared:
      return "shared";
    case Space::local:
      return "local";
    case Space::param:
      return "parameter";
  }
  return "?";
}

const char* name_of(Touch touch) {
  switch (touch) {
    case Touch::read:
      return "read";
    case Touch::write:
      return "write";
    case Touch::both:
      return "atomic access";
  }
  return "?";
}

std::string describe_shared(const Kernel& kernel, u64 address) {
  for (const SharedVariable& v : kernel.shared) {
    if (address >= v.offset && address < v.offset + v.bytes) {
      return fmt::format("byte {} of shared {}", address - v.offset, v.name);
    }
    u64 end = u64{v.offset} + v.bytes;
    if (address >= end && address < end + kSharedGap) {
      return fmt::format("{} bytes behind the end of shared {} ({} bytes)", address - end, v.name,
                         v.bytes);
    }
  }
  return fmt::format("byte {} of dynamic shared memory",
                     static_cast<s64>(address) - kernel.dynamic_shared_offset);
}

std::string describe(Thread& t, Space space, u64 address) {
  if (space == Space::shared) return describe_shared(t.launch->kernel, address);
  if (space == Space::local) return fmt::format("byte {} of local memory", address);
  if (space == Space::param) return fmt::format("byte {} of the parameters", address);
  return t.launch->memory.describe(address);
}

}  // namespace

void out_of_bounds(Thread& t, Space space, u64 address, u32 bytes, Touch touch) {
  fail(t, ErrorKind::out_of_bounds,
       fmt::format("{} of {} bytes of {} memory at {:#x}, {}", name_of(touch), bytes,
                   name_of(space), address, describe(t, space, address)));
}

void misaligned(Thread& t, u64 address, u32 bytes) {
  fail(t, ErrorKind::misaligned,
       fmt::format("an access of {} bytes at {:#x}, {} bytes off", bytes, address,
                   address & (bytes - 1)));
}

void uninitialised(Thread& t, const Location& place, u64 address, u32 bytes) {
  resolve_generic(address);
  fail(t, ErrorKind::uninitialised,
       fmt::format("reads {} bytes of {} memory that nobody wrote, {}", bytes, name_of(place.space),
                   describe(t, place.space, address)));
}

void report_race(Thread& t, const Location& place, u64 address, Touch touch) {
  const Conflict& other = t.launch->races.conflict();
  resolve_generic(address);
  fail(t, ErrorKind::race,
       fmt::format("{} of {}, {} the {} by block {} thread {}\n  at {}", name_of(touch),
                   describe(t, place.space, address),
                   other.constant ? "in one launch with" : "which nothing orders after", other.what,
                   block_of(other.id), index_of(other.id), t.launch->kernel.place(other.pc)));
}

}  // namespace ptx
