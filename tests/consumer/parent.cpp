// A library of somebody else's that uses stepfuse inside.
#include <stepfuse/stepfuse.hpp>

size_t recipes() { return stepfuse::list_recipes().size(); }
