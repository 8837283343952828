// The model behind `stepfuse explain --ranks`: costs of collectives after Thakur, Rabenseifner and
// Gropp (2005). Knows the explanation and JSON.
#include "tools/cli/scale.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include <fmt/format.h>

#include "ir/semantics/reduction.hpp"
#include "ir/text/words.hpp"
#include "tools/cli/json.hpp"
#include "tools/cli/table.hpp"

namespace stepfuse::cli {
namespace {

constexpr std::string_view kAssumptions = R"(
Assumptions
  bytes     a reduce-scatter and an all-gather send (N-1)/N of the buffer per rank, an all-reduce both
            (Thakur, Rabenseifner, Gropp: Optimization of Collective Communication Operations in MPICH, 2005)
  messages  log2 N in each of the two, by recursive halving or trees, as MPI and NCCL do for many ranks; a ring
            has N-1
  time      messages x latency + bytes / bandwidth, one link for each rank, nobody else on the network
  hidden    costs nothing where forward and backward take as long: all buckets but the last one; in FSDP also the
            weights' two all-gathers. ZeRO-1 gathers the weights after the step
  memory    weights, gradients and state (Rajbhandari et al.: ZeRO, 2020), in FSDP without the layer that is whole
            at the moment; activations and buckets' copies come on top)";

// An error message starts with `rule` and ends with `whole`.
double number(std::string_view text, std::string_view rule, std::string_view whole) {
  double value = parse_number<double>(text).value_or(0);
  if (value > 0) return value;
  throw Error(ErrorKind::usage, fmt::format("{}; got '{}'", rule, whole));
}

// Bytes of all parameters, by purpose.
struct Bytes {
  double weights = 0, gradients = 0, state = 0;
  double pieces = 0;  // bytes received when the sums of all pieces are exchanged
  uint64_t sums = 0;  // number of sums over all elements
};

Bytes count(const Explanation& e) {
  Bytes bytes;
  const Variant& variant = e.forms[0].variant;
  for (size_t s = 0; s < e.elements.size(); ++s) {
    auto n = static_cast<double>(e.elements[s]);
    for (size_t b = 0; b < variant.program.buffers.size(); ++b) {
      const Buffer& buffer = variant.program.buffers[b];
      double size = n * static_cast<double>(size_of(variant.signatures[s][b])) / buffer.at.rows /
                    buffer.at.columns;
      const std::string& name = buffer.name;
      (name == "grad" ? bytes.gradients : name == "weight" ? bytes.weights : bytes.state) += size;
    }
  }
  for (const plan::Reduction& r : variant.plan.reductions) {
    if (r.first_level && r.to == per::step) ++bytes.sums;
  }
  double pieces = std::ceil(static_cast<double>(e.parameters) / kPieceElements);
  bytes.pieces = 4 * pieces * static_cast<double>(bytes.sums);
  return bytes;
}

class Model {
 public:
  Model(const Explanation& e, const ScaleOptions& o) : options_(o), bytes_(count(e)) {}

  ScaleRow row(uint64_t ranks, std::string_view way) const {
    auto n = static_cast<double>(ranks);
    double share = (n - 1) / n;
    auto hops = static_cast<double>(std::bit_width(ranks - 1));
    double buckets = std::max(1.0, std::ceil(bytes_.gradients / options_.bucket_bytes));
    double gradients = bytes_.gradients * share, weights = bytes_.weights * share;
    ScaleRow r{.ranks = ranks, .way = std::string(way)};
    // Bytes and messages of a reduce-scatter of the gradients, and of all-gathers.
    double reduce = time_ms(gradients, buckets * hops), gather = time_ms(weights, buckets * hops);
    double hidden = 1 - 1 / buckets;
    double collectives = 2;
    if (way == "DDP") {
      r.bytes_sent = 2 * gradients;
      r.hidden_ms = 2 * reduce * hidden;
      r.exposed_ms = 2 * reduce * (1 - hidden);
      r.memory_bytes = bytes_.weights + bytes_.gradients + bytes_.state;
    } else if (way == "ZeRO-1") {
      r.bytes_sent = gradients + weights;
      r.hidden_ms = reduce * hidden;
      r.exposed_ms = reduce * (1 - hidden) + gather;
      r.memory_bytes = bytes_.weights + bytes_.gradients * (1 + 1 / n) + bytes_.state / n;
    } else {
      r.bytes_sent = gradients + 2 * weights;
      r.hidden_ms = reduce * hidden + 2 * gather * hidden;
      r.exposed_ms = reduce * (1 - hidden) + 2 * gather * (1 - hidden);
      r.memory_bytes = (bytes_.weights + bytes_.gradients + bytes_.state) / n;
      collectives = 3;
    }
    r.messages = static_cast<uint64_t>(collectives * buckets * hops);
    // after DDP's all-reduce all ranks have the same gradients
    if (way != "DDP" && bytes_.sums > 0) {
      double words = 4 * static_cast<double>(bytes_.sums);
      r.norm_us = 1e3 * time_ms(2 * words, 2 * hops);
      r.pieces_us = 1e3 * time_ms(bytes_.pieces * share, hops);
      r.messages += static_cast<uint64_t>(2 * hops);
      r.bytes_sent += 2 * words * share;
      r.exposed_ms += r.norm_us / 1e3;
    }
    return r;
  }

