// A program on somebody's library that has stepfuse inside.
#include <cstddef>

size_t recipes();

int main() { return recipes() > 0 ? 0 : 1; }
