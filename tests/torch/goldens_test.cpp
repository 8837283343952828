// Replays results of real PyTorch (goldens.json, recorded by record_goldens.py): weights, moments,
// step counts, loss scale and tracker are bit-identical on every device and in every form.
#include <cstring>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <stepfuse/recipes.hpp>
#include <stepfuse/stepfuse.hpp>

#include "tests/source_dir.hpp"
#include "tests/torch/inputs.hpp"

using namespace stepfuse;
using namespace stepfuse::torch_check;
using nlohmann::json;

namespace {

using Values = std::vector<float>;

const json& goldens() {
  static const json file =
      json::parse(std::ifstream(STEPFUSE_SOURCE_DIR "/tests/torch/goldens.json"));
  return file;
}

Values from_hex(const std::string& text) {
  std::string bytes;
  for (size_t i = 0; i < text.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(text.substr(i, 2), nullptr, 16));
  }
  Values out(bytes.size() / sizeof(float));
  if (!out.empty()) std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

int differing(const Values& a, const Values& b) {
  REQUIRE(a.size() == b.size());
  int count = 0;
  for (size_t i = 0; i < a.size(); ++i) count += Bits::of(a[i]) != Bits::of(b[i]);
  return count;
}

RecipeOptions options_of(const std::string& text) {
  RecipeOptions o;
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(text.find(' ', at), text.size());
    std::string word = text.substr(at, end - at);
    size_t equals = word.find('=');
    set_option(o, word.substr(0, equals),
               equals == std::string::npos ? "" : word.substr(equals + 1));
    at = end + 1;
  }
  return o;
}

std::vector<void*> pointers(std::vector<Values>& arrays) {
  std::vector<void*> out;
  for (Values& a : arrays) out.push_back(a.empty() ? nullptr : a.data());
  return out;
}

// One recorded case on one device and form.
class Replay {
 public:
  Replay(const json& golden, const Device& device, Form form)
      : golden_(golden),
        seed_(goldens()["seed"]),
        sizes_(goldens()["sizes"].get<std::vector<size_t>>()),
        scaler_({.init_scale = 1024}),
        step_(make_recipe(golden["recipe"].get<std::string>(), options_of(golden["options"])),
              layout(), device, {.form = form, .scaler = &scaler_}),
        args_(prepared_args()) {
    for (size_t t = 0; t < sizes_.size(); ++t) weights_.push_back(weights(seed_, t, sizes_[t]));
    step_.bind_raw("weight", pointers(weights_));
    for (const auto& [name, unused] : golden_["kept"].items()) {
      for (size_t n : sizes_) kept_[name].emplace_back(n, 0.0F);
      step_.bind_raw(name, pointers(kept_[name]));
    }
    for (size_t g : {0U, 1U}) {
      for (const auto& [name, value] : golden_["args"][g].items()) {
        args_.set(name, Group{static_cast<int>(g)}, value.get<double>());
      }
    }
    for (const auto& [name, value] : golden_["step_args"].items()) {
      args_.set(name, value.get<double>());
    }
  }

  void run() {
    Values norms = from_hex(golden_["norms"]);
    Values scales = from_hex(golden_["scales"]);
    for (size_t s = 0; s < scales.size(); ++s) {
      if (!norms.empty()) args_.set("external_norm", static_cast<double>(norms[s]));
      run_step(s);
      CHECK(scaler_.read("scale") == static_cast<double>(scales[s]));
      CHECK(scaler_.read("growth_tracker") == golden_["trackers"][s].get<int>());
    }
    check_arrays("weights", weights_, golden_["weights"]);
    for (auto& [name, arrays] : kept_) check_arrays(name, arrays, golden_["kept"][name]);
    const json& counts = golden_["counts"];
    for (size_t t = 0; t < counts.size(); ++t) {
      // torch counts an empty parameter's steps too; it is never loaded or stored here.
      if (sizes_[t] > 0) CHECK(step_.read_state("step")[t].i64() == counts[t].get<int64_t>());
    }
  }

 private:
  Layout layout() const {
    Layout l;
    for (size_t t = 0; t < sizes_.size(); ++t) {
      l.add({.elements = sizes_[t], .group = static_cast<int>(t % 2)});
    }
    return l;
  }
  Args prepared_args() {
    step_.prepare();
    step_.adopt_state();
    return step_.make_args();
  }

  void run_step(size_t s) {
    auto scale = static_cast<float>(scaler_.read("scale"));
    std::vector<Values> grads;
    for (size_t t = 0; t < sizes_.size(); ++t) {
      grads.push_back(gradient(seed_, s, t, sizes_[t]));
      for (float& g : grads.back()) g *= scale;
    }
    if (s > 0 && chance(seed_, 6, s, 0, 6)) spoil(grads[s % 2], seed_, s, 0);
    std::vector<void*> given = pointers(grads);
    for (size_t t = 2; t < given.size(); ++t) {
      if (golden_["missing"].get<bool>() && chance(seed_, 3, s, t, 10, 3)) given[t] = nullptr;
    }
    step_.run(given, args_);
  }

  void check_arrays(const std::string& what, const std::vector<Values>& ours, const json& theirs) {
    for (size_t t = 0; t < ours.size(); ++t) {
      CAPTURE(what);
      CAPTURE(t);
      CHECK(differing(ours[t], from_hex(theirs[t])) == 0);
    }
  }

  const json& golden_;
  uint64_t seed_;
  std::vector<size_t> sizes_;
  LossScaler scaler_;
  Step step_;
  Args args_;
  std::vector<Values> weights_;
  std::map<std::string, std::vector<Values>> kept_;
};

void replay_all(const Device& device, Form form) {
  for (const json& golden : goldens()["cases"]) {
    CAPTURE(golden["name"].get<std::string>());
    Replay(golden, device, form).run();
  }
}

}  // namespace

TEST_CASE("the interpreter equals recorded PyTorch") {
  CHECK(goldens()["cases"].size() > 50);
  replay_all(Device::interpreter(), Form::fused);
}

TEST_CASE("CPU kernels equal recorded PyTorch in every form") {
  for (Form form : {Form::fused, Form::split, Form::unfused}) {
    CAPTURE(name(form));
    replay_all(Device::cpu(2), form);
  }
}

TEST_CASE("another profile's rounding would be noticed") {
  // Apex' formula on a case recorded from torch: the weights must differ.
  json golden = goldens()["cases"][0];
  std::string options = golden["options"];
  size_t at = options.find("torch-fused");
  REQUIRE(at != std::string::npos);
  Program torch = make_recipe(golden["recipe"].get<std::string>(), options_of(options));
  Program apex =
      make_recipe(golden["recipe"].get<std::string>(), options_of(options.replace(at, 11, "apex")));
  CHECK_FALSE(torch == apex);
}
