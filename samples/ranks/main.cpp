// Data-parallel training under mpirun: each rank has its share of the samples, steps its share of
// the weights, and all have the same weights after every step, the same bits for any number of
// ranks. Knows stepfuse and MPI.
//
//   mpirun -n 4 ranks [--steps 40] [--overflow RANK:STEP] [--kill RANK:STEP] [--stop RANK:STEP] [--timeout 10]
//                     [--whole]
//
// --overflow: that rank's gradients are infinite in that step.  --kill: that rank ends in the
// middle of that step, and mpirun ends the others.  --stop: it hangs there, and the others say so
// after the timeout.
// --whole: one rank, one device: full tensors and a plain run().
#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>
#include <unistd.h>
#include <vector>

#include "samples/ranks/mpi.hpp"

namespace sf = stepfuse;

namespace {

constexpr size_t kPiece = 16384;
constexpr size_t kSamples = 84;  // divides evenly among 1, 2, 3, 4 and 7 ranks
const std::vector<std::pair<std::string, size_t>> kTensors = {
    {"embedding", 9 * kPiece + 77}, {"matrix", 3 * kPiece}, {"bias", 300}};

struct Options {
  int steps = 40;
  int overflow_rank = -1, overflow_step = -1, kill_rank = -1, kill_step = -1, stop_rank = -1,
      stop_step = -1;
  double timeout = 10;
  bool whole = false;
};

Options parse(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    const char* value = i + 1 < argc ? argv[i + 1] : "";
    if (word == "--steps") o.steps = std::atoi(value), ++i;
    if (word == "--overflow") std::sscanf(value, "%d:%d", &o.overflow_rank, &o.overflow_step), ++i;
    if (word == "--kill") std::sscanf(value, "%d:%d", &o.kill_rank, &o.kill_step), ++i;
    if (word == "--stop") std::sscanf(value, "%d:%d", &o.stop_rank, &o.stop_step), ++i;
    if (word == "--timeout") o.timeout = std::atof(value), ++i;
    if (word == "--whole") o.whole = true;
  }
  return o;
}

// The weights in flat memory. Every tensor starts at a piece, and every rank has the same number of
// pieces.
struct Model {
  explicit Model(size_t ranks) {
    size_t pieces = 0;
    for (const auto& [name, size] : kTensors) {
      begins.push_back(pieces * kPiece);
      pieces += (size + kPiece - 1) / kPiece;
    }
    chunk = (pieces + ranks - 1) / ranks * kPiece;
    for (auto* array : {&weight, &gradient, &exp_avg, &exp_avg_sq}) array->resize(chunk * ranks);
    for (size_t i = 0; i < weight.size(); ++i) weight[i] = std::sin(static_cast<float>(i));
  }
  std::vector<size_t> begins;
  size_t chunk = 0;
  std::vector<float> weight, gradient, exp_avg, exp_avg_sq;
};

// The gradient of this rank's samples. It consists of multiples of 1/1024, so that sums are exact
// and independent of the order. A network's gradients are not like that.
void backward(Model& m, float scale, int step, size_t first, size_t last) {
  for (size_t i = 0; i < m.weight.size(); ++i) {
    float sum = 0;
    for (size_t s = first; s < last; ++s) {
      float target =
          static_cast<float>((i * 7 + s * 13 + static_cast<size_t>(step) * 5) % 61) / 64 - 0.5F;
      sum += std::rint(1024 * (m.weight[i] - target)) / 1024;
    }
    m.gradient[i] = scale * sum;
  }
}

uint64_t digest(const std::vector<float>& values) {
  uint64_t h = 14695981039346656037U;
  for (float v : values) {
    uint32_t bits = 0;
    std::memcpy(&bits, &v, sizeof bits);
    h = (h ^ bits) * 1099511628211U;
  }
  return h;
}

