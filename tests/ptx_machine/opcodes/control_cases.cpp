// Moves, branches, barriers, fences; shuffles, votes and reductions of a warp.
#include "tests/ptx_machine/opcodes/harness.hpp"

namespace ptx::opcodes {
namespace {

template <class Want>
std::vector<Case::Row> lanes(u32 count, Want want) {
  std::vector<Case::Row> rows;
  for (u32 k = 0; k < count; ++k) rows.push_back({{}, static_cast<u64>(want(k))});
  return rows;
}

}  // namespace

std::vector<Case> control_cases() {
  return {
      {"mov.u32 %d, %a;", {"u32"}, "u32", {{{5}, 5}}},
      {"mov.b64 %d, %a;", {"b64"}, "b64", {{{5}, 5}}},
      {"mov.f32 %d, 0f3F800000;", {}, "f32", {{{}, f(1)}}},
      {"mov.f64 %d, 0dBFF0000000000000;", {}, "f64", {{{}, d(-1)}}},
      {"mov.b32 %d, %a;", {"f32"}, "b32", {{{f(2)}, 0x40000000}}},
      {"mov.u16 %d, -1;", {}, "u16", {{{}, 0xFFFF}}},
      {"mov.pred %d, 1;", {}, "pred", {{{}, 1}}},
      {"mov.u32 %d, %tid.x;", {}, "u32", lanes(40, [](u32 k) { return k; })},
      {"mov.u32 %d, %laneid;", {}, "u32", lanes(40, [](u32 k) { return k % 32; })},
      {"mov.u32 %d, %warpid;", {}, "u32", lanes(40, [](u32 k) { return k / 32; })},
      {"mov.u32 %d, %lanemask_lt;",
       {},
       "u32",
       lanes(40, [](u32 k) { return (1u << (k % 32)) - 1; })},
      {"mov.u32 %d, %lanemask_ge;",
       {},
       "u32",
       lanes(33, [](u32 k) { return ~((1u << (k % 32)) - 1); })},
      {"mov.u32 %d, %ntid.x;", {}, "u32", lanes(40, [](u32) { return 40; })},
      {"mov.u32 %d, %nctaid.x;", {}, "u32", lanes(1, [](u32) { return 1; })},
      {"mov.b64 %d, {%a, %b};", {"b32", "b32"}, "b64", {{{1, 2}, 0x200000001}}},
      {"mov.b32 %d, {%a, %b};", {"b16", "b16"}, "b32", {{{1, 2}, 0x20001}}},
      {"mov.b64 %d, {%a, %b, %a, 7};", {"b16", "b16"}, "b64", {{{1, 2}, 0x0007000100020001}}},
      {"mov.b64 {%x0, %d}, %a;", {"b64"}, "b32", {{{0x200000001}, 2}}},
      {"mov.b32 {%d, _}, %a;", {"b32"}, "b16", {{{0x20001}, 1}}},
      {"mov.u32 %x0, %clock; mov.u64 %y0, %clock64; mov.u64 %y1, %globaltimer; setp.ge.u64 %d, "
       "%y1, %y0;",
       {},
       "pred",
       {{{}, 1}}},
      {"mov.u32 %d, 1; bra OVER; mov.u32 %d, 2; OVER:", {}, "u32", {{{}, 1}}},
      {"mov.u32 %d, 1; @%a bra OVER; mov.u32 %d, 2; OVER:", {"pred"}, "u32", {{{1}, 1}, {{0}, 2}}},
      {"mov.u32 %d, 1; @!%a bra.uni OVER; mov.u32 %d, 2; OVER:",
       {"pred"},
       "u32",
       {{{1}, 2}, {{0}, 1}}},
      {"mov.u32 %d, %a; @%b add.u32 %d, %d, 10; @!%b add.u32 %d, %d, 20;",
       {"u32", "pred"},
       "u32",
       {{{1, 1}, 11}, {{1, 0}, 21}}},
      {"mov.u32 %d, 0; mov.u32 %x0, %a; AGAIN: add.u32 %d, %d, %x0; sub.u32 %x0, %x0, 1; "
       "setp.ne.u32 %q0, %x0, 0; @%q0 bra AGAIN;",
       {"u32"},
       "u32",
       {{{1}, 1}, {{4}, 10}, {{100}, 5050}}},
      {"ts: .branchtargets A, B, C; mov.u32 %d, 9; brx.idx %a, ts; A: add.u32 %d, %d, 1; B: "
       "add.u32 %d, %d, 2; C: add.u32 %d, %d, 4;",
       {"u32"},
       "u32",
       {{{0}, 16}, {{1}, 15}, {{2}, 13}}},
      // the label of an inner block hides the outer one's
      {"mov.u32 %d, 0; { bra L; add.u32 %d, %d, 1; L: } bra L; add.u32 %d, %d, 1; L:",
       {},
       "u32",
       {{{}, 0}}},
      {"{ .reg .b32 %own; mov.u32 %own, %a; { .reg .b32 %own; mov.u32 %own, 99; } mov.u32 %d, "
       "%own; }",
       {"u32"},
       "u32",
       {{{5}, 5}}},
      {"mov.u32 %d, 1; nanosleep.u32 20;", {}, "u32", {{{}, 1}}},
      {"mov.u32 %d, 0; setp.eq.u32 %q0, %a, 0; @%q0 ret;", {"u32"}, "u32", {{{0}, 0}, {{1}, 0}}},
      {"mov.u32 %d, 0; setp.eq.u32 %q0, %a, 0; @%q0 exit;", {"u32"}, "u32", {{{0}, 0}, {{1}, 0}}},
      {"mov.u32 %d, 0; setp.eq.u32 %q0, %a, 7; @%q0 trap;", {"u32"}, "u32", {{{1}, 0}}},
      {"membar.cta; membar.gl; membar.sys; fence.acq_rel.cta; fence.acq_rel.gpu; fence.sc.sys; "
       "fence.acq_rel.sys; mov.u32 %d, 1;",
       {},
       "u32",
       {{{}, 1}}},
  };
}

// %q0: the number is odd.
const std::string odd = "and.b32 %x0, %row, 1; setp.ne.u32 %q0, %x0, 0; ";

std::vector<Case> barrier_cases() {
  auto rotate = [](u32 k) { return (k + 1) % 64; };
  // Stores the own number, meets, reads the neighbour's.
  auto exchange = [](const std::string& barrier) {
    return "mov.u64 %y0, block; mad.wide.u32 %y1, %row, 4, %y0; st.shared.u32 [%y1], %row; " +
           barrier +
           " add.u32 %x0, %row, 1; and.b32 %x0, %x0, 63; mad.wide.u32 %y2, %x0, 4, %y0; "
           "ld.shared.u32 %d, [%y2];";
  };
  return {
      {exchange("bar.sync 0;"), {}, "u32", lanes(64, rotate)},
      {exchange("bar.sync 3, 64;"), {}, "u32", lanes(64, rotate)},
      {exchange("barrier.sync 1;"), {}, "u32", lanes(64, rotate)},
      {exchange("barrier.sync.aligned 1;"), {}, "u32", lanes(64, rotate)},
      {odd + "bar.red.popc.u32 %d, 0, %q0;", {}, "u32", lanes(40, [](u32) { return 20; })},
      {odd + "bar.red.popc.u32 %d, 0, !%q0;", {}, "u32", lanes(41, [](u32) { return 21; })},
      {odd + "bar.red.or.pred %d, 0, %q0;", {}, "pred", lanes(40, [](u32) { return 1; })},
      {odd + "bar.red.and.pred %d, 0, %q0;", {}, "pred", lanes(40, [](u32) { return 0; })},
      {"setp.lt.u32 %q0, %row, 64; bar.red.and.pred %d, 0, %q0;",
       {},
       "pred",
       lanes(64, [](u32) { return 1; })},
      {"setp.gt.u32 %q0, %row, 64; bar.red.or.pred %d, 0, %q0;",
       {},
       "pred",
       lanes(64, [](u32) { return 0; })},
      {odd + "barrier.red.popc.u32 %d, 2, %q0;", {}, "u32", lanes(40, [](u32) { return 20; })},
      {odd + "barrier.red.or.aligned.pred %d, 2, %q0;",
       {},
       "pred",
       lanes(40, [](u32) { return 1; })},
      {"shl.b32 %x1, %row, 2; mov.u64 %y0, block; mad.wide.u32 %y1, %row, 4, %y0; st.shared.u32 "
       "[%y1], %x1; bar.warp.sync -1; "
       "xor.b32 %x0, %row, 1; mad.wide.u32 %y2, %x0, 4, %y0; ld.shared.u32 %d, [%y2];",
       {},
       "u32",
       lanes(32, [](u32 k) { return (k ^ 1) * 4; })},
  };
}

std::vector<Case> shuffle_cases() {
  auto down = [](u32 k) { return k % 32 + 3 < 32 ? k + 3 : k; };
  return {
      {"shfl.sync.down.b32 %d, %row, 3, 31, -1;", {}, "u32", lanes(64, down)},
      {"shfl.sync.up.b32 %d, %row, 3, 0, -1;",
       {},
       "u32",
       lanes(32, [](u32 k) { return k >= 3 ? k - 3 : k; })},
      {"shfl.sync.bfly.b32 %d, %row, 5, 31, -1;",
       {},
       "u32",
       lanes(32, [](u32 k) { return k ^ 5; })},
      {"shfl.sync.idx.b32 %d, %row, 7, 31, -1;",
       {},
       "u32",
       lanes(64, [](u32 k) { return k / 32 * 32 + 7; })},
      // segments of eight lanes: the mask 0x18 in bits 8 to 12
      {"shfl.sync.idx.b32 %d, %row, 2, 0x181F, -1;",
       {},
       "u32",
       lanes(32, [](u32 k) { return k / 8 * 8 + 2; })},
      {"shfl.sync.down.b32 %d, %row, 1, 0x1807, -1;",
       {},
       "u32",
       lanes(32, [](u32 k) { return k % 8 == 7 ? k : k + 1; })},
      {"shfl.sync.up.b32 %d, %row, 2, 0x1800, -1;",
       {},
       "u32",
       lanes(32, [](u32 k) { return k % 8 < 2 ? k : k - 2; })},
      {"shfl.sync.down.b32 %x0|%d, %row, 3, 31, -1;",
       {},
       "pred",
       lanes(32, [](u32 k) { return k + 3 < 32; })},
      {"shfl.sync.up.b32 %x0|%d, %row, 3, 0, -1;",
       {},
       "pred",
       lanes(32, [](u32 k) { return k >= 3; })},
      // only the even lanes take part
      {odd + "mov.u32 %d, 99; @!%q0 shfl.sync.bfly.b32 %d, %row, 2, 31, 0x55555555;",
       {},
       "u32",
       lanes(32, [](u32 k) { return k % 2 == 0 ? k ^ 2 : 99; })},
  };
}

std::vector<Case> vote_cases() {
  return {
      {odd + "vote.sync.ballot.b32 %d, %q0, -1;",
       {},
       "u32",
       lanes(32, [](u32) { return 0xAAAAAAAA; })},
      {odd + "vote.sync.ballot.b32 %d, !%q0, -1;",
       {},
       "u32",
       lanes(40, [](u32 k) { return k < 32 ? 0x55555555 : 0x55; })},
      {odd + "vote.sync.any.pred %d, %q0, -1;", {}, "pred", lanes(32, [](u32) { return 1; })},
      {odd + "vote.sync.all.pred %d, %q0, -1;", {}, "pred", lanes(32, [](u32) { return 0; })},
      {odd + "vote.sync.uni.pred %d, %q0, -1;", {}, "pred", lanes(32, [](u32) { return 0; })},
      {odd + "mov.pred %d, 0; @%q0 vote.sync.all.pred %d, %q0, 0xAAAAAAAA;",
       {},
       "pred",
       lanes(32, [](u32 k) { return k % 2; })},
      {odd + "mov.pred %d, 0; @%q0 vote.sync.uni.pred %d, !%q0, 0xAAAAAAAA;",
       {},
       "pred",
       lanes(32, [](u32 k) { return k % 2; })},
      {"shr.u32 %x0, %row, 3; match.any.sync.b32 %d, %x0, -1;",
       {},
       "u32",
       lanes(32, [](u32 k) { return 0xFFu << (k / 8 * 8); })},
      {"and.b32 %x0, %row, 1; cvt.u64.u32 %y0, %x0; match.any.sync.b64 %d, %y0, -1;",
       {},
       "u32",
       lanes(32, [](u32 k) { return k % 2 == 0 ? 0x55555555 : 0xAAAAAAAA; })},
      {"redux.sync.add.u32 %d, %row, -1;", {}, "u32", lanes(32, [](u32) { return 496; })},
      {"redux.sync.min.u32 %d, %row, -1;", {}, "u32", lanes(64, [](u32 k) { return k / 32 * 32; })},
      {"redux.sync.max.u32 %d, %row, -1;",
       {},
       "u32",
       lanes(64, [](u32 k) { return k / 32 * 32 + 31; })},
      {"sub.s32 %x0, %row, 5; redux.sync.min.s32 %d, %x0, -1;",
       {},
       "u32",
       lanes(32, [](u32) { return 0xFFFFFFFB; })},
      {"sub.s32 %x0, %row, 5; redux.sync.max.s32 %d, %x0, -1;",
       {},
       "u32",
       lanes(32, [](u32) { return 26; })},
      {"or.b32 %x0, %row, 64; redux.sync.and.b32 %d, %x0, -1;",
       {},
       "u32",
       lanes(32, [](u32) { return 64; })},
      {"redux.sync.or.b32 %d, %row, -1;", {}, "u32", lanes(32, [](u32) { return 31; })},
      {"redux.sync.xor.b32 %d, %row, -1;", {}, "u32", lanes(32, [](u32) { return 0; })},
  };
}

std::vector<Case> together_cases() {
  std::vector<Case> cases = barrier_cases();
  for (const auto& more : {shuffle_cases(), vote_cases()}) {
    cases.insert(cases.end(), more.begin(), more.end());
  }
  return cases;
}

}  // namespace ptx::opcodes
