// Safetensors files: written arrays are read back, and anything that is not exactly such a file is
// refused.
#include "runtime/files/safetensors.hpp"

#include <cstring>
#include <filesystem>
#include <string>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

#include <doctest/doctest.h>

#include <stepfuse/error.hpp>

#include "runtime/files/new_file.hpp"
#include "tests/support/file_faults.hpp"
#include "tests/support/messages.hpp"
#include "tests/support/scratch_folder.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;
namespace fs = std::filesystem;

namespace {

std::string with_header(const std::string& json, size_t data_bytes) {
  uint64_t size = json.size();
  std::string file(sizeof size, '\0');
  std::memcpy(file.data(), &size, sizeof size);
  return file + json + std::string(data_bytes, '\1');
}

struct Folder {
  ScratchFolder scratch;
  std::string file = (scratch.path() / "a.safetensors").string();

  // The error for a file with this header and `data_bytes` bytes of data.
  std::string refused(const std::string& json, size_t data_bytes) {
    write_bytes(file, with_header(json, data_bytes));
    return message_of([&] { TensorReader reader(file); });
  }
  void write(TensorMetadata metadata = {{"key", "value"}}) {
    TensorWriter writer(file, std::move(metadata), {{"b", DType::f32, 2}, {"a", DType::f16, 4}});
    writer.write("12345678", 8);
    writer.write("abcd", 4);
    writer.write("efgh", 4);
    writer.finish();
  }
};

}  // namespace

TEST_CASE("what is written comes back") {
  Folder folder;
  folder.write();
  TensorReader reader(folder.file);
  reader.check_digest();
  CHECK(reader.text("key") == "value");
  CHECK(reader.read(reader.at("b", DType::f32, 2)) == "12345678");
  CHECK(reader.read(reader.at("a", DType::f16, 4)) == "abcdefgh");
  char two[2];
  reader.read(reader.at("a"), 5, two, 2);
  CHECK(std::string(two, 2) == "fg");
  CHECK(message_of([&] { reader.at("c"); }).ends_with("its array 'c' is missing"));
  CHECK(message_of([&] { reader.at("b", DType::i32, 2); }).ends_with("'b' is f32, not i32"));
  CHECK(message_of([&] { reader.at("b", DType::f32, 3); }).ends_with("has 2 elements, not 3"));
  CHECK(message_of([&] { reader.number("key"); }).ends_with("its key is not a number"));
  // Names need not be UTF-8.
  folder.write({{"key", "\xff"}});
  CHECK(TensorReader(folder.file).text("key") == "\xEF\xBF\xBD");
}

TEST_CASE("arrays of every type are called what the format calls them") {
  Folder folder;
  std::string called;
  for (DType t : kAnyDType) {
    CAPTURE(name(t));
    std::string data(3 * size_of(t), '\1');
    TensorWriter writer(folder.file, {}, {{"x", t, 3}});
    writer.write(data.data(), data.size());
    writer.finish();
    TensorReader reader(folder.file);
    CHECK(reader.read(reader.at("x", t, 3)) == data);
    std::string text = read_bytes(folder.file);
    size_t begin = text.find("\"dtype\":\"") + 9;
    called += text.substr(begin, text.find('"', begin) - begin) + " ";
  }
  CHECK(called == "BOOL I32 I64 F16 BF16 F32 F64 F8_E4M3 F8_E5M2 U8 I8 I16 F8_E8M0 F4_E2M1 ");
}

TEST_CASE("the digest has its place, whatever other texts say") {
  Folder folder;
  std::string zeros(32, '0');
  folder.write({{"a", zeros}, {"xxh3_12", zeros}, {"z", zeros}, {"q", "\"xxh3_128\":\"" + zeros}});
  TensorReader reader(folder.file);
  reader.check_digest();
  CHECK(reader.text("a") == zeros);
}

TEST_CASE("the digest covers every byte") {
  Folder folder;
  folder.write();
  std::string good = read_bytes(folder.file);
  for (size_t i = 0; i < good.size(); ++i) {
    CAPTURE(i);
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 1);
    write_bytes(folder.file, bad);
    CHECK(message_of([&] { TensorReader(folder.file).check_digest(); }) != "no error");
  }
}

