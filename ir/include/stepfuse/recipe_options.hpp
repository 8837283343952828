// The options of built-in recipes, and the one table that lists them. Knows ir only.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <stepfuse/types.hpp>

#pragma GCC visibility push(default)
namespace stepfuse {

// The implementation whose rounding order is followed, and whose behaviour is the default of options below.
//   standard       rounds as torch_fused; bad steps follow this project's own table
//   torch_fused    torch.optim with fused=True on the CPU
//   torch_foreach  torch.optim with foreach=True and the for-loop, which round alike on the CPU
//   apex           Apex FusedAdam; also TransformerEngine's and DeepSpeed's formula
enum class Profile : uint8_t { standard, torch_fused, torch_foreach, apex };

enum class LossScale : uint8_t {
  none,
  fixed,    // the scale is read and never changed
  dynamic,  // backs off on overflow, grows after growth_interval good steps
  // As dynamic, but backs off only at the hysteresis-th overflow; a good step refills that count.
  apex,
  megatron,  // as apex, but refilled when the scale grows, and with a minimum
};

// This step's part in updating the loss scale, if several steps share it.
enum class ScaleRole : uint8_t {
  owner,   // the only step: it updates the scale in the same launch
  member,  // records its flags in the shared states and leaves the scale alone
  last,    // updates the scale from its own and the recorded flags, and clears those
};

enum class Clip : uint8_t {
  none,
  l2,
  l1,
  inf,
  value,
  zclip,  // by the l2 norm if it is unusually large for its moving mean and variance
  adagc,  // each tensor by the moving average of its own norm
  agc,    // each row by the norm of its weights
};
enum class WeightDecay : uint8_t { none, l2, decoupled };
// How an update is limited, per tensor, to argument max_update.
enum class UpdateClip : uint8_t {
  none,
  rms,  // by its root mean square, as Adafactor does
  l2,   // by its l2 norm
};

// How the precision that low-precision weights lose is kept. `true` means `f32`.
class Master {
 public:
  enum Kind : uint8_t {
    none,
    f32,        // buffer master; `weight` is a copy that is only written
    remainder,  // for bf16 weights: buffer remainder : i16, exact
    ecc24,      // for bf16 weights: buffer correction : i8, keeps 16 of f32's 24 bits
  };
  // NOLINTNEXTLINE(google-explicit-constructor): `.master = true`
  constexpr Master(bool has = false) : kind_(has ? f32 : none) {}
  // NOLINTNEXTLINE(google-explicit-constructor): `.master = Master::remainder`
  constexpr Master(Kind kind) : kind_(kind) {}
  // NOLINTNEXTLINE(google-explicit-constructor): for comparisons and conditions
  constexpr operator Kind() const { return kind_; }

 private:
  Kind kind_;
};

// How a new weight is rounded if there is no master.
enum class WeightRounding : uint8_t {
  nearest,     // most small steps are lost
  stochastic,  // up or down at random, so that small steps arrive on average; uses state seed
  kahan,       // the rounding error is stored and added at the next step
};
// The scale applied to an 8-bit copy of the f32 master weights: none, delayed, or a format of copies by its name
// (list_copy_formats()).
class CopyScale {
 public:
  constexpr explicit CopyScale(std::string_view name = "none") : name_(name) {}
  constexpr std::string_view name() const { return name_; }
  friend constexpr bool operator==(const CopyScale&, const CopyScale&) = default;

  static const CopyScale none;
  // Per tensor: type_max / amax, where amax is the maximum over the last 16 steps, taken after each step.
  static const CopyScale delayed;
  static const CopyScale
      current;  // the same with this step's amax; costs one more pass over the weights
  // MXFP8: 32 elements share a power of two, buffer weight_scale : <f8e8m0/32>, rounded down or up.
  static const CopyScale mx, mx_rceil;
  // One scale per 128 rows by 128 columns, from this step's amax: a power of two, or any f32 number. Buffer
  // weight_scale : <f32/128x128> is the factor from codes to values. Costs one more pass over the weights.
  static const CopyScale block128, block128_f32;

