// The public face of a Step: forwards to its parts, reads states and statistics. Knows the runtime's
// parts and fmt.
#include <algorithm>

#include <fmt/format.h>

#include <stepfuse/ir.hpp>

#include "ir/text/words.hpp"
#include "runtime/device/host_reports.hpp"
#include "runtime/step/numbers.hpp"
#include "runtime/step/step_impl.hpp"

namespace stepfuse {

// --- states and statistics

size_t Step::Impl::state_index(std::string_view wanted) const {
  int i = program.find_state(wanted);
  if (i >= 0) return static_cast<size_t>(i);
  std::string known;
  for (const State& s : program.states) known += " @" + s.name;
  throw Error(ErrorKind::usage, fmt::format("step @{} has no state '{}'; it has{}", program.name,
                                            wanted.substr(0, 80), known.empty() ? " none" : known));
}

std::vector<Bits> Step::Impl::read_state(std::string_view wanted, Stream stream) const {
  size_t i = state_index(wanted);
  const Type& t = program.states[i].type;
  std::vector<Bits> values(member_count(t.at, plan->layout));
  std::vector<char> bytes(values.size() * size_of(t.dtype));
  wait();
  backend->memory()->copy_to_host(bytes.data(), plan->states[i], bytes.size(), stream);
  for (size_t m = 0; m < values.size(); ++m) {
    values[m] = load_bits(&bytes[m * size_of(t.dtype)], t.dtype);
  }
  return values;
}

void Step::Impl::write_state(std::string_view wanted, std::span<const Bits> values, Stream stream) {
  Busy busy(*this);
  size_t i = state_index(wanted);
  const Type& t = program.states[i].type;
  size_t count = member_count(t.at, plan->layout);
  if (values.size() != count) {
    throw Error(ErrorKind::usage, fmt::format("state '{}' has {}; got {}", wanted,
                                              count_words(count, "value"), values.size()));
  }
  std::vector<char> bytes(count * size_of(t.dtype));
  for (size_t m = 0; m < count; ++m) store_bits(&bytes[m * size_of(t.dtype)], t.dtype, values[m]);
  wait();
  backend->memory()->copy_to_device(plan->states[i], bytes.data(), bytes.size(), stream);
}

StepStats Step::Impl::to_stats(const StatsRing::Record& record) const {
  StepStats stats;
  stats.index = number_of(record.step_index);
  auto raw = record.raw.begin();
  for (int32_t i : plan->kernels().finish.reports) {
    const State& s = program.states[static_cast<size_t>(i)];
    auto next = [&] { return to_double({*raw++}, s.type.dtype); };
    if (s.type.at == per::step) {
      stats.values.emplace_back(s.name, next());
      continue;
    }
    std::vector<double>& list = stats.lists.emplace_back(s.name, std::vector<double>()).second;
    size_t count = member_count(s.type.at, plan->layout);
    for (size_t m = 0; m < count && raw != record.raw.end(); ++m) list.push_back(next());
  }
  return stats;
}

std::optional<StepStats> Step::Impl::newest() const {
  StatsRing::Record record;
  for (uint64_t n = ring->count(); n-- > 0;) {
    if (ring->read(n, record)) return to_stats(record);
    if (ring->count() - n > ring->capacity()) break;
  }
  return std::nullopt;
}

std::optional<double> StepStats::find(std::string_view wanted) const {
  for (const auto& [name, value] : values) {
    if (name == wanted) return value;
  }
  return std::nullopt;
}

const std::vector<double>* StepStats::find_list(std::string_view wanted) const {
  for (const auto& [name, members] : lists) {
    if (name == wanted) return &members;
  }
  return nullptr;
}

double StepStats::at(std::string_view wanted) const {
  if (auto v = find(wanted)) return *v;
  if (const std::vector<double>* list = find_list(wanted)) {
    throw Error(ErrorKind::usage,
                fmt::format("'{}' is reported for each of {} groups or tensors: name one, as in "
                            "at(\"{}\", Group{{0}}) or Tensor{{0}}",
                            wanted, list->size(), wanted));
  }
  std::string known;
  for (const auto& [name, value] : values) known += " " + name;
  for (const auto& [name, members] : lists) known += " " + name;
  throw Error(ErrorKind::usage,
              fmt::format("the step does not report '{}'; it reports{}", wanted.substr(0, 80),
                          known.empty() ? " nothing" : known));
}

double StepStats::at(std::string_view wanted, Member chosen) const {
  const std::vector<double>* list = find_list(wanted);
  if (list == nullptr) return at(wanted);
  int64_t member = chosen.index();
  if (member >= 0 && member < static_cast<int64_t>(list->size())) {
    return (*list)[static_cast<size_t>(member)];
  }
  throw Error(ErrorKind::usage,
              fmt::format("'{}' is reported for {} groups or tensors; there is no {}", wanted,
                          list->size(), member));
}

// --- Step

Step::Step(Program program, Layout layout, const Device& device, const StepOptions& options)
    : impl_(std::make_unique<Impl>(std::move(program), std::move(layout), device, options)) {}
Step::~Step() = default;
Step::Step(Step&&) noexcept = default;
Step& Step::operator=(Step&&) noexcept = default;

Step::Impl& Step::impl() const {
  Impl& step = unsettled();
  step.settle();
  return step;
}

Step::Impl& Step::unsettled() const {
  if (impl_ != nullptr) return *impl_;
  throw Error(ErrorKind::usage, "this Step was moved from: use the one that it was moved to");
}

void Step::prepare() { impl().prepare(); }
const CompileReport& Step::compile_report() const { return impl().report; }

std::vector<std::string> Step::buffers() const {
  std::vector<std::string> out;
  for (const Buffer& b : program().buffers) out.push_back(b.name);
  return out;
}
ArrayShape Step::array(std::string_view buffer, Tensor tensor) const {
  return impl().plan->binding->shape(buffer, tensor.index);
}
void Step::bind(std::string_view buffer, const Arrays& arrays) {
  impl().bind(buffer, arrays.all());
}
void Step::bind_raw(std::string_view buffer, Pointers pointers) { impl().bind(buffer, pointers); }
std::vector<void*> Step::gradients(const Arrays& arrays) const {
  return impl().plan->binding->check_gradients(arrays.all());
}
void Step::init_state(Stream stream) { impl().init_state(0, stream); }
void Step::init_tensors(Tensor first, Stream stream) { impl().init_state(first.index, stream); }
void Step::adopt_state() {
  Impl::Busy busy(impl());
  impl().adopt_state();
}
ArgId Step::arg(std::string_view name) const { return impl().shape->find(name); }
Args Step::make_args() const { return impl().make_args(); }
void Step::run(Pointers gradients, const Args& args, Stream stream) {
  impl().run(gradients, impl().by_value(args), stream);
}
void Step::set_args(const Args& args, Stream stream) { impl().set_args(args, stream); }
void Step::run_captured(Pointers gradients, Stream stream) {
  impl().run(gradients, impl().resident(), stream);
}
void Step::run(Pointers gradients, DeviceArgs args, Stream stream) {
  impl().run(gradients, impl().callers(args), stream);
}
size_t Step::args_bytes() const { return impl().plan->workspace.args_bytes; }
size_t Step::arg_offset(ArgId arg, Member member) const { return impl().arg_offset(arg, member); }
void Step::write_args(const Args& args, std::span<uint64_t> words) const {
  impl().write_args(args, words);
}
void* Step::device_arg(ArgId arg, Member member) const { return impl().device_arg(arg, member); }
void Step::observe(Tensor first, Pointers gradients, const Args& args, Stream stream) {
  impl().observe(first.index, gradients, impl().by_value(args), stream);
}
void Step::observe_captured(Tensor first, Pointers gradients, Stream stream) {
  impl().observe(first.index, gradients, impl().resident(), stream);
}
void Step::observe(Tensor first, Pointers gradients, DeviceArgs args, Stream stream) {
  impl().observe(first.index, gradients, impl().callers(args), stream);
}
void Step::reduce(Pointers gradients, const Args& args, Stream stream) {
  impl().reduce(gradients, impl().by_value(args), stream);
}
void Step::reduce_captured(Pointers gradients, Stream stream) {
  impl().reduce(gradients, impl().resident(), stream);
}
void Step::reduce(Pointers gradients, DeviceArgs args, Stream stream) {
  impl().reduce(gradients, impl().callers(args), stream);
}
Partials Step::partials() const { return impl().partials(); }

std::optional<StepStats> Step::latest() const {
  impl().backend->collect(*impl().ring, false, {});
  return impl().newest();
}
std::optional<StepStats> Step::stats(Stream stream) const {
  impl().backend->collect(*impl().ring, true, stream);
  return impl().newest();
}
std::vector<StepStats> Step::history() const {
  impl().backend->collect(*impl().ring, false, {});
  std::vector<StepStats> out;
  StatsRing::Record record;
  uint64_t end = impl().ring->count();
  uint64_t kept = std::min<uint64_t>(end, impl().ring->capacity());
  for (uint64_t n = end - kept; n < end; ++n) {
    if (impl().ring->read(n, record)) out.push_back(impl().to_stats(record));
  }
  return out;
}

void Step::append(TensorSpec tensor) { unsettled().append(std::move(tensor)); }
void Step::set_group(Tensor tensor, Group group) { impl().set_group(tensor.index, group.index); }
std::vector<Bits> Step::read_state(std::string_view name, Stream stream) const {
  return impl().read_state(name, stream);
}
void Step::write_state(std::string_view name, std::span<const Bits> values, Stream stream) {
  impl().write_state(name, values, stream);
}
void* Step::device_state(std::string_view name) const {
  return impl().state_pointer(impl().state_index(name));
}
const Program& Step::program() const { return unsettled().program; }
const Layout& Step::layout() const { return impl().plan->layout; }
const Device& Step::device() const { return unsettled().device; }
size_t Step::workspace_bytes() const { return impl().block_bytes(); }

}  // namespace stepfuse
