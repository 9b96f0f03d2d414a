#ifndef KILN_RUNTIME_SHARED_LIBRARY_H_
#define KILN_RUNTIME_SHARED_LIBRARY_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace kiln {

// A library of the machine that is found while the program runs. Never closed:
// such libraries keep threads and exit handlers that outlive a dlclose badly.
// Thread-safe. A value.
class SharedLibrary {
 public:
  // Opens the first of `names` that is found: in each of `folders` in order,
  // then by the loader's own search.
  //
  // NO_DEVICE  naming what was looked for, and where
  static absl::StatusOr<SharedLibrary> Open(
      const std::vector<std::string>& names,
      const std::vector<std::string>& folders);

  // The address of a symbol of the library or of one that it depends on; null
  // when there is none.
  void* FindOrNull(const char* symbol) const;

  // The address that calls of `symbol` by the library itself reach: the loader
  // looks first among the symbols that all of the process shares, where another
  // copy of what the library depends on may be.
  void* FindAsCalledWithin(const char* symbol) const;

  // The same into a pointer to a function. NO_DEVICE when there is none: the
  // library is older or newer than it should be.
  template <typename Function>
  absl::Status Find(const char* symbol, Function*& function) const {
    function = reinterpret_cast<Function*>(FindOrNull(symbol));
    return function != nullptr ? absl::OkStatus() : Missing(symbol);
  }

  const std::string& path() const { return path_; }

 private:
  SharedLibrary(void* handle, std::string path)
      : handle_(handle), path_(std::move(path)) {}

  absl::Status Missing(absl::string_view symbol) const;

  void* handle_;
  std::string path_;
};

}  // namespace kiln

#endif  // KILN_RUNTIME_SHARED_LIBRARY_H_
