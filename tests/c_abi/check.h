// Checks for the C tests of the C API. Knows the C API.
#ifndef STEPFUSE_TESTS_CHECK_H
#define STEPFUSE_TESTS_CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// first_header_test.c includes the first version's header instead.
#ifndef STEPFUSE_TESTS_FIRST_HEADER_H
#include <stepfuse/stepfuse.h>
#endif

static int checks;
static int failures;

static void check_that(int ok, const char* what, const char* file, int line) {
  ++checks;
  if (ok) return;
  ++failures;
  fprintf(stderr, "%s:%d: not so: %s (last error: %s)\n", file, line, what,
          stepfuse_error_message());
}
#define CHECK(x) check_that((x) ? 1 : 0, #x, __FILE__, __LINE__)

// A check whose failure ends the test.
#define REQUIRE(x)                   \
  do {                               \
    int before_ = failures;          \
    CHECK(x);                        \
    if (failures > before_) exit(1); \
  } while (0)
#define OK(call) REQUIRE((call) == STEPFUSE_OK)

// The call fails with this status and a message that contains these words.
#define FAILS(status, words, call) \
  (CHECK((call) == (status)), CHECK(strstr(stepfuse_error_message(), (words)) != NULL))

#endif
