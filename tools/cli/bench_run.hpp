// What `stepfuse bench` measures, as data. Knows the public API, the workload and the streams.
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
  double bytes_per_parameter = 0;  // that it has to move; 0: not known
  double bytes_of_reading = 0;     // those of them that pass in phases that write nothing
  std::vector<double> seconds;     // of one step, of every counted turn
  double median() const;
  double least() const;
};

inline constexpr const char* kStream = "stream";
inline constexpr const char* kReading = "reading";

struct BenchReport {
  std::string title, layout, cpu;
  uint64_t parameters = 0, tensors = 0;
  int rounds = 0;
  std::vector<BenchRow> rows;     // forms by number of threads, then rivals
  std::vector<BenchRow> streams;  // by number of threads; bytes_per_parameter are the stream's
  // The time in which the fused form's bytes go through memory at the stream's speed.
  double floor_seconds(int threads) const;
  // That of a form's own bytes, where phases that only read do so at the speed of reading alone.
  double roof_seconds(const BenchRow& row) const;
  const BenchRow& fused(int threads) const;
};

// Somebody else's pipeline over the same layout, in turns with ours.
class Rival {
 public:
  virtual ~Rival() = default;
  virtual std::string name() const = 0;
  virtual int threads() const = 0;
  virtual double turn(uint64_t steps) = 0;  // seconds of one step
};

struct BenchOptions {
  std::vector<int> threads = {0};  // 0: all
  int rounds = 9;
  std::vector<ArgSetting> args;
  std::vector<Rival*> rivals;
};

using BenchProgress = std::function<void(double done, std::string_view what)>;

// Every form and number of threads, the streams and the rivals take turns; a turn is repeated for
// about `kTurnSeconds` after one that does not count, so that a step finds in the caches what its
// own last run left there.
inline constexpr double kTurnSeconds = 0.05;
BenchReport bench(const Source& source, const LayoutFile& file, const BenchOptions& options,
                  const BenchProgress& progress);

std::string bench_text(const BenchReport& report);
std::string bench_json(const BenchReport& report);
std::string bench_picture(const BenchReport& report);  // SVG

}  // namespace stepfuse::cli
