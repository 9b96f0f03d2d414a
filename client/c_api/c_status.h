#ifndef KILN_CLIENT_C_API_C_STATUS_H_
#define KILN_CLIENT_C_API_C_STATUS_H_

#include <cstdint>
#include <cstring>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "client/c_api/kiln.h"
#include "proto/base/refusal.h"

struct KilnStatus {
  int code;
  std::string reason;
  std::string message;
  kiln::Refusals refusals;
};

namespace kiln {

// A copy of `status` that the caller frees; null for OK.
KilnStatus* StatusOf(const absl::Status& status);

// "`subject`: found `found`, expected `due`".
std::string FoundDue(absl::string_view subject, int64_t found,
                     absl::string_view due);
// Check that a number is in [low, high], or at least `low`.
absl::Status CheckRange(absl::string_view subject, int64_t found, int64_t low,
                        int64_t high);
absl::Status CheckAtLeast(absl::string_view subject, int64_t found,
                          int64_t low);
// Checks that a struct_size is at least `least`.
absl::Status CheckStructSize(absl::string_view subject, size_t found,
                             size_t least);
// Checks that a pointer is not null.
absl::Status CheckGiven(absl::string_view subject, const void* pointer);
// Checks an array: `count` is not negative, and `entries` is not null unless it is 0.
absl::Status CheckArray(absl::string_view subject, const void* entries,
                        int64_t count);

// Checks a struct that has a struct_size. `least`: the size of its first version.
template <typename Struct>
absl::Status CheckStruct(absl::string_view subject, const Struct* given,
                         size_t least = sizeof(Struct)) {
  const absl::Status there = CheckGiven(subject, given);
  if (!there.ok()) return there;
  return CheckStructSize(subject, given->struct_size, least);
}

// The number of an enumerator. A caller in C may pass any number, and in C++ it is
// undefined to read one that the enum does not have.
template <typename Enum>
int32_t NumberOf(const Enum& word) {
  static_assert(sizeof(Enum) == sizeof(int32_t));
  int32_t number = 0;
  std::memcpy(&number, &word, sizeof(number));
  return number;
}

}  // namespace kiln

#endif  // KILN_CLIENT_C_API_C_STATUS_H_
