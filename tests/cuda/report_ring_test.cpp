// The ring of reports between device and host, written here as a kernel's last block does.
#include "runtime/cuda/report_ring.hpp"

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "tests/cuda/fake_device.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

class Device4 {
 public:
  Device4(cuda::ReportRing& ring, size_t reports) : ring_(ring), reports_(reports) {}
  // Report `number` (from 1), all of whose values are the number.
  void report(uint64_t number) {
    begin(number);
    end(number);
  }
  void begin(uint64_t number) {
    at(number, 0).store(0, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    for (size_t i = 1; i <= reports_; ++i) at(number, i).store(number, std::memory_order_relaxed);
  }
  void end(uint64_t number) { at(number, 0).store(number, std::memory_order_release); }

 private:
  std::atomic_ref<uint64_t> at(uint64_t number, size_t word) {
    size_t slot = (number - 1) % ring_.capacity();
    return std::atomic_ref<uint64_t>(ring_.device()[slot * (reports_ + 1) + word]);
  }
  cuda::ReportRing& ring_;
  size_t reports_;
};

// Steps and values, both as numbers from 1.
std::vector<uint64_t> collected(const StatsRing& ring, uint64_t first_index) {
  std::vector<uint64_t> out;
  StatsRing::Record record;
  for (uint64_t n = 0; n < ring.count(); ++n) {
    REQUIRE(ring.read(n, record));
    for (uint64_t value : record.raw) CHECK(value == record.step_index - first_index + 1);
    out.push_back(record.step_index - first_index + 1);
  }
  return out;
}

using Numbers = std::vector<uint64_t>;

}  // namespace

TEST_CASE("reports are taken as far as they are there; those overwritten meanwhile are gone") {
  STEPFUSE_NEEDS_FAKE_DEVICE();
  constexpr uint64_t kFirst = 1000;
  auto context = std::make_shared<cuda::Context>(0);
  cuda::ReportRing ring(context, 2, 4);
  Device4 device(ring, 2);
  StatsRing stats(2, 64);
  auto collect = [&] {
    ring.collect(stats, kFirst);
    return collected(stats, kFirst);
  };
  CHECK(collect().empty());
  device.report(1);
  device.report(2);
  CHECK(collect() == Numbers{1, 2});
  CHECK(collect() == Numbers{1, 2});
  // Round the ring exactly, and by one.
  for (uint64_t n = 3; n <= 6; ++n) device.report(n);
  CHECK(collect() == Numbers{1, 2, 3, 4, 5, 6});
  for (uint64_t n = 7; n <= 11; ++n) device.report(n);
  CHECK(collect() == Numbers{1, 2, 3, 4, 5, 6, 8, 9, 10, 11});
  // Several times round.
  for (uint64_t n = 12; n <= 30; ++n) device.report(n);
  CHECK(collect() == Numbers{1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 27, 28, 29, 30});
  // One that is being written is not there yet, and what it overwrites is gone.
  device.begin(31);
  CHECK(collect().back() == 30);
  device.end(31);
  CHECK(collect().back() == 31);
}

TEST_CASE("a report that changes while it is read is read again") {
  STEPFUSE_NEEDS_FAKE_DEVICE();
  constexpr size_t kReports = 256;
  constexpr uint64_t kNumbers =
      1'000'000;  // a fraction of a second: threads that share a core change turns
  auto context = std::make_shared<cuda::Context>(0);
  cuda::ReportRing ring(context, kReports, 2);
  Device4 device(ring, kReports);
  StatsRing stats(kReports, 4);
  std::atomic<bool> done = false;
  std::thread writer([&] {
    for (uint64_t n = 1; n <= kNumbers; ++n) device.report(n);
    done = true;
  });
  uint64_t torn = 0, last = 0, checked = 0;
  bool rising = true;
  StatsRing::Record record;
  for (bool final = false; !final;) {
    final = done;
    uint64_t before = stats.count();
    ring.collect(stats, 0);
    for (uint64_t n = before; n < stats.count(); ++n) {
      if (!stats.read(n, record)) continue;
      ++checked;
      for (uint64_t value : record.raw) torn += value != record.step_index + 1 ? 1 : 0;
      rising = rising && (checked == 1 || record.step_index > last);
      last = record.step_index;
    }
  }
  writer.join();
  CHECK(torn == 0);
  CHECK(rising);
  CHECK(last == kNumbers - 1);
}
