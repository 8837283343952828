// Call counts and planned failures.
#include "tools/ptx_machine/fake_driver/faults.hpp"

#include <cstdlib>

namespace ptx::fake {

Result Faults::call(const char* name) {
  ++counts_[name];
  ++total_;
  for (std::size_t k = 0; k < planned_.size(); ++k) {
    Planned& p = planned_[k];
    if (p.name != name) continue;
    if (p.nth > 1) {
      --p.nth;
      continue;
    }
    Result code = p.code;
    if (p.sticky) lost_ = code;
    if (p.nth == 1) planned_.erase(planned_.begin() + static_cast<std::ptrdiff_t>(k));
    return code;
  }
  return kSuccess;
}

std::optional<std::uint64_t> Faults::launch() {
  if (loss_in_ == 0 || --loss_in_ > 0) return std::nullopt;
  return loss_instructions_;
}

void Faults::fail(std::string name, std::uint64_t nth, Result code, bool sticky) {
  planned_.push_back({std::move(name), nth, code, sticky});
}

void Faults::lose_device(std::uint64_t nth, std::uint64_t instructions, Result code) {
  loss_in_ = nth;
  loss_instructions_ = instructions;
  loss_code_ = code;
}

void Faults::parse(std::string_view text) {
  while (!text.empty()) {
    std::size_t comma = text.find(',');
    std::string_view item = text.substr(0, comma);
    text = comma == std::string_view::npos ? std::string_view{} : text.substr(comma + 1);
    std::vector<std::string> parts(1);
    for (char c : item) {
      if (c == ':') {
        parts.emplace_back();
      } else {
        parts.back() += c;
      }
    }
    auto number = [&](std::size_t k) {
      return k < parts.size() ? std::strtoull(parts[k].c_str(), nullptr, 10) : 0;
    };
    if (parts[0] == "hide" && parts.size() > 1) {
      hide(parts[1]);
    } else if (parts[0] == "lose") {
      lose_device(number(1), number(2), static_cast<Result>(number(3)));
    } else if (!parts[0].empty()) {
      bool sticky = parts.size() > 3 && parts[3] == "sticky";
      fail(parts[0], number(1), static_cast<Result>(number(2)), sticky);
    }
  }
}

std::uint64_t Faults::calls(const char* name) const {
  if (name == nullptr) return total_;
  auto at = counts_.find(name);
  return at == counts_.end() ? 0 : at->second;
}

void Faults::reset_calls() {
  counts_.clear();
  total_ = 0;
}

}  // namespace ptx::fake
