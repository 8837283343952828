// Whether two function types are called alike. Knows only std.
#pragma once

#include <type_traits>

namespace stepfuse::test {

// Numbers of one size (an enumeration is its number), pointers to what is alike as far as one of
// the two says what it points to. const changes no call.
template <class A, class B>
struct Alike {
  static constexpr bool kNumbers =
      (std::is_integral_v<A> || std::is_enum_v<A> || std::is_floating_point_v<A>) &&
      (std::is_integral_v<B> || std::is_enum_v<B> || std::is_floating_point_v<B>);
  static constexpr bool value = [] {
    if constexpr (kNumbers) {
      return sizeof(A) == sizeof(B) && std::is_floating_point_v<A> == std::is_floating_point_v<B>;
    } else {
      // A structure or nothing that is known: its layout is checked by itself.
      return (std::is_class_v<A> || std::is_union_v<A> || std::is_void_v<A>) ||
             (std::is_class_v<B> || std::is_union_v<B> || std::is_void_v<B>);
    }
  }();
};

template <class A, class B>
struct Alike<A*, B*> : Alike<std::remove_cv_t<A>, std::remove_cv_t<B>> {};

template <class R, class... P, class S, class... Q>
struct Alike<R(P...), S(Q...)> {
  static constexpr bool value = [] {
    if constexpr (sizeof...(P) == sizeof...(Q)) {
      return (Alike<R, S>::value && ... && Alike<std::remove_cv_t<P>, std::remove_cv_t<Q>>::value);
    } else {
      return false;
    }
  }();
};

// An opaque structure is a pointer of ours or none: a structure is never passed as a number.
template <class A, class B>
inline constexpr bool called_alike = Alike<A, B>::value;

}  // namespace stepfuse::test
