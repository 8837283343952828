// Damages safetensors files. Knows the format, and the runtime's writer for whole files.
#include "tests/fuzz/damaged_safetensors.hpp"

#include <cstring>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "runtime/files/safetensors.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace stepfuse::testing {
namespace {

using Json = nlohmann::json;

std::string file_of(uint64_t length, const std::string& header, const std::string& data) {
  std::string out(sizeof length, '\0');
  std::memcpy(out.data(), &length, sizeof length);
  return out + header + data;
}

std::string with_other_numbers(std::string header, Rng& rng) {
  for (int n = rng.between(1, 3); n > 0; --n) {
    size_t digit = header.find_first_of("0123456789", rng.below(header.size()));
    if (digit == std::string::npos) continue;
    size_t end = std::min(header.find_first_not_of("0123456789", digit), header.size());
    header.replace(digit, end - digit,
                   rng.chance(50)
                       ? std::to_string(rng.below(300))
                       : rng.pick<std::string>({"0", "-1", "1e999", "2.5", "18446744073709551615",
                                                "9223372036854775808"}));
  }
  return header;
}

// Each array alone stays what its shape says, all together may not.
std::string with_other_arrays(const std::string& header, Rng& rng) {
  Json root = Json::parse(header);
  std::vector<std::string> names;
  for (const auto& [name, entry] : root.items()) {
    if (name != "__metadata__") names.push_back(name);
  }
  Json& a = root[rng.pick(names)];
  const Json& b = root[rng.pick(names)];
  auto begin = a["data_offsets"][0].get<uint64_t>();
  auto end = a["data_offsets"][1].get<uint64_t>();
  switch (rng.below(6)) {
    case 0:
      a["data_offsets"] = b["data_offsets"];
      a["shape"] = b["shape"];
      a["dtype"] = b["dtype"];
      break;
    case 1: {
      uint64_t by = rng.below(2 * begin + 8);
      a["data_offsets"] = {by, by + (end - begin)};
      break;
    }
    case 2:  // a product that wraps to what it was
      a["shape"] = {uint64_t{1} << rng.between(30, 63), uint64_t{1} << rng.between(1, 34),
                    rng.below(3)};
      break;
    case 3:
      a["dtype"] = rng.pick<std::string>({"BOOL", "F16", "F64", "I32", "U8", "\x1b[31m"});
      break;
    case 4:
      root["one more"] = b;
      break;
    default:
      root.erase(rng.pick(names));
  }
  return root.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::string damaged_safetensors(const std::string& good, Rng& rng) {
  uint64_t length = 0;
  std::memcpy(&length, good.data(), sizeof length);
  std::string header = good.substr(sizeof length, length);
  std::string data = good.substr(sizeof length + length);
  switch (rng.below(5)) {
    case 0:
      return damaged(good, rng);
    case 1:
      return file_of(rng.next() >> rng.below(64), header, data);
    case 2:
      header = with_other_numbers(std::move(header), rng);
      break;
    default:
      header = with_other_arrays(header, rng);
  }
  if (rng.chance(20)) data = damaged(data, rng);
  return file_of(header.size(), header, data);
}

void rewrite_otherwise(const std::string& path, Rng& rng) {
  TensorMetadata metadata;
  std::vector<ArrayHead> heads;
  std::vector<std::string> bytes;
  {
    TensorReader file(path);
    metadata = file.metadata();
    for (const auto& [name, array] : file.arrays()) {
      heads.push_back({name, array.dtype, array.bytes / size_of(array.dtype)});
      bytes.push_back(file.read(array));
    }
  }
  for (int n = rng.between(1, 3); n > 0 && !heads.empty(); --n) {
    size_t i = rng.below(heads.size());
    auto fact = std::next(metadata.begin(), static_cast<int>(rng.below(metadata.size())));
    switch (rng.below(8)) {
      case 0:
        heads.erase(heads.begin() + static_cast<int>(i));
        bytes.erase(bytes.begin() + static_cast<int>(i));
        break;
      case 1:
        heads[i].name = rng.chance(50) ? heads[i].name + ".0" : damaged(heads[i].name, rng);
        break;
      case 2:
        heads[i].elements = rng.below(80);
        break;
      case 3:
        heads[i].dtype = static_cast<DType>(rng.below(kDTypeCount));
        break;
      case 4:
        metadata.erase(fact);
        break;
      case 5:
        fact->second =
            rng.pick<std::string>({"", "-1", "[]", "none", "weight", "9999999999999999999"});
        break;
      case 6:
        fact->second = damaged(fact->second, rng);
        break;
      default:
        bytes[i] = damaged(bytes[i], rng);
    }
    if (metadata.empty()) break;
  }
  TensorWriter file(path, metadata, heads);
  for (size_t i = 0; i < heads.size(); ++i) {
    bytes[i].resize(heads[i].elements * size_of(heads[i].dtype));
    file.write(bytes[i].data(), bytes[i].size());
  }
  file.finish();
}

}  // namespace stepfuse::testing
