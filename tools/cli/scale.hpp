// The cost of a step on many ranks, by a model: bytes, messages, time on a link, memory. Knows the
// explanation.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tools/cli/explanation.hpp"

namespace stepfuse::cli {

struct Link {
  std::string name;
  double gigabytes_per_second = 0;  // per rank and direction
  double microseconds = 0;          // per message
};
// Accepts "nvlink4", "ndr400", "eth100" and "GB/s:microseconds"; throws Error{usage} for anything
// else.
Link parse_link(std::string_view text);
// "8..16384" means the powers of two in between, "8,64" just these. Throws Error{usage}.
std::vector<uint64_t> parse_ranks(std::string_view text);

// One way to train on one number of ranks.
struct ScaleRow {
  uint64_t ranks = 0;
  std::string way;          // DDP, ZeRO-1, FSDP
  double bytes_sent = 0;    // per rank and step
  uint64_t messages = 0;    // per rank and step
  double hidden_ms = 0;     // can overlap with backward
  double exposed_ms = 0;    // cannot overlap: the last bucket, the norm, ZeRO's weights
  double norm_us = 0;       // part of it: the all-reduce between the phases
  double pieces_us = 0;     // an exchange of pieces, the alternative to norm_us
  double memory_bytes = 0;  // weights, gradients and state, per rank
};

struct ScaleOptions {
  std::vector<uint64_t> ranks;
  Link link;
  double bucket_bytes = 25e6;
};

std::vector<ScaleRow> scale(const Explanation& e, const ScaleOptions& options);
std::string scale_text(const Explanation& e, const ScaleOptions& options);
std::string scale_json(const Explanation& e, const ScaleOptions& options);

}  // namespace stepfuse::cli
