// Counts what random programs are made of, so that a test can demand it. Knows ir.
#pragma once

#include <array>
#include <map>
#include <string>
#include <vector>

#include <stepfuse/program.hpp>

#include "tests/support/random_data.hpp"

namespace stepfuse::testing {

class Coverage {
 public:
  // Counts only what an effect needs: dead code proves nothing.
  void count(const Program& program, const TestLayout& layout, Inputs inputs);
  void add(const Coverage& other);
  // Everything that was seen fewer than `least` times.
  std::vector<std::string> lacking(int least) const;
  std::string report() const;
  int programs() const { return programs_; }

 private:
  void count_inst(const Program& program, const Inst& inst);
  int programs_ = 0;
  // By feature, in groups: "op add", "type [f32]", "reductions 3", "predicate <bool>", …
  std::map<std::string, std::map<std::string, int>> seen_;
};

}  // namespace stepfuse::testing
