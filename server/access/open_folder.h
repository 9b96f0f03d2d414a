#ifndef KILN_SERVER_ACCESS_OPEN_FOLDER_H_
#define KILN_SERVER_ACCESS_OPEN_FOLDER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace kiln {

// A folder that was opened once. Its files are reached through its descriptor, so that
// it stays the one that was checked, whatever is put in the place of its path. Copies
// share the descriptor.
class OpenFolder {
 public:
  // UNAVAILABLE STORAGE, naming the path.
  static absl::StatusOr<OpenFolder> Open(const std::string& path);

  int fd() const { return *fd_; }
  // For messages: what it, or a file in it, was called when it was opened.
  const std::string& path() const { return path_; }
  std::string PathOf(absl::string_view name) const;

  // Whether it has a file, or a link, of that name.
  bool Has(const std::string& name) const;
  // What is in it, in no order. UNAVAILABLE STORAGE, naming the path.
  absl::StatusOr<std::vector<std::string>> Names() const;

 private:
  OpenFolder(const std::string& path, std::shared_ptr<const int> fd)
      : path_(path), fd_(std::move(fd)) {}

  std::string path_;
  std::shared_ptr<const int> fd_;  // closed with the last copy
};

}  // namespace kiln

#endif  // KILN_SERVER_ACCESS_OPEN_FOLDER_H_
