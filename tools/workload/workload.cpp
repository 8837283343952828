// Seeded arrays for a step. Knows the public API and fmt.
#include "tools/workload/workload.hpp"

#include <fmt/format.h>

#include <stepfuse/ir.hpp>

namespace stepfuse {
namespace {

// Small enough that a sum does not overflow f16, large enough that most elements are not subnormal.
constexpr float kScaledGradient = 64.0F;
constexpr float kGradient = 0.02F;
constexpr float kParameter = 0.05F;

Spice gradient_spice(Inputs inputs, uint64_t step) {
  if (inputs != Inputs::special) return Spice::none;
  switch (step % 4) {
    case 1:
      return Spice::nonfinite;
    case 3:
      return Spice::huge;
    default:
      return Spice::mild;
  }
}

}  // namespace

Workload::Workload(const Program& program, const LayoutFile& file, const Bindings& bindings,
                   const WorkloadOptions& options)
    : program_(program),
      options_(options),
      layout_(make_layout(file, program, bindings)),
      gradient_(program.find_buffer(options.gradient)) {
  bool scaled = program.find_state("scale") >= 0;
  base_scale_ = scaled ? kScaledGradient : kGradient;
  auto specs_of = [&](const Buffer& buffer, uint32_t shift) {
    std::vector<ArraySet::Spec> specs;
    for (size_t t = 0; t < file.tensors.size(); ++t) {
      const TensorSpec& tensor = layout_.tensors()[t];
      bool has = buffer.is_of(tensor.element_count());
      specs.push_back({has ? buffer.count(tensor.elements, tensor.column_count()) : 0,
                       tensor.dtypes.at(buffer.name),
                       file.tensors[t].misalign_for(buffer.name) + shift});
    }
    return specs;
  };
  for (const Buffer& b : program.buffers) arrays_.emplace_back(specs_of(b, 0));
  if (options.moving && gradient_ >= 0) {
    arrays_.emplace_back(specs_of(program.buffers[static_cast<size_t>(gradient_)], 1));
  }
}

// The buffer that has the newest gradients.
size_t Workload::current() const {
  bool second = options_.moving && steps_ % 2 == 0 && steps_ > 0;
  return second ? program_.buffers.size() : static_cast<size_t>(gradient_);
}

const ArraySet& Workload::arrays(std::string_view buffer) const {
  int i = program_.find_buffer(buffer);
  if (i < 0) {
    throw Error(ErrorKind::usage,
                fmt::format("step @{} has no buffer '{}'", program_.name, buffer.substr(0, 80)));
  }
  return i == gradient_ ? arrays_[current()] : arrays_[static_cast<size_t>(i)];
}

// Gradients differ in size between tensors, as between layers.
float Workload::gradient_scale(size_t tensor) const {
  uint64_t r = mix_bits(tensor + 1) % 7;
  return base_scale_ / static_cast<float>(uint64_t{1} << r);
}

void Workload::fill_buffer(size_t buffer, Spice spice) {
  const ArraySet& arrays = arrays_[buffer];
  // A buffer that starts at zero may be a mean of squares, whose root must be a number for most
  // elements.
  bool positive = program_.buffers[buffer].init == Buffer::Init::zero;
  for (size_t t = 0; t < arrays.size(); ++t) {
    RandomStream random(options_.seed, program_.buffers[buffer].name, t);
    fill_values(arrays.pointers()[t], arrays.spec(t).size, arrays.spec(t).dtype, random,
                {.scale = kParameter, .spice = spice, .positive = positive});
  }
}

std::vector<std::span<char>> Workload::memory() const {
  std::vector<std::span<char>> out;
  for (const ArraySet& a : arrays_) out.push_back(a.memory());
  return out;
}

void Workload::start(Step& step) {
  for (size_t b = 0; b < program_.buffers.size(); ++b) fill_buffer(b, Spice::none);
  bind(step);
  // init_state() checks that arrays do not overlap, gradients included if they were given.
  step.init_state();
  if (options_.inputs != Inputs::special) return;
  for (size_t b = 0; b < program_.buffers.size(); ++b) {
    if (!is_gradient(b)) fill_buffer(b, Spice::all);
  }
}

void Workload::bind(Step& step) const {
  for (size_t b = 0; b < program_.buffers.size(); ++b) {
    if (!is_gradient(b)) step.bind_raw(program_.buffers[b].name, arrays_[b].pointers());
  }
}

std::span<void* const> Workload::gradients(uint64_t index) {
  if (gradient_ < 0) return {};
  ++steps_;
  const ArraySet& arrays = arrays_[current()];
  const std::string& name = program_.buffers[static_cast<size_t>(gradient_)].name;
  Spice spice = gradient_spice(options_.inputs, index);
  given_.assign(arrays.pointers().begin(), arrays.pointers().end());
  for (size_t t = 0; t < arrays.size(); ++t) {
    RandomStream random(options_.seed, name, t, index + 1);
    // A bad step leaves some tensors good, because steps report which tensor was bad.
    bool plain = spice != Spice::none && t % 3 == 1;
    fill_values(arrays.pointers()[t], arrays.spec(t).size, arrays.spec(t).dtype, random,
                {.scale = gradient_scale(t), .spice = plain ? Spice::mild : spice});
    bool absent = RandomStream(options_.seed, "absent", t, index).uniform(0) < options_.absent;
    if (absent) given_[t] = nullptr;
  }
  if (options_.inputs == Inputs::single && index % 2 == 1) spoil_one(index);
  return given_;
}

void Workload::spoil_one(uint64_t index) {
  const ArraySet& arrays = arrays_[current()];
  std::vector<size_t> whole;
  for (size_t t = 0; t < given_.size(); ++t) {
    if (given_[t] != nullptr && arrays.spec(t).size > 0) whole.push_back(t);
  }
  if (whole.empty()) return;
  RandomStream random(options_.seed, "single", 0, index);
  size_t t = whole[random.bits(0) % whole.size()];
  const auto& spec = arrays.spec(t);
  uint64_t place = random.bits(1) % spec.size;
  fill_values(static_cast<char*>(given_[t]) + place * size_of(spec.dtype), 1, spec.dtype, random,
              {.spice = Spice::nonfinite});
}

std::string Workload::digest(const Step& step) const {
  Digest digest;
  for (const Buffer& b : program_.buffers) {
    const ArraySet& a = arrays(b.name);
    for (size_t t = 0; t < a.size(); ++t) {
      digest.add("buffer", fmt::format("{} {}", b.name, t), a.spec(t).dtype, a.pointers()[t],
                 a.spec(t).size);
    }
  }
  digest.add_states(step);
  return digest.hex();
}

std::optional<std::string> Workload::damage() const {
  for (size_t i = 0; i < arrays_.size(); ++i) {
    std::optional<size_t> t = arrays_[i].damaged();
    if (!t) continue;
    size_t buffer = i < program_.buffers.size() ? i : static_cast<size_t>(gradient_);
    return fmt::format("something was written outside of @{} of tensor {} '{}'",
                       program_.buffers[buffer].name, *t, layout_.tensors()[*t].name);
  }
  return std::nullopt;
}

}  // namespace stepfuse
