// The data of a random step. Knows ir.
#include "tests/support/random_data.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "ir/semantics/reduction.hpp"
#include "ir/semantics/semantics.hpp"
#include "tests/support/rng.hpp"

namespace stepfuse::testing {
namespace {

constexpr std::byte kGuardByte{0xa5};

Bits special_value(Rng& rng, DType t) {
  // Much that looks exact goes wrong for -0 only.
  if (is_float(t) && rng.chance(20)) return {info(t).has_sign() ? info(t).sign() : 0};
  auto of = [&](std::initializer_list<uint64_t> patterns) { return Bits{rng.pick(patterns)}; };
  if (is_low_precision(t)) {
    const DTypeInfo& f = info(t);
    uint64_t normal = uint64_t{1} << f.fraction_bits;
    uint64_t one = static_cast<uint64_t>(f.bias()) << f.fraction_bits;
    return {
        of({f.highest + 1, f.nan, f.highest, f.highest - 1, 0, 1, normal - 1, normal, one, one + 1})
            .raw |
        (f.has_sign() && rng.chance(50) ? f.sign() : 0)};
  }
  switch (t) {
    case DType::boolean:
      return Bits::of(rng.chance(50));
    case DType::i32:
      return of({0, 1, 0xffffffff, 0x80000000, 0x7fffffff, 2, 31, 64});
    case DType::i64:
      return of({0, 1, ~uint64_t{0}, uint64_t{1} << 63, ~uint64_t{0} >> 1, 0x100000000, 3});
    case DType::f32:
      return of({0x7fc00000, 0xffc00001, 0x7fa00000, 0x7f800000, 0xff800000, 0x00000001,
                 0x807fffff, 0x80000000, 0,          0x7f7fffff, 0xff7fffff, 0x00800000,
                 0x3f800000, 0x477ff000, 0x477fefff, 0x33000000, 0x33000001, 0x387fc000,
                 0x7f7f8000, 0x4f000000, 0xcf000000, 0x4effffff, 0x5f000000});
    default:
      return of({0x7ff8000000000000, 0xfff8000000000001, 0x7ff0000000000000, 0xfff0000000000000, 1,
                 0x800fffffffffffff, 0x8000000000000000, 0, 0x7fefffffffffffff, 0x36a0000000000000,
                 0x3ff0000000000000, 0x41e0000000000000, 0xc3e0000000000000, 0x47efffffe0000000});
  }
}

Bits normal_value(Rng& rng, DType t) {
  if (is_narrow_integer(t)) return {rng.next() & ((uint64_t{1} << 8 * size_of(t)) - 1)};
  if (t == DType::boolean) return Bits::of(rng.chance(50));
  if (is_integer(t)) {
    int64_t v = rng.between(-40, 40);
    return t == DType::i32 ? Bits::of(static_cast<int32_t>(v)) : Bits::of(v);
  }
  // Magnitudes from 2^-9 to 2^9, so that sums round in many places.
  double v = (rng.unit() * 2 - 1) * static_cast<double>(uint64_t{1} << rng.below(19)) * 0x1p-9;
  if (t == DType::f64) return Bits::of(v);
  return sem::cast(Bits::of(static_cast<float>(v)), DType::f32, t);
}

Bits any_value(Rng& rng, DType t, Inputs inputs) {
  bool special = !is_narrow_integer(t) && inputs == Inputs::special && rng.chance(25);
  return special ? special_value(rng, t) : normal_value(rng, t);
}

uint64_t random_size(Rng& rng, bool may_be_large) {
  if (may_be_large) {
    return rng.pick<uint64_t>({2047, 2048, 2049, 4099, kPieceElements - 1, kPieceElements,
                               kPieceElements + 1, 20001, 2 * kPieceElements + 17});
  }
  if (rng.chance(40)) return rng.below(300);
  return rng.pick<uint64_t>({0, 1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 127, 257});
}

size_t count_of(const StepData& step, Granularity d) {
  if (d == per::step) return 1;
  if (splits_tensor(d)) {
    size_t count = 0;
    for (const StepTensor& t : step.tensors)
      count += tile_count(d, shape_of(t.size, t.column_count()));
    return count;
  }
  return d == per::group ? static_cast<size_t>(step.group_count) : step.tensors.size();
}

}  // namespace

GuardedArray::GuardedArray(size_t bytes, size_t shift) : bytes_(bytes), shift_(shift) {
  allocate();
  std::memset(base_, static_cast<int>(kGuardByte), size());
}

void GuardedArray::allocate() {
  storage_ = std::make_unique<std::byte[]>(size() + 64);
  auto address = reinterpret_cast<uintptr_t>(storage_.get());
  base_ = storage_.get() + (64 - address % 64) % 64;
}

GuardedArray& GuardedArray::operator=(const GuardedArray& other) {
  if (this == &other) return *this;
  bytes_ = other.bytes_;
  shift_ = other.shift_;
  allocate();
  if (other.base_ != nullptr) std::memcpy(base_, other.base_, size());
  return *this;
}

bool GuardedArray::guards_intact() const {
  auto intact = [](std::byte b) { return b == kGuardByte; };
  return std::all_of(base_, data(), intact) && std::all_of(data() + bytes_, base_ + size(), intact);
}

void TestLayout::add(LayoutTensor tensor, const Signature& types) {
  auto at = std::find(signatures.begin(), signatures.end(), types);
  tensor.signature = static_cast<int32_t>(at - signatures.begin());
  if (at == signatures.end()) signatures.push_back(types);
  tensors.push_back(tensor);
}

void TestLayout::fit_sizes(const Program& program) {
  if (tensor_classes(program).size() == 1) return;
  std::vector<Signature> types = std::exchange(signatures, {});
  std::vector<LayoutTensor> all = std::exchange(tensors, {});
  for (const LayoutTensor& t : all) {
    uint64_t elements = t.full_size != 0 ? t.full_size : t.offset + t.size;
    add(t, of_size(program, elements, types[static_cast<size_t>(t.signature)]));
  }
  if (all.empty()) signatures.push_back(of_size(program, 0, types[0]));
}

bool has(const Program& program, Granularity g) {
  std::vector<Granularity> used = granularities_of(program);
  return std::find(used.begin(), used.end(), g) != used.end();
}

// Whole rows, short and long ones, or one of all; with blocks rows of a multiple of them.
void cut_at_rows(Rng& rng, LayoutTensor& tensor, const Program& program, bool blocks) {
  constexpr uint64_t kLengths[] = {1, 7, 8, 40, 128, 130, 248, 256, 300, 2048, 2500, 16384, 20000};
  tensor.columns = rng.chance(20) ? 0 : kLengths[rng.below(std::size(kLengths))];
  if (blocks) tensor.columns = (tensor.columns + kLargestBlock - 1) / kLargestBlock * kLargestBlock;
  tensor.offset = tensor.columns * (tensor.offset == 0 ? 0 : rng.below(100));
  tensor.offset *= static_cast<uint64_t>(std::max(1, rows_in_order(program)));
  bool is_short = tensor.size < 2 * tensor.columns && tensor.columns <= 2500;
  if (is_short && rng.chance(60)) tensor.size = tensor.columns * (2 + rng.below(4));
  if (tensor.columns != 0) tensor.size -= tensor.size % tensor.columns;
  tensor.full_size = 0;
  if (rng.chance(10)) tensor.full_size = tensor.offset + tensor.size + 3 * tensor.columns;
  if (has(program, per::column)) tensor.offset = tensor.full_size = 0;
}

void fit_orders(const Program& program, LayoutTensor* tensor, uint64_t seed) {
  uint64_t multiple = 1, block = 1;
  for (const Buffer& b : program.buffers) {
    if (!b.order.any()) continue;
    multiple = std::max(multiple, arranged_multiple(b.order, b.at));
    if (b.at.rows == 1) block = std::max(block, static_cast<uint64_t>(b.at.columns));
  }
  if (!arranges(program)) return;
  for (Granularity g :
       granularities_of(program)) {  // where rows are told apart, a block must not cross them
    bool is_block = block_of(g) > 1 && !needs_rows(g);
    if (is_block && has_rows(program)) block = kLargestBlock;
  }
  if (multiple > 1) tensor->shift -= tensor->shift % 4;
  if (tensor->size == 0) return;
  Rng rng(seed, "orders");
  uint64_t unit = std::max(multiple, block);
  if (has_rows(program) && tensor->columns % unit == 0 && tensor->columns != 0) {
    unit = tensor->columns;
  } else {
    // A matrix of this tensor's size or a few times of it, now and then a wider one.
    auto factor = rng.pick<uint64_t>({1, 2, 3, 5, 9, 17});
    if (unit * factor * multiple <= 4 * tensor->size || rng.chance(5)) unit *= factor;
  }
  bool whole = tensor->offset == 0 && tensor->full_size == 0;
  uint64_t rows = std::max<uint64_t>(1, tensor->size / unit);
  rows = (rows + multiple - 1) / multiple * multiple;
  if (multiple == 1 && rng.chance(30)) rows += rng.below(1 + 40'000 / unit);
  tensor->columns = unit;
  tensor->size = rows * unit;
  auto in_order = static_cast<uint64_t>(std::max(1, rows_in_order(program)));
  tensor->offset = whole ? 0 : unit * std::max(multiple, in_order) * rng.below(9);
  tensor->full_size = 0;
}

TestLayout random_layout(const Program& program, uint64_t seed) {
  Rng rng(seed, "layout");
  TestLayout layout;
  layout.group_count = rng.between(1, 3);
  // Each makes element code of its own, which takes its time to compile.
  int signatures = 1 + static_cast<int>(rng.weighted({65, 20, 10, 5}));
  for (int s = 0; s < signatures; ++s) {
    Signature signature;
    for (const Buffer& b : program.buffers) {
      std::vector<DType> types;
      for (int t = 0; t < kDTypeCount; ++t) {
        if (b.dtypes.contains(static_cast<DType>(t))) types.push_back(static_cast<DType>(t));
      }
      Rng own(seed + static_cast<uint64_t>(s), b.name);
      signature.push_back(own.pick(types));
    }
    // Each is listed once.
    if (std::find(layout.signatures.begin(), layout.signatures.end(), signature) ==
        layout.signatures.end()) {
      layout.signatures.push_back(signature);
    }
  }
  bool draws = std::any_of(program.insts.begin(), program.insts.end(),
                           [](const Inst& inst) { return inst.op == Op::random; });
  std::vector<Granularity> used = granularities_of(program);
  bool blocks = std::any_of(used.begin(), used.end(),
                            [](Granularity g) { return block_of(g) > 1 && !needs_rows(g); });
  int tensors = rng.chance(3) ? 0 : rng.between(1, 6);
  int large = rng.chance(12) ? rng.between(0, tensors) : -1;
  for (int t = 0; t < tensors; ++t) {
    LayoutTensor tensor;
    tensor.size = random_size(rng, t == large);
    if (rng.chance(10)) tensor.offset = rng.below(2 * kPieceElements);
    // Behind position 2^34, the numbers of blocks of random numbers have more than 32 bits.
    if (rng.chance(3)) tensor.offset += (uint64_t{1} << (draws ? 34 : rng.between(31, 40))) - 100;
    if (draws) tensor.offset -= tensor.offset % 4;
    if (blocks) tensor.offset -= tensor.offset % kPieceElements;
    tensor.id = rng.chance(70) ? static_cast<uint32_t>(t) : static_cast<uint32_t>(rng.next());
    if (rng.chance(10)) tensor.full_size = tensor.offset + tensor.size + rng.below(100000);
    if (rng.chance(50))
      tensor.columns = 1 + rng.below(5000);  // rows may end within: nobody sees it
    if (has_rows(program)) cut_at_rows(rng, tensor, program, blocks);
    tensor.group = rng.between(0, layout.group_count - 1);
    tensor.present = !rng.chance(15);
    tensor.signature = static_cast<int32_t>(rng.below(layout.signatures.size()));
    tensor.shift = rng.chance(50) ? 0 : rng.below(32);
    fit_orders(program, &tensor, seed + static_cast<uint64_t>(t));
    layout.tensors.push_back(tensor);
  }
  layout.fit_sizes(program);
  return layout;
}

TestData::TestData(const Program& program, TestLayout layout, uint64_t seed, Inputs inputs)
    : layout_(std::move(layout)) {
  step_.group_count = layout_.group_count;
  arrays_.resize(layout_.tensors.size());
  for (size_t t = 0; t < layout_.tensors.size(); ++t) {
    const LayoutTensor& from = layout_.tensors[t];
    const Signature& types = layout_.signatures[static_cast<size_t>(from.signature)];
    step_.tensors.push_back({.size = from.size,
                             .offset = from.offset,
                             .full_size = from.full_size,
                             .columns = from.columns,
                             .id = from.id,
                             .group = from.group,
                             .present = from.present,
                             .data = {},
                             .dtypes = types});
    for (size_t b = 0; b < program.buffers.size(); ++b) {
      size_t width = size_of(types[b]);
      size_t count = types[b] == DType::absent
                         ? 0
                         : program.buffers[b].count(from.size, step_.tensors[t].column_count());
      arrays_[t].emplace_back(count * width, from.shift * width);
      Rng rng(seed + t, program.buffers[b].name);
      for (size_t i = 0; i < count; ++i) {
        store_bits(arrays_[t][b].data() + i * width, types[b], any_value(rng, types[b], inputs));
      }
    }
  }
  for (const Arg& a : program.args) {
    Rng rng(seed, a.name);
    auto& values = step_.args.emplace_back();
    for (size_t i = 0; i < count_of(step_, a.type.at); ++i) {
      values.push_back(any_value(rng, a.type.dtype, inputs));
    }
  }
  for (const State& s : program.states) {
    Rng rng(seed, s.name);
    auto& values = step_.states.emplace_back();
    for (size_t i = 0; i < count_of(step_, s.type.at); ++i) {
      values.push_back(any_value(rng, s.type.dtype, inputs));
    }
  }
  rebind();
}

void TestData::rebind() {
  for (size_t t = 0; t < arrays_.size(); ++t) {
    StepTensor& tensor = step_.tensors[t];
    tensor.data.clear();
    for (size_t b = 0; b < arrays_[t].size(); ++b) {
      bool absent = tensor.dtypes[b] == DType::absent;
      tensor.data.push_back(absent ? nullptr : arrays_[t][b].data());
    }
  }
}

std::optional<std::string> difference(const Program& program, const TestData& expected,
                                      const TestData& actual) {
  for (size_t t = 0; t < expected.step().tensors.size(); ++t) {
    const StepTensor& tensor = expected.step().tensors[t];
    for (size_t b = 0; b < program.buffers.size(); ++b) {
      const Buffer& buffer = program.buffers[b];
      const GuardedArray& e = expected.array(t, b);
      const GuardedArray& a = actual.array(t, b);
      if (!a.guards_intact()) {
        return fmt::format("wrote outside @{} of tensor {} ({} elements)", buffer.name, t,
                           tensor.size);
      }
      DType type = tensor.dtypes[b];
      if (type == DType::absent) continue;
      for (size_t i = 0; i < buffer.count(tensor.size, tensor.column_count()); ++i) {
        Bits x = canonical_nan(load_bits(e.data() + i * size_of(type), type), type);
        Bits y = canonical_nan(load_bits(a.data() + i * size_of(type), type), type);
        if (x == y) continue;
        return fmt::format(
            "@{} ({}) of tensor {} ({} elements, {}), element {}: expected {} ({:#x}), got {} "
            "({:#x})",
            buffer.name, name(type), t, tensor.size, tensor.present ? "present" : "absent", i,
            literal_text(x, type), x.raw, literal_text(y, type), y.raw);
      }
    }
  }
  for (size_t s = 0; s < program.states.size(); ++s) {
    DType type = program.states[s].type.dtype;
    for (size_t i = 0; i < expected.step().states[s].size(); ++i) {
      Bits x = canonical_nan(expected.step().states[s][i], type);
      Bits y = canonical_nan(actual.step().states[s][i], type);
      if (x == y) continue;
      return fmt::format("state @{} ({}) [{}]: expected {} ({:#x}), got {} ({:#x})",
                         program.states[s].name, name(type), i, literal_text(x, type), x.raw,
                         literal_text(y, type), y.raw);
    }
  }
  return std::nullopt;
}

}  // namespace stepfuse::testing