 private:
  std::string_view name_;
};
inline constexpr CopyScale CopyScale::none{"none"}, CopyScale::delayed{"delayed"},
    CopyScale::current{"current"}, CopyScale::mx{"mx"}, CopyScale::mx_rceil{"mx-rceil"},
    CopyScale::block128{"block128"}, CopyScale::block128_f32{"block128-f32"};

// Which copies of a weight the step writes.
enum class Orientation : uint8_t {
  rowwise,  // the copy as it is
  both,  // also its transpose, buffer weight_t, with scales weight_scale_t if blocks or squares have scales
};
// The order of the scales of blocks.
enum class ScaleLayout : uint8_t {
  rows,  // row-major
  swizzled,  // also in tiles of 128 rows by 4 scales, as cuBLASLt takes them: buffer weight_scale_swizzled
};

// How one moment is stored.
struct StoredMoment {
  std::string moment;  // its buffer's name; empty: every moment without an entry of its own
  std::string form;    // f32, bf16, or the name of a built-in format (stepfuse/format.hpp)
  // Tensors with fewer elements keep f32, if the form is a format. Default: RecipeOptions::moments_below.
  std::optional<uint64_t> from = {};
  std::string_view option = "moments";  // the option that says so, for messages
  friend bool operator==(const StoredMoment& a, const StoredMoment& b) {
    return a.moment == b.moment && a.form == b.form && a.from == b.from;
  }
};

// How all moments are stored: one form, or one per moment.
class Moments {
 public:
  Moments() = default;  // f32
  // NOLINTNEXTLINE(google-explicit-constructor): `.moments = DType::bf16`
  Moments(DType type);
  // A list separated by ',' or '|': "fp8", "exp_avg=int8,exp_avg_sq@4096=sqrt8". Throws Error{usage}.
  // NOLINTNEXTLINE(google-explicit-constructor): `.moments = "fp8"`
  Moments(std::string_view text);
  // NOLINTNEXTLINE(google-explicit-constructor): the same
  Moments(const char* text) : Moments(std::string_view(text)) {}
  // NOLINTNEXTLINE(google-explicit-constructor): the same
  Moments(const std::string& text) : Moments(std::string_view(text)) {}

  // Takes the place of the entry for the same moment. Throws Error{usage} for a form that there is not.
  void set(StoredMoment entry);
  const std::vector<StoredMoment>& entries() const { return entries_; }
  // The entry that decides about a moment; null: f32.
  const StoredMoment* find(std::string_view moment) const;
  bool has_format() const;   // some moment is stored in a format
  std::string text() const;  // as the constructor takes it; "f32" without entries
  friend bool operator==(const Moments&, const Moments&) = default;

