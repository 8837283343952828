// Loads modules and runs launches; knows how the parts fit together.
#include "tools/ptx_machine/machine.hpp"

#include <cfenv>
#include <deque>
#include <mutex>

#include "tools/ptx_machine/decoder.hpp"

namespace ptx {
namespace {

// Rounds to nearest and keeps subnormals, whatever the caller's thread does.
class FloatingPointMode {
 public:
  FloatingPointMode() {
    std::fegetenv(&saved_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~FloatingPointMode() { std::fesetenv(&saved_); }
  FloatingPointMode(const FloatingPointMode&) = delete;
  FloatingPointMode& operator=(const FloatingPointMode&) = delete;

 private:
  std::fenv_t saved_{};
};

}  // namespace

const Kernel* Module::find(std::string_view name) const {
  for (const Kernel& k : *kernels_) {
    if (k.name == name) return &k;
  }
  return nullptr;
}

u64 Module::global(std::string_view name, u64* bytes) const {
  for (const Global& g : globals_) {
    if (g.name != name) continue;
    if (bytes != nullptr) *bytes = g.bytes;
    return g.address;
  }
  return 0;
}

namespace {

using Kernels = std::shared_ptr<const std::vector<Kernel>>;

// A parsed text, and its kernels as they were decoded last, for certain addresses of its variables.
class Text {
 public:
  explicit Text(std::string_view text)
      : source(std::make_shared<std::string>(text)), program(parse(*source)) {}

  Kernels decode(const SymbolTable& symbols) {
    std::lock_guard lock(mutex_);
    if (kernels_ == nullptr || symbols_ != symbols) {
      std::vector<Kernel> kernels;
      for (const Function& entry : program.entries) {
        kernels.push_back(Decoder(program, entry, symbols).run());
        kernels.back().source = source;
      }
      symbols_ = symbols;
      kernels_ = std::make_shared<std::vector<Kernel>>(std::move(kernels));
    }
    return kernels_;
  }

  const std::shared_ptr<const std::string> source;
  const Program program;

 private:
  std::mutex mutex_;
  SymbolTable symbols_;
  Kernels kernels_;
};

// Keeps the texts that were loaded last: a test loads a text again for each interleaving.
std::shared_ptr<Text> find_text(std::string_view ptx) {
  constexpr std::size_t kKept = 4;
  static std::mutex mutex;
  static std::deque<std::shared_ptr<Text>> texts;
  std::lock_guard lock(mutex);
  for (const auto& text : texts) {
    if (*text->source == ptx) return text;
  }
  texts.push_back(std::make_shared<Text>(ptx));
  if (texts.size() > kKept) texts.pop_front();
  return texts.back();
}

}  // namespace

std::unique_ptr<Module> Machine::load(std::string_view ptx) {
  std::shared_ptr<Text> text = find_text(ptx);
  const Program& program = text->program;
  auto module = std::make_unique<Module>();
  module->target_ = program.target;
  SymbolTable symbols;
  for (const Variable& v : program.variables) {
    if (v.space == Space::shared) continue;
    u64 address = memory_.allocate(v.bytes, "variable " + v.name);
    std::vector<u8> bytes(v.initial);
    bytes.resize(v.bytes);
    memory_.write(address, bytes.data(), bytes.size());
    if (v.space == Space::constant) memory_.find(address)->read_only = true;
    symbols[v.name] = address;
    module->globals_.push_back({v.name, address, v.bytes});
  }
  module->kernels_ = text->decode(symbols);
  return module;
}

void Machine::unload(const Module& module) {
  for (const Module::Global& g : module.globals_) memory_.release(g.address);
}

Counters Machine::launch(const Kernel& kernel, const LaunchShape& shape,
                         std::span<const std::byte> params, const LaunchOptions& options) {
  FloatingPointMode mode;
  return Launch(memory_, races_, kernel, shape, params, options).run();
}

}  // namespace ptx
