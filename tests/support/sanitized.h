#ifndef KILN_TESTS_SUPPORT_SANITIZED_H_
#define KILN_TESTS_SUPPORT_SANITIZED_H_

namespace kiln {

// Whether ASan or TSan is in this build (g++'s words for it).
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace kiln

#endif  // KILN_TESTS_SUPPORT_SANITIZED_H_
