// train_digits: trains on real data with f16 gradients and stepfuse's step. Loss scaling is off,
// fixed and dynamic; each is run in two forms of the step, which must agree bit for bit. Knows the
// trainer, its report, and CLI11.
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <thread>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <stepfuse/monitor.hpp>

#include "samples/train_digits/report.hpp"

namespace digits {
namespace sf = stepfuse;
namespace {

struct Options {
  std::string data = STEPFUSE_DIGITS_CSV;
  std::string out = ".";
  std::string device = "cpu";
  std::string form = "fused";
  int epochs = 90;
  uint64_t seed = 1;
};

// Runs both forms at once: two steps on two threads share only the kernel cache.
Comparison compare(const Digits& digits, TrainOptions options, sf::Form other_form,
                   Progress& progress) {
  Comparison c;
  c.scaling = options.scaling;
  std::exception_ptr error;
  TrainOptions other = options;
  other.form = other_form;
  other.on_stats = nullptr;  // it would see the same values
  std::thread second([&] {
    try {
      c.other = train(digits, other);
    } catch (...) {
      error = std::current_exception();
    }
  });
  options.on_step = [&](int step, int steps) { progress.show(step, steps); };
  try {
    c.run = train(digits, options);
  } catch (...) {
    second.join();
    throw;
  }
  second.join();
  if (error) std::rethrow_exception(error);
  return c;
}

void write_file(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream out(path);
  out << text;
  if (!out.flush()) throw std::runtime_error("cannot write " + path.string());
}

// Logs and watches the step as a trainer would, without ever waiting for it.
class Log {
 public:
  explicit Log(const std::filesystem::path& path) : out_(path) {
    auto note = [this](const sf::Finding& f) {
      if (findings_++ < kShown) shown_ += "  " + f.message + "\n";
    };
    monitor_.add(sf::scale_below(1024), note);
    monitor_.add(sf::skipped_in_a_row(2), note);
    monitor_.add(sf::norm_near(kMaxNorm, 0.9, 5), note);
    monitor_.add(sf::never_clipped(500), note);
  }
  void add(const sf::StepStats& stats) {
    out_ << sf::to_json_line(stats) << '\n';
    monitor_.feed(stats);
  }
  bool ok() { return static_cast<bool>(out_.flush()); }
  std::string findings() const {
    if (findings_ == 0) return "nothing.\n";
    return fmt::format("{} finding{}:\n{}", findings_, findings_ == 1 ? "" : "s", shown_);
  }

 private:
  static constexpr int kShown = 5;
  std::ofstream out_;
  sf::Monitor monitor_;
  int findings_ = 0;
  std::string shown_;
};

int run(const Options& o) {
  Digits digits = load_digits(o.data, o.seed);
  TrainOptions options;
  options.form = *sf::form_from_name(o.form);
  options.device = o.device == "cpu" ? sf::Device::cpu() : sf::Device::interpreter();
  options.epochs = o.epochs;
  options.seed = o.seed;
  std::string other = options.form == sf::Form::unfused ? "fused" : "unfused";

  fmt::print(
      "{} training and {} test images of handwritten digits; f16 gradients, f32 masters,\n"
      "adamw with clipping, two parameter groups, {} epochs, seed {}. The step: {} on {}.\n\n",
      digits.train.size(), digits.test.size(), o.epochs, o.seed, o.form, o.device);
  std::vector<Comparison> runs;
  std::filesystem::create_directories(o.out);
  std::filesystem::path jsonl = std::filesystem::path(o.out) / "train_digits.jsonl";
  Log log(jsonl);
  for (Scaling scaling : {Scaling::off, Scaling::fixed, Scaling::dynamic}) {
    options.scaling = scaling;
    if (scaling == Scaling::dynamic) {
      options.on_stats = [&](const sf::StepStats& stats) { log.add(stats); };
    }
    Progress progress(fmt::format("loss scaling {}", name(scaling)), isatty(STDOUT_FILENO) != 0);
    runs.push_back(compare(digits, options, *sf::form_from_name(other), progress));
  }

  fmt::print("\n{}\n", summary_table(runs, o.form, other));
  fmt::print("One step (loss scaling dynamic, {} parameters, {} bytes owned by the step):\n{}\n",
             runs.back().run.parameters, runs.back().run.step_bytes,
             time_lines(runs.back(), o.form, other));
  std::filesystem::path svg = std::filesystem::path(o.out) / "train_digits.svg";
  write_file(svg, draw(make_figure(runs)));
  if (!log.ok()) throw std::runtime_error("cannot write " + jsonl.string());
  fmt::print(
      "The monitor's rules (low scale, skips in a row, norm near the limit, never clipped) "
      "reported {}\n",
      log.findings());
  fmt::print("The history is drawn in {}; every step with dynamic scaling is a line of {}\n",
             svg.string(), jsonl.string());
  for (const Comparison& c : runs) {
    if (c.same_bits()) continue;
    fmt::print(stderr, "train_digits: {} and {} gave different bits\n", o.form, other);
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace digits

int main(int argc, char** argv) {
  digits::Options o;
  CLI::App app{"Trains a small network on handwritten digits with f16 gradients and stepfuse."};
  app.option_defaults()->always_capture_default();
  app.add_option("--epochs", o.epochs, "Passes over the data")->check(CLI::Range(1, 100000));
  app.add_option("--seed", o.seed, "Of the split, the first weights and the order of the data");
  app.add_option("--out", o.out, "Folder for train_digits.svg");
  app.add_option("--device", o.device, "Where the step runs (interpret is slow: --epochs 2)")
      ->check(CLI::IsMember({"cpu", "interpret"}));
  app.add_option("--form", o.form, "Kernels of the step; compared with unfused (or fused)")
      ->check(CLI::IsMember({"fused", "split", "unfused"}));
  app.add_option("--data", o.data, "The digits as CSV");
  CLI11_PARSE(app, argc, argv);
  try {
    return digits::run(o);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "train_digits: %s\n", e.what());
    return 1;
  }
}