 private:
  std::vector<StoredMoment> entries_;
};

enum class OnNonfinite : uint8_t { skip, propagate };
enum class OnNormOverflow : uint8_t { skip, torch };

struct RecipeOptions {
  DTypeSet grad = DType::f32;  // storage types that a gradient may have
  // Arg grad_scale_inv : <f32> = 1 per tensor is the factor from stored to true gradients.
  bool grad_scale = false;
  Moments moments = {};
  // Tensors with fewer elements keep f32 moments if others have a format. For shards the full tensor's
  // size counts.
  uint64_t moments_below = 0;
  Master master = Master::none;
  // The type of weights that have a master or weight_rounding; default f16 if gradients may be f16, else bf16.
  std::optional<DType> model = {};
  // delayed and current have a state copy_scale_inv : <f32>, the factor from the stored copy to its values.
  // delayed also has copy_scale : <f32>, the factor for the next copy. Formats with an array of scales have
  // no such state, and the caller initialises the masters.
  CopyScale copy_scale = CopyScale::none;
  // Both need copies of f32 masters. With both and swizzled, the transpose's scales are weight_scale_t_swizzled.
  Orientation orientation = Orientation::rowwise;
  ScaleLayout scale_layout = ScaleLayout::rows;
  // The weights are stored only in the type `model`. By default they are f32, or low-precision with a
  // master.
  std::optional<WeightRounding> weight_rounding = {};
  LossScale loss_scale = LossScale::none;
  ScaleRole scale_role = ScaleRole::owner;
  bool scale_bounds = false;  // args min_scale and max_scale
  bool check = false;         // found_inf; implied by loss_scale, clip and skip_norm
  std::optional<OnNonfinite> on_nonfinite = {};  // default: skip; peers without a scaler propagate
  Clip clip = Clip::none;
  bool clip_per_group = false;  // one norm, coefficient and max_norm per group
  std::optional<OnNormOverflow> on_norm_overflow = {};  // default: skip; peers: torch
  bool skip_norm = false;           // a step whose norm exceeds arg skip_norm is skipped
  bool external_norm = false;       // arg external_norm replaces the norm of the gradients
  bool external_found_inf = false;  // arg external_found_inf replaces the check
  // Norm and finite check are sums of f32 (maxima with Clip::inf). Then one all-reduce of the first phase's
  // results serves both, for ranks with different gradients.
  bool all_reduce = false;
  // States counted and updated : <bool> say whether a tensor counts in norm and check, and whether it is
  // updated. They are true unless the layout says otherwise.
  bool tensor_flags = false;
  bool accumulated = false;  // gradients are sums: arg accumulation divides them
  // The gradients are the sums that the step `accumulate` has made since the last step. They are f32, and
  // the step divides and zeroes them. A non-finite micro-batch makes the step bad.
  bool window = false;
  bool round_grad = false;  // round to the gradient's storage type after unscale and clip
  bool zero_grad = false;   // store zeros to the gradients in the same pass
  bool ema = false;         // moving average of the weights
  bool monitor = false;     // more reports: first non-finite tensor, counts, streaks
  // Reports per tensor: layer_grad_norm of the unscaled gradient before clipping, layer_weight_norm
  // of the weight before the step, and layer_update_norm of what the step changed in it. A tensor without a
  // gradient keeps its last reports.
  bool layer_norms = false;
  // Reports per tensor: layer_updates counts the elements with a gradient that is not 0, and
  // layer_lost_updates those of them whose weight the step left as it was. A tensor without a gradient
  // keeps its last reports.
  bool check_updates = false;
  Profile profile = Profile::standard;
  std::optional<WeightDecay> weight_decay = {};  // default: the optimizer's own
  bool centralize = false;                       // subtract each row's mean from the gradient
  // Both change the value that a formula calls update(x), in this order.
  UpdateClip update_clip = UpdateClip::none;
  // Keep only parts of the update that agree with the gradient's sign, scaled up.
  bool caution = false;
  bool maximize = false;
  bool amsgrad = false;                // adam, adamw
  bool momentum = false;               // sgd, rmsprop
  bool nesterov = false;               // sgd
  bool centered = false;               // rmsprop
  std::vector<std::string> with = {};  // other options that a formula declares
  // Hyperparameters that are multiplied, per tensor, by an argument NAME_scale : <f64> = 1.
  std::vector<std::string> per_tensor = {};

  friend bool operator==(const RecipeOptions&, const RecipeOptions&) = default;
};

// One row of the option table: everything that a command line or a test needs to know.
struct RecipeOption {
  std::string_view name;                 // as in `--name`
  std::vector<std::string_view> values;  // empty: a flag, "true" or "false"
  // The value of `--name` alone; empty if a value is required.
  std::string_view bare;
  std::string_view help;
  std::function<void(RecipeOptions&, std::string_view)> set;  // the value is one of `values`
  std::function<std::string(const RecipeOptions&)> get;       // "" if it is not given
  bool of_formula = false;  // only the formulas of some optimizers have it
  bool is_alias = false;    // says a part of what --store says
  bool open = false;        // takes several values, as in a|b, and possibly others than `values`
};
std::span<const RecipeOption> recipe_option_table();

// Sets one option from text. `grad` takes several types, as in "f16|f32". Throws Error{usage} that lists
// the possible values.
void set_option(RecipeOptions& options, std::string_view name, std::string_view value = {});

}  // namespace stepfuse
#pragma GCC visibility pop
