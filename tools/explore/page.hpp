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

struct Heading {
  std::string title;
  std::string version;  // the tool's, and when the page was written
  std::string command;  // makes the page again
};

std::string page(const Heading& heading, const Stages& stages, const Facts& facts);

}  // namespace stepfuse::explore
