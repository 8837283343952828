// The texts of internal functions. Knows the text vocabulary and the reduction order.
#include "compiler/llvm/prelude.hpp"

#include <algorithm>

#include <stepfuse/error.hpp>

#include "ir/semantics/reduction.hpp"

namespace stepfuse::llvm {
namespace {

void replace_all(std::string& text, std::string_view what, std::string_view by) {
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size())) {
    text.replace(at, what.size(), by);
  }
}

// Squares repeatedly, low bit first. The last squaring is not used.
constexpr std::string_view kPowi = R"(define internal $T @sf_powi_$N($T %base, i64 %exponent) #1 {
entry:
  %negative = icmp slt i64 %exponent, 0
  %minus = sub i64 0, %exponent
  %count = select i1 %negative, i64 %minus, i64 %exponent
  br label %test
test:
  %r = phi $T [ 1.0, %entry ], [ %r.next, %step ]
  %b = phi $T [ %base, %entry ], [ %b.next, %step ]
  %n = phi i64 [ %count, %entry ], [ %n.next, %step ]
  %done = icmp eq i64 %n, 0
  br i1 %done, label %end, label %step
step:
  %low = and i64 %n, 1
  %odd = icmp ne i64 %low, 0
  %product = fmul $T %r, %b
  %r.next = select i1 %odd, $T %product, $T %r
  %b.next = fmul $T %b, %b
  %n.next = lshr i64 %n, 1
  br label %test
end:
  %inverse = fdiv $T 1.0, %r
  %result = select i1 %negative, $T %inverse, $T %r
  ret $T %result
}
)";

std::string powi_text(std::string_view type, std::string_view name) {
  std::string text(kPowi);
  replace_all(text, "$T", type);
  replace_all(text, "$N", name);
  return text;
}

// Computes the exact product and sum in 128 bits and rounds once. Both addends have their first bit at bit
// 124 or 125. Bits that leave at the bottom are kept as one sticky bit, far below the rounding position
// whenever it is set.
constexpr std::string_view kFma =
    R"(define internal double @sf_fma_f64(double %a, double %b, double %c) #1 {
entry:
  %a.bits = bitcast double %a to i64
  %b.bits = bitcast double %b to i64
  %c.bits = bitcast double %c to i64
  %product = fmul double %a, %b
  %plain = fadd double %product, %c
  %a.magnitude = and i64 %a.bits, 9223372036854775807
  %b.magnitude = and i64 %b.bits, 9223372036854775807
  %c.magnitude = and i64 %c.bits, 9223372036854775807
  %a.special = icmp uge i64 %a.magnitude, 9218868437227405312
  %b.special = icmp uge i64 %b.magnitude, 9218868437227405312
  %c.special = icmp uge i64 %c.magnitude, 9218868437227405312
  %a.zero = icmp eq i64 %a.magnitude, 0
  %b.zero = icmp eq i64 %b.magnitude, 0
  %ab.special = or i1 %a.special, %b.special
  %zero = or i1 %a.zero, %b.zero
  %easy = or i1 %ab.special, %zero
  br i1 %easy, label %ordinary, label %finite.product
ordinary:
  ret double %plain
finite.product:
  br i1 %c.special, label %only.c, label %third
only.c:
  ret double %c
third:
  %c.zero = icmp eq i64 %c.magnitude, 0
  br i1 %c.zero, label %lone, label %general
lone:
  ret double %product
general:
  %a.both = call { i64, i64 } @sf_unpack_f64(i64 %a.magnitude)
  %b.both = call { i64, i64 } @sf_unpack_f64(i64 %b.magnitude)
  %c.both = call { i64, i64 } @sf_unpack_f64(i64 %c.magnitude)
  %a.m = extractvalue { i64, i64 } %a.both, 0
  %b.m = extractvalue { i64, i64 } %b.both, 0
  %c.m = extractvalue { i64, i64 } %c.both, 0
  %a.e = extractvalue { i64, i64 } %a.both, 1
  %b.e = extractvalue { i64, i64 } %b.both, 1
  %c.e = extractvalue { i64, i64 } %c.both, 1
  %a.wide = zext i64 %a.m to i128
  %b.wide = zext i64 %b.m to i128
  %c.wide = zext i64 %c.m to i128
  %p.exact = mul i128 %a.wide, %b.wide
  %p.place = shl i128 %p.exact, 20
  %c.place = shl i128 %c.wide, 73
  %p.e.sum = add i64 %a.e, %b.e
  %p.e = sub i64 %p.e.sum, 20
  %c.e.place = sub i64 %c.e, 73
  %p.higher = icmp sge i64 %p.e, %c.e.place
  %e = select i1 %p.higher, i64 %p.e, i64 %c.e.place
  %p.shift = sub i64 %e, %p.e
  %c.shift = sub i64 %e, %c.e.place
  %p = call i128 @sf_shift_sticky(i128 %p.place, i64 %p.shift)
  %q = call i128 @sf_shift_sticky(i128 %c.place, i64 %c.shift)
  %p.sign = xor i64 %a.bits, %b.bits
  %signs = xor i64 %p.sign, %c.bits
  %differ = icmp slt i64 %signs, 0
  %sum = add i128 %p, %q
  %p.minus = sub i128 %p, %q
  %q.minus = sub i128 %q, %p
  %p.less = icmp ult i128 %p, %q
  %difference = select i1 %p.less, i128 %q.minus, i128 %p.minus
  %magnitude = select i1 %differ, i128 %difference, i128 %sum
  %smaller = and i1 %differ, %p.less
  %sign.from = select i1 %smaller, i64 %c.bits, i64 %p.sign
  %sign = and i64 %sign.from, -9223372036854775808
  %none = icmp eq i128 %magnitude, 0
  br i1 %none, label %cancelled, label %round
