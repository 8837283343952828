// Relocations of objects for x86-64 and AArch64. Knows the ELF format's numbers.
#pragma once

#include <cstddef>
#include <cstdint>

namespace stepfuse {

// The bytes that a relocation changes. 0 for one that kernels do not need, or for a different machine.
size_t relocation_bytes(uint16_t machine, uint32_t type);

// Changes the bytes at `place`, which is mapped at `address`, to refer to `target`, the symbol's address plus the
// addend. Returns false if that does not fit, or if relocation_bytes() is 0.
bool apply_relocation(uint16_t machine, uint32_t type, int64_t target, int64_t address,
                      char* place);

}  // namespace stepfuse
