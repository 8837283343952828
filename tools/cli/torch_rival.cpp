// Runs torch_rival.py and sends it work. Knows the recipes' options and nlohmann-json.
#include "tools/cli/torch_rival.hpp"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "runtime/tables/tables.hpp"
#include "tools/cli/json.hpp"
#include "tools/cli/line_process.hpp"
#include "tools/workload/stream.hpp"

namespace stepfuse::cli {

std::string_view torch_rival_text();  // generated from torch_rival.py

namespace {

struct Peer {
  std::string_view recipe, optimizer;
};
constexpr Peer kPeers[] = {{"adamw", "AdamW"},
                           {"adam", "Adam"},
                           {"sgd", "SGD"},
                           {"rmsprop", "RMSprop"},
                           {"adagrad", "Adagrad"}};

[[noreturn]] void fail(const std::string& message) {
  throw Error(ErrorKind::usage, "--against: " + message);
}

Json arguments_of(const RecipeOptions& o, std::string_view recipe) {
  Json arguments = {{"lr", 1e-3}};
  if (recipe == "sgd" || recipe == "rmsprop") arguments["momentum"] = o.momentum ? 0.9 : 0.0;
  if (recipe == "sgd") arguments["nesterov"] = o.nesterov;
  if (recipe == "rmsprop") arguments["centered"] = o.centered;
  if (recipe == "adam" || recipe == "adamw") arguments["amsgrad"] = o.amsgrad;
  return arguments;
}

std::string_view torch_name(DType t) {
  switch (t) {
    case DType::f32:
      return "float32";
    case DType::f16:
      return "float16";
    case DType::bf16:
      return "bfloat16";
    default:
      fail(fmt::format("--against torch: PyTorch takes gradients in f32, f16 or bf16, not in {}",
                       name(t)));
  }
}

Json work_of(const Source& source, const SourceArguments& a, const LayoutFile& layout,
             int threads) {
  const auto* peer = std::find_if(std::begin(kPeers), std::end(kPeers),
                                  [&](const Peer& p) { return p.recipe == a.what; });
  if (peer == std::end(kPeers)) {
    fail(fmt::format(
        "--against torch: {} has no peer in torch.optim; use adamw, adam, sgd, rmsprop or adagrad",
        source.title));
  }
  RecipeOptions options = recipe_options(a.recipe);
  if (options.clip != Clip::none && options.clip != Clip::l2) {
    fail("--against torch: PyTorch clips by the l2 norm; use --clip=l2 or --clip=none");
  }
  StepTables tables =
      make_tables(source.program, make_layout(layout, source.program, source.bindings));
  if (tables.signatures.size() != 1)
    fail("--against torch: all gradients of the layout must have one type");
  int grad = source.program.find_buffer("grad");
  DType dtype = tables.signatures[0][static_cast<size_t>(grad)];
  bool master = source.program.find_buffer("master") >= 0;
  if (dtype != DType::f32 && !master) {
    fail(
        "--against torch: 16-bit gradients need --master; PyTorch then copies them to f32, steps "
        "and copies the weights back");
  }
  std::vector<uint64_t> sizes;
  for (const TensorEntry& t : layout.tensors) {
    if (t.size > 0) sizes.push_back(t.size);
  }
  return {{"threads", threads},
          {"sizes", sizes},
          {"dtype", torch_name(dtype)},
          {"master", master && dtype != DType::f32},
          {"optimizer", peer->optimizer},
          {"arguments", arguments_of(options, a.what)},
          {"scale", options.loss_scale != LossScale::none},
          {"max_norm", options.clip == Clip::l2 ? 1.0 : 0.0}};
}

// One process for all variants; each variant has its own weights.
class TorchProcess {
 public:
  TorchProcess(const std::string& python, const Json& work)
      : process_({python, "-c", std::string(torch_rival_text())}) {
    version = ask(work.dump()).at("torch");
  }
  Json ask(const std::string& line) {
    Json answer = Json::parse(process_.ask(line));
    if (answer.contains("problem")) {
      throw Error(
          ErrorKind::device,
          fmt::format(
              "--against: {} (pip install torch, or name a Python that has it with --python)",
              answer["problem"].get<std::string>()));
    }
    return answer;
  }
  std::string version;

 private:
  LineProcess process_;
};

class TorchRival : public Rival {
 public:
  TorchRival(std::shared_ptr<TorchProcess> process, std::string variant, int threads)
      : process_(std::move(process)), variant_(std::move(variant)), threads_(threads) {}
  std::string name() const override {
    return fmt::format("PyTorch {} {}", process_->version.substr(0, process_->version.find('+')),
                       variant_);
  }
  int threads() const override { return threads_; }
  double turn(uint64_t steps) override {
    return process_->ask(fmt::format("{} {}", variant_, steps)).at("seconds");
  }

 private:
  std::shared_ptr<TorchProcess> process_;
  std::string variant_;
  int threads_;
};

}  // namespace

std::vector<std::unique_ptr<Rival>> torch_rivals(const Source& source,
                                                 const SourceArguments& arguments,
                                                 const LayoutFile& layout,
                                                 const TorchOptions& options) {
  int threads = Streams(options.threads).threads();
  Json work = work_of(source, arguments, layout, threads);
  auto process = std::make_shared<TorchProcess>(options.python, work);
  std::vector<std::string> variants = {"fused", "foreach"};
  if (options.compiled) variants.emplace_back("compiled");
  // RMSprop and some others have no fused implementation.
  if (work["optimizer"] == "RMSprop") variants.erase(variants.begin());
  std::vector<std::unique_ptr<Rival>> rivals;
  for (const std::string& v : variants)
    rivals.push_back(std::make_unique<TorchRival>(process, v, threads));
  return rivals;
}

}  // namespace stepfuse::cli