cancelled:
  ret double 0.0
round:
  %lead = call i128 @llvm.ctlz.i128(i128 %magnitude, i1 true)
  %lead.short = trunc i128 %lead to i64
  %normal = shl i128 %magnitude, %lead
  %exponent.first = sub i64 %e, %lead.short
  %biased = add i64 %exponent.first, 1150
  %tiny = icmp slt i64 %biased, 1
  %deficit = sub i64 1, %biased
  %extra = select i1 %tiny, i64 %deficit, i64 0
  %field = call i128 @sf_shift_sticky(i128 %normal, i64 %extra)
  %kept.wide = lshr i128 %field, 75
  %kept = trunc i128 %kept.wide to i64
  %rest = and i128 %field, 37778931862957161709567
  %above = icmp ugt i128 %rest, 18889465931478580854784
  %tie = icmp eq i128 %rest, 18889465931478580854784
  %last = and i64 %kept, 1
  %odd = icmp ne i64 %last, 0
  %tie.up = and i1 %tie, %odd
  %up = or i1 %above, %tie.up
  %carry = zext i1 %up to i64
  %hidden = sub i64 %biased, 1
  %exponent.field = select i1 %tiny, i64 0, i64 %hidden
  %exponent.bits = shl i64 %exponent.field, 52
  %rounded = add i64 %kept, %carry
  %finite = add i64 %exponent.bits, %rounded
  %huge = icmp sgt i64 %biased, 2046
  %unsigned = select i1 %huge, i64 9218868437227405312, i64 %finite
  %bits = or i64 %unsigned, %sign
  %result = bitcast i64 %bits to double
  ret double %result
}
; 53-bit significand (first bit set) and exponent of a finite magnitude that is not 0
define internal { i64, i64 } @sf_unpack_f64(i64 %magnitude) #1 {
  %exponent = lshr i64 %magnitude, 52
  %fraction = and i64 %magnitude, 4503599627370495
  %subnormal = icmp eq i64 %exponent, 0
  %lead = call i64 @llvm.ctlz.i64(i64 %fraction, i1 false)
  %lost = sub i64 %lead, 11
  %moved = shl i64 %fraction, %lost
  %whole = or i64 %fraction, 4503599627370496
  %significand = select i1 %subnormal, i64 %moved, i64 %whole
  %low = sub i64 1, %lost
  %power.biased = select i1 %subnormal, i64 %low, i64 %exponent
  %power = sub i64 %power.biased, 1075
  %first = insertvalue { i64, i64 } poison, i64 %significand, 0
  %both = insertvalue { i64, i64 } %first, i64 %power, 1
  ret { i64, i64 } %both
}
; shifts right; what leaves at the bottom sets bit 0
define internal i128 @sf_shift_sticky(i128 %v, i64 %n) #1 {
  %far = icmp ugt i64 %n, 127
  %capped = select i1 %far, i64 127, i64 %n
  %by = zext i64 %capped to i128
  %shifted = lshr i128 %v, %by
  %back = shl i128 %shifted, %by
  %exact = icmp eq i128 %back, %v
  %inexact = xor i1 %exact, true
  %sticky = zext i1 %inexact to i128
  %near = or i128 %shifted, %sticky
  %result = select i1 %far, i128 1, i128 %near
  ret i128 %result
}
declare i64 @llvm.ctlz.i64(i64, i1)
declare i128 @llvm.ctlz.i128(i128, i1)
)";

