// The consumer's own header, which only happens to be called like one of stepfuse's insides.
#pragma once
namespace consumer {
inline int own_types() { return 1; }
}  // namespace consumer
