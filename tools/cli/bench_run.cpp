// Runs the measurements of `stepfuse bench`. Knows the public API, the workload and the streams.
#include "tools/cli/bench_run.hpp"

#include <algorithm>
#include <chrono>
#include <memory>

#include "compiler/passes/pass_manager.hpp"
#include "compiler/plan/traffic.hpp"
#include "compiler/variant.hpp"
#include "runtime/tables/tables.hpp"
#include "tools/workload/machine.hpp"
#include "tools/workload/stream.hpp"

namespace stepfuse::cli {
namespace {

constexpr Form kForms[] = {Form::fused, Form::split, Form::unfused};
constexpr uint64_t kMostRepeats = 1000;
// Bytes per element of the two streams: one reads four arrays and writes three of them, the other
// reads four.
constexpr double kStreamBytes = 28;
constexpr double kReadBytes = 16;

double seconds_of(const std::function<void()>& f) {
  auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// The row of a form before its measurement: its bytes per parameter, averaged over the layout's
// elements.
BenchRow row_of(const Source& source, const Layout& layout, const StepTables& tables, Form form,
                int threads) {
  Variant variant =
      make_variant(optimize(source.program, tables.signatures), tables.signatures, form);
  BenchRow row{.name = std::string(name(form)), .threads = threads, .seconds = {}};
  for (size_t t = 0; t < layout.size(); ++t) {
    double share = static_cast<double>(layout.tensors()[t].elements) /
                   static_cast<double>(layout.element_count());
    Traffic traffic = traffic_of(variant.plan, tables.signature_of[t]);
    row.bytes_per_parameter += share * traffic.bytes();
    for (const PhaseTraffic& phase : traffic.phases) {
      if (!phase.writes()) row.bytes_of_reading += share * phase.bytes();
    }
  }
  return row;
}

// A step in one form with a given thread count. All of them share the same arrays, so that none has
// better pages.
class OwnStep {
 public:
  OwnStep(const Source& source, const LayoutFile& file, const Layout& layout, Form form,
          int threads, const std::vector<ArgSetting>& args)
      : scaler_(scaler_for(source.program)),
        step_(source.program, layout, Device::cpu(threads),
              {.form = form, .scaler = scaler_.get(), .gradient = "grad"}),
        args_(make_args(step_, file, args)) {
    open_window(source.program, scaler_.get());
    step_.prepare();
  }
  Step& step() { return step_; }
  void run(std::span<void* const> gradients) { step_.run(gradients, args_); }

 private:
  std::unique_ptr<LossScaler> scaler_;
  Step step_;
  Args args_;
};

struct Contestant {
  BenchRow* row = nullptr;
  std::function<double(uint64_t steps)> turn;  // seconds of one step
  uint64_t repeats = 1;
};

std::function<double(uint64_t)> repeated(std::function<void()> step) {
  return [step = std::move(step)](uint64_t steps) {
    step();  // fills the caches, which hold a different contestant's arrays
    return seconds_of([&] {
             for (uint64_t i = 0; i < steps; ++i) step();
           }) /
           static_cast<double>(steps);
  };
}

double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

// The arrays of the streams: four, as for an Adam update.
struct StreamArrays {
  explicit StreamArrays(size_t n) : count(n), a(n), b(n), c(n), d(n) {}
  void update(const Streams& streams) const {
    streams.update(a.data(), b.data(), c.data(), d.data(), count);
  }
  void read(const Streams& streams) const {
    streams.read({a.data(), b.data(), c.data(), d.data()}, count);
  }
  size_t count;
  HugeArray a, b, c, d;
};

}  // namespace

double BenchRow::median() const { return median_of(seconds); }
double BenchRow::least() const { return *std::min_element(seconds.begin(), seconds.end()); }

namespace {

const BenchRow& row_with(const std::vector<BenchRow>& rows, std::string_view name, int threads) {
  return *std::find_if(rows.begin(), rows.end(),
                       [&](const BenchRow& r) { return r.threads == threads && r.name == name; });
}

double seconds_a_byte(const BenchRow& stream) {
  return stream.median() / stream.bytes_per_parameter;
}

}  // namespace

const BenchRow& BenchReport::fused(int threads) const {
  return row_with(rows, name(Form::fused), threads);
}

double BenchReport::floor_seconds(int threads) const {
  return fused(threads).bytes_per_parameter * seconds_a_byte(row_with(streams, kStream, threads));
}

double BenchReport::roof_seconds(const BenchRow& row) const {
  return (row.bytes_per_parameter - row.bytes_of_reading) *
             seconds_a_byte(row_with(streams, kStream, row.threads)) +
         row.bytes_of_reading * seconds_a_byte(row_with(streams, kReading, row.threads));
}

namespace {

std::vector<int> real_threads(const std::vector<int>& wanted) {
  std::vector<int> threads;
  for (int n : wanted) {
    int real = Streams(n).threads();
    if (std::find(threads.begin(), threads.end(), real) == threads.end()) threads.push_back(real);
  }
  return threads;
}

void take_turns(std::vector<Contestant>& contestants, int rounds, const BenchProgress& progress) {
  for (int round = 0; round <= rounds; ++round) {
    for (size_t k = 0; k < contestants.size(); ++k) {
      double share = static_cast<double>(k) / static_cast<double>(contestants.size());
      progress((round + share) / (rounds + 1), "measuring");
      Contestant& c = contestants[k];
      double seconds = c.turn(c.repeats);
      if (round > 0) {
        c.row->seconds.push_back(seconds);
        continue;
      }
      double repeats = kTurnSeconds / std::max(seconds, 1e-9);
      c.repeats = std::clamp<uint64_t>(static_cast<uint64_t>(repeats), 1, kMostRepeats);
    }
  }
}

}  // namespace

BenchReport bench(const Source& source, const LayoutFile& file, const BenchOptions& options,
                  const BenchProgress& progress) {
  Workload workload(source.program, file, source.bindings, {});
  const Layout& layout = workload.layout();
  StepTables tables = make_tables(source.program, layout);
  BenchReport report{.title = source.title,
                     .layout = file.name,
                     .cpu = cpu_name(),
                     .parameters = layout.element_count(),
                     .tensors = layout.size(),
                     .rounds = options.rounds,
                     .rows = {},
                     .streams = {}};
  if (report.parameters == 0) {
    throw Error(ErrorKind::usage, "the layout has no elements: there is nothing to measure");
  }

  std::vector<std::unique_ptr<OwnStep>> steps;
  for (int n : real_threads(options.threads)) {
    for (Form form : kForms) {
      progress(0, "compiling");
      steps.push_back(std::make_unique<OwnStep>(source, file, layout, form, n, options.args));
      report.rows.push_back(row_of(source, layout, tables, form, n));
    }
    report.streams.push_back(
        {.name = kStream, .threads = n, .bytes_per_parameter = kStreamBytes, .seconds = {}});
    report.streams.push_back(
        {.name = kReading, .threads = n, .bytes_per_parameter = kReadBytes, .seconds = {}});
  }
  for (Rival* rival : options.rivals) {
    report.rows.push_back({.name = rival->name(), .threads = rival->threads(), .seconds = {}});
  }
  progress(0, "filling arrays");
  workload.start(steps[0]->step());
  for (size_t k = 1; k < steps.size(); ++k) {
    workload.bind(steps[k]->step());
    steps[k]->step().init_state();
  }
  std::span<void* const> gradients = workload.gradients(0);
  StreamArrays arrays(report.parameters);

  std::vector<Contestant> contestants;
  for (BenchRow& row : report.streams) {
    auto streams = std::make_shared<Streams>(row.threads);
    contestants.push_back({&row, row.name == kStream
                                     ? repeated([&arrays, streams] { arrays.update(*streams); })
                                     : repeated([&arrays, streams] { arrays.read(*streams); })});
  }
  for (size_t k = 0; k < steps.size(); ++k) {
    OwnStep* step = steps[k].get();
    contestants.push_back({&report.rows[k], repeated([=] { step->run(gradients); })});
  }
  for (size_t k = 0; k < options.rivals.size(); ++k) {
    Rival* rival = options.rivals[k];
    contestants.push_back(
        {&report.rows[steps.size() + k], [=](uint64_t n) { return rival->turn(n); }});
  }
  take_turns(contestants, options.rounds, progress);
  return report;
}

}  // namespace stepfuse::cli
