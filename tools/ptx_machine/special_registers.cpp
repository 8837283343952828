// The list of special registers.
#include "tools/ptx_machine/special_registers.hpp"

namespace ptx {
namespace {

constexpr SpecialName kNames[] = {
    {"%tid.x", Special::tid_x, Type::u32},
    {"%tid.y", Special::tid_y, Type::u32},
    {"%tid.z", Special::tid_z, Type::u32},
    {"%ntid.x", Special::ntid_x, Type::u32},
    {"%ntid.y", Special::ntid_y, Type::u32},
    {"%ntid.z", Special::ntid_z, Type::u32},
    {"%ctaid.x", Special::ctaid_x, Type::u32},
    {"%ctaid.y", Special::ctaid_y, Type::u32},
    {"%ctaid.z", Special::ctaid_z, Type::u32},
    {"%nctaid.x", Special::nctaid_x, Type::u32},
    {"%nctaid.y", Special::nctaid_y, Type::u32},
    {"%nctaid.z", Special::nctaid_z, Type::u32},
    {"%laneid", Special::laneid, Type::u32},
    {"%warpid", Special::warpid, Type::u32},
    {"%nwarpid", Special::nwarpid, Type::u32},
    {"%smid", Special::smid, Type::u32},
    {"%nsmid", Special::nsmid, Type::u32},
    {"%lanemask_eq", Special::lanemask_eq, Type::u32},
    {"%lanemask_le", Special::lanemask_le, Type::u32},
    {"%lanemask_lt", Special::lanemask_lt, Type::u32},
    {"%lanemask_ge", Special::lanemask_ge, Type::u32},
    {"%lanemask_gt", Special::lanemask_gt, Type::u32},
    {"%gridid", Special::gridid, Type::u64},
    {"%dynamic_smem_size", Special::dynamic_smem_size, Type::u32},
    {"%total_smem_size", Special::total_smem_size, Type::u32},
};

}  // namespace

std::optional<SpecialName> special_named(std::string_view name) {
  for (const SpecialName& s : kNames) {
    if (s.name == name) return s;
  }
  return std::nullopt;
}

bool is_clock(std::string_view name) {
  return name == "%clock" || name == "%clock64" || name == "%globaltimer" ||
         name == "%globaltimer_lo";
}

}  // namespace ptx
