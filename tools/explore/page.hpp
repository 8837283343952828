// The page: one self-contained file with all stages side by side. Knows the stages and JSON.
#pragma once

#include <string>
#include <vector>

#include "tools/explore/stages.hpp"

namespace stepfuse::explore {

// A table above the stages. Every row has as many cells as the head.
struct Facts {
  std::vector<std::string> head;
  std::vector<std::vector<std::string>> rows;
  std::vector<std::string> notes;  // printed below the table
};

std::string page(const std::string& title, const std::vector<Stage>& stages, const Facts& facts);

}  // namespace stepfuse::explore
