// Gives a program names that are hard to write as a kernel's. Knows ir.
#include "tests/support/hostile_names.hpp"

#include <iterator>
#include <set>
#include <string>

namespace stepfuse::testing {
namespace {

// Names that meet each other, or a word of a language or of our own, in a kernel's text.
constexpr const char* kHostileNames[] = {
    "m.1",  "m_1",    "m.",     "m",        "1",      "0x1",    "1e5",      "scratch0", "of",
    "if",   "float",  "double", "asm",      "define", "entry",  "begin",    "end",      "ctx",
    "loop", "finish", "chunk",  "work",     "length", "first",  "sections", "lanes",    "place",
    "e",    "acc",    "slots",  "tail",     "i.next", "is.not", "nan",      "true",     "null",
    "int",  "main",   "_Bool",  "__GNUC__", "v",      "kNone",  "stage0",   "x.tail.0", "update"};

}  // namespace

void rename_hostile(Program& p, Rng rng) {
  auto draw = [&](std::set<std::string>& taken) {
    std::string n = kHostileNames[rng.below(std::size(kHostileNames))];
    if (rng.chance(2)) n.append(5000, 'x');
    while (!taken.insert(n).second) n += rng.pick({'.', '_', '1'});
    return n;
  };
  auto rename_all = [&](auto& list) {
    std::set<std::string> taken;
    for (auto& item : list) item.name = draw(taken);
  };
  rename_all(p.buffers);
  rename_all(p.states);
  std::set<std::string> taken, stages;
  for (std::string& s : p.stages) s = draw(stages);
  for (ValueId v = 0; v < p.size(); ++v) {
    if (p[v].op == Op::arg || !is_effect(p[v].op)) p.names[static_cast<size_t>(v)] = draw(taken);
    if (p[v].op == Op::arg) {
      p.args[static_cast<size_t>(p[v].slot)].name = p.names[static_cast<size_t>(v)];
    }
  }
}

}  // namespace stepfuse::testing
