// The measurements of `stepfuse bench`, as data. Knows the public API, the workload and the
// streams.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/cli/source.hpp"
#include "tools/workload/runner.hpp"

namespace stepfuse::cli {

struct BenchRow {
  std::string name;  // "fused", "split", "unfused", "PyTorch fused=True", …
  int threads = 0;
  double bytes_per_parameter = 0;  // moved per parameter; 0 if unknown
  double bytes_of_reading = 0;     // moved by phases that write nothing; included above
  std::vector<double> seconds;     // per step, one entry per counted turn
  double median() const;
  double least() const;
};

inline constexpr const char* kStream = "stream";
inline constexpr const char* kReading = "reading";

struct BenchReport {
  std::string title, layout, cpu;
  uint64_t parameters = 0, tensors = 0;
  int rounds = 0;
  std::vector<BenchRow> rows;     // forms by thread count, then rivals
  std::vector<BenchRow> streams;  // by thread count; bytes_per_parameter is the stream's
  // The time that the fused form's bytes take at the stream's speed.
  double floor_seconds(int threads) const;
  // The time that a form's own bytes take, if phases that only read run at the speed of the reading
  // stream.
  double roof_seconds(const BenchRow& row) const;
  const BenchRow& fused(int threads) const;
};

// A different pipeline over the same layout, measured in turns with ours.
class Rival {
 public:
  virtual ~Rival() = default;
  virtual std::string name() const = 0;
  virtual int threads() const = 0;
  virtual double turn(uint64_t steps) = 0;  // seconds per step
};

struct BenchOptions {
  std::vector<int> threads = {0};  // 0 means all
  int rounds = 9;
  std::vector<ArgSetting> args;
  std::vector<Rival*> rivals;
};

using BenchProgress = std::function<void(double done, std::string_view what)>;

// Forms, thread counts, streams and rivals take turns. A turn is one uncounted step and then steps
// for about `kTurnSeconds`, so that each step finds in the caches what its own last run left there.
// own last run left there.
inline constexpr double kTurnSeconds = 0.05;
BenchReport bench(const Source& source, const LayoutFile& file, const BenchOptions& options,
                  const BenchProgress& progress);

std::string bench_text(const BenchReport& report);
std::string bench_json(const BenchReport& report);
std::string bench_picture(const BenchReport& report);  // SVG

}  // namespace stepfuse::cli
