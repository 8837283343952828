// The stages of an update, in the language of formulas. Knows ir only.
#include "ir/formula/update.hpp"

#include <stepfuse/error.hpp>

#include "ir/formula/parser.hpp"

namespace stepfuse::formula {
namespace {

// cautious rounds as timm's implementation of Liang et al., 2024. clip_rms and clip_l2 use the factors of
// HeavyBall's rmsnorm_clip_ and l2_clip_.
constexpr std::string_view kStages = R"(
optimizer update "the stages of an update" {
  def clip_rms(x, unit) {
    let part = x / unit
    let size = sqrt(mean(part * part, tensor))
    return x * f32(max_update / max(size, max_update))
  }
  def clip_l2(x, unit) {
    let size = f64(norm(x / unit, tensor))
    return x * f32(max_update / max(size, max_update))
  }
  def cautious(x) {
    let agrees = x * g > 0
    let more = rcp(f32(max(mean(agrees, tensor), 1e-3)))
    return x * (agrees ? more : 0)
  }
}
)";

}  // namespace

const Statement& update_function(std::string_view name) {
  static const Formula stages =
      parse_formula(kStages, "update.cpp",
                    [](std::string_view) -> std::optional<Formula> { return std::nullopt; });
  for (const Statement& s : stages.body) {
    if (s.name == name) return s;
  }
  internal_error("no such stage of an update");
}

}  // namespace stepfuse::formula
