// Counts the accesses of PTX and of schedules. Knows the schedule.
#include "tests/nvrtc/accesses.hpp"

#include <algorithm>
#include <regex>
#include <set>
#include <vector>

#include <fmt/format.h>

namespace stepfuse::testing {
namespace {

struct Array {
  size_t width = 0;
  bool loaded = false;
  bool stored = false;
  bool masked = false;  // stored under a per-element condition
};
using ArrayId = std::pair<bool, int32_t>;  // scratch or buffer, and its index

std::map<ArrayId, Array> arrays_of(const Schedule& s, const Body& body, size_t signature) {
  std::map<ArrayId, Array> arrays;
  auto at = [&](bool scratch, int32_t index) -> Array& {
    auto i = static_cast<size_t>(index);
    Array& a = arrays[{scratch, index}];
    a.width = size_of(scratch ? s.resolve(s.scratch[i], signature) : s.signatures[signature][i]);
    return a;
  };
  auto kept = [&](const Crossing& k) -> Array& {
    return k.scratch >= 0 ? at(true, k.scratch) : at(false, k.buffer);
  };
  const Program& p = s.program;
  for (const Crossing& k : body.fetches) kept(k).loaded = true;
  for (ValueId v : body.code) {
    if (p[v].op == Op::load) at(false, p[v].slot).loaded = true;
  }
  for (const StoreAction& a : body.stores) {
    Array& stored = at(false, p[a.store].slot);
    stored.stored = true;
    stored.masked = a.predicate != kNoValue && is_tile(p[a.predicate].type.at);
  }
  for (const Crossing& k : body.keeps) kept(k).stored = true;
  return arrays;
}

// Signatures share a body's code if all its types are the same.
std::string types_of(const Schedule& s, const Body& body, size_t signature) {
  std::string key;
  for (const auto& [id, a] : arrays_of(s, body, signature)) {
    DType t = id.first ? s.resolve(s.scratch[static_cast<size_t>(id.second)], signature)
                       : s.signatures[signature][static_cast<size_t>(id.second)];
    key += fmt::format("{} ", name(t));
  }
  for (ValueId v : body.code) key += fmt::format("{} ", name(s.dtype_of(v, signature)));
  return key;
}

void add_body(const Schedule& s, const Body& body, size_t signature, const CudaOptions& options,
              Accesses* out) {
  size_t widest = 0, loaded = 0;
  auto arrays = arrays_of(s, body, signature);
  for (const auto& [id, a] : arrays) {
    widest = std::max(widest, a.width);
    loaded += a.loaded ? a.width : 0;
  }
  auto bytes = static_cast<size_t>(options.access) / 8;
  auto unroll = static_cast<size_t>(options.unroll);
  size_t tile = std::clamp<size_t>(bytes / std::max<size_t>(widest, 1), 4, 8);
  bool only_reads = !body.reductions.empty() && body.stores.empty() && body.keeps.empty() &&
                    body.code.size() <= 16;
  size_t most = only_reads ? 32 : 16 * unroll;
  size_t whole = 1;
  while (2 * whole * tile * loaded <= 64 * unroll && 2 * whole * tile <= most) whole *= 2;
  if (!body.reductions.empty()) whole = std::max(whole, 8 / tile);
  // In a turn with incomplete tiles, the complete ones count as tiles and the others by elements.
  size_t mixed = only_reads ? 8 / tile : whole;
  for (const auto& [id, a] : arrays) {
    size_t words = tile * a.width / 4;
    std::string vector = words == 1 ? "" : fmt::format(".v{}", words);
    std::string_view element = a.width == 4 ? "b32" : a.width == 2 ? "u16" : "u8";
    for (const char* op : {"ld", "st"}) {
      if (!(op[0] == 'l' ? a.loaded : a.stored)) continue;
      (*out)[fmt::format("{}.global{}.b32", op, vector)] +=
          static_cast<int>((op[0] == 's' && a.masked ? 0 : whole) + mixed);
      (*out)[fmt::format("{}.global.{} element", op, element)] += static_cast<int>(mixed * tile);
    }
  }
}

}  // namespace

Accesses accesses_of(const std::string& ptx) {
  // Our own words are .b32; the compiler chooses the types for tables, states and arguments.
  static const std::regex bulk(
      R"((^|[\s;])(ld|st)\.global(\.cs|\.L2::cache_hint)?(\.v[248])\.b32\s)");
  static const std::regex element(R"(@in (ld|st)\.global\.(b32|u16|u8)\s)");
  static const std::regex generic(R"((^|[\s;])(ld|st)\.(v[48])\.)");
  Accesses out;
  using Each = std::sregex_iterator;
  for (Each m(ptx.begin(), ptx.end(), bulk); m != Each(); ++m) {
    ++out[fmt::format("{}.global{}.b32", (*m)[2].str(), (*m)[4].str())];
  }
  for (Each m(ptx.begin(), ptx.end(), element); m != Each(); ++m) {
    ++out[fmt::format("{}.global.{} element", (*m)[1].str(), (*m)[2].str())];
  }
  for (Each m(ptx.begin(), ptx.end(), generic); m != Each(); ++m) {
    ++out[fmt::format("{}.{} generic", (*m)[2].str(), (*m)[3].str())];
  }
  return out;
}

Accesses expected_accesses(const Schedule& schedule, const CudaOptions& options) {
  Accesses out;
  for (const Phase& phase : schedule.phases) {
    for (const Body* body : {&phase.body, &phase.otherwise}) {
      if (body->empty()) continue;
      std::set<std::string> seen;
      for (size_t s = 0; s < schedule.signatures.size(); ++s) {
        if (seen.insert(types_of(schedule, *body, s)).second) {
          add_body(schedule, *body, s, options, &out);
        }
      }
    }
  }
  return out;
}

std::string difference(const Accesses& expected, const Accesses& found) {
  std::set<std::string> kinds;
  for (const auto* list : {&expected, &found}) {
    for (const auto& [kind, n] : *list) kinds.insert(kind);
  }
  std::string out;
  auto count = [](const Accesses& list, const std::string& kind) {
    auto at = list.find(kind);
    return at == list.end() ? 0 : at->second;
  };
  for (const std::string& kind : kinds) {
    int want = count(expected, kind), have = count(found, kind);
    if (want != have) out += fmt::format("{}: {} expected, {} found\n", kind, want, have);
  }
  return out;
}

}  // namespace stepfuse::testing