void train(const Options& o, MpiRanks& ranks) {
  auto size = static_cast<size_t>(ranks.size()), me = static_cast<size_t>(ranks.rank());
  Model model(size);
  // This rank's shards: the parts of each tensor in its chunk.
  sf::Layout whole, mine;
  std::vector<sf::Array> weight, grad, exp_avg, exp_avg_sq;
  for (size_t t = 0; t < kTensors.size(); ++t) {
    const auto& [name, count] = kTensors[t];
    whole.add({.name = name, .elements = count});
    size_t low = std::max(model.begins[t], me * model.chunk);
    size_t high = std::min(model.begins[t] + count, (me + 1) * model.chunk);
    if (low >= high) continue;
    mine.add({.name = name, .elements = high - low, .offset = low - model.begins[t]});
    weight.emplace_back(&model.weight[low], high - low);
    grad.emplace_back(&model.gradient[low], high - low);
    exp_avg.emplace_back(&model.exp_avg[low], high - low);
    exp_avg_sq.emplace_back(&model.exp_avg_sq[low], high - low);
  }
  sf::LossScaler scaler({.init_scale = 1024, .growth_interval = 8});
  sf::Step step(sf::make_recipe("adamw", {.loss_scale = sf::LossScale::dynamic,
                                          .clip = sf::Clip::l2,
                                          .all_reduce = true}),
                mine, sf::Device::cpu(1), {.scaler = &scaler, .observe = true});
  step.prepare();
  step.bind("weight", weight);
  step.bind("exp_avg", exp_avg);
  step.bind("exp_avg_sq", exp_avg_sq);
  step.init_state();
  const std::vector<void*> gradient = step.gradients(grad);
  sf::Args args = step.make_args();
  args.set("lr", 0.02);
  args.set("max_norm", 100);
  sf::agree(ranks, sf::facts_of(step, whole, args));
  sf::PieceExchange exchange(step, whole, ranks);

  std::vector<uint64_t> digests(size);
  for (int i = 0; i < o.steps; ++i) {
    backward(model, *scaler.device_scale(), i, me * kSamples / size, (me + 1) * kSamples / size);
    if (ranks.rank() == o.overflow_rank && i == o.overflow_step) {
      model.gradient[0] = std::numeric_limits<float>::infinity();
    }
    ranks.all_reduce(model.gradient.data(), model.gradient.size(), sf::Reduction::add, {});
    if (ranks.rank() == o.kill_rank && i == o.kill_step) std::raise(SIGKILL);
    if (ranks.rank() == o.stop_rank && i == o.stop_step) std::raise(SIGSTOP);
    if (!o.whole) exchange.reduce(gradient, args);
    step.run(gradient, args);
    ranks.all_gather(&model.weight[me * model.chunk], model.weight.data(),
                     model.chunk * sizeof(float), {});
    uint64_t own = digest(model.weight);
    ranks.all_gather(&own, digests.data(), sizeof own, {});
    if (std::count(digests.begin(), digests.end(), own) != ranks.size()) {
      throw sf::Error(sf::ErrorKind::usage,
                      "the ranks' weights differ after step " + std::to_string(i));
    }
    sf::StepStats stats = *step.latest();
    if (ranks.rank() == 0 && (i % 10 == 9 || stats.at("skipped") != 0)) {
      std::printf("%3d  norm %.9g  scale %g%s\n", i, stats.at("grad_norm"), scaler.read(),
                  stats.at("skipped") != 0 ? "  skipped" : "");
    }
  }
  // Only the tensors themselves: the padding behind them depends on the number of ranks.
  std::vector<float> learned(
      model.weight.begin(),
      model.weight.begin() +
          static_cast<std::ptrdiff_t>(model.begins.back() + kTensors.back().second));
  if (ranks.rank() == 0)
    std::printf("digest %016llx\n", static_cast<unsigned long long>(digest(learned)));
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  try {
    Options options = parse(argc, argv);
    MpiRanks ranks(MPI_COMM_WORLD, options.timeout);
    train(options, ranks);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    std::fflush(nullptr);
    _exit(3);  // MPI_Finalize would wait for the lost ranks
  }
  MPI_Finalize();
  return 0;
}
