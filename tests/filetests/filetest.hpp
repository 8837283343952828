// A filetest: a step or formula with what to do with it and what must come out, on one screen. Knows std.
//
// A file is an opening comment and cases:
//
//   //=== title of a case
//   // RUN: pass simplify              what to do; a RUN line before the first case is for all of them
//   buffer @w : f32 inout              the text; "step @t {" and "}" go around statements
//   %x = load @w : [f32]
//   %y = mul %x, 1 : [f32]             // =>
//   store @w, %y                       // => store @w, %x
//   //--- each
//   %z = neg %h : [f16]                // ERROR 12 V2 "cast to f32 first"
//   //>>> plan
//   plan of @t, form fused
//
// A comment at a line's end says what must become of the line:
//   // => STATEMENTS                the pass makes these of it; none: the pass removes it
//   // ERROR COLUMN [V RULE] "…"    an error is reported there whose message contains the text
// A line of its own holds for the whole case:
//   // CHECK: TEXT, // CHECK-NOT: TEXT   the printed result contains it, or does not
//   // ERROR 0 …                         an error without a place
// Behind "//--- each" every line is a case of its own: the text before it and this one line. Behind
// "//>>> STAGE" stands the text of that stage, up to the next "//>>>" or "//===".
//
// STEPFUSE_UPDATE_FILETESTS=1 rewrites what is expected; read the difference like code.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace stepfuse::testing {

struct Expectation {
  enum class Kind { becomes, error, contains, contains_not };
  Kind kind = Kind::becomes;
  std::string text;  // the statements, or a part of a message or of the result
  int column = 0;
  int rule = 0;  // of the verifier; 0: any
};

struct FileLine {
  std::string text;  // without the comment that holds the expectations
  std::vector<Expectation> expected;
};

struct FileSection {
  std::string stage;
  std::string text;
};

struct FileCase {
  std::string title;
  std::string run;     // "pass simplify"
  int first_line = 0;  // of `lines`, in the file
  std::vector<FileLine> lines;
  std::vector<FileLine> each;
  int first_each = 0;
  std::vector<FileSection> sections;
};

struct FileTest {
  std::filesystem::path path;
  std::string head;  // up to the first case
  std::vector<FileCase> cases;
};

// Throws std::runtime_error with file and line for a text that is no filetest.
FileTest read_filetest(const std::filesystem::path& path);

// Runs a case. Returns what differs, "" if nothing. With `update`, expectations of the case are made
// what came out.
std::string run_case(const FileTest& test, FileCase& c, bool update);

// The file's text again.
std::string write_filetest(const FileTest& test);

}  // namespace stepfuse::testing