std::string copy_text(int lanes) {
  std::string text = "define internal void @sf_copy(ptr %to, ptr %from, i64 %bytes) #1 {\nentry:\n";
  text += "  br label %part.0\n";
  int part = 0;
  std::string offset = "0";
  int largest = std::max(1, lanes * 4 / 2);
  for (int size = largest; size > 0; size /= 2, ++part) {
    std::string next = size == 1 ? "end" : fmt::format("part.{}", part + 1);
    std::string before = part == 0 ? "entry" : fmt::format("part.{}.end", part - 1);
    text += fmt::format(
        "part.{0}:\n"
        "  %has.{0} = and i64 %bytes, {1}\n"
        "  %skip.{0} = icmp eq i64 %has.{0}, 0\n"
        "  br i1 %skip.{0}, label %part.{0}.end, label %part.{0}.move\n"
        "part.{0}.move:\n"
        "  %from.{0} = getelementptr i8, ptr %from, i64 {2}\n"
        "  %to.{0} = getelementptr i8, ptr %to, i64 {2}\n"
        "  %v.{0} = load i{3}, ptr %from.{0}, align 1\n"
        "  store i{3} %v.{0}, ptr %to.{0}, align 1\n"
        "  br label %part.{0}.end\n"
        "part.{0}.end:\n"
        "  %offset.{0} = add i64 {2}, %has.{0}\n"
        "  br label %{4}\n",
        part, size, offset, size * 8, next);
    offset = fmt::format("%offset.{}", part);
  }
  return text + "end:\n  ret void\n}\n";
}

std::string zero_text(int lanes) {
  std::string vector = type_text(DType::f32, lanes);
  return fmt::format(
      "define internal void @sf_zero_lanes(ptr %lanes, i64 %count) #1 {{\n"
      "entry:\n"
      "  br label %loop\n"
      "loop:\n"
      "  %l = phi i64 [ 0, %entry ], [ %l.next, %loop ]\n"
      "  %p = getelementptr float, ptr %lanes, i64 %l\n"
      "  store {0} zeroinitializer, ptr %p, align {1}\n"
      "  %l.next = add i64 %l, {2}\n"
      "  %more = icmp ult i64 %l.next, %count\n"
      "  br i1 %more, label %loop, label %end\n"
      "end:\n"
      "  ret void\n"
      "}}\n",
      vector, lanes * 4, lanes);
}

// l += l + d for d = count/2 … 1: first with whole vectors, then within one.
std::string fold_text(int lanes) {
  std::string text =
      R"(define internal float @sf_fold_lanes(ptr %lanes, i64 %count) #1 {
entry:
  br label %level
level:
  %size = phi i64 [ %count, %entry ], [ %d, %pairs ]
  %d = lshr i64 %size, 1
  %wide = icmp uge i64 %d, $W
  br i1 %wide, label %pairs, label %within
pairs:
  %l = phi i64 [ 0, %level ], [ %l.next, %pairs ]
  %p.low = getelementptr float, ptr %lanes, i64 %l
  %p.high = getelementptr float, ptr %p.low, i64 %d
  %low = load $V, ptr %p.low, align $A
  %high = load $V, ptr %p.high, align $A
  %both = fadd $V %low, %high
  store $V %both, ptr %p.low, align $A
  %l.next = add i64 %l, $W
  %more = icmp ult i64 %l.next, %d
  br i1 %more, label %pairs, label %level
within:
  %x.$W = load $V, ptr %lanes, align $A
)";
  replace_all(text, "$V", type_text(DType::f32, lanes));
  replace_all(text, "$A", std::to_string(lanes * 4));
  replace_all(text, "$W", std::to_string(lanes));
  std::string vector = type_text(DType::f32, lanes);
  for (int d = lanes / 2; d > 0; d /= 2) {
    std::string mask;
    for (int i = 0; i < lanes; ++i)
      mask += fmt::format("{}i32 {}", i == 0 ? "" : ", ", (i + d) % lanes);
    text += fmt::format(
        "  %y.{0} = shufflevector {1} %x.{2}, {1} poison, <{3} x i32> <{4}>\n"
        "  %x.{0} = fadd {1} %x.{2}, %y.{0}\n",
        d, vector, 2 * d, lanes, mask);
  }
  return text + fmt::format("  %r = extractelement {} %x.1, i32 0\n  ret float %r\n}}\n", vector);
}

}  // namespace

void use_helper(Module& module, std::string_view helper) {
  std::string& text = module.helpers[std::string(helper)];
  if (!text.empty()) return;
  if (helper == "sf_powi_f32")
    text = powi_text("float", "f32");
  else if (helper == "sf_powi_f64")
    text = powi_text("double", "f64");
  else if (helper == "sf_fma_f64")
    text = kFma;
  else if (helper == "sf_copy")
    text = copy_text(module.lanes);
  else if (helper == "sf_zero_lanes")
    text = zero_text(module.lanes);
  else if (helper == "sf_fold_lanes")
    text = fold_text(module.lanes);
  else
    internal_error(fmt::format("no helper {}", helper));
}

}  // namespace stepfuse::llvm