 private:
  double time_ms(double bytes, double messages) const {
    return messages * options_.link.microseconds / 1e3 +
           bytes / options_.link.gigabytes_per_second / 1e6;
  }

  const ScaleOptions& options_;
  Bytes bytes_;
};

}  // namespace

Link parse_link(std::string_view text) {
  // Bandwidths are from datasheets: NVLink of an H100 has 900 GB/s for both directions together,
  // the others 400 and 100 Gbit/s. Latencies are round numbers for a small message between two
  // ranks.
  const Link known[] = {{"nvlink4", 450, 2}, {"ndr400", 50, 5}, {"eth100", 12.5, 20}};
  std::string names;
  for (const Link& link : known) {
    if (link.name == text) return link;
    names += link.name + ", ";
  }
  std::string rule = fmt::format("--link: expected {}or GB/s:microseconds, as in 50:5", names);
  size_t colon = std::min(text.find(':'), text.size());
  return {std::string(text), number(text.substr(0, colon), rule, text),
          number(text.substr(std::min(colon + 1, text.size())), rule, text)};
}

std::vector<uint64_t> parse_ranks(std::string_view text) {
  auto whole = [all = text](std::string_view part) {
    constexpr std::string_view kRule =
        "--ranks: expected N, N,M or N..M with whole numbers from 2 on, as in 8..16384";
    double value = number(part, kRule, all);
    if (value != std::floor(value) || value < 2 || value > 1 << 24) {
      throw Error(ErrorKind::usage, fmt::format("{}; got '{}'", kRule, all));
    }
    return static_cast<uint64_t>(value);
  };
  std::vector<uint64_t> ranks;
  if (size_t dots = text.find(".."); dots != std::string_view::npos) {
    uint64_t last = whole(text.substr(dots + 2));
    for (uint64_t n = whole(text.substr(0, dots)); n <= last; n *= 2) ranks.push_back(n);
    if (ranks.empty())
      throw Error(
          ErrorKind::usage,
          fmt::format("--ranks: the range '{}' is empty; write the smaller number first", text));
    return ranks;
  }
  while (true) {
    size_t comma = text.find(',');
    ranks.push_back(whole(text.substr(0, comma)));
    if (comma == std::string_view::npos) return ranks;
    text.remove_prefix(comma + 1);
  }
}

std::vector<ScaleRow> scale(const Explanation& e, const ScaleOptions& options) {
  Model model(e, options);
  std::vector<ScaleRow> rows;
  for (std::string_view way : {"DDP", "ZeRO-1", "FSDP"})
    for (uint64_t n : options.ranks) rows.push_back(model.row(n, way));
  return rows;
}

std::string scale_text(const Explanation& e, const ScaleOptions& options) {
  std::string out = fmt::format(
      "{}\n{} parameters; link {}: {} GB/s, {} us a message; buckets of {}\n", e.title,
      with_commas(e.parameters), options.link.name, short_number(options.link.gigabytes_per_second),
      short_number(options.link.microseconds), human_bytes(options.bucket_bytes));
  Table t;
  std::string way;
  for (const ScaleRow& r : scale(e, options)) {
    if (r.way != way) {
      way = r.way;
      t.row({});
      t.row({way, "sent", "messages", "hidden ms", "exposed ms", "norm us", "pieces us", "memory"});
    }
    bool norm = r.norm_us > 0;
    t.row({fmt::format("  {} ranks", with_commas(r.ranks)), human_bytes(r.bytes_sent),
           with_commas(r.messages), fmt::format("{:.2f}", r.hidden_ms),
           fmt::format("{:.2f}", r.exposed_ms), norm ? fmt::format("{:.1f}", r.norm_us) : "-",
           norm ? fmt::format("{:.1f}", r.pieces_us) : "-", human_bytes(r.memory_bytes)});
  }
  return fmt::format("{}{}{}\n", out, t.text(), kAssumptions);
}

std::string scale_json(const Explanation& e, const ScaleOptions& options) {
  Json rows = Json::array();
  for (const ScaleRow& r : scale(e, options)) {
    rows.push_back({{"ranks", r.ranks},
                    {"way", r.way},
                    {"bytes_sent", r.bytes_sent},
                    {"messages", r.messages},
                    {"hidden_ms", r.hidden_ms},
                    {"exposed_ms", r.exposed_ms},
                    {"norm_us", r.norm_us},
                    {"pieces_us", r.pieces_us},
                    {"memory_bytes", r.memory_bytes}});
  }
  return json_text({{"parameters", e.parameters}, {"link", options.link.name}, {"scale", rows}});
}

}  // namespace stepfuse::cli