TEST_CASE("a file cannot claim more than it is") {
  Folder folder;
  auto array = [](const char* shape, const char* offsets, const char* type = "F32") {
    return std::string(R"({"dtype":")") + type + R"(","shape":[)" + shape +
           R"(],"data_offsets":[)" + offsets + "]}";
  };
  auto one = [&](const char* shape, const char* offsets) {
    return R"({"a":)" + array(shape, offsets) + "}";
  };
  CHECK(folder.refused(one("2", "0,8"), 8) == "no error");
  CHECK(folder.refused(one("0,9", "0,0"), 0) == "no error");
  auto ends = [&](const std::string& json, size_t bytes, const std::string& reason) {
    std::string message = folder.refused(json, bytes);
    CHECK_MESSAGE(message.ends_with(reason), message);
  };
  ends(one("2", "0,8"), 7, "truncated: array 'a' lies outside the file");
  ends(one("2", "0,8"), 9, "1 bytes follow its arrays");
  ends(one("2", "4,12"), 12, "there are bytes between its arrays");
  ends(one("2", "8,0"), 8, "lies outside the file");
  ends(one("3", "0,8"), 8, "has 8 bytes, which does not fit its shape");
  // 2^62 * 4 bytes and 2^32 * 2^32 elements overflow to 0 in 64 bits.
  ends(one("4611686018427387904", "0,0"), 0, "which does not fit its shape");
  ends(one("4294967296,4294967296", "0,0"), 0, "which does not fit its shape");
  ends(one("4294967296,4294967298", "0,8"), 8, "which does not fit its shape");
  ends(one("-2", "0,8"), 8, "not a whole number");
  ends(one("2.5", "0,8"), 8, "not a whole number");
  ends(one("2", "0,8.5"), 8, "not a whole number");
  ends(one("1e999", "0,8"), 8, "not a safetensors header");
  ends(one("2", "0"), 8, "not a safetensors header");
  ends("[]", 0, "not a safetensors header");
  ends(R"({"__metadata__":{"a":1}})", 0, "not a safetensors header");
  ends(R"({"a":)" + array("2", "0,8", "F8") + "}", 8,
       "'a' has type F8, which stepfuse does not read");
  std::string many = "{";
  for (int i = 0; i < 1000; ++i) {
    many += (i > 0 ? ",\"" : "\"") + std::to_string(i) + "\":" + array("256", "0,1024");
  }
  ends(many + "}", 1024, "its arrays overlap");
  std::string cut = with_header(one("2", "0,8"), 8);
  write_bytes(folder.file, cut.substr(0, 20));
  CHECK(message_of([&] {
          TensorReader reader(folder.file);
        }).ends_with("truncated, or not a safetensors file"));
  std::string huge(8, '\xff');
  write_bytes(folder.file, huge);
  CHECK(message_of([&] { TensorReader reader(folder.file); }).find("truncated") !=
        std::string::npos);
}

TEST_CASE("a header takes memory in proportion to itself") {
  Folder folder;
  constexpr int kMany = 4'000'000;
  for (std::string unit : {"[", "{\"a\":", "{\"\":["}) {
    std::string text;
    while (text.size() < kMany) text += unit;
    for (const std::string& header : {text, "{\"a\":{\"shape\":" + text}) {
      write_bytes(folder.file, with_header(header, 0));
      std::string message = message_of([&] {
        LittleMemory room(size_t{64} << 20);
        TensorReader reader(folder.file);
      });
      CHECK_MESSAGE(
          message.find("its header has arrays and objects in one another, more than 16") !=
              std::string::npos,
          message);
    }
  }
}

TEST_CASE("a digest is needed") {
  Folder folder;
  write_bytes(folder.file,
              with_header(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4));
  CHECK(message_of([&] { TensorReader(folder.file).check_digest(); }).find("no digest") !=
        std::string::npos);
}

TEST_CASE("folders, pipes and devices are not read") {
  Folder folder;
  std::string pipe = (folder.scratch.path() / "pipe").string();
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  for (const std::string& path : {folder.scratch.path().string(), pipe, std::string("/dev/zero")}) {
    CHECK(message_of([&] { TensorReader reader(path); }).find("it is not a file") !=
          std::string::npos);
  }
}

TEST_CASE("a replaced file keeps its mode; links, folders and devices are not replaced") {
  Folder folder;
  folder.write();
  for (fs::perms mode : {fs::perms(0600), fs::perms(0664)}) {
    fs::permissions(folder.file, mode);
    folder.write();
    CHECK(fs::status(folder.file).permissions() == mode);
  }
  std::string target = folder.file;
  folder.file = (folder.scratch.path() / "link").string();
  std::string before = read_bytes(target);
  fs::create_symlink(target, folder.file);
  CHECK(message_of([&] { folder.write({}); }).find("it is a link") != std::string::npos);
  CHECK(fs::is_symlink(folder.file));
  CHECK(read_bytes(target) == before);
  folder.file = (folder.scratch.path() / "pipe").string();
  REQUIRE(::mkfifo(folder.file.c_str(), 0600) == 0);
  CHECK(message_of([&] { folder.write(); }).find("it is a device or pipe") != std::string::npos);
  folder.file = folder.scratch.path().string();
  CHECK(message_of([&] { folder.write(); }).find("it is a folder") != std::string::npos);
  CHECK(entries(folder.scratch.path()) == 3);
}

TEST_CASE("a writer that is given up leaves nothing, and a planted partial file is not followed") {
  Folder folder;
  {
    TensorWriter writer(folder.file, {}, {{"a", DType::f32, 2}});
    writer.write("1234", 4);
  }
  CHECK(entries(folder.scratch.path()) == 0);
  // Every second name of an unfinished file is another user's link.
  std::string victim = (folder.scratch.path() / "victim").string();
  write_bytes(victim, "precious");
  constexpr int kNames = 10'000;  // more than this process takes
  for (int i = 0; i < kNames; i += 2) {
    std::string name =
        "stepfuse." + std::to_string(::getpid()) + "." + std::to_string(i) + ".partial";
    REQUIRE(is_name_of_unfinished(name));
    fs::create_symlink(victim, folder.scratch.path() / name);
  }
  for (int i = 0; i < 20; ++i) folder.write();
  CHECK(read_bytes(victim) == "precious");
  CHECK(entries(folder.scratch.path()) == 2 + kNames / 2);
  TensorReader(folder.file).check_digest();
}
