// ld, st, cvta, atom and red, through the scratch memory and the shared array.
#include <fmt/format.h>

#include "tests/ptx_machine/opcodes/harness.hpp"

namespace ptx::opcodes {
namespace {

// Stores %a (.b64) for each thread at its own 32 bytes, then runs `text` with %y0 at them.
std::string at_own_place(const std::string& text, const std::string& space) {
  std::string base = space == "shared" ? "mov.u64 %y0, block; " : "mov.u64 %y0, %scratch; ";
  return base + "mad.wide.u32 %y0, %row, 32, %y0; " + text;
}

std::vector<Case> extending_loads() {
  std::vector<Case> all;
  struct {
    const char *type, *reg;
    u64 want;
  } list[] = {{"u8", "b32", 0xF8},
              {"s8", "b32", 0xFFFFFFF8},
              {"b8", "b16", 0xF8},
              {"s8", "b64", 0xFFFFFFFFFFFFFFF8},
              {"u16", "b16", 0x87F8},
              {"s16", "b32", 0xFFFF87F8},
              {"b16", "b16", 0x87F8},
              {"u32", "b32", 0x84B687F8},
              {"s32", "b64", 0xFFFFFFFF84B687F8},
              {"u32", "b64", 0x84B687F8},
              {"b32", "b32", 0x84B687F8},
              {"f32", "b32", 0x84B687F8},
              {"u64", "b64", 0x123456784B687F8},
              {"s64", "b64", 0x123456784B687F8},
              {"b64", "b64", 0x123456784B687F8},
              {"f64", "b64", 0x123456784B687F8}};
  for (const auto& c : list) {
    for (const char* space : {"global", "shared"}) {
      std::string text =
          fmt::format("st.{0}.b64 [%y0+8], %a; ld.{0}.{1} %d, [%y0+8];", space, c.type);
      u64 bits = std::string(c.type).ends_with("64") ? 0x123456784B687F8 : 0x0123456784B687F8;
      all.push_back(
          {at_own_place(text, space), {"b64"}, c.reg, {{{bits}, c.want}, {{bits}, c.want}}});
    }
  }
  return all;
}

std::vector<Case> access_forms() {
  auto place = [](const std::string& text) { return at_own_place(text, "global"); };
  std::vector<Case> all;
  // hints change nothing
  for (const char* load :
       {"ld.global.ca.u32", "ld.global.cg.u32", "ld.global.cs.u32", "ld.global.lu.u32",
        "ld.global.cv.u32", "ld.weak.global.u32", "ld.u32",
        "ld.global.ca.L1::no_allocate.L2::128B.u32", "ld.global.L1::evict_last.u32",
        "ld.volatile.global.u32", "ld.relaxed.gpu.global.u32", "ld.relaxed.cta.global.u32",
        "ld.acquire.sys.global.u32", "ld.acquire.gpu.u32"}) {
    all.push_back({place(fmt::format("st.global.u32 [%y0], %a; {} %d, [%y0];", load)),
                   {"u32"},
                   "u32",
                   {{{42}, 42}}});
  }
  for (const char* load : {"ld.global.nc.u32", "ld.global.nc.L1::no_allocate.L2::128B.u32"}) {
    all.push_back({fmt::format("{} %x1, [%scratch]; add.u32 %d, %x1, %a;", load),
                   {"u32"},
                   "u32",
                   {{{42}, 42}}});
  }
  for (const char* store :
       {"st.global.wb.u32", "st.global.cg.u32", "st.global.cs.u32", "st.global.wt.u32",
        "st.weak.global.u32", "st.u32", "st.global.L1::no_allocate.u32", "st.volatile.global.u32",
        "st.relaxed.gpu.global.u32", "st.release.sys.global.u32", "st.release.cta.u32"}) {
    all.push_back({place(fmt::format("{} [%y0], %a; ld.global.u32 %d, [%y0];", store)),
                   {"u32"},
                   "u32",
                   {{{43}, 43}}});
  }
  // vectors: element order, sinks, narrow elements
  all.push_back({place("st.global.v2.u32 [%y0], {%a, %b}; ld.global.u64 %d, [%y0];"),
                 {"u32", "u32"},
                 "u64",
                 {{{1, 2}, 0x200000001}}});
  all.push_back({place("st.global.v4.u32 [%y0+16], {%a, %b, %a, %b}; ld.global.v4.u32 {_, %x1, "
                       "%x2, _}, [%y0+16]; sub.u32 %d, %x1, %x2;"),
                 {"u32", "u32"},
                 "u32",
                 {{{1, 9}, 8}}});
  all.push_back({place("st.global.v4.u16 [%y0], {%a, %b, %a, %b}; ld.global.u64 %d, [%y0];"),
                 {"u16", "u16"},
                 "u64",
                 {{{1, 2}, 0x0002000100020001}}});
  all.push_back({place("st.global.v4.u8 [%y0], {%a, 2, 3, 4}; ld.global.u32 %d, [%y0];"),
                 {"u16"},
                 "u32",
                 {{{1}, 0x04030201}}});
  all.push_back({place("st.global.v2.f64 [%y0], {%a, %b}; ld.global.v2.f64 {%y1, %d}, [%y0];"),
                 {"f64", "f64"},
                 "f64",
                 {{{d(1), d(2)}, d(2)}}});
  all.push_back({place("st.global.v8.b32 [%y0], {%a, 1, 2, 3, 4, 5, 6, 7}; ld.global.v8.b32 {%x0, "
                       "%x1, %x2, %x3, %x4, %x5, %x6, %d}, [%y0];"),
                 {"u32"},
                 "u32",
                 {{{9}, 7}}});
  all.push_back({place("createpolicy.fractional.L2::evict_first.b64 %y1, 0f3F800000; "
                       "st.global.L2::cache_hint.v2.b32 [%y0], {%a, 7}, %y1; "
                       "ld.global.L2::cache_hint.v2.b32 {%x0, %d}, [%y0], %y1;"),
                 {"u32"},
                 "u32",
                 {{{9}, 7}}});
  all.push_back({place("createpolicy.fractional.L2::evict_first.b64 %y1, 0f3F800000; "
                       "st.global.L2::cache_hint.b32 [%y0], %a, %y1; "
                       "ld.global.L2::cache_hint.b32 %d, [%y0], %y1;"),
                 {"u32"},
                 "u32",
                 {{{9}, 9}}});
  all.push_back({place("st.volatile.global.v2.u32 [%y0], {%a, %a}; ld.volatile.global.v2.u32 {%x0, "
                       "%d}, [%y0];"),
                 {"u32"},
                 "u32",
                 {{{9}, 9}}});
  // other spaces
  all.push_back(
      {".local .align 8 .b8 own[16]; mov.u64 %y1, own; st.local.u32 [%y1+4], %a; ld.local.u32 %d, "
       "[own+4];",
       {"u32"},
       "u32",
       {{{5}, 5}, {{6}, 6}}});
  all.push_back({"ld.param.u32 %d, [count];", {}, "u32", {{{}, 2}, {{}, 2}}});
  all.push_back({"mov.b64 %y1, scratch; ld.param.u32 %d, [%y1+8];", {}, "u32", {{{}, 1}}});
  all.push_back({"prefetch.global.L2 [%scratch]; mov.u32 %d, %a;", {"u32"}, "u32", {{{5}, 5}}});
  return all;
}

std::vector<Case> addresses() {
  return {
      {"mov.u64 %y1, block; cvta.shared.u64 %y2, %y1; st.u32 [%y2], %a; ld.shared.u32 %d, [block];",
       {"u32"},
       "u32",
       {{{7}, 7}}},
      {"cvta.shared.u64 %y2, block; cvta.to.shared.u64 %y3, %y2; mov.u64 %y1, block; sub.u64 %d, "
       "%y3, %y1;",
       {},
       "u64",
       {{{}, 0}}},
      {"cvta.global.u64 %y1, %scratch; cvta.to.global.u64 %y2, %y1; sub.u64 %d, %y2, %scratch;",
       {},
       "u64",
       {{{}, 0}}},
      {".local .b32 own; mov.u64 %y1, own; cvta.local.u64 %y2, %y1; st.u32 [%y2], %a; ld.local.u32 "
       "%d, [own];",
       {"u32"},
       "u32",
       {{{8}, 8}, {{9}, 9}}},
      {"mov.u64 %y1, count; cvta.param.u64 %y2, %y1; ld.u32 %d, [%y2];", {}, "u32", {{{}, 1}}},
      {"cvta.shared.u64 %y2, block; isspacep.shared %d, %y2;", {}, "pred", {{{}, 1}}},
      {"cvta.shared.u64 %y2, block; isspacep.global %d, %y2;", {}, "pred", {{{}, 0}}},
      {"isspacep.global %d, %scratch;", {}, "pred", {{{}, 1}}},
      {"isspacep.local %d, %scratch;", {}, "pred", {{{}, 0}}},
  };
}

// One atomic on a word that holds %a: the old value, then what the word holds.
void atomic(std::vector<Case>& all, const std::string& op, const std::string& type, u64 old, u64 b,
            u64 want, const std::string& third = "", bool has_red = true) {
  std::string width = type.ends_with("64") ? "64" : "32";
  std::string reg = "b" + width;
  std::string scratch = width == "64" ? "%y1" : "%x1";
  for (const char* space : {".global", ".shared", ""}) {
    std::string where = at_own_place(fmt::format("st{}.b{} [%y0], %a; ", space, width),
                                     std::string(space) == ".shared" ? "shared" : "global");
    all.push_back({where + fmt::format("atom{}.{}.{} %d, [%y0], %b{};", space, op, type, third),
                   {reg, reg},
                   reg,
                   {{{old, b}, old}}});
    std::string after = fmt::format("ld{}.b{} %d, [%y0];", space, width);
    all.push_back(
        {where + fmt::format("atom{}.{}.{} {}, [%y0], %b{}; ", space, op, type, scratch, third) +
             after,
         {reg, reg},
         reg,
         {{{old, b}, want}}});
    if (!has_red) continue;
    all.push_back({where + fmt::format("red{}.{}.{} [%y0], %b; ", space, op, type) + after,
                   {reg, reg},
                   reg,
                   {{{old, b}, want}}});
  }
}

std::vector<Case> atomics() {
  constexpr u64 kM1 = 0xFFFFFFFF;
  constexpr u64 kM1L = 0xFFFFFFFFFFFFFFFF;
  std::vector<Case> all;
  atomic(all, "add", "u32", kM1, 2, 1);
  atomic(all, "add", "s32", 5, kM1, 4);
  atomic(all, "add", "u64", kM1L, 2, 1);
  atomic(all, "inc", "u32", 3, 7, 4);
  atomic(all, "inc", "u32", 7, 7, 0);
  atomic(all, "inc", "u32", 9, 7, 0);
  atomic(all, "dec", "u32", 3, 7, 2);
  atomic(all, "dec", "u32", 0, 7, 7);
  atomic(all, "dec", "u32", 9, 7, 7);
  atomic(all, "min", "u32", kM1, 2, 2);
  atomic(all, "min", "s32", kM1, 2, kM1);
  atomic(all, "min", "u64", kM1L, 2, 2);
  atomic(all, "min", "s64", kM1L, 2, kM1L);
  atomic(all, "max", "u32", kM1, 2, kM1);
  atomic(all, "max", "s32", kM1, 2, 2);
  atomic(all, "max", "u64", kM1L, 2, kM1L);
  atomic(all, "max", "s64", kM1L, 2, 2);
  atomic(all, "and", "b32", 0xF0, 0x3C, 0x30);
  atomic(all, "or", "b32", 0xF0, 0x3C, 0xFC);
  atomic(all, "xor", "b32", 0xF0, 0x3C, 0xCC);
  atomic(all, "and", "b64", kM1L, 0x123456789, 0x123456789);
  atomic(all, "or", "b64", u64{1} << 63, 1, (u64{1} << 63) | 1);
  atomic(all, "xor", "b64", kM1L, 1, kM1L - 1);
  atomic(all, "exch", "b32", 5, 6, 6, "", false);
  atomic(all, "exch", "b64", 5, kM1L, kM1L, "", false);
  atomic(all, "cas", "b32", 5, 5, 77, ", 77", false);
  atomic(all, "cas", "b32", 5, 6, 5, ", 77", false);
  atomic(all, "cas", "b64", kM1L, kM1L, 77, ", 77", false);
  for (const char* form : {"relaxed.gpu", "acquire.sys", "release.cta", "acq_rel.gpu"}) {
    all.push_back(
        {at_own_place(fmt::format("atom.{}.global.add.u32 %d, [%y0], %a;", form), "global"),
         {"u32"},
         "u32",
         {{{5}, 0}}});
  }
  // Every thread counts in one word: each sees another number, and all are there in the end.
  std::vector<Case::Row> rows(64, {{}, 64});
  all.push_back(
      {"red.global.add.u32 [%scratch], 1; bar.sync 0; ld.relaxed.gpu.global.u32 %d, [%scratch];",
       {},
       "u32",
       rows});
  all.push_back(
      {"atom.global.inc.u32 %x1, [%scratch], 63; bar.sync 0; ld.global.u32 %x2, [%scratch]; "
       "add.u32 %d, %x2, 64;",
       {},
       "u32",
       rows});
  return all;
}

}  // namespace

std::vector<Case> memory_cases() {
  std::vector<Case> all;
  for (auto part : {extending_loads(), access_forms(), addresses(), atomics()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

}  // namespace ptx::opcodes
